"""Tables in memory with cells of any type, as read from JSON and workbooks."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from dubito.errors import InvalidData
from dubito.io.cells import as_list, as_names, is_missing
from dubito.io.missing_values import PLAIN_NUMBER, reads_missing_as_nan
from dubito.io.source import Entry, Source
from dubito.matrix import AnyArray, FloatArray

CellKind = Literal["nothing", "number", "text", "list", "other"]
LARGEST_NUMBER = 10**308
"""Larger integers cannot be converted to a float."""
LARGEST_WHOLE = 2**53
"""Floats from here on do not represent every integer."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Columns of cells: None, Booleans, numbers, text, arrays of numbers (for lists), or other values."""

    path: str
    columns: Mapping[str, Sequence[object]]
    numbering: Sequence[int]
    """The number of each row for messages, such as its line number."""
    noun: str
    """What `numbering` counts: line, row or item."""

    def source(self, notes: Sequence[str] = ()) -> Source:
        entries = {name: self._entry(name, cells) for name, cells in self.columns.items()}
        return Source(self.path, entries, self.numbers, tuple(notes))

    def numbers(self, names: Sequence[str]) -> FloatArray:
        if not names:
            return np.empty((len(self.numbering), 0))
        return np.stack([self.column(name) for name in names], axis=1)

    def column(self, name: str) -> FloatArray:
        """One column of numbers (n,), or of Booleans; raises `InvalidData` for a mixture."""
        are_booleans = isinstance(next((cell for cell in self.columns[name] if not _is_missing(cell)), None), bool)
        return np.array([self._number(name, are_booleans, *each) for each in self._cells(name)], dtype=np.float64)

    def names(self, name: str) -> AnyArray:
        """One column of names: as integers if all are integers, else as text."""
        return as_names([self._name(name, *each) for each in self._cells(name)], self.path, name)

    def values(self, name: str) -> AnyArray:
        cells = np.empty(len(self.numbering), dtype=np.object_)
        cells[:] = self.columns[name]
        return cells

    def lists(self, name: str) -> AnyArray:
        """A column of lists of numbers as an array (n, ...)."""
        arrays = [self._list(name, *each) for each in self._cells(name)]
        odd = next((row for row, array in enumerate(arrays) if array.shape != arrays[0].shape), None)
        if odd is not None:
            raise InvalidData(
                f"column {name!r} of {self.path} has a list of shape {arrays[odd].shape} in {self.noun} "
                f"{self.numbering[odd]} and {arrays[0].shape} in {self.noun} {self.numbering[0]}",
                hint="all lists must have the same length.",
            )
        return np.stack(arrays) if arrays else np.empty((0, 0))

    def _cells(self, name: str) -> Iterator[tuple[int, object]]:
        return zip(self.numbering, self.columns[name], strict=True)

    def _entry(self, name: str, cells: Sequence[object]) -> Entry:
        kinds = {kind_of(cell) for cell in cells} - {"nothing"}
        names, values = partial(self.names, name), partial(self.values, name)

        def entry(
            ndim: int, content: Literal["numbers", "text"], summary: str, read: Callable[[str], AnyArray]
        ) -> Entry:
            return Entry(ndim, content, f"({summary})", partial(read, name), names, values)

        first = next((cell for cell in cells if kind_of(cell) != "nothing"), None)
        if kinds <= {"number"} and (kinds or not cells):
            return entry(1, "numbers", "numbers", self.column)
        if kinds == {"number", "text"} and all(kind_of(cell) != "text" or _is_missing(cell) for cell in cells):
            return entry(1, "numbers", "numbers", self.column)
        if kinds == {"list"} or (kinds == {"text"} and all(map(_is_list_or_nothing, cells))):
            ndim = 1 + (first.ndim if isinstance(first, np.ndarray) else 1)
            return entry(ndim, "numbers", "lists of numbers", self.lists)
        if kinds <= {"number", "text"}:
            shown = next((cell for cell in cells if kind_of(cell) == "text"), None)
            return entry(1, "text", "nothing" if shown is None else f"text such as {shown!r}", self.column)
        read = partial(self._refuse, name)
        odd = next((cell for cell in cells if kind_of(cell) == "other"), first)
        return Entry(1, "other", f"(values such as {_shown(odd)})", read, read, values)

    def _number(self, name: str, are_booleans: bool, number: int, cell: object) -> float:
        if reads_missing_as_nan() and _is_missing(cell):
            return math.nan
        if isinstance(cell, float) or (isinstance(cell, int) and abs(cell) <= LARGEST_NUMBER):
            if isinstance(cell, bool) == are_booleans or _is_missing(cell):
                return float(cell)
            why = "a number among booleans" if are_booleans else "a boolean among numbers"
        else:
            why = "which is not a number"
        is_empty = kind_of(cell) == "nothing"
        what = "is empty" if is_empty else f"holds {_shown(cell)}, {why},"
        hint = "fix or remove that row." if is_empty else f"{PLAIN_NUMBER}."
        raise InvalidData(f"column {name!r} of {self.path} {what} in {self.noun} {number}", hint=hint)

    def _name(self, name: str, number: int, cell: object) -> str:
        if kind_of(cell) in ("number", "text"):
            if isinstance(cell, float) and LARGEST_WHOLE <= abs(cell) < math.inf:
                problem = f"column {name!r} of {self.path} holds the number {cell:.0f} in {self.noun} {number}"
                raise InvalidData(f"{problem}, which is too large to be exact", hint="save names as text.")
            return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
        what = "is empty" if kind_of(cell) == "nothing" else f"holds {_shown(cell)}, which is not a name,"
        raise InvalidData(f"column {name!r} of {self.path} {what} in {self.noun} {number}", hint="fill it in.")

    def _list(self, name: str, number: int, cell: object) -> AnyArray:
        found = as_list(cell) if isinstance(cell, str) else cell
        if isinstance(found, np.ndarray):
            return found
        what = "is empty" if kind_of(cell) == "nothing" else f"holds {_shown(cell)}, which is not a list of numbers,"
        hint = "fix or remove that row."
        raise InvalidData(f"column {name!r} of {self.path} {what} in {self.noun} {number}", hint=hint)

    def _refuse(self, name: str) -> AnyArray:
        odd = next(
            (each for each in self._cells(name) if kind_of(each[1]) == "other"), (self.numbering[0], "a mixture")
        )
        hint = "use numbers, lists of numbers or text."
        raise InvalidData(f"column {name!r} of {self.path} holds {_shown(odd[1])} in {self.noun} {odd[0]}", hint=hint)


def kind_of(cell: object) -> CellKind:
    """The kind of a cell's value; NaN and blank text are ``"nothing"``.

    Examples
    --------
    >>> [kind_of(cell) for cell in (None, 1, " ", "a", {})]
    ['nothing', 'number', 'nothing', 'text', 'other']
    """
    if cell is None or (isinstance(cell, str) and not cell.strip()) or (isinstance(cell, float) and math.isnan(cell)):
        return "nothing"
    if isinstance(cell, bool | int | float):
        return "number"
    if isinstance(cell, str):
        return "text"
    return "list" if isinstance(cell, np.ndarray) else "other"


def _is_missing(cell: object) -> bool:
    """Whether a cell is empty, or text for a missing value."""
    return kind_of(cell) == "nothing" or (isinstance(cell, str) and is_missing(cell))


def _is_list_or_nothing(cell: object) -> bool:
    return kind_of(cell) == "nothing" or (isinstance(cell, str) and as_list(cell) is not None)


def _shown(cell: object) -> str:
    text = repr(cell)
    return text if len(text) <= 40 else text[:20] + " ... " + text[-15:]
