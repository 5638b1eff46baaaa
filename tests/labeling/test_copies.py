"""Exact copies: found by content, labeled together, asked and trained on once, and in one part of a split."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.cli import main
from dubito.labeling.contents import find_copies, identities_of, read_contents
from dubito.labeling.creation import open_project
from dubito.labeling.events import Event, Kind, LabelTable
from dubito.labeling.project import Settings
from dubito.labeling.service import AnswerIn, LabelingService
from dubito.labeling.state import read_state
from labeling.projects import wait_until
from labeling.test_growing import draw, labels_of

CLASSES = ["dark", "bright"]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Ten pictures; 2.png and 7.png are copies of 0.png, and 8.png is one of 5.png."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(10):
        draw(folder / f"{number}.png", number)
    for source, copy in ((0, 2), (0, 7), (5, 8)):
        shutil.copy(folder / f"{source}.png", folder / f"{copy}.png")
    return folder


def opened(photos: Path, copies: str = "share") -> LabelingService:
    return LabelingService(*open_project(str(photos), classes=CLASSES, settings=Settings(copies=copies)))


def answer(service: LabelingService, item: int, label: str | None, key: str = "") -> int:
    (done,) = service.answer([AnswerIn(key or f"key-{item}-{label}", "ann", item, label)]).result()
    return done.labeled


def test_copies_are_reported_and_get_the_label_until_it_is_undone(photos: Path) -> None:
    said: list[str] = []
    project, contents = open_project(str(photos), classes=CLASSES, report=said.append)
    assert said[-1].startswith(
        "3 of 10 items are exact copies of another one and share its label (such as 0.png, 2.png"
    )
    assert contents.copies == {**dict.fromkeys((0, 2, 7), (0, 2, 7)), **dict.fromkeys((5, 8), (5, 8))}
    service = LabelingService(project, contents)
    assert {pick.item for pick in service.ask("ann", 20).result()} == set(range(10)) - {2, 7, 8}
    assert answer(service, 2, "dark") == 3
    assert {pick.item for pick in service.ask("ann", 20).result()} == {1, 3, 4, 5, 6, 9}
    answer(service, 8, None)
    assert service.state.label_table.skipped == {5, 8}
    answer(service, 7, "bright")
    assert service.state.label_table.labels == {0: "bright", 2: "dark", 7: "bright"}
    service.undo("undo", "ann").result()
    service.close()
    assert labels_of(project.folder) == {"0.png": "dark", "2.png": "dark", "7.png": "dark"}


def test_status_counts_the_labels_of_copies_and_learns_from_one_of_them(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = opened(photos)
    for item in (0, 1, 3, 5):
        answer(service, item, CLASSES[item % 2])
    service.close()
    folder = service.state.project.folder
    capsys.readouterr()
    assert main(["status", folder]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "labeled     7 of 10 rows: bright 4, dark 3"
    assert lines[1].startswith("copies      3 of these labels are those of an exact copy; ")
    assert main(["status", folder, "--json"]) == 0
    with_copies = json.loads(capsys.readouterr().out)
    assert [with_copies[name] for name in ("rows", "labels", "copies")] == [10, 7, 3]
    for item in (2, 7, 8):
        (photos / f"{item}.png").unlink()
    assert main(["update", folder, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["status", folder, "--json"]) == 0
    without = json.loads(capsys.readouterr().out)
    assert [without[name] for name in ("rows", "labels", "copies")] == [7, 4, 0]
    for name in ("held_out", "expected", "in_doubt", "covered"):
        assert with_copies[name] == without[name]


def test_copies_are_labeled_one_by_one_if_the_project_says_so(photos: Path) -> None:
    service = opened(photos, "separate")
    assert answer(service, 0, "dark") == 1
    assert {pick.item for pick in service.ask("ann", 20).result()} == set(range(1, 10))
    service.close()
    assert main(["label", str(photos), "--copies", "twice"]) == 2


def test_a_round_is_trained_on_one_of_several_copies_and_picks_none_of_them(photos: Path) -> None:
    service = opened(photos)
    for item, label in ((0, "dark"), (1, "bright"), (4, "dark"), (3, "bright")):
        answer(service, item, label)
    service.start()
    service.loop.request_round()
    wait_until(lambda: service.state.round >= 1)
    wait_until(lambda: service.state.rounds[-1].labels == 4)
    picked = {pick.item for pick in service.state.picks if pick.round == service.state.round}
    service.close()
    assert picked == {5, 6, 9}
    assert len(service.state.label_table.labels) == 6


def test_new_copies_get_the_label_and_copies_of_what_is_gone_keep_it(photos: Path) -> None:
    service = opened(photos)
    answer(service, 0, "dark")
    answer(service, 1, "bright")
    service.close()
    folder = service.state.project.folder
    shutil.copy(photos / "1.png", photos / "more.png")
    (photos / "0.png").unlink()
    assert main(["update", folder, "--quiet"]) == 0
    assert labels_of(folder) == {
        "0.png": "dark",
        "1.png": "bright",
        **dict.fromkeys(("2.png", "7.png"), "dark"),
        "more.png": "bright",
    }
    assert all(read_state(folder).may_ask(item) == (item in {3, 4, 5, 6, 9}) for item in range(2, 11))


def test_items_of_one_file_and_rows_of_a_table_are_no_copies(photos: Path, tmp_path: Path) -> None:
    project, contents = open_project(str(photos), classes=CLASSES)
    boxes = replace(contents, shown=["0.png"] * 10)
    assert find_copies(boxes, identities_of(project, boxes)) == {}
    np.savez(tmp_path / "rows.npz", features=np.repeat([[1.0], [1.0], [2.0], [3.0]], 2, axis=1))
    assert read_contents(open_project(str(tmp_path / "rows.npz"), classes=CLASSES)[0]).copies == {}


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", None, "undo"]), st.sampled_from("xy")), max_size=30
    )
)
def test_labels_of_copies_are_those_of_the_copy_that_was_answered_last(
    steps: list[tuple[int, str | None, str]],
) -> None:
    copies = {**dict.fromkeys((0, 1, 2), (0, 1, 2)), **dict.fromkeys((3, 4), (3, 4))}
    shared, plain, events = LabelTable(copies=copies), LabelTable(), list[Event]()
    for number, (item, label, who) in enumerate(steps, start=1):
        last = plain.last_of(who)
        if label == "undo" and last is None:
            continue
        kind: Kind = "undo" if label == "undo" else "skip" if label is None else "label"
        target = last.number if label == "undo" and last else None
        place = last.item if label == "undo" and last else item
        event = Event(number, f"k{number}", kind, who, place, None if label == "undo" else label, 1, target, 0.0)
        events.append(event)
        shared.add(event)
        plain.add(event)
    again, late = LabelTable(events, copies=copies), LabelTable(events)
    late.set_copies(copies)
    for table in (shared, again, late):
        assert (table.labels, table.skipped) == _expected(plain, copies)
    late.set_copies({})
    assert (late.labels, late.skipped) == (plain.labels, plain.skipped)


def _expected(plain: LabelTable, copies: dict[int, tuple[int, ...]]) -> tuple[dict[int, str], set[int]]:
    labels, skipped = dict(plain.labels), set(plain.skipped)
    for item, group in copies.items():
        answered = [each for each in group if plain.n_answers(each)]
        labeled = [each for each in answered if each in plain.labels]
        if item in answered or not answered:
            continue
        if labeled:
            newest = {each: max(event.number for event in plain.current_answers(each).values()) for each in labeled}
            labels[item] = plain.labels[max(labeled, key=newest.__getitem__)]
        else:
            skipped.add(item)
    return labels, skipped


def test_class_folders_and_splits_hold_every_label_once_and_copies_together(photos: Path, tmp_path: Path) -> None:
    service = opened(photos)
    for item in (0, 1, 3, 4, 5, 6):
        answer(service, item, CLASSES[item % 2])
    service.close()
    folder, out = service.state.project.folder, tmp_path / "out"
    assert main(["export", folder, "--to", "folders", "--test-share", "0.4", "-o", str(out), "--quiet"]) == 0
    with (out / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["path"] for row in rows) == sorted(f"{item}.png" for item in range(9))
    for row in rows:
        assert row["file"] == f"{row['split']}/{row['label']}/{row['path']}"
        assert (out / row["file"]).read_bytes() == (photos / row["path"]).read_bytes()
    parts = {row["path"]: row["split"] for row in rows}
    assert parts["0.png"] == parts["2.png"] == parts["7.png"]
    assert parts["5.png"] == parts["8.png"]
    for label in CLASSES:
        assert {row["split"] for row in rows if row["label"] == label} == {"train", "test"}
    assert sum(1 for _ in out.rglob("*.png")) == 9
    table = tmp_path / "labels.csv"
    assert main(["export", folder, "--to", "csv", "--test-share", "0.4", "-o", str(table), "--quiet"]) == 0
    with table.open() as file:
        assert {row["path"]: row["split"] for row in csv.DictReader(file)} == parts
    assert main(["export", folder, "--to", "folders", "-o", str(out), "--quiet"]) != 0
    assert main(["export", folder, "--to", "doccano", "--test-share", "0.4", "-o", str(tmp_path / "d"), "--quiet"]) == 2


def test_class_folders_of_texts_hold_their_texts(tmp_path: Path) -> None:
    texts = ["good", "bad", "good", "odd"]
    source = tmp_path / "texts.csv"
    source.write_text("id,text\n" + "".join(f"a/{row},{text}\n" for row, text in enumerate(texts)))
    service = opened(source)
    for item, label in ((0, "bright"), (1, "dark"), (3, "dark")):
        answer(service, item, label)
    service.close()
    out = tmp_path / "out"
    assert main(["export", service.state.project.folder, "--to", "folders", "-o", str(out), "--quiet"]) == 0
    found = {str(path.relative_to(out)): path.read_text() for path in out.rglob("*.txt")}
    assert found == {"bright/a-0.txt": "good", "bright/a-2.txt": "good", "dark/a-1.txt": "bad", "dark/a-3.txt": "odd"}
