"""The items that labeling tools show, and the answers of annotators, of which the majority decides."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.io import open_source
from dubito.io.limits import reserve_memory
from dubito.io.source import did_you_mean, reading
from dubito.matrix import AnyArray
from dubito.request.columns import IDS, ROW, find_name
from dubito.request.labels import label_keys

ID, INDEX, PEOPLE = "dubito_id", "dubito_index", "dubito_annotators"
"""Keys in the files of tools."""
TEXTS = ("text", "sentence", "document", "content", "review", "title", "body")
PICTURES = ("path", "image", "picture", "file", "filename", "file_name", "url", "photo")
LOCAL_FILES = "/data/local-files/?d="
"""URL prefix of local files of a Label Studio server."""
PARSED_SIZE = 8
"""Memory of parsed JSON relative to the size of its file."""


class Item(NamedTuple):
    """A pick in the form that labeling tools show."""

    name: str
    """Its id, or its row number."""
    key: str
    """`ID` if the name is an id, `INDEX` if it is a row number."""
    kind: str
    """``text`` or ``image``."""
    shown: str
    """The text, or the path of the picture."""
    more: Mapping[str, str]
    """The other columns of the table."""

    @property
    def payload(self) -> dict[str, object]:
        """What a tool must keep with the item."""
        return {self.key: int(self.name) if self.key == INDEX else self.name}


class Answer(NamedTuple):
    """The answer of one annotator on one item; the label is None if they skipped it."""

    name: str
    key: str
    label: str | None
    who: str = ""


def read_items(path: str, show: str | None = None, prefix: str = "", *, must_show: bool = False) -> list[Item]:
    """Read the picks that `dubito select` wrote; raise with ``must_show`` if they have neither texts nor pictures."""
    entries = open_source(path).entries.items()
    table = {name: entry.values() for name, entry in entries if name and entry.ndim == 1}
    return items_of(path, table, show, prefix, must_show=must_show)


def items_of(
    path: str, table: Mapping[str, AnyArray], show: str | None = None, prefix: str = "", *, must_show: bool = False
) -> list[Item]:
    columns = {name: _to_text(values) for name, values in table.items()}
    ids, index = find_name(list(columns), IDS), find_name(list(columns), (ROW,))
    if ids is None and index is None:
        hint = "pass a table that dubito select wrote (.csv, .jsonl, .parquet)."
        raise MissingFile(f"{path} has neither an id nor an index", hint=hint)
    named = label_keys(table[ids or index or ""])
    kind, shown = _shown(path, columns, show, ids)
    rest = [name for name in columns if name not in {ids, index, "rank", "priority", "label"}]
    if must_show and not (show or prefix) and shown == ids and not _are_pictures(columns[ids] if ids else named):
        hint = "keep one with dubito select --keep COLUMN."
        if rest:
            hint = f"choose one with --show COLUMN ({', '.join(rest)})."
        raise MissingFile(f"{path} has neither a text nor a path to show", hint=hint)
    is_url = prefix.lower().startswith(("http://", "https://", LOCAL_FILES))

    def address(value: str) -> str:
        return prefix + (quote(value) if is_url else value) if kind == "image" else value

    key, others = ID if ids else INDEX, [name for name in rest if name != shown]
    return [
        Item(
            each,
            key,
            kind,
            address(columns[shown][row]) if shown else each,
            {name: columns[name][row] for name in others},
        )
        for row, each in enumerate(named)
    ]


def _to_text(values: AnyArray) -> list[str]:
    """The values as text; strings are not normalized, because paths must match those on the disk."""
    keys = label_keys(values)
    return [value if key and isinstance(value, str) else key for value, key in zip(values.tolist(), keys, strict=True)]


def _shown(
    path: str, columns: Mapping[str, Sequence[str]], show: str | None, ids: str | None
) -> tuple[str, str | None]:
    """The kind of item, and the column to show; without one, ids count as names of pictures."""
    if show is not None and show not in columns:
        raise MissingFile(f"{path} has no column {show!r};{did_you_mean(show, columns)} it has {', '.join(columns)}.")
    picture, text = find_name(list(columns), PICTURES), find_name(list(columns), TEXTS)
    found = show or picture or text or ids
    is_picture = found in (picture, ids) or (found is not None and _are_pictures(columns[found]))
    return ("image" if is_picture and found != text else "text"), found


def _are_pictures(values: Iterable[str]) -> bool:
    endings = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")
    return all(value.lower().endswith(endings) for value in values)


def read_json(path: str) -> Any:
    """Read a JSON file; its memory counts as input."""
    with reading(path), open(path, encoding="utf-8-sig") as file:
        reserve_memory(path, "", PARSED_SIZE * os.path.getsize(path))
        return _parsed(path, file.read())


def read_lines(path: str) -> Iterator[Mapping[str, Any]]:
    """Read a file with a JSON object on each line; its memory counts as input."""
    with reading(path), open(path, encoding="utf-8-sig") as file:
        reserve_memory(path, "", PARSED_SIZE * os.path.getsize(path))
        lines = file.read().splitlines()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            found = _parsed(f"{path}, line {number},", line)
            if not isinstance(found, dict):
                raise InvalidData(f"{path}, line {number}, is not an object", hint="pass an export of the tool.")
            yield found


def _parsed(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidData(f"{where} is not valid JSON ({error})", hint="pass an export of the tool.") from None


def item_name(path: str, *sources: object) -> tuple[str, str]:
    """The name of an item in the first mapping that has it, and its key (`ID` or `INDEX`)."""
    for source in sources:
        for key in (ID, INDEX):
            if isinstance(source, Mapping) and source.get(key) not in (None, ""):
                return label_key(source[key]), key
    problem = f"{path} has an item without {ID}"
    raise InvalidData(problem, hint="pass labels of items that dubito export wrote.")


def label_key(value: object) -> str:
    """A single value in the form in which names and labels are compared."""
    array = np.empty(1, dtype=object)
    array[0] = value
    return label_keys(array)[0]


def single_label(path: str, name: str, labels: object) -> str | None:
    """The only label of an item, or None without one; raises if there are several."""
    several = labels if isinstance(labels, list) else [labels]
    keys = [label_key(each) for each in several if not isinstance(each, dict | list)]
    if len(keys) != len(several):
        problem = f"{path} has {str(several[0])[:40]!r} for the item {name!r}, which is not a class"
        raise InvalidData(problem, hint="import labels of whole items, not of spans or boxes.")
    keys = [key for key in keys if key]
    if len(keys) > 1:
        problem = f"{path} has {len(keys)} labels for the item {name!r} ({', '.join(keys[:3])})"
        raise InvalidData(problem, hint="configure the tool so that annotators choose one class.")
    return keys[0] if keys else None


def check_classes(path: str, answers: Iterable[Answer], classes: Sequence[str]) -> None:
    """Raise if classes are given and an answer is not among them."""
    unknown = next((each.label for each in answers if each.label is not None and each.label not in classes), None)
    if classes and unknown is not None:
        hint = f"the classes are {', '.join(classes)};{did_you_mean(unknown, classes)} fix the label, or add the class."
        raise InvalidArgument(f"{path} has the class {unknown!r}, which is not in --classes", hint=hint)


class Gathered(NamedTuple):
    """The labels of items after a majority vote."""

    key: str
    """``id`` or ``index``."""
    names: tuple[str, ...]
    labels: tuple[str, ...]
    votes: tuple[int, ...]
    """Number of annotators who labeled each item."""
    agreements: tuple[float, ...]
    """The share of them who chose the label."""
    skipped: tuple[str, ...]
    """Items without a label."""
    tied: tuple[str, ...]
    """Items without a majority; they have no label."""

    def columns(self) -> dict[str, Sequence[object]]:
        """The columns of a table for ``--labeled``."""
        names: list[object] = [int(name) if self.key == ROW else name for name in self.names]
        return {self.key: names, "label": self.labels, "annotators": self.votes, "agreement": self.agreements}


def gather_answers(answers: Iterable[Answer]) -> Gathered:
    """The majority label of each item, in the order of the first answers.

    A later answer of an annotator replaces an earlier one. Ties have no label.

    Examples
    --------
    >>> answers = [Answer("a", "dubito_id", "cat", "1"), Answer("a", "dubito_id", "cat", "2")]
    >>> found = gather_answers([*answers, Answer("a", "dubito_id", "dog", "3"), Answer("b", "dubito_id", None, "1")])
    >>> found.labels, found.votes, found.skipped
    (('cat',), (3,), ('b',))
    """
    by_item: dict[str, dict[str, str | None]] = {}
    key = "id"
    for number, each in enumerate(answers):
        key = ROW if each.key == INDEX else key
        by_item.setdefault(each.name, {})[each.who or f"#{number}"] = each.label
    rows, skipped, tied = [], [], []
    for name, by_person in by_item.items():
        votes = Counter(label for label in by_person.values() if label is not None)
        if not votes:
            skipped.append(name)
            continue
        (label, most), *others = votes.most_common()
        if others and others[0][1] == most:
            tied.append(name)
        else:
            rows.append((name, label, votes.total(), round(most / votes.total(), 4)))
    names, labels, counts, shares = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Gathered(key, names, labels, counts, shares, tuple(skipped), tuple(tied))
