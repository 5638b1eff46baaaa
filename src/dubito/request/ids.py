"""Ids of rows: how they are compared, and how the rows of an argument or file are matched with those of the pool.

Ids are compared as text. Whole numbers are written in full (7, 7.0, "7" and "7.0" are the same id), dates in ISO
format; text is stripped and normalized to NFC. ``"007"`` differs from 7, and comparison is case-sensitive. Missing
values, booleans, and floats too large to distinguish whole numbers are rejected.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, InvalidIds
from dubito.matrix import AnyArray, IntArray, Matrix, len_of
from dubito.request.arrays import Features, as_array, check_features
from dubito.request.columns import IDS, could_be_index, find_name, index_names, non_features

WHOLE_TEXT = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")
"""A whole number written as a float."""
MISSING = ("NoneType", "NAType", "NaTType")
"""Type names of missing values, so that their packages need not be imported."""
MOST_SHOWN = 3
"""Maximum number of ids in a message."""
MIDNIGHT = re.compile(r"[ T]00:00:00(\.0+)?$")


class Ids:
    """The ids of some rows, as given and as comparison keys.

    Examples
    --------
    >>> Ids("a.npy", np.array([7.0, 12.0])).keys, Ids("b.npy", np.array(["7", " a"])).keys
    (['7', '12'], ['7', 'a'])
    """

    def __init__(self, owner: str, values: AnyArray, *, argument: str | None = None) -> None:
        self.owner = owner
        """The file or argument that the ids belong to, for messages."""
        self.argument = argument
        self.values = dates_as_text(values)
        self.given = values

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def keys(self) -> list[str]:
        """The comparison key of each id."""
        try:
            return id_keys(self.given)
        except InvalidId as error:
            raise self.error(error.problem, error.hint) from None

    @cached_property
    def row_of_key(self) -> dict[str, int]:
        """The row of each key; the last row if a key is repeated."""
        return {key: row for row, key in enumerate(self.keys)}

    @property
    def repeated(self) -> tuple[int, int] | None:
        """The first two rows with the same id, or None."""
        if len(self.row_of_key) == len(self):
            return None
        seen: dict[str, int] = {}
        return next((seen[key], row) for row, key in enumerate(self.keys) if seen.setdefault(key, row) != row)

    def at(self, rows: AnyArray) -> "Ids":
        """The ids of some of the rows."""
        return Ids(self.owner, self.given[rows], argument=self.argument)

    def shown(self, rows: Sequence[int]) -> str:
        """The first few of these ids, for a message."""
        names = [repr(self.values[row : row + 1].tolist()[0]) for row in rows[:MOST_SHOWN]]
        return ", ".join(names) + (", ..." if len(rows) > MOST_SHOWN else "")

    def error(self, problem: str, hint: str) -> InvalidIds:
        if self.argument is not None:
            return InvalidIds(problem, argument=self.argument, hint=hint)
        return InvalidIds(f"{self.owner} {problem}", hint=hint)


class InvalidId(Exception):
    """An id that cannot be used; `Ids` adds whose it is."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem, self.hint = problem, hint


def are_row_numbers(values: AnyArray) -> bool:
    """Whether ids are just the numbers 0, 1, 2 and so on, in order.

    Examples
    --------
    >>> are_row_numbers(np.arange(3)), are_row_numbers(np.array([1, 0, 2])), are_row_numbers(np.array(["0", "1"]))
    (True, False, False)
    """
    return values.dtype.kind in "iuf" and bool(np.array_equal(values, np.arange(len(values))))


def dates_as_text(values: AnyArray) -> AnyArray:
    """The ids, with NumPy dates as text, since they would be saved as numbers."""
    if values.dtype.kind == "M":
        return np.array([tidy_date(str(value)) for value in values], dtype=np.str_)
    return values


def id_keys(values: AnyArray) -> list[str]:
    """The comparison keys of ids; see the module docstring. Raises InvalidId.

    Examples
    --------
    >>> id_keys(np.array([7.0, -1.0])), id_keys(np.array(["7.0", "007", "n7 "]))
    (['7', '-1'], ['7', '007', 'n7'])
    """
    kind = values.dtype.kind
    if kind == "b":
        raise InvalidId("has booleans as ids, which cannot identify rows", "pass integers or text.")
    if kind in "iu":
        return list(map(str, values.tolist()))
    if kind == "f":
        return _float_keys(values)
    keys = list(map(_key, values if kind == "M" else values.tolist()))
    empty = next((row for row, key in enumerate(keys) if not key), None)
    if empty is not None:
        raise InvalidId(f"has no id in row {empty}", "give every row an id.")
    return keys


def tidy_date(text: str) -> str:
    """A date without a midnight time, and a time without trailing zeros in its fraction.

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
        raise InvalidId(f"has the id {values[row]} in row {row}, which is not an id", "give every row an id.")
    whole = values == np.round(values)
    too_large = whole & (np.abs(values) >= 2.0 ** (np.finfo(values.dtype).nmant + 1))
    if too_large.any():
        value = values[int(np.argmax(too_large))]
        problem = f"has the id {value:.0f} as {values.dtype}, which cannot distinguish such numbers"
        raise InvalidId(problem, "save ids as integers or text.")
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
    text = text.strip()
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    whole = WHOLE_TEXT.fullmatch(text) if text.endswith("0") else None
    return text if whole is None else whole.group(1)


# Matching rows by id. Ids may be in a column (an array, the argument ``ids``), in the index of a frame, or in both.
# A column is matched with a column if possible, an index with an index, and only otherwise one with the other. An index
# of plain row numbers does not count as ids. If only one side has ids, rows are matched by position.


@dataclass(frozen=True, slots=True, eq=False)
class RowIds:
    """The ids of the rows of an argument or file: a column of ids, the index of a frame, both or neither."""

    column: Ids | None = None
    index: Ids | None = None
    """The index, even if it holds only row numbers."""
    owner: str = field(default="", kw_only=True)
    """The file that the rows are from, for messages; empty for an argument."""

    @property
    def ids(self) -> Ids | None:
        """The ids in use; None if there are only row numbers."""
        if self.column is not None or self.index is None:
            return self.column
        return None if are_row_numbers(self.index.given) else self.index

    def at(self, rows: IntArray) -> "RowIds":
        """The ids of some of the rows; an index of row numbers is dropped."""
        index = self.index if self.index is None or not are_row_numbers(self.index.given) else None
        return RowIds(self.column and self.column.at(rows), index and index.at(rows), owner=self.owner)


NO_IDS = RowIds()


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class ArrayWithIds:
    """An array with the ids of its rows, as files hold it: an argument that is matched with the pool like a frame."""

    values: Matrix
    row_ids: RowIds
    columns: tuple[str, ...] = ()
    """The names of the columns of a table that form the array; empty for a single array."""
    short_names: tuple[str, ...] = ()
    """The columns without the beginning that they share, such as ``cat`` for ``p_cat``; empty if that is not known."""


class IdPair(NamedTuple):
    """The ids by which an argument or file is matched with the pool."""

    theirs: Ids
    pool: Ids


def common_ids(theirs: RowIds, pool: RowIds) -> IdPair | None:
    """The ids that both sides have, columns before indexes; None if one side has none."""
    if theirs.column is not None and pool.column is not None:
        return IdPair(theirs.column, pool.column)
    if theirs.index is not None and pool.index is not None and not are_row_numbers(theirs.index.given):
        both_have_ids = not are_row_numbers(pool.index.given)
        if both_have_ids or (theirs.column is None and _are_shuffled_rows(theirs.index)):
            return IdPair(theirs.index, pool.index)
    if theirs.ids is not None and pool.ids is not None:
        return IdPair(theirs.ids, pool.ids)
    if theirs.ids is None or pool.index is None:
        return None
    if not pool.index.row_of_key.keys().isdisjoint(theirs.ids.keys):
        return IdPair(theirs.ids, pool.index)  # The ids refer to the row numbers in the pool's index.
    return None


def matching_ids(theirs: RowIds, pool: RowIds) -> IdPair | None:
    """The ids by which rows are matched; None if they are matched by position.

    Raises InvalidData if only one side has ids and these are shuffled row numbers: positions would probably be wrong.
    """
    pair = common_ids(theirs, pool)
    if pair is not None:
        return pair
    only_ids = pool.ids if theirs.ids is None else theirs.ids
    # The pool always has row numbers, an argument only as its index.
    is_other_numbered = only_ids is theirs.ids or (only_ids is pool.index and theirs.index is not None)
    if only_ids is not None and is_other_numbered and _are_shuffled_rows(only_ids):
        other = "the pool has none" if only_ids is theirs.ids else "the other one has none"
        problem = f"has the row numbers 0 to {len(only_ids) - 1} in another order as ids, and {other}"
        raise only_ids.error(problem, "give ids to both or to neither.")
    return None


def order_of(theirs: Ids, pool: Ids) -> IntArray:
    """For each row of the pool, the row of ``theirs`` with its id; both sides must hold the same ids, once each."""
    if theirs.keys == pool.keys:
        return np.arange(len(pool))
    _refuse_repeats(theirs)
    _refuse_repeats(pool)
    foreign = [row for row, key in enumerate(theirs.keys) if key not in pool.row_of_key]
    missing = [row for row, key in enumerate(pool.keys) if key not in theirs.row_of_key]
    if foreign or missing:
        raise _unmatched(theirs, pool, foreign, missing)
    return np.array([theirs.row_of_key[key] for key in pool.keys], dtype=np.int64)


def rows_of(theirs: Ids, pool: Ids) -> IntArray:
    """The pool row of each id; ids must be unique and present in the pool."""
    _refuse_repeats(theirs)
    _refuse_repeats(pool)
    foreign = [row for row, key in enumerate(theirs.keys) if key not in pool.row_of_key]
    if foreign:
        raise _unmatched(theirs, pool, foreign, [])
    return np.array([pool.row_of_key[key] for key in theirs.keys], dtype=np.int64)


def _are_shuffled_rows(ids: Ids) -> bool:
    """Whether the ids are all the row numbers, but not in order."""
    numbers = list(map(str, range(len(ids))))
    return ids.keys != numbers and set(ids.keys) == set(numbers)


def _refuse_repeats(ids: Ids) -> None:
    if ids.repeated is None:
        return
    first, second = ids.repeated
    one, other = ids.shown([first]), ids.shown([second])
    repeated = one if one == other else f"{one} and {other}, which are the same id,"
    raise ids.error(f"repeats the id {repeated} (rows {first} and {second})", "each must occur once.")


def _unmatched(theirs: Ids, pool: Ids, foreign: Sequence[int], missing: Sequence[int]) -> InvalidData:
    problems = []
    if foreign:
        unknown = "an id that is" if len(foreign) == 1 else f"{len(foreign)} ids that are"
        problems.append(f"holds {unknown} not among the pool's {len(pool)} ({theirs.shown(foreign)})")
    if missing:
        problems.append(f"lacks {len(missing)} of the pool's {len(pool)} ids ({pool.shown(missing)})")
    return theirs.error(" and ".join(problems), _hint(theirs, pool, foreign, missing))


def _hint(theirs: Ids, pool: Ids, foreign: Sequence[int], missing: Sequence[int]) -> str:
    unknown = [theirs.keys[row] for row in foreign]
    if unknown and {key.lstrip("0") for key in unknown} <= {key.lstrip("0") for key in pool.keys}:
        return "they differ only in leading zeros: keep ids as text (dtype=str) where they are read and written."
    if unknown and {key.casefold() for key in unknown} <= {key.casefold() for key in pool.keys}:
        return "they differ only in upper and lower case: use the same case in both."
    if foreign:
        return "drop or correct those rows." if not missing else "pass a row for each row of the pool and no others."
    return "pass a row for each id of the pool."


# Ids of frames. The packages of frames are not imported.

FRAMES = ("pandas", "polars", "pyarrow")


def is_frame(value: Any) -> bool:
    """Whether a value is a frame or column of one of these packages."""
    return type(value).__module__.partition(".")[0] in FRAMES


def split_ids(name: str, value: Any) -> tuple[Any, RowIds]:
    """Split an argument into its data, without id columns, and the ids of its rows.

    Only `ArrayWithIds` and frames have ids: frames in a column ``id`` or ``ids``, in a pandas index, or in a column
    ``index`` (as pandas names an index turned into a column). Other values are returned unchanged.
    """
    if isinstance(value, ArrayWithIds):
        return value.values, value.row_ids
    if not is_frame(value):
        return value, NO_IDS
    columns = columns_of(value)
    is_pandas = hasattr(value, "index") and hasattr(value, "iloc")
    index = _ids(name, np.asarray(value.index)) if is_pandas else None
    id_column = find_name(columns, IDS)
    column = None if id_column is None else _ids(name, column_of(name, value, id_column))
    taken = [] if id_column is None else [id_column]
    for index_name in index_names(columns):
        values = column_of(name, value, index_name)
        if could_be_index(index_name, values):
            taken.append(index_name)
            index = _ids(name, values) if RowIds(None, index).ids is None else index
    return (_without(value, taken) if taken else value), RowIds(column, index)


def check_pool(pool: Any, ids: object = None) -> tuple[Features, RowIds]:
    value, row_ids = split_ids("pool", pool)
    strays = non_features(columns_of(value)) if is_frame(value) else []
    if strays:  # They would silently be used as features.
        problem = f"has the column {strays[0]!r}, whose name says it is not a feature"
        hint = f"leave it out (as pool.drop(columns={strays!r}) does in pandas), or rename it if it is one."
        raise InvalidArgument(problem, argument="pool", hint=hint)
    features = check_features("pool", value)
    if ids is None:
        return features, row_ids
    return features, RowIds(_check_ids(ids, len_of(features.matrix)), row_ids.index)


def feature_names(pool: Any) -> list[str]:
    """The names of a frame's feature columns; empty for other values and for columns without text names."""
    if isinstance(pool, ArrayWithIds):
        return list(pool.columns)
    columns = columns_of(pool)
    ids = find_name(columns, IDS)
    index = {name for name in index_names(columns) if could_be_index(name, column_of("pool", pool, name))}
    return [name for name in columns if name != ids and name not in index]


def in_pool_order(name: str, value: Any, pool: RowIds, n_pool: int) -> Any:
    """The rows of an argument in the order of the pool, if both have ids; otherwise unchanged."""
    value, own = split_ids(name, value)
    if own is pool or (own.ids is None and (own.index is None or pool.ids is None)):
        return value
    pair = matching_ids(own, pool)
    if pair is not None:
        order = order_of(*pair)
        return value if (order == np.arange(n_pool)).all() else as_array(name, value)[order]
    if own.ids is not None and own.ids is own.index and pool.index is not None and not own.owner:
        hint = f"give both the same index, or pass {name}.to_numpy() if their rows are in the same order."
        raise InvalidData("has an index of ids, and the pool has only row numbers", argument=name, hint=hint)
    return value


def _check_ids(ids: object, n_pool: int) -> Ids:
    values = np.asarray(ids)
    if values.shape != (n_pool,):
        raise InvalidArgument(f"has shape {values.shape}", argument="ids", hint=f"pass one per row, shape ({n_pool},).")
    checked = Ids("ids", values, argument="ids")
    if checked.repeated is not None:
        first, second = checked.repeated
        raise checked.error(
            f"holds {checked.shown([first])} more than once (rows {first} and {second})", "pass each once."
        )
    return checked


def columns_of(value: Any) -> list[str]:
    """The text names of a frame's columns, in order; empty for a Series or an Arrow column."""
    if not is_frame(value):
        return []
    names = value.column_names if hasattr(value, "column_names") else getattr(value, "columns", ())
    return [str(name) for name in names if isinstance(name, str)]


def column_of(name: str, frame: Any, column: str) -> AnyArray:
    """The values of a frame's column; ``name`` is the argument, for messages."""
    found = frame.column(column) if hasattr(frame, "column_names") else frame[column]
    if len(getattr(found, "shape", (0,))) > 1:
        raise InvalidArgument(f"has two columns called {column!r}", argument=name, hint="rename one.")
    if hasattr(found, "to_pylist"):
        return np.array(found.to_pylist())
    return np.asarray(found.to_numpy())


def _without(frame: Any, names: Sequence[str]) -> Any:
    if hasattr(frame, "column_names"):
        return frame.select([name for name in frame.column_names if name not in names])
    return frame.drop(columns=list(names)) if hasattr(frame, "iloc") else frame.drop(list(names))


def _ids(name: str, values: AnyArray) -> Ids:
    return Ids(name, values, argument=name)
