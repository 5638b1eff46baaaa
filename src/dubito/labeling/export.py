"""Export the labels of a project to files for other tools and for dubito's own commands."""

import datetime
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dubito.errors import InvalidArgument
from dubito.integrations.exchange.formats import (
    Labels,
    ProjectFormat,
    check_class_folders,
    check_pictures,
    dump_json,
    write_doccano,
    write_label_studio,
    write_prodigy,
)
from dubito.integrations.exchange.items import ID, Item
from dubito.io.durable import write_atomically
from dubito.io.picks import Format, render_columns
from dubito.labeling.contents import find_label_column
from dubito.labeling.state import State


class Export(NamedTuple):
    """An exported file: contents, name and media type."""

    data: bytes
    name: str
    media: str


def export_labels(state: State, format: ProjectFormat, *, safe: bool, test_share: float | None = None) -> Export:
    """The current labels in one of `FORMATS`; ``safe`` escapes spreadsheet formulas in CSV.

    With ``test_share``, a table has a column ``split``; see `split_items`.
    """
    write, suffix, media = FORMATS[format]
    if test_share is not None and not isinstance(write, str):
        hint = "export to csv, jsonl, parquet or folders, or leave it out."
        raise InvalidArgument(f"is not supported by the format {format}", argument="test_share", hint=hint)
    with state.lock:
        if isinstance(write, str):
            data = render_columns(label_columns(state, test_share=test_share), write, safe_csv=safe)
        else:
            data = write(state)
        stem = "".join(
            each if each.isascii() and (each.isalnum() or each in "-_") else "-" for each in state.project.name
        )
    return Export(data, f"{stem or 'labels'}-labels{suffix}", media)


def split_items(state: State, test_share: float) -> dict[int, str]:
    """By labeled item, ``train`` or ``test``: a share of every class is held out, and exact copies stay together.

    The same labels give the same split. A class with one item (and its copies) is only in ``train``.
    """
    labels, copies = state.label_table.labels, state.contents.copies
    first = {item: min(copies.get(item, (item,))) for item in sorted(labels)}
    by_class: dict[str, dict[int, None]] = defaultdict(dict)
    for item in first:
        by_class[labels[item]][first[item]] = None
    generator = np.random.default_rng(0)
    held_out: set[int] = set()
    for _, items in sorted(by_class.items()):
        n_test = min(max(1, round(len(items) * test_share)), len(items) - 1)
        held_out.update(generator.permutation(list(items))[:n_test].tolist())
    return {item: "test" if first[item] in held_out else "train" for item in first}


def export_folders(state: State, folder: str, test_share: float | None = None) -> int:
    """Write a folder for each class with its pictures or texts, inside ``train`` and ``test`` if a share is given.

    A file ``labels.csv`` lists the item of each file. Items that are gone are left out. Returns the number of files.
    """
    contents = state.contents
    items = [item for item in sorted(state.label_table.labels) if item not in contents.gone]
    shown = [] if contents.shown is None else [contents.shown[item] for item in items]
    if contents.kind == "rows" or not all(isinstance(each, str) for each in shown):
        hint = "export to csv or parquet."
        raise InvalidArgument("is for texts and for pictures in files", argument="to", value="folders", hint=hint)
    check_class_folders(folder, state.project.classes)
    sources = [os.path.join(contents.root, str(each)) for each in shown] if contents.kind == "pictures" else []
    check_pictures(sources)
    os.makedirs(folder, exist_ok=True)
    columns = label_columns(state, items, test_share)
    parts: Sequence[object] = columns.get("split", [""] * len(items))
    files: dict[str, None] = {}  # The paths in the order of the items.
    for row, (label, part, name) in enumerate(zip(columns["label"], parts, columns["id"], strict=True)):
        base = os.path.basename(sources[row]) if sources else f"{re.sub(FORBIDDEN, '-', str(name))}.txt"
        file = os.path.join(str(part), str(label), base)
        if file in files:
            file = os.path.join(str(part), str(label), f"{items[row]}-{base}")
        files[file] = None
        target = os.path.join(folder, file)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if sources:
            shutil.copyfile(sources[row], target)
        else:
            write_atomically(target, str(shown[row]).encode())
    table = render_columns({**columns, "file": list(files)}, "csv", safe_csv=True)
    write_atomically(os.path.join(folder, "labels.csv"), table)
    return len(items)


def label_columns(
    state: State, items: Sequence[int] | None = None, test_share: float | None = None
) -> dict[str, Sequence[object]]:
    """The columns of the table that ``--labeled`` reads, with a row for every labeled item or for the given items.

    There is a column ``path`` for pictures, and a column ``split`` with ``test_share``.
    """
    items = sorted(state.label_table.labels) if items is None else items
    votes = [list(state.label_table.votes(item).values()) for item in items]
    more: dict[str, Sequence[object]] = {}
    if state.contents.kind == "pictures" and state.contents.shown is not None:
        paths = [state.contents.shown[item] for item in items]
        if not any(isinstance(each, bytes) for each in paths):
            more["path"] = paths
    if test_share is not None:
        parts = split_items(state, test_share)
        more["split"] = [parts[item] for item in items]
    times = [datetime.datetime.fromtimestamp(max(event.at for event in each), datetime.UTC) for each in votes]
    return {
        "id": [state.contents.ids[item] for item in items],
        "index": [None if item in state.contents.gone else state.contents.row_of(item) for item in items],
        "label": [state.label_table.labels[item] for item in items],
        "annotators": [len(each) for each in votes],
        "agreement": [
            round(sum(event.label == state.label_table.labels[item] for event in each) / len(each), 4)
            for item, each in zip(items, votes, strict=True)
        ],
        "annotator": [state.label_table.last_labeler(item) for item in items],
        "round": [max(event.round for event in each) for each in votes],
        "at": [at.isoformat(timespec="seconds") for at in times],
        **more,
    }


def labels_of_copies(state: State) -> dict[int, str]:
    """By row of the pool, the labels of items that were not labeled themselves, but as an exact copy."""
    table, contents = state.label_table, state.contents
    labeled = (item for item in table.shared if item in table.labels and item not in contents.gone)
    return {contents.row_of(item): table.labels[item] for item in labeled}


def write_labels(state: State, folder: str | None = None) -> list[str]:
    """Write tables that ``--labeled`` reads to `folder` (default: the project), and return their paths.

    Labels since the last round get their own table.
    """
    table, contents, last = state.label_table, state.contents, state.round
    recent = {
        item for item in table.labels if max(event.round for event in table.deciding_answers(item).values()) >= last > 1
    }
    # The items are in the order in which they were labeled, which the estimate of accuracy uses.
    labeled = [item for item in table.labels if item not in contents.gone]
    parts = [[item for item in labeled if (item in recent) == is_recent] for is_recent in (False, True)]
    audited = set(state.audited())
    column = "class" if find_label_column(state.project) == "label" else "label"
    paths = []
    for number, items in enumerate((each for each in parts if each), start=1):
        name = f"labels-{number}.csv"
        if folder is not None:  # Include the project in the file name, so that messages identify it.
            name = f"{os.path.basename(os.path.normpath(state.project.folder))}-{name}"
        path = os.path.join(state.project.folder if folder is None else folder, name)
        names: list[object] = [contents.ids[item] if contents.has_ids else contents.row_of(item) for item in items]
        labels = [table.labels[item] for item in items]
        columns: dict[str, Sequence[object]] = {"id" if contents.has_ids else "index": names, column: labels}
        if audited:
            columns["drawn"] = [int(item in audited) for item in items]
        write_atomically(path, render_columns(columns, "csv"), private=True)
        paths.append(path)
    return paths


def _items(state: State, items: Iterable[int]) -> list[Item]:
    contents = state.contents

    def item_of(item: int) -> Item:
        name = contents.ids[item]
        if contents.kind == "texts":
            return Item(name, ID, "text", contents.text(item) or "", {})
        shown = None if contents.shown is None else contents.shown[item]
        if isinstance(shown, str):
            return Item(name, ID, "image", shown, {})
        return Item(name, ID, "image" if contents.kind == "pictures" else "text", name, {})

    return list(map(item_of, items))


def _all_answers(state: State) -> tuple[list[Item], list[Labels]]:
    """The labeled and skipped items, and what each annotator answered."""
    rows = sorted(set(state.label_table.labels) | state.label_table.skipped)
    answers = [state.label_table.deciding_answers(row) for row in rows]
    return _items(state, rows), [{who: event.label for who, event in each.items()} for each in answers]


def _label_studio(state: State) -> bytes:
    items, labels = _all_answers(state)
    return write_label_studio(items, (), labels)


def _json_min(state: State) -> bytes:
    """One object per annotation."""
    rows = sorted(state.label_table.labels)
    return dump_json(
        [
            {**item.payload, item.kind: item.shown, "label": event.label, "annotator": who}
            for row, item in zip(rows, _items(state, rows), strict=True)
            for who, event in state.label_table.deciding_answers(row).items()
            if event.label is not None
        ]
    )


def _prodigy(state: State) -> bytes:
    items, labels = _all_answers(state)
    return write_prodigy(items, state.project.classes, labels)


def _doccano(state: State) -> bytes:
    rows = sorted(state.label_table.labels)
    return write_doccano(_items(state, rows), (), [state.label_table.labels[row] for row in rows])


FORMATS: Mapping[ProjectFormat, tuple[Format | Callable[[State], bytes], str, str]] = {
    "csv": ("csv", ".csv", "text/csv; charset=utf-8"),
    "jsonl": ("jsonl", ".jsonl", "application/jsonl"),
    "parquet": ("parquet", ".parquet", "application/vnd.apache.parquet"),
    "label-studio": (_label_studio, "-label-studio.json", "application/json"),
    "json-min": (_json_min, "-min.json", "application/json"),
    "prodigy": (_prodigy, "-prodigy.jsonl", "application/jsonl"),
    "doccano": (_doccano, "-doccano.jsonl", "application/jsonl"),
}
"""By format, the kind of table or the function that writes it, the file suffix and the media type."""
FORBIDDEN = r'[/\\:*?"<>|\x00-\x1f]'
"""Characters of an id that file names must not have on some systems."""
