"""Label Studio: its JSON (tasks out, tasks with annotations back), JSON-MIN and CSV."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dubito.errors import InvalidData
from dubito.integrations.exchange.items import (
    ID,
    INDEX,
    PEOPLE,
    Item,
    Said,
    label_keys_of,
    name_in,
    only_label,
    read_json,
)
from dubito.io import open_source
from dubito.request.labels import label_keys

OWN = frozenset(
    {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement", "text", "image", "rank"}
    | {ID, INDEX}
)
"""What JSON-MIN and CSV have beside the labels."""


def write_tasks(items: Sequence[Item], classes: Sequence[str]) -> bytes:
    """Tasks to import: what is shown under ``data.text`` or ``data.image``, and the id beside it."""
    tasks = [{"data": task_data(item)} for item in items]
    return (json.dumps(tasks, ensure_ascii=False, indent=1) + "\n").encode()


def task_data(item: Item, field: str | None = None) -> dict[str, object]:
    """An item as a task shows it, under the name of its kind or of the field that a project shows."""
    return {**dict(item.more), **item.payload, field or item.kind: item.shown}


def labeling_config(kind: str, classes: Sequence[str]) -> str:
    """The labeling config of a project for such tasks."""
    from xml.sax.saxutils import quoteattr

    tag = "Image" if kind == "image" else "Text"
    choices = "".join(f"<Choice value={quoteattr(name)}/>" for name in classes)
    shown = f'<{tag} name="item" value="${kind}"/>'
    return f'<View>{shown}<Choices name="label" toName="item" choice="single">{choices}</Choices></View>'


def read_tasks(path: str) -> Iterator[Said]:
    """Annotations of an export as JSON; skipped ones (``was_cancelled``) are no labels."""
    found = read_json(path)
    if not isinstance(found, list) or not all(isinstance(task, dict) and "data" in task for task in found):
        raise InvalidData(f"{path} is no list of Label Studio's tasks", hint="export as JSON, and not as JSON-MIN.")
    yield from said_in_tasks(path, found)


def said_in_tasks(path: str, tasks: Iterable[Mapping[str, Any]]) -> Iterator[Said]:
    """The same of tasks that are read already."""
    for task in tasks:
        name, key = name_in(path, task["data"], task.get("meta"))
        annotations = task.get("annotations") or task.get("completions") or []
        for annotation, person in zip(annotations, _people(task, annotations), strict=True):
            label = None if annotation.get("was_cancelled") else only_label(path, name, _choices(annotation))
            yield Said(name, key, label, _who(person))


def _choices(annotation: Mapping[str, Any]) -> list[object]:
    """The choices of an annotation; all other results are spans, boxes and the like."""
    results = [each for each in annotation.get("result") or [] if isinstance(each, dict)]
    return [choice for each in results for choice in (each.get("value") or {}).get("choices") or []]


def _people(task: Mapping[str, Any], annotations: Sequence[Mapping[str, Any]]) -> Sequence[object]:
    """Who made each annotation: as Label Studio has it, or dubito's own page where nobody has an account there."""
    named = (task.get("meta") or {}).get(PEOPLE)
    by: list[object] = [annotation.get("completed_by") for annotation in annotations]
    if isinstance(named, list) and len(named) == len(by) and all(each is None for each in by):
        return named
    return by


def _who(person: object) -> str:
    known = person.get("email") or person.get("id") if isinstance(person, dict) else person
    return label_keys_of(known)


def read_min(path: str) -> Iterator[Said]:
    """An export as JSON-MIN: one object an annotation, the label under the name of its control."""
    found = read_json(path)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InvalidData(f"{path} is no list of objects", hint="export as JSON-MIN.")
    for each in found:
        name, key = name_in(path, each)
        values = [label for value in _controls(path, list(each), each.get) for label in _min_labels(value)]
        yield Said(name, key, only_label(path, name, [*filter(None, values)]), _who(each.get("annotator")))


def read_csv(path: str) -> Iterator[Said]:
    """An export as CSV: JSON-MIN as a table."""
    source = open_source(path)
    columns = {name: label_keys(entry.values()) for name, entry in source.entries.items()}
    for row in range(len(next(iter(columns.values()), []))):
        each = {name: values[row] for name, values in columns.items()}
        name, key = name_in(path, each)
        values = [label for value in _controls(path, list(each), each.get) for label in _min_labels(value)]
        yield Said(name, key, only_label(path, name, [*filter(None, values)]), each.get("annotator", ""))


def _controls(path: str, names: Sequence[str], value_of: Any) -> list[object]:
    """The values of the control: ``label`` or ``choice`` if there is one, else the first of the usual names."""
    for control in ("label", "choice", "choices", "class", "sentiment", "category"):
        if control in names:
            return [value_of(control)]
    if "annotation_id" in names:
        place = list(names).index("annotation_id")
        others = [name for name in names[:place] if name not in OWN]
        if len(others) == 1:
            return [value_of(others[0])]
    if set(names) & {"annotator", "annotation_id"}:
        return []  # Nothing was chosen.
    raise InvalidData(f"{path} has no labels under a name that is known", hint="call the control of choices label.")


def _min_labels(value: object) -> list[object]:
    """A single choice stands alone, several in an object; CSV writes that as JSON."""
    if isinstance(value, str) and value.startswith(("[", "{")):
        try:
            value = json.loads(value)
        except ValueError:
            return [value]
    if isinstance(value, dict):
        value = value.get("choices")
    return value if isinstance(value, list) else [value]
