"""Row arguments: ``labeled`` and ``candidates``, given as row numbers, masks or ids."""

from collections.abc import Sized
from typing import Any, NamedTuple

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, by_interface, in_python, keyword
from dubito.matrix import AnyArray, BoolArray, IntArray, Matrix, Rows, len_of
from dubito.request.arrays import as_array, as_matrix, check_features, different_widths
from dubito.request.ids import NO_IDS, Ids, RowIds, common_ids, matching_ids, rows_of, split_ids

FEWEST_REPEATED = 10
"""At least this many row numbers of which more than half are repeated are an error."""
FEWEST_ROWS = 3
"""From this many rows on, one 0 or 1 per row must be a mask: as row numbers they would repeat."""


class Labeled(NamedTuple):
    """The labeled points: their features (m, d), and their rows in the pool (empty if they are not in the pool)."""

    references: Matrix
    rows: IntArray
    largest: float


def check_labeled(labeled: object, pool: Matrix, pool_ids: RowIds = NO_IDS) -> Labeled:
    """Check ``labeled``: features (m, d), or rows of the pool by number, mask or id; None and empty are allowed.

    Features with ids of the pool must be those of its rows; features without are points outside the pool.
    """
    no_rows = np.empty(0, dtype=np.int64)
    empty = Labeled(Rows(pool, no_rows), no_rows, 0.0)
    if labeled is None:
        return empty
    value, own = split_ids("labeled", labeled)
    if holds_ids(value):
        rows = check_rows("labeled", value, len_of(pool), pool_ids)
        return Labeled(Rows(pool, rows), rows, 0.0)
    array = as_matrix("labeled", value)
    if 0 in array.shape:
        return empty
    if len(array.shape) == 1:
        rows = check_rows("labeled", labeled, len_of(pool), pool_ids)
        return Labeled(Rows(pool, rows), rows, 0.0)
    references, largest = check_features("labeled", array)
    if references.shape[1] != pool.shape[1]:
        raise different_widths(references.shape[1], pool.shape[1])
    pair = common_ids(own, pool_ids)
    if pair is None or not any(key in pair.pool.row_of_key for key in pair.theirs.keys):
        return Labeled(references, no_rows, largest)
    rows = rows_of(*pair)
    if not np.array_equal(np.asarray(references[:]), np.asarray(pool[rows])):
        hint = "pass those ids, or labeled.to_numpy() if its points are not in the pool."
        raise InvalidData("has ids of the pool and other features", argument="labeled", hint=hint)
    return Labeled(references, np.unique(rows), largest)


def labeled_in_order(labeled: Any, checked: Labeled, n_pool: int, pool_ids: RowIds = NO_IDS) -> IntArray:
    """The labeled pool rows in the order given, or ascending if ``labeled`` is not 1-D."""
    is_list = len(checked.rows) > 0 and np.ndim(labeled) == 1
    return rows_in_order("labeled", labeled, n_pool, pool_ids) if is_list else checked.rows


def check_rows(name: str, value: object, n_pool: int, pool_ids: RowIds = NO_IDS) -> IntArray:
    """Unique row numbers, ascending, from a mask (n,), integers or ids."""
    return np.unique(rows_in_order(name, value, n_pool, pool_ids))


def rows_in_order(name: str, value: object, n_pool: int, pool_ids: RowIds = NO_IDS) -> IntArray:
    """Row numbers in the order given; ascending for a mask."""
    value, own = split_ids(name, value)
    if holds_ids(value):
        return _rows_by_id(name, value, pool_ids)
    array = as_mask(name, as_array(name, value), n_pool)
    if array.dtype.kind == "b":
        pair = None if own is pool_ids else matching_ids(own, pool_ids)
        if pair is not None:
            return rows_of(*pair)[array]
        if len(array) != n_pool:
            problem = f"is a mask of {len(array)} and the pool has {n_pool} rows"
            raise InvalidArgument(problem, argument=name, hint="pass one per row.")
        return np.flatnonzero(array)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        hint = "pass row numbers as integers, a boolean mask, or 2-D features."
        raise InvalidArgument(f"is 1-D with dtype {array.dtype}", argument=name, hint=hint)
    outside = (array < 0) | (array >= n_pool)
    if outside.any():
        at = int(np.argmax(outside))
        problem = f"holds {array[at]} at position {at}, which is not a row of the pool"
        raise InvalidArgument(problem, argument=name, hint=f"pass row numbers from 0 to {n_pool - 1}.")
    refuse_ambiguous_rows(name, array, pool_ids.ids)
    n_different = len(np.unique(array))
    if len(array) >= FEWEST_REPEATED and 2 * n_different < len(array):  # Classes of rows rather than row numbers.
        problem = f"holds {len(array)} row numbers, of which only {n_different} are different"
        hint = f"pass each row number once; the classes of the rows belong to {keyword('labels')}."
        raise InvalidArgument(problem, argument=name, hint=hint)
    return array.astype(np.int64)


def as_mask(name: str, array: AnyArray, n_pool: int) -> AnyArray:
    """Convert one integer 0 or 1 per pool row to a boolean mask; other 1-D arrays are returned unchanged.

    Raises InvalidArgument if the array could be either a mask or row numbers.
    """
    if array.ndim != 1:
        hint = "pass a 1-D mask or 1-D row numbers."
        raise InvalidArgument(f"has shape {array.shape}", argument=name, hint=hint)
    if array.dtype.kind not in "iu" or len(array) != n_pool or len(np.unique(array)) == len(array) >= FEWEST_ROWS:
        return array
    is_binary = bool(np.isin(array, (0, 1)).all())
    if is_binary and (n_pool >= FEWEST_ROWS or array.max() >= n_pool or len(np.unique(array)) < n_pool):
        return array.astype(np.bool_)
    if is_binary or len(np.unique(array)) < n_pool:
        why = "only 0 and 1, which may be a mask or row numbers" if is_binary else "some of them twice"
        problem = f"holds an integer for each of the {n_pool} rows of the pool, {why}"
        hint = "pass a boolean mask, such as array.astype(bool), or each row number once."
        raise InvalidArgument(problem, argument=name, hint=hint)
    return array


def refuse_ambiguous_rows(name: str, rows: AnyArray, ids: Ids | None) -> None:
    """Raise for integers that are ambiguous: row numbers that are also the ids of other rows."""
    if ids is None:
        return
    numbers = rows.tolist()
    known = {number: ids.row_of_key[str(number)] for number in numbers if str(number) in ids.row_of_key}
    ambiguous = next((number for number in numbers if known and known.get(number) != number), None)
    if ambiguous is not None:
        is_id = ambiguous in known
        why = f"is the id of row {known[ambiguous]}" if is_id else f"is not an id, and {next(iter(known))} is"
        problem = f"holds integers that may be row numbers or ids ({ambiguous} {why})"
        hint = f"pass a boolean mask, or ids as text, such as {str(ambiguous)!r}."
        raise InvalidArgument(problem, argument=name, hint=hint)


def check_candidates(candidates: object, n_pool: int, labeled_rows: IntArray, pool_ids: RowIds = NO_IDS) -> IntArray:
    """Rows that may be picked, ascending: the candidates, or every row, without the labeled rows."""
    if candidates is None and len(labeled_rows) == 0:
        return np.arange(n_pool)
    if candidates is None:
        allowed: BoolArray = np.ones(n_pool, dtype=np.bool_)
    else:
        rows = check_rows("candidates", candidates, n_pool, pool_ids)
        if isinstance(candidates, Sized) and not len(candidates):
            all_rows = by_interface("pass None for the whole pool", command="leave it out")
            raise InvalidArgument("is empty", argument="candidates", hint=f"pass at least one row, or {all_rows}.")
        allowed = np.zeros(n_pool, dtype=np.bool_)
        allowed[rows] = True
    allowed[labeled_rows] = False
    return np.flatnonzero(allowed)


def describe_order(pool: RowIds, n_pool: int, **given: Any) -> tuple[str, ...]:
    """Notes on the arguments whose rows are matched by position because only one side has ids."""
    notes = []
    for name, value in given.items():
        if value is None:
            continue
        value, own = split_ids(name, value)
        if (own.ids is None) == (pool.ids is None) or common_ids(own, pool) is not None:
            continue
        if name in ("labeled", "candidates"):  # A mask; row numbers, ids and features are not matched by position.
            array = None if holds_ids(value) else as_matrix(name, value)
            if array is None or len(array.shape) != 1 or as_mask(name, np.asarray(array[:]), n_pool).dtype.kind != "b":
                continue
        if own.ids is None:
            sides = f"{pool.owner or 'pool'} has ids and {own.owner or name}"
        else:
            sides = f"{own.owner or name} has ids and {pool.owner or 'the pool'}"
        notes.append(f"{sides} none: rows are matched by their order.")
    return tuple(notes)


def holds_ids(value: Any) -> bool:
    """Whether a list or an array holds ids: text, dates, or a pandas index."""
    if _is_index(value):
        return True
    if isinstance(value, list | tuple):
        return any(isinstance(item, str) for item in value)
    if not isinstance(value, np.ndarray):
        # A column of numbers or of lists holds no ids.
        kind = str(getattr(value, "dtype", getattr(value, "type", ""))).lower()
        if not any(word in kind for word in ("str", "utf8", "object", "categor", "dictionary", "enum", "date")):
            return False
    array = _as_id_array(value)
    is_text = array.dtype.kind == "O" and any(isinstance(item, str) for item in array.tolist())
    return array.ndim == 1 and (array.dtype.kind in "USM" or is_text)


def _is_index(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and not hasattr(value, "iloc")


def _as_id_array(value: Any) -> AnyArray:
    return np.array(value.to_pylist()) if hasattr(value, "to_pylist") else np.asarray(value)


def _rows_by_id(name: str, value: Any, pool_ids: RowIds) -> IntArray:
    values = _as_id_array(value)
    pool = pool_ids.ids
    if pool is None and _is_index(value) and values.dtype.kind in "iu":
        pool = pool_ids.index
    if pool is None:
        shown = Ids(name, values).shown(range(len(values)))
        hint = f"pass {keyword('ids')}{in_python(' or a frame with an id column or such an index')}."
        raise InvalidArgument(f"holds ids ({shown}), and the pool has none", argument=name, hint=hint)
    return rows_of(Ids(name, values, argument=name), pool)
