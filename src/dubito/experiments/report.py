"""The report of an experiment: an HTML page, the numbers as JSON, and plots of the learning curves."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from math import inf, isfinite, isnan
from pathlib import Path
from urllib.parse import quote

import numpy as np
from matplotlib.figure import Figure

from dubito.errors import FORCE, OutputExists
from dubito.experiments.contact_sheet import Sheet, render_sheet
from dubito.experiments.plots.comparing import (
    areas_figure,
    format_seconds,
    pairwise_figure,
    savings_figure,
    times_figure,
)
from dubito.experiments.plots.learning import differences_figure, learning_figure
from dubito.experiments.plots.style import inline_svg, save_figure, strategy_color
from dubito.experiments.records import Round
from dubito.experiments.statistics import Comparison, Interval, Saving, area, format_p
from dubito.experiments.summary import NOT_REACHED, Summary, finding, format_saved, is_sure, notes, summarize
from dubito.io import write_atomically
from dubito.matrix import FloatArray

# HTML tables, which can be sorted by clicking on a heading.

MAX_CLASSES = 40
"""Maximum number of classes in the table: those with the lowest recall of random."""


@dataclass(frozen=True, slots=True)
class TableCell:
    """The HTML of a cell, and the value to sort by."""

    html: str
    value: float
    is_best: bool = False

    def render(self) -> str:
        """A ``<td>``; values that are not finite are sorted last."""
        key = f"{self.value:.10g}" if isfinite(self.value) else ""
        return f'<td data-value="{key}"{" class=best" if self.is_best else ""}>{self.html}</td>'


def render_table(
    caption: str, heads: Sequence[str], rows: Sequence[tuple[str, Sequence[TableCell]]], foot: Sequence[TableCell] = ()
) -> str:
    """A table whose rows begin with their name; the footer, for the worst class, stays last when the table is sorted.

    Examples
    --------
    >>> print(render_table("Times", ["strategy", "seconds"], [("random", [TableCell("1 s", 1.0)])]))
    <div class="scroll"><table><caption>Times</caption>
    <thead><tr><th scope="col"><button>strategy</button></th><th scope="col"><button>seconds</button></th></tr></thead>
    <tbody>
    <tr><td>random</td><td data-value="1">1 s</td></tr>
    </tbody></table></div>
    """
    head = "".join(f'<th scope="col"><button>{escape(name)}</button></th>' for name in heads)
    body = "\n".join(f"<tr><td>{name}</td>{''.join(cell.render() for cell in cells)}</tr>" for name, cells in rows)
    footer = ""
    if foot:
        cells = "".join(cell.render() for cell in foot)
        footer = f"\n<tfoot><tr><td><strong>worst class</strong></td>{cells}</tr></tfoot>"
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>{footer}</table></div>"
    )


def strategy_html(name: str) -> str:
    """The name of a strategy after a dot of its color; long names can wrap between settings."""
    shown = re.sub(r"([:,])", r"\1<wbr>", escape(name))
    return f'<span class="swatch" style="background:{strategy_color(name)}"></span>{shown}'


def statistics_table(summary: Summary) -> str:
    """The primary endpoint and its statistics: one row per strategy."""
    heads = [
        "strategy",
        f"accuracy at\n{summary.curves[0].labels[-1]:,} labels",
        "labels saved",
        "mean over\nthe curve",
        "against random,\npoints",
        "its p,\nHolm",
        "its p,\nWilcoxon",
        *(["against coreset,\npoints", "its p,\nHolm"] if summary.against_coreset else []),
        *(["variance over\nrandom's"] if any(each.variance_ratio for each in summary.against_random) else []),
    ]
    rows = [(strategy_html(name), list(_statistics_cells(summary, i, name))) for i, name in enumerate(summary.names)]
    _mark_best(rows, columns=(0, 2))
    caption = "95% intervals in brackets. Seeds are paired; p under 0.05 is called significant."
    return render_table(caption, heads, rows)


def _statistics_cells(summary: Summary, i: int, name: str) -> Iterator[TableCell]:
    curve = summary.curves[i]
    spread = f" <small>± {100 * curve.spread[-1]:.1f}</small>" if len(summary.seeds) > 1 else ""
    yield TableCell(f"{curve.mean[-1]:.1%}{spread}", float(curve.mean[-1]))
    yield _saved_cell(next((each for each in summary.savings if each.name == name), None))
    yield TableCell(f"{area(curve).mean():.1%}", float(area(curve).mean()))
    against_random = _find_comparison(summary.against_random, name)
    yield _difference_cell(against_random)
    yield _p_cell(None if against_random is None else against_random.p_holm)
    yield _p_cell(None if against_random is None else against_random.p_wilcoxon)
    if summary.against_coreset:
        against_coreset = _find_comparison(summary.against_coreset, name)
        yield _difference_cell(against_coreset)
        yield _p_cell(None if against_coreset is None else against_coreset.p_holm)
    if any(each.variance_ratio for each in summary.against_random):
        yield _ratio_cell(None if against_random is None else against_random.variance_ratio)


def _find_comparison(comparisons: Sequence[Comparison], name: str) -> Comparison | None:
    return next((each for each in comparisons if each.name == name), None)


EMPTY_CELL = TableCell("–", np.nan)


def _difference_cell(comparison: Comparison | None) -> TableCell:
    if comparison is None:
        return EMPTY_CELL
    gain = comparison.difference
    brackets = "" if isnan(gain.low) else _on_next_line(f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}")
    return TableCell(f"{100 * gain.estimate:+.1f}{brackets}", gain.estimate)


def _on_next_line(interval: str) -> str:
    """An interval in brackets on the next line, so that the table fits the page."""
    return f' <small class="below">[{interval}]</small>'


def _p_cell(p: float | None) -> TableCell:
    return EMPTY_CELL if p is None or isnan(p) else TableCell(escape(format_p(p)), p, is_best=p < 0.05)


def _saved_cell(saving: Saving | None) -> TableCell:
    if saving is None:
        return EMPTY_CELL
    number, _, interval = format_saved(saving).partition(" [")
    return TableCell(number + (_on_next_line(interval.rstrip("]")) if interval else ""), saving.saved.estimate)


def _ratio_cell(ratio: Interval | None) -> TableCell:
    if ratio is None or isnan(ratio.estimate):
        return EMPTY_CELL
    brackets = "" if isnan(ratio.low) else _on_next_line(f"{ratio.low:.2g} to {ratio.high:.2g}")
    return TableCell(f"{ratio.estimate:.2g}{brackets}", ratio.estimate)


def _mark_best(rows: Sequence[tuple[str, list[TableCell]]], columns: Sequence[int]) -> None:
    for column in columns:
        best = max(cells[column].value for _, cells in rows)
        for _, cells in rows:
            cell = cells[column]
            cells[column] = TableCell(cell.html, cell.value, is_best=cell.value == best)


def targets_table(summary: Summary) -> str:
    """Labels that each strategy needs for given accuracies."""
    rows = [
        (strategy_html(name), [_labels_cell(labels) for labels in needed])
        for name, needed in zip(summary.names, summary.needed, strict=True)
    ]
    caption = (
        "Labels needed to reach an accuracy, on the mean curve made non-decreasing; straight lines between rounds."
    )
    return render_table(caption, ["strategy", *(f"{target:.1%}" for target in summary.targets)], rows)


def _labels_cell(labels: float) -> TableCell:
    if not isfinite(labels):
        return TableCell(f"<small>{NOT_REACHED}</small>", inf)
    return TableCell(f"{round(labels):,}", labels)


def recall_table(summary: Summary, classes: Sequence[str]) -> str:
    """The recall after the last round, one row per class, with the worst class of each strategy as the footer."""
    table = np.array(summary.recall)
    names = [*classes, *(f"class {i}" for i in range(len(classes), table.shape[1]))]
    shown = np.argsort(table[summary.names.index("random")], kind="stable")[:MAX_CLASSES]
    rows = [(escape(names[i]), _recall_cells(table[:, i])) for i in sorted(shown.tolist())]
    selected = (
        "" if len(shown) == table.shape[1] else f"; the {len(shown)} of {table.shape[1]} with the lowest for random"
    )
    caption = f"Recall of each class after the last round, mean over seeds, %{selected}."
    return render_table(caption, ["class", *summary.names], rows, _recall_cells(np.nanmin(table, axis=1)))


def _recall_cells(shares: FloatArray) -> list[TableCell]:
    return [EMPTY_CELL if isnan(share) else TableCell(f"{100 * share:.1f}", float(share)) for share in shares]


def times_table(summary: Summary) -> str:
    rows = [
        (strategy_html(name), [TableCell(format_seconds(select), select), TableCell(format_seconds(train), train)])
        for name, select, train in zip(summary.names, summary.select_seconds, summary.train_seconds, strict=True)
    ]
    return render_table("Mean time on the machine named below.", ["strategy", "a selection", "a training"], rows)


# The description of the experiment.


@dataclass(frozen=True, slots=True)
class About:
    """The description of an experiment for its report."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    """Names and values of the settings: data, pool, model, schedule, versions, command."""
    classes: tuple[str, ...] = ()
    """Names of the classes; numbers are shown if it is empty."""
    settings: str = ""
    """The experiment as TOML."""
    expected: int | None = None
    """Number of records of the complete run, if known."""

    def as_dict(self) -> dict[str, object]:
        fields = asdict(self)
        return {**fields, "facts": dict(self.facts), "classes": list(self.classes)}


def fact_texts(facts: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Names and values as text, without those that are None.

    Examples
    --------
    >>> fact_texts({"rows": 1797, "test": None})
    (('rows', '1797'),)
    """
    return tuple((name, str(value)) for name, value in facts.items() if value is not None)


# The report as one self-contained HTML page, with plots, styles and a script.

METHOD = (
    "The primary endpoint, fixed in advance, is the area under the learning curve of each seed, divided by its width: "
    "the mean accuracy between the first and the last number of labels.",
    "With the same seed, strategies share the test set, the initial labels and the initial model, so tests are on "
    "differences within a seed: two-sided paired t tests with 95% intervals, and Holm's correction over the strategies "
    "compared with the same baseline, in which strategies that picked the same rows count once. Intervals are not "
    "corrected.",
    "The Wilcoxon test is exact, two-sided and not corrected.",
    "Labels saved: how many fewer labels a strategy's mean curve needs for the last accuracy of random. Both curves "
    "are first made non-decreasing by averaging the rounds around a fall. Random may have its last accuracy before the "
    "last round. The interval is a percentile bootstrap over seeds (2,000 draws), shown from 5 seeds on; 'not reached' "
    "is an end at which the strategy does not reach that accuracy. Plots show labels saved only if the whole interval "
    "is above 0.",
    "Who beats whom: a paired t test at 95% for each number of labels after the first, not corrected, as in the paper "
    "on BADGE.",
    "Ratios of variances have the interval of Pitman and Morgan for paired samples, and are reported from 10 seeds on.",
)
TIMES = (
    "The time of a selection includes the training of a committee if the strategy uses one. In runs begun on a CPU "
    "with a version before 0.1.0, it also includes the model's predictions for the pool."
)


def render_report(summary: Summary, about: About, links: Mapping[str, str]) -> str:
    """Render the HTML page; ``links`` maps the text of each link to its target."""
    sections = "\n".join(_sections(summary, about, links))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(about.title)}</title>\n<style>\n{_asset('report.css')}</style>\n</head>\n<body>\n"
        f"{sections}\n<script>\n{_asset('report.js')}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return files("dubito.experiments").joinpath("report_files").joinpath(name).read_text(encoding="utf-8")


def _sections(summary: Summary, about: About, links: Mapping[str, str]) -> Iterator[str]:
    yield f"<header>\n<h1>{escape(about.title)}</h1>\n<p class='finding'>{escape(finding(summary))}</p>"
    yield from (f"<p class='partial' role='status'>{escape(note)}</p>" for note in _warnings(summary, about))
    yield "</header>\n<main>"
    ends = ", ".join(f"{curve.name} {curve.mean[-1]:.1%}" for curve in summary.curves)
    first, last = summary.curves[0].labels[0], summary.curves[0].labels[-1]
    yield _figure(
        "curves",
        curves_picture(summary),
        f"Learning curves from {first:,} to {last:,} labels; accuracy in the end: {ends}",
    )
    yield f"<h2>Results</h2>\n{statistics_table(summary)}"
    yield from (f"<p class='quiet'>{escape(note)}</p>" for note in notes(summary))
    if summary.against_random:
        yield from _comparisons(summary)
    yield f"<h2>Labels for a given accuracy</h2>\n{targets_table(summary)}"
    yield f"<h2>Class by class</h2>\n{recall_table(summary, about.classes)}"
    yield "<h2>Cost of a selection</h2>"
    times = times_figure(summary.names, summary.select_seconds, sum(summary.train_seconds) / len(summary.train_seconds))
    yield _figure("times", times, "Bars: mean time of a selection, by strategy; the table below has the numbers", True)
    yield times_table(summary)
    yield f"<p class='quiet'>{escape(TIMES)}</p>"
    yield from _description(about, links)
    yield "</main>\n<footer><p>Made by dubito. This page needs no network.</p></footer>"


def _warnings(summary: Summary, about: About) -> Iterator[str]:
    """A warning if the run is incomplete."""
    seeds = f"{len(summary.seeds)} {'seed' if len(summary.seeds) == 1 else 'seeds'}"
    not_begun = f" Not begun yet: {', '.join(summary.not_begun)}." if summary.not_begun else ""
    recorded = summary.left_out + sum(curve.accuracy.size for curve in summary.curves)
    if about.expected is not None and recorded < about.expected:
        yield (
            f"Not finished: {recorded:,} of {about.expected:,} trainings are recorded. Shown is what all strategies "
            f"{'begun ' if summary.not_begun else ''}have: {seeds}, up to "
            f"{summary.curves[0].labels[-1]:,} labels.{not_begun}"
        )


def _comparisons(summary: Summary) -> Iterator[str]:
    yield "<h2>Confidence intervals</h2>"
    yield _figure(
        "areas",
        areas_figure([summary.against_random, summary.against_coreset]),
        "Intervals: each strategy's mean accuracy over the curve less a baseline's; the table above has the numbers",
    )
    yield _figure(
        "differences", differences_figure(summary.curves), "Accuracy above random against labels, by strategy"
    )
    yield "<h2>Labels saved</h2>"
    yield _figure(
        "savings",
        savings_figure(summary.savings),
        "Bars: labels saved against random with intervals, by strategy",
        True,
    )
    if len(summary.seeds) > 1:
        yield "<h2>Who beats whom</h2>"
        yield _figure(
            "pairwise",
            pairwise_figure(summary.names, summary.penalties),
            "Matrix: the share of label counts at which the row's strategy is significantly above the column's",
            True,
        )


def curves_picture(summary: Summary, detail: str = "") -> Figure:
    """The learning curves with the finding as title, and an arrow for labels saved beyond chance."""
    better = [each for each in summary.against_random if each.is_better]
    leader = max(better, key=lambda each: each.difference.estimate, default=None)
    saving = next((each for each in summary.savings if leader is not None and each.name == leader.name), None)
    seeds = len(summary.seeds)
    spread = f"mean and one standard deviation of {seeds} seeds" if seeds > 1 else "one seed"
    return learning_figure(
        summary.curves, short_finding(summary), f"{detail}; {spread}" if detail else spread, saving=saving
    )


def short_finding(summary: Summary) -> str:
    """The finding in a few words, as a title."""
    better = [each for each in summary.against_random if each.is_better]
    if not better and len(summary.seeds) > 1:
        return "nothing beat random beyond chance"
    if not better:
        return "one seed, which cannot tell a gain from chance"
    leader = max(better, key=lambda each: each.difference.estimate)
    saving = next(each for each in summary.savings if each.name == leader.name)
    if not is_sure(saving):
        return f"{leader.name} is {100 * leader.difference.estimate:.1f} points above random on average"
    return (
        f"{leader.name} needs {round(saving.needed):,} labels for what random learns "
        f"from {round(saving.baseline_needed):,}"
    )


def _figure(name: str, figure: Figure, alt: str, is_narrow: bool = False) -> str:
    kind = ' class="narrow"' if is_narrow else ""
    # Wide plots scroll on a phone, so they must be focusable with the keyboard.
    return f'<figure{kind} tabindex="0">{inline_svg(figure, name, alt)}</figure>'


def _description(about: About, links: Mapping[str, str]) -> Iterator[str]:
    yield "<h2>What was run</h2>\n<dl>"
    yield "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in about.facts)
    yield "</dl>"
    if links:
        file_links = ", ".join(f'<a href="{escape(to, quote=True)}">{escape(text)}</a>' for text, to in links.items())
        yield f"<p>Files: {file_links}.</p>"
    if about.settings:
        yield f"<details><summary>The experiment as a file</summary>\n<pre>{escape(about.settings)}</pre></details>"
    method = "\n".join(f"<li>{escape(each)}</li>" for each in METHOD)
    yield f"<details open><summary>How to read the statistics</summary>\n<ul>\n{method}\n</ul></details>"


RECORDS = ("experiment.toml", "journal.jsonl")
"""Files of a run that the report links to."""


@dataclass(frozen=True, slots=True, eq=False)
class ReportFiles:
    summary: Summary
    page: Path
    results: Path
    pictures: tuple[Path, ...]


def write_report(
    rounds: Sequence[Round],
    about: About,
    folder: Path,
    *,
    records: Path | None = None,
    targets: Sequence[float] = (),
    planned: Sequence[str] = (),
    detail: str = "",
    force: bool = True,
) -> ReportFiles:
    """Write ``report.html``, ``results.json``, ``curves.svg`` and ``curves.png`` into a folder.

    The run may be unfinished: ``planned`` has all of its strategies. The page links to the files of the run, in the
    folder ``records`` or else in the output folder. ``detail`` is the subtitle of the learning curves.
    """
    summary = summarize(rounds, targets, planned)
    page, results = folder / "report.html", folder / "results.json"
    if page.exists() and not force:
        raise OutputExists(f"{page} exists", hint=f"pass {FORCE} to replace it, or another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    pictures = save_figure(curves_picture(summary, detail), folder / "curves", force=True)
    content = {**summary.as_dict(), "about": about.as_dict()}
    write_atomically(str(results), (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    run_files = [path for name in RECORDS if (path := (records or folder) / name).exists()]
    links = {each.name: quote(os.path.relpath(each, folder)) for each in (*run_files, results, *pictures)}
    write_atomically(str(page), render_report(summary, about, links).encode())
    return ReportFiles(summary, page, results, tuple(pictures))


__all__ = ["About", "ReportFiles", "Sheet", "fact_texts", "render_report", "render_sheet", "write_report"]
