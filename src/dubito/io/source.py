"""What a file holds before anything large is read: a `Source` of named `Entry`s."""

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
"""An error lists at most this many names of a file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One array or column of a file; `read` and `names` fetch it."""

    ndim: int
    content: Content
    summary: str
    """What an error says of it, such as ``(1000, 64) float32``."""
    read: Callable[[], Matrix]
    read_names: Callable[[], AnyArray] | None = None
    """Reads a column as names; None where `read` gives them already."""
    read_values: Callable[[], AnyArray] | None = None
    """Reads a column with its gaps, as it is written; None for what has none."""
    is_code: bool = False
    """Whether numbers are written as codes are, such as 01234."""

    def names(self) -> AnyArray:
        """The values as names: integers or text, never parsed into anything else."""
        return whole(self.read()) if self.read_names is None else self.read_names()

    def values(self) -> AnyArray:
        """The values as they are, empty ones among them: of a table as text or objects."""
        return self.names() if self.read_values is None else self.read_values()


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or a folder of shards, that has been opened and not yet read."""

    path: str
    entries: dict[str, Entry]
    """By name; the single array of an ``.npy`` goes by the empty name."""
    columns: Callable[[Sequence[str]], Matrix] | None = None
    """For a table: reads these columns of numbers as one matrix."""
    notes: tuple[str, ...] = ()
    """What a person should know of how the file was read, where that was guessed."""
    index: tuple[str, ...] = ()
    """The columns in which a pandas frame kept its index, where the file tells."""
    embedder: str = ""
    """Who made the embeddings of a pool file, in words; nothing for other files."""
    root: str = ""
    """The folder in which the paths of a pool file begin; nothing for other files."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays or columns inside, in the order of the file."""
        return tuple(self.entries)

    @property
    def is_table(self) -> bool:
        """True for CSV and Parquet, whose entries are columns of equal length."""
        return self.columns is not None

    @property
    def noun(self) -> str:
        """What an entry is called in messages."""
        return "column" if self.is_table else "array"

    def entry(self, name: str) -> Entry:
        """The entry of that name, or an error that tells the nearest one."""
        if name in self.entries:
            return self.entries[name]
        if "" in self.entries and not self.is_table:
            raise MissingFile(f"{self.path} holds one array without a name", hint=f"leave out {name!r}.")
        hint = f"{nearest(name, self.names)} it holds {self.listing()}.".strip()
        raise MissingFile(f"{self.path} has no {self.noun} {name!r}", hint=hint)

    def without(self, patterns: Sequence[str]) -> "Source":
        """The same less the entries of these names, or that a pattern such as ``p_*`` fits."""
        kept = {
            name: entry
            for name, entry in self.entries.items()
            if not any(name == pattern or ("*" in pattern and fnmatchcase(name, pattern)) for pattern in patterns)
        }
        return replace(self, entries=kept, index=tuple(name for name in self.index if name in kept))

    def listing(self) -> str:
        """The entries and what each is, for an error."""
        shown = [f"{name} {entry.summary}".strip() for name, entry in self.entries.items()]
        more = len(shown) - MOST_LISTED
        return ", ".join(shown[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def nearest(name: str, known: Iterable[str]) -> str:
    """A question that offers the nearest known name, or nothing.

    Examples
    --------
    >>> nearest("featurs", ["features", "ids"])
    " did you mean 'features'?"
    """
    close = difflib.get_close_matches(name, [other for other in known if other], n=1)
    return f" did you mean {close[0]!r}?" if close else ""


def natural_order(name: str) -> list[str | int]:
    """A sort key by which shard2 comes before shard10.

    Examples
    --------
    >>> sorted(["shard10", "shard2"], key=natural_order)
    ['shard2', 'shard10']
    """
    return [int(part) if part.isdecimal() else part.casefold() for part in re.split(r"(\d+)", name)]


def content_of(dtype: np.dtype[np.generic]) -> Content:
    """Whether a NumPy type holds numbers, text or something else."""
    if dtype.kind in "biuf":
        return "numbers"
    return "text" if dtype.kind in "US" else "other"


def suffix_of(path: str) -> str:
    """The file's suffix in lower case, with its dot; a packed file has two.

    Examples
    --------
    >>> suffix_of("pool.CSV"), suffix_of("pool.csv.gz")
    ('.csv', '.csv.gz')
    """
    stem, suffix = os.path.splitext(path.rstrip("/"))
    return (os.path.splitext(stem)[1] + suffix if suffix.lower() == ".gz" else suffix).lower()


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn whatever a parser raises on a file into one error that names the file."""
    try:
        yield
    except DubitoError:
        raise
    except FileNotFoundError as error:
        raise MissingFile(f"{path} does not exist", hint="check the path.") from error
    except Exception as error:
        # One that names no file comes from a place that a damaged file sent its reader to.
        if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
            raise InvalidArgument(f"{path} cannot be opened: {str(error.strerror).lower()}.") from error
        # Broad on purpose: on a damaged file the parsers raise a dozen unrelated kinds.
        detail = " ".join(str(error).split()) or type(error).__name__
        raise InvalidData(
            f"{path} cannot be read as {suffix_of(path)}: it is cut short, damaged or of another kind ({detail})."
        ) from error


def whole(matrix: Matrix) -> AnyArray:
    """The matrix as one array; an array or memory map is returned as it is.

    Examples
    --------
    >>> whole(Stack([np.zeros((1, 2)), np.ones((1, 2))])).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix[:])


def stack_rows(parts: Sequence[Matrix], paths: Sequence[str]) -> Matrix:
    """Join the parts of one array: a `Stack` of 2-D parts, which copies nothing, else one array.

    A part without rows is left out: some tools write such shards, and they need not tell a width.
    """
    filled = [place for place, part in enumerate(parts) if part.shape[0]] or [0]
    parts, paths = [parts[place] for place in filled], [paths[place] for place in filled]
    first = parts[0]
    for part, path in zip(parts, paths, strict=True):
        if part.shape[1:] != first.shape[1:]:
            raise InvalidData(
                f"{path} has rows of shape {part.shape[1:]}, but {paths[0]} has {first.shape[1:]}",
                hint="shards must be equally wide.",
            )
    if len(parts) == 1:
        return first
    if len(first.shape) == 2:
        return Stack([piece for part in parts for piece in (part.parts if isinstance(part, Stack) else (part,))])
    return np.concatenate([whole(part) for part in parts])


# Where remarks on how files were read go: every `Source` carries its own, and a program may gather them all.

_gathered: ContextVar[dict[str, None] | None] = ContextVar("gathered", default=None)


@contextmanager
def gathering_notes() -> Iterator[dict[str, None]]:
    r"""The remarks on every file opened in the block, each once and in order, as the keys of a dictionary.

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


def gather(notes: Sequence[str]) -> None:
    """Hand remarks to whoever gathers them."""
    gathered = _gathered.get()
    if gathered is not None:
        gathered.update(dict.fromkeys(notes))
