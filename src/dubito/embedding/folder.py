"""A folder of pictures as a source of items: every picture in it and in its subfolders, with its path as id."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dubito.embedding.embedder import Takes
from dubito.embedding.source import Content, LeftOut, ShardItems
from dubito.errors import InvalidData
from dubito.experiments.images import SUFFIXES
from dubito.io.source import natural_order, reading
from dubito.registry import require
from dubito.request.columns import UNLABELED
from dubito.request.ids import text_key

UNREAD = (".heic", ".heif", ".avif", ".jxl", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf", ".rw2", ".psd")
"""Suffixes of picture formats that cannot be read."""
MOST_NAMED = 5
"""Maximum number of classes in a note."""


@dataclass(frozen=True)
class PictureFolder:
    path: str
    names: tuple[str, ...]
    """Paths in the folder, with ``/`` between their parts."""
    classes: tuple[str | None, ...]
    """The class of every picture, or None if it is unlabeled; empty if folders are not classes."""
    left_out: tuple[LeftOut, ...]
    has_folders: bool = False
    """Whether the folder of each picture is a column, such as the video that a frame is of."""
    takes: Takes = "pictures"
    shown: str = "path"
    has_ids: bool = True

    @property
    def n_items(self) -> int:
        return len(self.names)

    @property
    def columns(self) -> dict[str, str]:
        return {"labels": "yes" if self.classes else "no", **({"split": "frames"} if self.has_folders else {})}

    @property
    def notes(self) -> tuple[str, ...]:
        if self.has_folders:
            n_folders = len({os.path.dirname(name) for name in self.names})
            counted = f"{len(self.names):,} pictures in {n_folders:,} folders"
            return (f"{self.path}: {counted}. Pick whole folders with --group-column folder.",)
        if not self.classes:
            return ()
        found = list(dict.fromkeys(each for each in self.classes if each is not None))
        shown = ", ".join(found[:MOST_NAMED]) + (", ..." if len(found) > MOST_NAMED else "")
        n_unlabeled = sum(each is None for each in self.classes)
        if n_unlabeled:
            rest = f"; {n_unlabeled} have none"
        else:
            rest = "; to pick among all of them pass --ignore-columns label to dubito select"
        where = f"every picture of {self.path} is in one of {len(found)} folders ({shown})"
        return (f"{where}, which became the column label{rest}. --no-labels leaves it out.",)

    @cached_property
    def fingerprint(self) -> str:
        """Names, sizes and times of all pictures."""
        digest = hashlib.blake2b(digest_size=16)
        for name in self.names:
            try:
                found = os.stat(os.path.join(self.path, name))
                facts = f"{found.st_size} {found.st_mtime_ns}"
            except OSError:
                facts = "gone"
            digest.update(f"{name}\0{facts}\n".encode())
        return digest.hexdigest()

    def shards(self, n_rows: int) -> Iterator[ShardItems]:
        for start in range(0, len(self.names), n_rows):
            names = list(self.names[start : start + n_rows])
            yield ShardItems(self._paths(names), self._table(names, start))

    def contents(self) -> Iterator[Content]:
        return iter(self._paths(self.names))

    def _paths(self, names: tuple[str, ...] | list[str]) -> list[Content]:
        return [os.path.join(self.path, name) for name in names]

    def _table(self, names: list[str], start: int) -> Any:
        pyarrow = require("pyarrow", extra="files")
        columns = {"id": pyarrow.array(names, pyarrow.string()), "path": pyarrow.array(names, pyarrow.string())}
        if self.classes:
            columns["label"] = pyarrow.array(list(self.classes[start : start + len(names)]), pyarrow.string())
        if self.has_folders:
            columns["folder"] = pyarrow.array([os.path.dirname(name) or "." for name in names], pyarrow.string())
        return pyarrow.table(columns)


def find_pictures(path: str, suffixes: tuple[str, ...] = SUFFIXES) -> list[str]:
    """The paths of the pictures in a folder and its subfolders, by suffix; hidden files and folders are skipped."""
    found: list[str] = []
    with reading(path):
        for subfolder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if not name.startswith((".", "__"))]
            inner = os.path.relpath(subfolder, path)
            pictures = (name for name in names if not name.startswith(".") and name.lower().endswith(suffixes))
            found += [name if inner == "." else f"{inner.replace(os.sep, '/')}/{name}" for name in pictures]
    return sorted(found, key=lambda name: (natural_order(name), name))


def open_folder(path: str, names: list[str], *, labels: bool) -> PictureFolder:
    kept: list[str] = []
    left_out = [LeftOut(_shown(name), unread_format(name)) for name in find_pictures(path, UNREAD)]
    seen: dict[str, str] = {}
    for name in names:
        shown = _shown(name)
        if shown != name and not _is_text(name):
            left_out.append(LeftOut(shown, "has a name that is not UTF-8; rename it"))
        elif seen.setdefault(text_key(name), name) != name:
            left_out.append(
                LeftOut(name, f"has the same name as {seen[text_key(name)]} but for white space or accents")
            )
        else:
            kept.append(name)
    if not kept:
        raise InvalidData(f"no picture in {path} has a name that is text in UTF-8", hint="rename them.")
    return PictureFolder(path, tuple(kept), class_folders(kept) if labels else (), tuple(left_out))


def unread_format(name: str) -> str:
    """What is wrong with a picture in one of the formats `UNREAD`, to follow its name in a sentence."""
    suffix = os.path.splitext(name)[1][1:].upper()
    return f"is in the format {suffix}, which is not read; convert it to JPEG or PNG"


def _shown(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def class_folders(names: list[str]) -> tuple[str | None, ...]:
    """The class of each picture if every picture is in one of several subfolders, else nothing.

    Pictures in a folder called ``unlabeled`` have no class.

    Examples
    --------
    >>> class_folders(["cat/1.png", "dog/1.png", "unlabeled/1.png"]), class_folders(["cat/1.png", "2.png"])
    (('cat', 'dog', None), ())
    """
    parts = [name.split("/") for name in names]
    if any(len(each) != 2 for each in parts) or len({each[0] for each in parts}) < 2:
        return ()
    return tuple(None if each[0].lower() in UNLABELED else each[0] for each in parts)
