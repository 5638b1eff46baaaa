"""Items to label, and the answers that people give: a majority where there are several, and how far they agree."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.io import open_source
from dubito.io.limits import hold
from dubito.io.source import nearest, reading
from dubito.matrix import AnyArray
from dubito.request.columns import IDS, ROW, usual
from dubito.request.labels import label_keys

ID, INDEX, PEOPLE = "dubito_id", "dubito_index", "dubito_annotators"
"""What an item is called in the payload of a tool."""
TEXTS = ("text", "sentence", "document", "content", "review", "title", "body")
PICTURES = ("path", "image", "picture", "file", "filename", "file_name", "url", "photo")
LOCAL_FILES = "/data/local-files/?d="
"""Where Label Studio shows files of its own machine."""
PARSED = 8
"""JSON takes about so much more once it is read."""


class Item(NamedTuple):
    """A pick as labeling tools show it."""

    name: str
    """Its id, or its row number."""
    key: str
    """`ID` or `INDEX`: which of the two."""
    kind: str
    """``text`` or ``image``."""
    shown: str
    """The text, or where the picture is."""
    more: Mapping[str, str]
    """What else the table says of it."""

    @property
    def payload(self) -> dict[str, object]:
        """What a tool has to carry along."""
        return {self.key: int(self.name) if self.key == INDEX else self.name}


class Answer(NamedTuple):
    """What one person said of one item; no label where it was skipped."""

    name: str
    key: str
    label: str | None
    who: str = ""


def read_items(path: str, show: str | None = None, prefix: str = "", *, to_look_at: bool = False) -> list[Item]:
    """Picks of a table that `dubito select` wrote, in their order; ``to_look_at`` refuses mere names of rows."""
    entries = open_source(path).entries.items()
    table = {name: entry.values() for name, entry in entries if name and entry.ndim == 1}
    return items_of(path, table, show, prefix, to_look_at=to_look_at)


def items_of(
    path: str, table: Mapping[str, AnyArray], show: str | None = None, prefix: str = "", *, to_look_at: bool = False
) -> list[Item]:
    """The items of columns that are read already."""
    columns = {name: _as_written(values) for name, values in table.items()}
    ids, index = usual(list(columns), IDS), usual(list(columns), (ROW,))
    if ids is None and index is None:
        hint = "pass a table that dubito select wrote (.csv, .jsonl, .parquet)."
        raise MissingFile(f"{path} has neither an id nor an index", hint=hint)
    named = label_keys(table[ids or index or ""])
    kind, shown = _shown(path, columns, show, ids)
    rest = [name for name in columns if name not in {ids, index, "rank", "priority", "label"}]
    if to_look_at and not (show or prefix) and shown == ids and not _are_pictures(columns[ids] if ids else named):
        raise _nothing_shown(path, rest)
    address = _addressed(prefix)
    return [
        Item(
            each,
            ID if ids else INDEX,
            kind,
            each if shown is None else address(columns[shown][row]) if kind == "image" else columns[shown][row],
            {name: columns[name][row] for name in rest if name != shown},
        )
        for row, each in enumerate(named)
    ]


def _as_written(values: AnyArray) -> list[str]:
    """Text as it stands, and not as it is compared: a path must be the one on the disk."""
    keys = label_keys(values)
    return [value if key and isinstance(value, str) else key for value, key in zip(values.tolist(), keys, strict=True)]


def _addressed(prefix: str) -> Callable[[str], str]:
    """What makes a path an address: on the web, with all but its slashes percent-encoded where need be."""
    on_the_web = prefix.lower().startswith(("http://", "https://", LOCAL_FILES))
    return lambda path: prefix + (quote(path) if on_the_web else path)


def _nothing_shown(path: str, rest: Sequence[str]) -> MissingFile:
    hint = f"name one with --show COLUMN ({', '.join(rest)})." if rest else "let dubito select --keep COLUMN carry one."
    return MissingFile(f"{path} has neither a text nor a path that people could look at", hint=hint)


def _shown(
    path: str, columns: Mapping[str, Sequence[str]], show: str | None, ids: str | None
) -> tuple[str, str | None]:
    """Text or picture, and the column that has it; without one, the ids are names of pictures."""
    if show is not None and show not in columns:
        raise MissingFile(f"{path} has no column {show!r};{nearest(show, columns)} it has {', '.join(columns)}.")
    picture, text = usual(list(columns), PICTURES), usual(list(columns), TEXTS)
    found = show or picture or text or ids
    is_picture = found in (picture, ids) or (found is not None and _are_pictures(columns[found]))
    return ("image" if is_picture and found != text else "text"), found


def _are_pictures(values: Iterable[str]) -> bool:
    endings = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")
    return all(value.lower().endswith(endings) for value in values)


def read_json(path: str) -> Any:
    """A file of JSON, within what inputs may take."""
    with reading(path), open(path, encoding="utf-8-sig") as file:
        hold(path, "", PARSED * os.path.getsize(path))
        return _parsed(path, file.read())


def read_lines(path: str) -> Iterator[Mapping[str, Any]]:
    """A file with an object of JSON on each line."""
    with reading(path), open(path, encoding="utf-8-sig") as file:
        hold(path, "", PARSED * os.path.getsize(path))
        lines = file.read().splitlines()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            found = _parsed(f"{path}, line {number},", line)
            if not isinstance(found, dict):
                raise InvalidData(f"{path}, line {number}, is no object", hint="pass what the tool wrote.")
            yield found


def _parsed(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidData(f"{where} is not valid JSON ({error})", hint="pass what the tool wrote.") from None


def name_in(path: str, *places: object) -> tuple[str, str]:
    """The name that an item was exported with, in the first of these places that has one, and which kind it is."""
    for place in places:
        for key in (ID, INDEX):
            if isinstance(place, Mapping) and place.get(key) not in (None, ""):
                return label_key(place[key]), key
    problem = f"{path} holds an item without {ID}"
    raise InvalidData(problem, hint="pass labels of items that dubito export wrote.")


def label_key(value: object) -> str:
    """One value as names and labels are compared; a truth value as JSON writes it is one, too."""
    array = np.empty(1, dtype=object)
    array[0] = value
    return label_keys(array)[0]


def only_label(path: str, name: str, labels: object) -> str | None:
    """The one label of an item, none where there is nothing; more than one is no class."""
    several = labels if isinstance(labels, list) else [labels]
    keys = [label_key(each) for each in several if not isinstance(each, dict | list)]
    if len(keys) != len(several):
        problem = f"{path} has {str(several[0])[:40]!r} for the item {name!r}, which is no class"
        raise InvalidData(problem, hint="import labels of whole items; spans and boxes are none.")
    keys = [key for key in keys if key]
    if len(keys) > 1:
        problem = f"{path} has {len(keys)} labels for the item {name!r} ({', '.join(keys[:3])})"
        raise InvalidData(problem, hint="an item has one class: let people choose one.")
    return keys[0] if keys else None


def refuse_unknown(path: str, answers: Iterable[Answer], classes: Sequence[str]) -> None:
    """Refuse a class that nobody asked for, by its name."""
    odd = next((each.label for each in answers if each.label is not None and each.label not in classes), None)
    if classes and odd is not None:
        hint = f"known are {', '.join(classes)};{nearest(odd, classes)} fix the label, or add the class."
        raise InvalidArgument(f"{path} has the class {odd!r}, which is none of --classes", hint=hint)


class Gathered(NamedTuple):
    """A label for each item that has one."""

    key: str
    """``id`` or ``index``."""
    names: tuple[str, ...]
    labels: tuple[str, ...]
    votes: tuple[int, ...]
    """People who gave an item a label."""
    agreements: tuple[float, ...]
    """The share of them who gave this one."""
    skipped: tuple[str, ...]
    """Items without a label."""
    tied: tuple[str, ...]
    """Items on which as many said one thing as another; they have no label."""

    def columns(self) -> dict[str, Sequence[object]]:
        """The table that ``--labeled`` takes."""
        names: list[object] = [int(name) if self.key == ROW else name for name in self.names]
        return {self.key: names, "label": self.labels, "annotators": self.votes, "agreement": self.agreements}


def gather_answers(answers: Iterable[Answer]) -> Gathered:
    """The label that most people gave each item, in the order that items come in.

    One person's later answer takes the place of an earlier one. A tie is no label.

    Examples
    --------
    >>> said = [Answer("a", "dubito_id", "cat", "1"), Answer("a", "dubito_id", "cat", "2")]
    >>> found = gather_answers([*said, Answer("a", "dubito_id", "dog", "3"), Answer("b", "dubito_id", None, "1")])
    >>> found.labels, found.votes, found.skipped
    (('cat',), (3,), ('b',))
    """
    said: dict[str, dict[str, str | None]] = {}
    key = "id"
    for number, each in enumerate(answers):
        key = ROW if each.key == INDEX else key
        said.setdefault(each.name, {})[each.who or f"#{number}"] = each.label
    rows, skipped, tied = [], [], []
    for name, by_person in said.items():
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
