"""Reports: one page that needs nothing else, says the finding first, and can be read by all."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from dubito.errors import OutputExists
from dubito.experiments.records import Round
from dubito.experiments.report import (
    About,
    ReportFiles,
    fact_texts,
    recall_table,
    render_report,
    short_finding,
    statistics_table,
    write_report,
)
from dubito.experiments.summary import finding, summarize

GAINS = {"random": 0.0, "coreset": 0.1, "doubt-coreset:strength=0.5": 0.15, "entropy": -0.1}


def rounds(*names: str, seeds: int = 3, turns: int = 3, classes: int = 3) -> list[Round]:
    rng = np.random.default_rng(4)
    return [
        Round(
            strategy=name,
            seed=seed,
            turn=turn,
            labels=20 + 20 * turn,
            test_accuracy=0.5 + 0.1 * turn + GAINS[name] * (turn > 0) + 0.004 * rng.normal(),
            train_accuracy=1.0,
            recall=(None, *rng.uniform(0.4, 0.9, classes - 1).tolist()),
            core_set_loss=0.3,
            radius=1.0,
            scaled_radius=0.5,
            uncertainty=0.1,
            picked=(1, 2) if turn < turns - 1 else (),
            train_seconds=2.0,
            select_seconds=0.25,
        )
        for name in names
        for seed in range(seeds)
        for turn in range(turns)
    ]


ABOUT = About("digits & co", fact_texts({"data": "a <b>.npz", "seeds": 3}), ("zero", "one", "two"), "schema = 1\n", 36)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> ReportFiles:
    folder = tmp_path_factory.mktemp("run")
    (folder / "journal.jsonl").write_text("{}\n")
    return write_report(rounds(*GAINS), ABOUT, folder)


class Page(HTMLParser):
    """Reads a page, and fails where an element is closed that is not the last one opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "wbr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script", "defs") and data.strip():
            self.words.append(data.strip())

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes in self.found if found == tag]


@pytest.fixture(scope="module")
def page(written: ReportFiles) -> Page:
    return Page(written.page.read_text())


def test_the_page_is_whole_and_every_id_is_there_once(page: Page) -> None:
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_first_sentence_is_the_finding(page: Page, written: ReportFiles) -> None:
    assert page.words[:2] == ["digits & co", "digits & co"]
    assert page.words[2] == finding(written.summary)
    assert page.words[2].startswith("doubt-coreset:strength=0.5 beat random: +")


def test_the_page_asks_for_nothing_from_anywhere(written: ReportFiles) -> None:
    text = written.page.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", text)
    assert "<link" not in text
    assert not re.search(r"<(script|img)[^>]+src", text)


def test_pictures_have_words_tables_have_headings_and_the_page_a_language(page: Page) -> None:
    assert page.attributes("html") == [{"lang": "en"}]
    pictures = page.attributes("svg")
    assert len(pictures) == 6
    assert all(each["role"] == "img" and each["aria-label"] for each in pictures)
    assert all(each.get("scope") == "col" for each in page.attributes("th"))
    assert len(page.attributes("caption")) == len(page.attributes("table")) == 4
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.attributes("meta")


def test_the_page_is_dark_where_the_reader_s_is_and_light_on_paper(written: ReportFiles) -> None:
    text = written.page.read_text()
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert "var(--ink)" in text


def test_every_row_can_be_sorted_by_every_column(written: ReportFiles) -> None:
    text = written.page.read_text()
    table = text[text.index("Results</h2>") : text.index("Confidence intervals")]
    rows = re.findall(r"<tr>(<td>.*)</tr>", table)
    assert len(rows) == 4
    widths = {len(re.findall("<td", row)) for row in rows}
    assert widths == {len(re.findall("<th ", table))}
    values = [float(re.findall(r'data-value="([^"]*)"', row)[0]) for row in rows]
    assert values == pytest.approx([curve.mean[-1] for curve in written.summary.curves])
    assert "not reached" in table


def test_what_was_run_is_reported_and_escaped_and_the_records_are_linked(page: Page, written: ReportFiles) -> None:
    assert "a <b>.npz" in page.words
    assert "schema = 1" in page.words
    links = [attributes["href"] for attributes in page.attributes("a")]
    assert links == ["journal.jsonl", "results.json", "curves.svg", "curves.png"]
    assert all((written.page.parent / str(link)).exists() for link in links)


def test_the_numbers_are_in_json_too(written: ReportFiles) -> None:
    described = json.loads(written.results.read_text())
    assert described["finding"] == finding(written.summary)
    assert described["about"]["facts"] == {"data": "a <b>.npz", "seeds": "3"}
    assert [each["strategy"] for each in described["strategies"]] == list(GAINS)


def test_classes_are_named_and_one_the_test_set_lacks_has_a_dash(written: ReportFiles) -> None:
    text = written.page.read_text()
    table = text[text.index("Class by class") : text.index("Cost of a selection")]
    assert re.search(r'<tr><td>zero</td><td data-value="">–</td>', table)
    assert "<tr><td>two</td>" in table
    assert re.search(r"</tbody>\s*<tfoot><tr><td><strong>worst class</strong></td>", table)


def test_times_of_selections_say_what_they_include(page: Page) -> None:
    assert any("The time of a selection includes the training of a committee" in words for words in page.words)


def test_labels_saved_stand_next_to_the_accuracy(written: ReportFiles) -> None:
    heads = re.findall(r'<th scope="col"><button>([^<]*)</button>', written.page.read_text())
    assert heads[1:3] == ["accuracy at\n60 labels", "labels saved"]


def width_of(text: str, size: float) -> float:
    """Pixels of a line of text in a wide typeface, DejaVu Sans."""
    properties = FontProperties(family="DejaVu Sans", size=size)
    return float(TextPath((0, 0), text, prop=properties).get_extents().width) if text.strip() else 0.0


def test_the_table_of_statistics_fits_a_page_of_1200_pixels() -> None:
    long = "doubt-coreset:strength=0.25,beam_width=20,scaling=acquired"
    described = summarize(
        [
            replace(each, strategy=long if each.strategy == "entropy" else each.strategy)
            for each in rounds(*GAINS, seeds=12)
        ]
    )
    table = statistics_table(described)
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(<td>.*)</tr>", table)]
    em, padding = 0.92 * 16, 2 * 0.55 * 16
    columns = []
    for column in zip(*rows, strict=True):
        # A line ends where the interval is set below, and a name may break between its settings.
        lines = [re.sub("<[^>]+>", "", line) for cell in column for line in re.split("<small class|<wbr>", cell)]
        columns.append(max(width_of(line.partition(">")[2] or line, em) for line in lines) + padding)
    assert len(columns) == 10
    assert sum(columns) + 0.7 * em + 0.5 * em < 70 * 16 - 2 * 16


def test_of_many_classes_those_that_random_gets_worst_are_shown() -> None:
    text = recall_table(summarize(rounds("random", "coreset", classes=60)), ())
    assert "the 40 of 60 with the lowest for random" in text
    assert len(re.findall(r"<tr><td>class \d+</td>", text)) == 40


@pytest.fixture
def blank_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures with nothing on them: a report is mostly drawing."""
    monkeypatch.setattr(Figure, "draw", lambda figure, renderer: None)


@pytest.mark.usefixtures("blank_figures")
def test_a_run_that_is_not_finished_says_so_before_its_pictures(tmp_path: Path) -> None:
    begun = [each for each in rounds("random", "coreset") if each.strategy == "random" or each.seed == 0]
    text = write_report(begun, About("begun", expected=18), tmp_path).page.read_text()
    assert "Not finished: 12 of 18 trainings are recorded. Shown is what all strategies have: 1 seed, up to 60" in text
    assert text.index("Not finished") < text.index("<svg")
    assert "One seed cannot tell a gain from chance" in text


@pytest.mark.usefixtures("blank_figures")
def test_a_report_of_random_alone_has_nothing_to_compare(tmp_path: Path) -> None:
    text = write_report(rounds("random"), About("alone"), tmp_path).page.read_text()
    assert "Only random was run" in text
    assert "Confidence intervals" not in text


def test_the_same_records_give_the_same_page(written: ReportFiles) -> None:
    links = {name: name for name in ("journal.jsonl", "results.json", "curves.svg", "curves.png")}
    assert render_report(summarize(rounds(*GAINS)), ABOUT, links) == written.page.read_text()


@pytest.mark.usefixtures("blank_figures")
def test_links_lead_from_a_report_elsewhere_to_its_records(tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "a run", tmp_path / "new" / "reports"
    run.mkdir()
    (run / "journal.jsonl").write_text("{}\n")
    made = write_report(rounds("random", "coreset"), About("x"), elsewhere, records=run)
    assert 'href="../../a%20run/journal.jsonl"' in made.page.read_text()
    with pytest.raises(OutputExists, match=r"report\.html exists; pass force=True"):
        write_report(rounds("random", "coreset"), About("x"), elsewhere, force=False)


def test_a_headline_tells_the_points_where_no_labels_were_saved() -> None:
    bent = {"random": (0.5, 0.5, 0.9), "coreset": (0.5, 0.8, 0.8)}
    jitter = {"random": 0.0, "coreset": 0.001}
    described = summarize(
        [
            replace(each, test_accuracy=bent[each.strategy][each.turn] + jitter[each.strategy] * each.seed)
            for each in rounds("random", "coreset")
        ]
    )
    assert short_finding(described) == "coreset is 12.6 points above random on average"
    assert short_finding(summarize(rounds("random", "entropy"))) == "nothing beat random beyond chance"
