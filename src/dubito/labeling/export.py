"""Export the labels of a project to files for other tools and for dubito's own commands."""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from dubito.integrations.exchange.formats import (
    Labels,
    ProjectFormat,
    dump_json,
    write_doccano,
    write_label_studio,
    write_prodigy,
)
from dubito.integrations.exchange.items import ID, Item
from dubito.io.picks import render_columns
from dubito.labeling.state import State


class Export(NamedTuple):
    """An exported file: contents, name and media type."""

    data: bytes
    name: str
    media: str


def export_labels(state: State, format: ProjectFormat, *, safe: bool) -> Export:
    """The current labels in one of `FORMATS`; ``safe`` escapes spreadsheet formulas in CSV."""
    write, suffix, media = FORMATS[format]
    with state.lock:
        data = write(state, safe)
        stem = "".join(
            each if each.isascii() and (each.isalnum() or each in "-_") else "-" for each in state.project.name
        )
    return Export(data, f"{stem or 'labels'}-labels{suffix}", media)


def label_columns(state: State) -> dict[str, Sequence[object]]:
    """The table that ``--labeled`` reads: one row per labeled item, in pool order."""
    items = sorted(state.label_table.labels)
    given = [list(state.label_table.votes(item).values()) for item in items]
    return {
        "id": [state.contents.ids[item] for item in items],
        "index": [None if item in state.contents.gone else state.contents.row_of(item) for item in items],
        "label": [state.label_table.labels[item] for item in items],
        "annotators": [len(each) for each in given],
        "agreement": [
            round(sum(event.label == state.label_table.labels[item] for event in each) / len(each), 4)
            for item, each in zip(items, given, strict=True)
        ],
        "annotator": [state.label_table.last_labeler(item) for item in items],
        "round": [max(event.round for event in each) for each in given],
        "at": [_timestamp(max(event.at for event in each)) for each in given],
    }


def _timestamp(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


def _csv(state: State, safe: bool) -> bytes:
    return render_columns(label_columns(state), "csv", safe_csv=safe)


def _jsonl(state: State, safe: bool) -> bytes:
    return render_columns(label_columns(state), "jsonl")


def _parquet(state: State, safe: bool) -> bytes:
    return render_columns(label_columns(state), "parquet")


def _items(state: State, items: Iterable[int]) -> list[Item]:
    contents = state.contents

    def item_of(item: int) -> Item:
        name = contents.ids[item]
        if contents.what == "texts":
            return Item(name, ID, "text", contents.text(item) or "", {})
        shown = None if contents.shown is None else contents.shown[item]
        if isinstance(shown, str):
            return Item(name, ID, "image", shown, {})
        return Item(name, ID, "image" if contents.what == "pictures" else "text", name, {})

    return list(map(item_of, items))


def _all_answers(state: State) -> tuple[list[Item], list[Labels]]:
    """The labeled and skipped items, and what each annotator answered."""
    rows = sorted(set(state.label_table.labels) | state.label_table.skipped)
    answers = [state.label_table.current_answers(row) for row in rows]
    return _items(state, rows), [{who: event.label for who, event in each.items()} for each in answers]


def _label_studio(state: State, safe: bool) -> bytes:
    items, labels = _all_answers(state)
    return write_label_studio(items, (), labels)


def _json_min(state: State, safe: bool) -> bytes:
    """One object per annotation."""
    rows = sorted(state.label_table.labels)
    return dump_json(
        [
            {**item.payload, item.kind: item.shown, "label": event.label, "annotator": who}
            for row, item in zip(rows, _items(state, rows), strict=True)
            for who, event in state.label_table.current_answers(row).items()
            if event.label is not None
        ]
    )


def _prodigy(state: State, safe: bool) -> bytes:
    items, labels = _all_answers(state)
    return write_prodigy(items, state.project.classes, labels)


def _doccano(state: State, safe: bool) -> bytes:
    rows = sorted(state.label_table.labels)
    return write_doccano(_items(state, rows), (), [state.label_table.labels[row] for row in rows])


FORMATS: Mapping[ProjectFormat, tuple[Callable[[State, bool], bytes], str, str]] = {
    "csv": (_csv, ".csv", "text/csv; charset=utf-8"),
    "jsonl": (_jsonl, ".jsonl", "application/jsonl"),
    "parquet": (_parquet, ".parquet", "application/vnd.apache.parquet"),
    "label-studio": (_label_studio, "-label-studio.json", "application/json"),
    "json-min": (_json_min, "-min.json", "application/json"),
    "prodigy": (_prodigy, "-prodigy.jsonl", "application/jsonl"),
    "doccano": (_doccano, "-doccano.jsonl", "application/jsonl"),
}
"""By format, the function that writes it, the file suffix and the media type."""
