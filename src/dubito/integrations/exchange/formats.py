"""File formats of labeling tools: a writer and a reader for each tool in `TOOLS`."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, NamedTuple
from xml.sax.saxutils import quoteattr

from dubito.errors import InvalidData, MissingFile, OutputExists
from dubito.integrations.exchange.boxes import BOX_WRITERS, read_pictures
from dubito.integrations.exchange.items import (
    ID,
    INDEX,
    PEOPLE,
    Answer,
    Gathered,
    Item,
    check_classes,
    gather_answers,
    item_name,
    label_key,
    read_items,
    read_json,
    read_lines,
    single_label,
)
from dubito.io import Format, open_source, write_atomically
from dubito.io.picks import render_columns
from dubito.request.arrays import check_choice
from dubito.request.columns import IDS, ROW, find_name, label_name
from dubito.request.labels import are_labels, label_keys

Labels = Mapping[str, str | None]
"""What each annotator answered on an item; None where they skipped it."""


def dump_json(content: object) -> bytes:
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def dump_lines(records: Iterable[Mapping[str, object]]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


# Label Studio: writes tasks, and reads exports as JSON (tasks with annotations), JSON-MIN or CSV.

OTHER_COLUMNS = frozenset(
    {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement", "text", "image", "rank"}
    | {ID, INDEX}
)
"""Columns of JSON-MIN and CSV that are not labels."""


def write_label_studio(items: Sequence[Item], classes: Sequence[str] = (), labels: Sequence[Labels] = ()) -> bytes:
    """Tasks to import, with an annotation for each of the ``labels`` if there are any."""
    tasks: list[dict[str, object]] = [{"data": task_data(item)} for item in items]
    for task, by_person in zip(tasks, labels, strict=False):
        # Not in the annotations, where Label Studio accepts only annotators with an account there.
        task["meta"] = {PEOPLE: list(by_person)}
        task["annotations"] = [
            {"was_cancelled": label is None, "result": [] if label is None else [choice_result(label)]}
            for label in by_person.values()
        ]
    return dump_json(tasks)


def choice_result(label: str, control: str = "label", shown: str = "item") -> dict[str, object]:
    """A class as the result of an annotation or a prediction."""
    return {"from_name": control, "to_name": shown, "type": "choices", "value": {"choices": [label]}}


def task_data(item: Item, field: str | None = None) -> dict[str, object]:
    """The data of a task; by default the shown field has the name of the item's kind."""
    return {**item.more, **item.payload, field or item.kind: item.shown}


def labeling_config(kind: str, classes: Sequence[str]) -> str:
    """The labeling config of a project for such tasks."""
    tag = "Image" if kind == "image" else "Text"
    choices = "".join(f"<Choice value={quoteattr(name)}/>" for name in classes)
    shown = f'<{tag} name="item" value="${kind}"/>'
    return f'<View>{shown}<Choices name="label" toName="item" choice="single">{choices}</Choices></View>'


def read_label_studio(path: str) -> Iterator[Answer]:
    """The annotations of an export as JSON; skipped ones (``was_cancelled``) have no label."""
    found = read_json(path)
    if not isinstance(found, list) or not all(isinstance(task, dict) and "data" in task for task in found):
        raise InvalidData(f"{path} is not a list of Label Studio's tasks", hint="export as JSON, and not as JSON-MIN.")
    yield from answers_in_tasks(path, found)


def answers_in_tasks(path: str, tasks: Iterable[Mapping[str, Any]]) -> Iterator[Answer]:
    for task in tasks:
        name, key = item_name(path, task["data"], task.get("meta"))
        annotations = task.get("annotations") or task.get("completions") or []
        for annotation, person in zip(annotations, _people(task, annotations), strict=True):
            label = None if annotation.get("was_cancelled") else single_label(path, name, _choices(annotation))
            yield Answer(name, key, label, _who(person))


def _choices(annotation: Mapping[str, Any]) -> list[object]:
    """The choices in an annotation; other results are ignored, such as spans and boxes."""
    results = [each for each in annotation.get("result") or [] if isinstance(each, dict)]
    return [choice for each in results for choice in (each.get("value") or {}).get("choices") or []]


def _people(task: Mapping[str, Any], annotations: Sequence[Mapping[str, Any]]) -> Sequence[object]:
    """The annotator of each annotation; if none has an account, the names that a dubito project exported."""
    named = (task.get("meta") or {}).get(PEOPLE)
    by: list[object] = [annotation.get("completed_by") for annotation in annotations]
    if isinstance(named, list) and len(named) == len(by) and all(each is None for each in by):
        return named
    return by


def _who(person: object) -> str:
    known = person.get("email") or person.get("id") if isinstance(person, dict) else person
    return label_key(known)


def read_label_studio_min(path: str) -> Iterator[Answer]:
    """An export as JSON-MIN: one object per annotation, with the label under the name of its control."""
    found = read_json(path)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InvalidData(f"{path} is not a list of objects", hint="export as JSON-MIN.")
    for record in found:
        yield _min_answer(path, record, _who(record.get("annotator")))


def read_label_studio_csv(path: str) -> Iterator[Answer]:
    """An export as CSV: JSON-MIN as a table."""
    source = open_source(path)
    columns = {name: label_keys(entry.values()) for name, entry in source.entries.items()}
    for row in range(len(next(iter(columns.values()), []))):
        record = {name: values[row] for name, values in columns.items()}
        yield _min_answer(path, record, record.get("annotator", ""))


def _min_answer(path: str, record: Mapping[str, Any], who: str) -> Answer:
    """The answer of an annotator. A single choice is a plain value; several are an object, which CSV has as JSON."""
    name, key = item_name(path, record)
    value = _control_value(path, record)
    if isinstance(value, str) and value.startswith(("[", "{")):
        with suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, dict):
        value = value.get("choices")
    choices = value if isinstance(value, list) else [value]
    return Answer(name, key, single_label(path, name, [*filter(None, choices)]), who)


def _control_value(path: str, record: Mapping[str, Any]) -> Any:
    """The value of the control: of the first usual name, else of the only other field; None if the item was skipped."""
    for control in ("label", "choice", "choices", "class", "sentiment", "category"):
        if control in record:
            return record[control]
    names = list(record)
    if "annotation_id" in names:
        others = [name for name in names[: names.index("annotation_id")] if name not in OTHER_COLUMNS]
        if len(others) == 1:
            return record[others[0]]
    if not {"annotator", "annotation_id"} & record.keys():
        raise InvalidData(f"{path} has no labels under a known name", hint="name the <Choices> control label.")
    return None


# Prodigy: writes JSON lines of tasks with options, and reads the answers of ``db-out``.


def write_prodigy(items: Sequence[Item], classes: Sequence[str], labels: Sequence[Labels] = ()) -> bytes:
    """A line for each item, or for each answer if there are ``labels``, for the interface ``choice``."""
    options = [{"id": name, "text": name} for name in classes]
    lines: list[dict[str, object]] = []
    for position, item in enumerate(items):
        task: dict[str, object] = {item.kind: item.shown, "meta": {**item.payload, **item.more}}
        if options or labels:
            task["options"] = options
        if not labels:
            lines.append(task)
        for who, label in labels[position].items() if labels else ():
            accepted = [] if label is None else [label]
            answer = "ignore" if label is None else "accept"
            lines.append({**task, "accept": accepted, "_annotator_id": who, "answer": answer})
    return dump_lines(lines)


def read_prodigy(path: str) -> Iterator[Answer]:
    """The chosen option or the accepted label; ignored items and items whose label was rejected have no label."""
    for line in read_lines(path):
        name, key = item_name(path, line.get("meta"), line)
        who = label_key(line.get("_annotator_id") or line.get("_session_id"))
        chosen = line.get("accept", line.get("label")) if line.get("answer") == "accept" else None
        yield Answer(name, key, single_label(path, name, chosen), who)


# doccano: JSON lines of document classification.


def write_doccano(items: Sequence[Item], classes: Sequence[str] = (), labels: Sequence[str] | None = None) -> bytes:
    """A line for each item; doccano keeps other fields as metadata."""
    if labels is None:
        return dump_lines({"text": item.shown, "label": [], **item.more, **item.payload} for item in items)
    labeled = zip(items, labels, strict=True)
    return dump_lines({item.kind: item.shown, "label": [label], **item.payload} for item, label in labeled)


def read_doccano(path: str) -> Iterator[Answer]:
    """Labels of an export in the current format (``label``) or the older one (``labels`` and ``meta``).

    Items without a label were either not labeled or skipped; the files do not distinguish them.
    """
    for line in read_lines(path):
        name, key = item_name(path, line, line.get("meta"), line.get("metadata"))
        labels = line.get("label", line.get("labels", line.get("cats")))
        who = label_key(line.get("username") or line.get("annotator"))
        yield Answer(name, key, single_label(path, name, labels), who)


# Class folders: annotators move pictures into one folder for each class.

INDEX_FILE = "dubito.json"
"""The file in the folder that maps file names to items."""
UNSORTED = "_unsorted"


def write_folder(items: Sequence[Item], classes: Sequence[str], folder: str, pictures: str) -> None:
    """Copy the pictures to ``_unsorted``, create a folder for each class, and write the map of file names to items."""
    check_class_folders(folder, classes)
    paths = [os.path.join(pictures, item.shown) for item in items]
    check_pictures(paths, hint="pass the folder of the pictures with --pictures FOLDER.")
    for name in (UNSORTED, *classes):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    listed = {}
    for rank, (item, path) in enumerate(zip(items, paths, strict=True), start=1):
        name = f"{rank:05d}-{os.path.basename(path)}"
        shutil.copyfile(path, os.path.join(folder, UNSORTED, name))
        listed[name] = item.payload
    write_atomically(os.path.join(folder, INDEX_FILE), dump_json({"schema": 1, "files": listed}))


def check_class_folders(folder: str, classes: Sequence[str]) -> None:
    """Raise unless the folder is new or empty and every class can be the name of a folder in it."""
    if os.path.exists(folder) and os.listdir(folder):
        raise OutputExists(f"{folder} exists and is not empty", hint="pass another folder.")
    odd = next((name for name in classes if name in (".", "..") or "/" in name or name.startswith("_")), None)
    if odd is not None:
        raise InvalidData(f"the class {odd!r} cannot be the name of a folder", hint="give it another name.")


def check_pictures(paths: Iterable[str], hint: str = "restore it.") -> None:
    """Raise if a picture file is missing."""
    missing = next((path for path in paths if not os.path.isfile(path)), None)
    if missing is not None:
        raise MissingFile(f"{missing} is not there", hint=hint)


def read_folder(path: str) -> Iterator[Answer]:
    """The class of a file is its folder; missing files and files in ``_unsorted`` have no label.

    Without `INDEX_FILE`, the name of an item is its path in the folder.
    """
    if not os.path.isdir(path):
        raise MissingFile(f"{path} is not a folder", hint="pass the folder of class folders.")
    listing = os.path.join(path, INDEX_FILE)
    listed = read_json(listing)["files"] if os.path.isfile(listing) else None
    for label in sorted(os.listdir(path)):
        inside = os.path.join(path, label)
        if label.startswith((".", "_")) or not os.path.isdir(inside):
            continue
        for name in sorted(os.listdir(inside)):
            if name.startswith(".") or not os.path.isfile(os.path.join(inside, name)):
                continue
            if listed is not None and name not in listed:
                hint = f"do not rename files: {INDEX_FILE} lists the item of each file name."
                raise InvalidData(f"{os.path.join(inside, name)} is not a file that was exported", hint=hint)
            known = {ID: f"{label}/{name}"} if listed is None else listed[name]
            key = INDEX if INDEX in known else ID
            yield Answer(str(known[key]), key, label)


# Tables: CSV, Parquet and JSON lines with a column ``label`` to fill in.


def table_of(items: Sequence[Item]) -> dict[str, Sequence[object]]:
    """The columns of a table of items: name, text or path, the other columns, and an empty ``label``."""
    if not items:
        return {"id": [], "label": []}
    first = items[0]
    names: list[object] = [next(iter(item.payload.values())) for item in items]
    table: dict[str, Sequence[object]] = {"id" if first.key == ID else ROW: names}
    if first.shown != first.name:
        table[first.kind] = [item.shown for item in items]
    table |= {name: [item.more[name] for item in items] for name in first.more if name not in table}
    return {**table, "label": [""] * len(items)}


def write_table(format: Format, items: Sequence[Item], classes: Sequence[str]) -> bytes:
    return render_columns(table_of(items), format, safe_csv=True)


def read_table(path: str) -> Iterator[Answer]:
    """The labels of a table with an id or an index; empty labels are skipped items."""
    source = open_source(path)
    names = list(source.names)
    column, label = find_name(names, (ID, INDEX, *IDS, ROW)), label_name(names)
    if column is None or label is None:
        missing = "an id or index" if column is None else "a column label"
        raise MissingFile(f"{path} lacks {missing}", hint=f"its columns are {', '.join(names)}.")
    values = source.entry(label).values()
    kept, labels = are_labels(f"{path} ({label})", values), label_keys(values)
    key = INDEX if column.lower() in (INDEX, ROW) else ID
    who = label_keys(source.entry("annotator").values()) if "annotator" in names else [""] * len(labels)
    for name, text, is_label, person in zip(label_keys(source.entry(column).values()), labels, kept, who, strict=True):
        yield Answer(name, key, text if is_label else None, person)


Write = Callable[[Sequence[Item], Sequence[str]], bytes]


class Tool(NamedTuple):
    """Writer and reader of a tool's files; the writer is None if it cannot import such files."""

    write: Write | None
    read: Callable[[str], Iterator[Answer]]


TOOLS: Mapping[str, Tool] = {
    "label-studio": Tool(write_label_studio, read_label_studio),
    "label-studio-min": Tool(None, read_label_studio_min),
    "label-studio-csv": Tool(None, read_label_studio_csv),
    "prodigy": Tool(write_prodigy, read_prodigy),
    "doccano": Tool(write_doccano, read_doccano),
    "folders": Tool(None, read_folder),
    "csv": Tool(partial(write_table, "csv"), read_table),
    "parquet": Tool(partial(write_table, "parquet"), read_table),
}
WRITERS = ("folders", *(name for name, tool in TOOLS.items() if tool.write is not None), *BOX_WRITERS)
ProjectFormat = Literal["csv", "jsonl", "parquet", "label-studio", "json-min", "prodigy", "doccano"]
"""The formats of a project's labels, on the command line, the page and its API."""
SHOW_ITEMS = ("label-studio", "prodigy", "doccano")
"""Tools that show annotators the contents of the file, so that ids alone are not enough."""


def export_picks(
    picks: str,
    target: str,
    tool: str,
    *,
    classes: Sequence[str] = (),
    show: str | None = None,
    prefix: str = "",
    pictures: str = ".",
    force: bool = False,
) -> int:
    """Write picks for a labeling tool atomically, and return their number.

    Parameters
    ----------
    picks : str
        A table that `dubito select` wrote.
    target : str
        The file, or for ``folders`` the folder.
    tool : str
        ``label-studio``, ``prodigy``, ``doccano``, ``folders``, ``csv`` or ``parquet``; for pictures with boxes
        ``images``, ``coco``, ``yolo``, ``cvat`` or ``label-studio-boxes``.
    classes : sequence of str
        The classes to choose from, for tools whose files contain them.
    show : str, optional
        The column to show. Default: a column of texts or paths with a usual name.
    prefix : str
        Prefix of the paths of pictures, such as the URL of a server.
    pictures : str
        The folder of the pictures, for ``folders``.
    force : bool
        Whether to replace an existing file.
    """
    check_choice("to", tool, WRITERS)
    if tool in BOX_WRITERS:
        found = read_pictures(picks, prefix)
        write_atomically(target, BOX_WRITERS[tool](found, classes), new=not force)
        return len(found)
    items = read_items(picks, show, prefix, must_show=tool in SHOW_ITEMS)
    write = TOOLS[tool].write
    if write is None:
        write_folder(items, classes, target, pictures)
    else:
        write_atomically(target, write(items, classes), new=not force)
    return len(items)


def import_labels(path: str, tool: str, *, classes: Sequence[str] = ()) -> Gathered:
    """Read the labels in a tool's file; with ``classes``, other labels are an error."""
    answers = list(TOOLS[check_choice("source", tool, tuple(TOOLS))].read(path))
    check_classes(path, answers, classes)
    return gather_answers(answers)
