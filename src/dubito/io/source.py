"""An opened file: a `Source` of named `Entry` objects, whose data is not read yet."""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

import numpy as np

from dubito.errors import DubitoError, InvalidArgument, InvalidData, MissingFile
from dubito.matrix import AnyArray, Matrix, Stack

Content = Literal["numbers", "text", "other"]

MOST_LISTED = 12
"""Maximum number of entries that an error lists."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One array or column of a file, read on demand."""

    ndim: int
    content: Content
    summary: str
    """Description for messages, such as ``(1000, 64) float32``."""
    read: Callable[[], Matrix]
    read_names: Callable[[], AnyArray] | None = None
    """Reads a column as ids or labels; None if `read` returns those already."""
    read_values: Callable[[], AnyArray] | None = None
    """Reads a column unparsed, with empty cells; None if there can be none."""
    is_code: bool = False
    """Whether numbers are written like codes, with leading zeros, such as 01234."""

    def names(self) -> AnyArray:
        """The values as ids or labels: integers or text, otherwise unparsed."""
        return as_one_array(self.read()) if self.read_names is None else self.read_names()

    def values(self) -> AnyArray:
        """The unparsed values, including empty ones; text or objects for a table."""
        return self.names() if self.read_values is None else self.read_values()


@dataclass(frozen=True, slots=True)
class Source:
    """An opened file or folder of shards."""

    path: str
    entries: dict[str, Entry]
    """By name; the single array of an ``.npy`` file has the empty name."""
    columns: Callable[[Sequence[str]], Matrix] | None = None
    """For a table: reads columns of numbers as one matrix."""
    notes: tuple[str, ...] = ()
    """Remarks for the user on guesses made in reading the file."""
    index: tuple[str, ...] = ()
    """The columns that hold a pandas index, according to the file's metadata."""
    embedder: str = ""
    """Description of the embedder that made a pool file; empty for other files."""
    root: str = ""
    """The folder that the paths in a pool file are relative to; empty for other files."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays or columns inside, in the order of the file."""
        return tuple(self.entries)

    @property
    def is_table(self) -> bool:
        """Whether the entries are columns of equal length, as in CSV and Parquet."""
        return self.columns is not None

    @property
    def noun(self) -> str:
        return "column" if self.is_table else "array"

    def entry(self, name: str) -> Entry:
        """The entry of that name; the error for an unknown name suggests the closest one."""
        if name in self.entries:
            return self.entries[name]
        if "" in self.entries and not self.is_table:
            raise MissingFile(f"{self.path} holds one array without a name", hint=f"leave out {name!r}.")
        hint = f"{did_you_mean(name, self.names)} it holds {self.listing()}.".strip()
        raise MissingFile(f"{self.path} has no {self.noun} {name!r}", hint=hint)

    def without(self, patterns: Sequence[str]) -> "Source":
        """A copy without the entries of these names or patterns (such as ``p_*``)."""
        kept = {
            name: entry
            for name, entry in self.entries.items()
            if not any(matches_pattern(name, pattern) for pattern in patterns)
        }
        return replace(self, entries=kept, index=tuple(name for name in self.index if name in kept))

    def listing(self) -> str:
        """The entries with their descriptions, for messages."""
        shown = [f"{name} {entry.summary}".strip() for name, entry in self.entries.items()]
        more = len(shown) - MOST_LISTED
        return ", ".join(shown[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def matches_pattern(name: str, pattern: str) -> bool:
    """Whether an entry is meant by a name or pattern; without ``*``, a pattern is a plain name.

    Examples
    --------
    >>> matches_pattern("p_1", "p_*"), matches_pattern("p_1", "p_?"), matches_pattern("x[0]", "x[0]")
    (True, False, True)
    """
    return name == pattern or ("*" in pattern and fnmatchcase(name, pattern))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that suggests the closest known name, or empty text.

    Examples
    --------
    >>> did_you_mean("featurs", ["features", "ids"])
    " did you mean 'features'?"
    """
    close = difflib.get_close_matches(name, [other for other in known if other], n=1)
    return f" did you mean {close[0]!r}?" if close else ""


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """A sort key that compares numbers inside names as numbers, up to the longest that `int` reads.

    Examples
    --------
    >>> sorted(["f10", "F2", "f1"], key=natural_order)
    ['f1', 'F2', 'f10']
    """
    return [
        (0, int(part), "") if number % 2 and len(part) <= 4300 else (1, 0, part.casefold())
        for number, part in enumerate(re.split(r"(\d+)", name))
    ]


def content_of(dtype: np.dtype[np.generic]) -> Content:
    if dtype.kind in "biuf":
        return "numbers"
    return "text" if dtype.kind in "US" else "other"


def suffix_of(path: str) -> str:
    """The suffix in lower case, with its dot; ``.gz`` is returned together with the suffix before it.

    Examples
    --------
    >>> suffix_of("pool.CSV"), suffix_of("pool.csv.gz")
    ('.csv', '.csv.gz')
    """
    stem, suffix = os.path.splitext(path.rstrip("/"))
    return (os.path.splitext(stem)[1] + suffix if suffix.lower() == ".gz" else suffix).lower()


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Convert any error raised while a file is read to a `DubitoError` that names the file."""
    try:
        yield
    except DubitoError:
        raise
    except FileNotFoundError as error:
        raise MissingFile(f"{path} does not exist", hint="check the path.") from error
    except Exception as error:
        # An OSError without a file name is caused by the content: a damaged file made its parser seek out of range.
        if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
            raise InvalidArgument(f"{path} cannot be opened: {str(error.strerror).lower()}.") from error
        # Broad on purpose: parsers raise many unrelated exceptions on damaged files.
        detail = " ".join(str(error).split()) or type(error).__name__
        problem = (
            f"{path} cannot be read as {suffix_of(path)}: it is truncated, damaged or of another format ({detail})."
        )
        raise InvalidData(problem) from error


def as_one_array(matrix: Matrix) -> AnyArray:
    """The matrix as one array; arrays and memory maps are returned unchanged.

    Examples
    --------
    >>> as_one_array(Stack([np.zeros((1, 2)), np.ones((1, 2))])).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix[:])


def stack_rows(parts: Sequence[Matrix], paths: Sequence[str]) -> Matrix:
    """Concatenate the parts of an array: as a `Stack` without a copy if they are 2-D, else as one array.

    Parts without rows, which some tools write as shards, are skipped, since their width may be unknown.
    """
    filled = [number for number, part in enumerate(parts) if part.shape[0]] or [0]
    parts, paths = [parts[number] for number in filled], [paths[number] for number in filled]
    first = parts[0]
    for part, path in zip(parts, paths, strict=True):
        if part.shape[1:] != first.shape[1:]:
            problem = f"{path} has rows of shape {part.shape[1:]}, but {paths[0]} has {first.shape[1:]}"
            raise InvalidData(problem, hint="shards must be equally wide.")
    if len(parts) == 1:
        return first
    if len(first.shape) == 2:
        return Stack([piece for part in parts for piece in (part.parts if isinstance(part, Stack) else (part,))])
    return np.concatenate([as_one_array(part) for part in parts])


_gathered: ContextVar[dict[str, None] | None] = ContextVar("gathered", default=None)


@contextmanager
def gathering_notes() -> Iterator[dict[str, None]]:
    r"""Collect the notes of every file opened in the block, without duplicates, as the keys of a dictionary.

    Examples
    --------
    >>> import os, tempfile
    >>> from dubito.io import gathering_notes, read_pool
    >>> with tempfile.TemporaryDirectory() as folder, gathering_notes() as notes:
    ...     path = os.path.join(folder, "pool.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x;y\n1;2\n")
    ...     _ = read_pool(path)
    >>> [note.removeprefix(folder) for note in notes]
    ['/pool.csv was read with semicolons between its fields.']
    """
    notes: dict[str, None] = {}
    token = _gathered.set(notes)
    try:
        yield notes
    finally:
        _gathered.reset(token)


def note(*texts: str) -> None:
    """Add notes for the user to those collected by `gathering_notes`."""
    gathered = _gathered.get()
    if gathered is not None:
        gathered.update(dict.fromkeys(texts))
