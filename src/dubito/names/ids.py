"""When two ids are the same, whatever file or frame they come from.

Ids are compared as text: whole numbers as they are written in full (7 and 7.0 are ``7``, and so are the texts ``7`` and
``7.0``), dates as ISO writes them, text without the white space around it and in Unicode's composed form (NFC).
``007`` is not 7: it is text, and stays so. Upper and lower case differ. What cannot name a row is refused: nothing at
all, truth values, and floats too large to tell whole numbers apart.
"""

import re
import unicodedata
from collections.abc import Sequence
from datetime import date
from functools import cached_property

import numpy as np

from dubito.errors import InvalidData
from dubito.matrix import AnyArray

WHOLE_TEXT = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")
"""A whole number as a program writes it that thinks in floats."""
MISSING = ("NoneType", "NAType", "NaTType")
"""The types of values that stand for none; their packages need not be there."""
MOST_SHOWN = 3
"""Ids that a message names."""
MIDNIGHT = re.compile(r"[ T]00:00:00(\.0+)?$")


class Ids:
    """The ids of some rows: as they were handed in, and as they are compared.

    Examples
    --------
    >>> Ids("a.npy", np.array([7.0, 12.0])).keys, Ids("b.npy", np.array(["7", " a"])).keys
    (['7', '12'], ['7', 'a'])
    """

    def __init__(self, owner: str, values: AnyArray, *, argument: str | None = None) -> None:
        self.owner = owner
        """Whose they are, for messages: a file, or an argument."""
        self.argument = argument
        self.values = as_shown(values)
        self.given = values

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def keys(self) -> list[str]:
        """Each id as it is compared."""
        try:
            return id_keys(self.given)
        except Unnamed as error:
            raise self.wrong(error.problem, error.mend) from None

    @cached_property
    def places(self) -> dict[str, int]:
        """The row of each id; the last one where an id is there twice."""
        return {key: row for row, key in enumerate(self.keys)}

    @property
    def repeated(self) -> tuple[int, int] | None:
        """The first two rows of an id that is there twice."""
        if len(self.places) == len(self):
            return None
        seen: dict[str, int] = {}
        return next((seen[key], row) for row, key in enumerate(self.keys) if seen.setdefault(key, row) != row)

    def at(self, rows: AnyArray) -> "Ids":
        """Those of some rows."""
        return Ids(self.owner, self.given[rows], argument=self.argument)

    def shown(self, rows: Sequence[int]) -> str:
        """Some of the ids, for a message."""
        names = [repr(self.values[row : row + 1].tolist()[0]) for row in rows[:MOST_SHOWN]]
        return ", ".join(names) + (", ..." if len(rows) > MOST_SHOWN else "")

    def wrong(self, problem: str, mend: str) -> InvalidData:
        """An error about these ids."""
        if self.argument is not None:
            return InvalidData(problem, argument=self.argument, mend=mend)
        return InvalidData(f"{self.owner} {problem}", mend=mend)


class Unnamed(Exception):
    """A value that cannot name a row."""

    def __init__(self, problem: str, mend: str) -> None:
        super().__init__(problem)
        self.problem, self.mend = problem, mend


def are_row_numbers(values: AnyArray) -> bool:
    """Whether ids are no more than 0, 1, 2 and so on, in order.

    Examples
    --------
    >>> are_row_numbers(np.arange(3)), are_row_numbers(np.array([1, 0, 2])), are_row_numbers(np.array(["0", "1"]))
    (True, False, False)
    """
    return values.dtype.kind in "iuf" and bool(np.array_equal(values, np.arange(len(values))))


def as_shown(values: AnyArray) -> AnyArray:
    """Ids as a selection gives them back: dates become text, as NumPy's own would become numbers in a file."""
    if values.dtype.kind == "M":
        return np.array([tidy_date(str(value)) for value in values], dtype=np.str_)
    return values


def id_keys(values: AnyArray) -> list[str]:
    """Ids as they are compared; see the head of this file. Raises Unnamed.

    Examples
    --------
    >>> id_keys(np.array([7.0, -1.0])), id_keys(np.array(["7.0", "007", "n7 "]))
    (['7', '-1'], ['7', '007', 'n7'])
    """
    kind = values.dtype.kind
    if kind == "b":
        raise Unnamed("has truth values for ids, which cannot tell rows apart", "pass integers or text.")
    if kind in "iu":
        return list(map(str, values.tolist()))
    if kind == "f":
        return _float_keys(values)
    keys = list(map(_key, values if kind == "M" else values.tolist()))
    empty = next((row for row, key in enumerate(keys) if not key), None)
    if empty is not None:
        raise Unnamed(f"has no id in row {empty}", "give every row one.")
    return keys


def tidy_date(text: str) -> str:
    """A date without a time of midnight, a time without a fraction of nothing.

    Examples
    --------
    >>> tidy_date("2026-01-02T00:00:00.000"), tidy_date("2026-01-02T10:30:00.500000")
    ('2026-01-02', '2026-01-02 10:30:00.5')
    """
    text = MIDNIGHT.sub("", text)
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("T", " ")


def _float_keys(values: AnyArray) -> list[str]:
    missing = ~np.isfinite(values)
    if missing.any():
        row = int(np.argmax(missing))
        raise Unnamed(f"has the id {values[row]} in row {row}, which names nothing", "give every row one.")
    whole = values == np.round(values)
    too_large = whole & (np.abs(values) >= 2.0 ** (np.finfo(values.dtype).nmant + 1))
    if too_large.any():
        value = values[int(np.argmax(too_large))]
        problem = f"has the id {value:.0f} as {values.dtype}, which cannot tell such numbers apart"
        raise Unnamed(problem, "save ids as integers or text.")
    return [
        str(int(value)) if is_whole else repr(value) for value, is_whole in zip(values.tolist(), whole, strict=True)
    ]


def _key(value: object) -> str:
    if isinstance(value, str):
        return text_key(value)
    if type(value).__name__ in MISSING or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, bool | np.bool_ | float | np.floating):
        return id_keys(np.asarray([value]))[0]
    if isinstance(value, bytes):
        return text_key(value.decode("utf-8", errors="replace"))
    if isinstance(value, tuple):
        return "\x1f".join(map(_key, value))
    if isinstance(value, date | np.datetime64):
        return "" if str(value) == "NaT" else tidy_date(str(value))
    return text_key(str(value))


def text_key(text: str) -> str:
    """Text as it is compared."""
    text = text.strip()
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    whole = WHOLE_TEXT.fullmatch(text) if text.endswith("0") else None
    return text if whole is None else whole.group(1)
