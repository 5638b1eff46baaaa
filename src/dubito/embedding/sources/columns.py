"""Which column of a table is embedded, and which names its rows: as asked, by its name, or by what it holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dubito.embedding.sources.rows import TableRows
from dubito.errors import InvalidArgument, MissingFile
from dubito.experiments.datasets.images.pictures import SUFFIXES
from dubito.files.entries import nearest
from dubito.names.columns import IDS, no_features, usual
from dubito.optional import require
from dubito.wording import PASS, keyword, named

TEXTS = ("text", "texts", "sentence", "document", "content", "review", "comment", "question", "message", "utterance")
PICTURES = ("image", "images", "img", "picture", "photo", "image_path", "path", "file", "file_name", "filename")
"""The usual names, the first that is there."""
SAMPLED = 100
"""TableRows by which a column is judged."""

Holds = Literal["texts", "paths", "bytes", "records"]
"""Texts; paths of pictures; their bytes; or records of bytes and a path, as Hugging Face has them."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is embedded, and what names the rows."""

    content: str
    holds: Holds
    id: str | None


def choose_columns(rows: TableRows, text: str | None, image: str | None, id_column: str | None) -> Chosen:
    """The columns that are meant; what is not there, cannot be meant or may be meant in two ways is refused."""
    if text is not None and image is not None:
        raise InvalidArgument(f"{named('text')} and {named('image')} are both given", mend=f"{PASS} one of them.")
    names = list(rows.schema.names)
    for argument, name in (("text", text), ("image", image), ("id_column", id_column)):
        if name is not None and name not in names:
            raise MissingFile(
                f"{rows.path} has no column {name!r}",
                argument=None,
                mend=f"{nearest(name, names).strip()} {PASS} {named(argument)} with one of {', '.join(names)}.".strip(),
            )
    ids = id_column or usual(names, IDS)
    sample = next(iter(rows.blocks())).slice(0, SAMPLED)
    kinds = {name: holds(sample, name) for name in names if name != ids}
    if text is not None:
        return Chosen(text, "texts", ids) if _is_text(rows, text) else _refuse(rows, "text", text)
    if image is not None:
        found = kinds.get(image) or holds(sample, image)
        found = "paths" if found == "texts" else found
        return _refuse(rows, "image", image) if found is None else Chosen(image, found, ids)
    return _found(rows, kinds, ids)


def _found(rows: TableRows, kinds: dict[str, Holds | None], ids: str | None) -> Chosen:
    """By a usual name, else the only one that could be."""
    free = [name for name in kinds if name not in no_features(list(kinds))]
    pictures = [name for name in free if kinds[name] in ("paths", "bytes", "records")]
    texts = [name for name in free if kinds[name] == "texts"]
    picture = usual(pictures, PICTURES) or (pictures[0] if len(pictures) == 1 else None)
    written = usual(texts, TEXTS) or (texts[0] if len(texts) == 1 and not pictures else None)
    if picture is not None and written is None:
        kind = kinds[picture]
        assert kind is not None
        return Chosen(picture, kind, ids)
    if written is not None and picture is None:
        return Chosen(written, "texts", ids)
    both = picture is not None
    what = f"both pictures ({picture}) and texts ({written})" if both else "no one column that must be the texts"
    raise MissingFile(
        f"{rows.path} has {what}",
        mend=f"say what is embedded with {keyword('text')} or {keyword('image')}; it has {listed(rows)}.",
    )


def listed(rows: TableRows) -> str:
    """The columns with their types, for a message."""
    return ", ".join(f"{field.name} ({field.type})" for field in rows.schema)


def holds(sample: Any, name: str) -> Holds | None:
    """What a column holds, by its type and the first of its values; None for what can be no picture and no text."""
    types, kind = require("pyarrow.types", extra="files"), sample.schema.field(name).type
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "bytes"
    if types.is_struct(kind):
        return "records" if kind.get_field_index("bytes") >= 0 else None
    if not _holds_text(kind):
        return None
    return "paths" if are_paths(sample.column(name).to_pylist()) else "texts"


def are_paths(values: Sequence[str | None]) -> bool:
    """Whether most values end as the names of pictures do.

    Examples
    --------
    >>> are_paths(["a.JPG", "b.png", None]), are_paths(["a cat", "b.png"])
    (True, False)
    """
    there = [value for value in values if value]
    return sum(value.lower().endswith(SUFFIXES) for value in there) * 2 > len(there)


def _holds_text(kind: Any) -> bool:
    types = require("pyarrow.types", extra="files")
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_text(rows: TableRows, name: str) -> bool:
    return _holds_text(rows.schema.field(name).type)


def _refuse(rows: TableRows, argument: str, name: str) -> Chosen:
    kind = rows.schema.field(name).type
    what = "texts" if argument == "text" else "pictures, as bytes or as paths of files"
    raise InvalidArgument(
        f"names a column of {rows.path} that holds {kind}, and no {what}",
        argument=argument,
        value=name,
        mend=f"it has {listed(rows)}.",
    )
