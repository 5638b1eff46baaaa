"""Export the labels of a project to files for other tools and for dubito's own commands."""

import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dubito.integrations.exchange.items import ID, PEOPLE
from dubito.io.picks import render_columns
from dubito.labeling.state import State


class Export(NamedTuple):
    """An exported file: contents, name and media type."""

    data: bytes
    name: str
    media: str


def export_labels(state: State, format: str, *, safe: bool) -> Export:
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
        "index": [state.contents.row_of(item) for item in items],
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


def _content(state: State, item: int) -> tuple[str, str]:
    """The field name, ``text`` or ``image``, and its value."""
    contents = state.contents
    if contents.what == "texts":
        return "text", contents.text(item) or ""
    shown = None if contents.shown is None else contents.shown[item]
    if isinstance(shown, str):
        return "image", shown
    return ("image" if contents.what == "pictures" else "text"), contents.ids[item]


def _label_studio(state: State, safe: bool) -> bytes:
    """Tasks with one annotation per annotator."""
    tasks = []
    for item in sorted(set(state.label_table.labels) | state.label_table.skipped):
        kind, shown = _content(state, item)
        answers = state.label_table.current_answers(item)
        annotations = [
            {
                "was_cancelled": event.label is None,
                "result": [] if event.label is None else [_choice(kind, event.label)],
            }
            for event in answers.values()
        ]
        # Not in the annotations, where Label Studio accepts only annotators with an account there.
        meta = {PEOPLE: list(answers)}
        tasks.append({"data": {ID: state.contents.ids[item], kind: shown}, "meta": meta, "annotations": annotations})
    return _json(tasks)


def _choice(kind: str, label: str) -> dict[str, object]:
    return {"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": [label]}}


def _json_min(state: State, safe: bool) -> bytes:
    """One object per annotation."""
    found = []
    for item in sorted(state.label_table.labels):
        kind, shown = _content(state, item)
        for who, event in state.label_table.current_answers(item).items():
            if event.label is not None:
                found.append({ID: state.contents.ids[item], kind: shown, "label": event.label, "annotator": who})
    return _json(found)


def _prodigy(state: State, safe: bool) -> bytes:
    lines = []
    for item in sorted(set(state.label_table.labels) | state.label_table.skipped):
        kind, shown = _content(state, item)
        options = [{"id": name, "text": name} for name in state.project.classes]
        for who, event in state.label_table.current_answers(item).items():
            answered = {"accept": [] if event.label is None else [event.label], "_annotator_id": who}
            answered["answer"] = "ignore" if event.label is None else "accept"
            lines.append({kind: shown, "meta": {ID: state.contents.ids[item]}, "options": options, **answered})
    return _lines(lines)


def _doccano(state: State, safe: bool) -> bytes:
    lines = []
    for item in sorted(state.label_table.labels):
        kind, shown = _content(state, item)
        lines.append({kind: shown, "label": [state.label_table.labels[item]], ID: state.contents.ids[item]})
    return _lines(lines)


def _json(found: object) -> bytes:
    return (json.dumps(found, ensure_ascii=False, indent=1) + "\n").encode()


def _lines(found: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in found).encode()


FORMATS: Mapping[str, tuple[Callable[[State, bool], bytes], str, str]] = {
    "csv": (_csv, ".csv", "text/csv; charset=utf-8"),
    "jsonl": (_jsonl, ".jsonl", "application/jsonl"),
    "parquet": (_parquet, ".parquet", "application/vnd.apache.parquet"),
    "label-studio": (_label_studio, "-label-studio.json", "application/json"),
    "json-min": (_json_min, "-min.json", "application/json"),
    "prodigy": (_prodigy, "-prodigy.jsonl", "application/jsonl"),
    "doccano": (_doccano, "-doccano.jsonl", "application/jsonl"),
}
"""By format, the function that writes it, the file suffix and the media type."""
