"""Rows put in the pool's order by their ids.

One side's ids may stand in a column (or an array, or an argument ``ids``), in the index of a frame, or in both. Like is
matched with like: a column with a column, an index with an index, and only then one with the other. An index of mere
row numbers names no rows; where only one side has ids, rows are matched by their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dubito.errors import InvalidData
from dubito.matrix import IntArray
from dubito.names.ids import Ids, are_row_numbers


@dataclass(frozen=True, slots=True, eq=False)
class RowNames:
    """What the rows of an argument or a file are called."""

    column: Ids | None = None
    index: Ids | None = None
    """Of a frame, also where it holds row numbers alone."""

    @property
    def ids(self) -> Ids | None:
        """The ids to go by; None where there is nothing but row numbers."""
        if self.column is not None or self.index is None:
            return self.column
        return None if are_row_numbers(self.index.given) else self.index

    def at(self, rows: IntArray) -> "RowNames":
        """What some of the rows are called; row numbers no longer name any."""
        index = self.index if self.index is None or not are_row_numbers(self.index.given) else None
        return RowNames(
            *(each and Ids(each.owner, each.given[rows], argument=each.argument) for each in (self.column, index))
        )


NO_NAMES = RowNames()


class Pair(NamedTuple):
    """Ids to match with the pool's."""

    theirs: Ids
    pool: Ids


def pair_of(theirs: RowNames, pool: RowNames) -> Pair | None:
    """Ids that both sides have, like with like; None where one has none."""
    if theirs.column is not None and pool.column is not None:
        return Pair(theirs.column, pool.column)
    if theirs.index is not None and pool.index is not None and not are_row_numbers(theirs.index.given):
        are_both = not are_row_numbers(pool.index.given)
        if are_both or (theirs.column is None and _are_shuffled_rows(theirs.index)):
            return Pair(theirs.index, pool.index)
    if theirs.ids is not None and pool.ids is not None:
        return Pair(theirs.ids, pool.ids)
    if theirs.ids is not None and pool.index is not None and not pool.index.places.keys().isdisjoint(theirs.ids.keys):
        return Pair(theirs.ids, pool.index)  # Row numbers that the pool writes down are meant by who names some.
    return None


def matching_ids(theirs: RowNames, pool: RowNames) -> Pair | None:
    """The ids by which rows are matched; None where they are matched by their order.

    Refused is an order that may be meant otherwise: row numbers 0, 1, 2 and so on, shuffled, on one side alone.
    """
    pair = pair_of(theirs, pool)
    if pair is not None:
        return pair
    alone = pool.ids if theirs.ids is None else theirs.ids
    if alone is not None and _are_shuffled_rows(alone) and _is_numbered(theirs, pool, alone):
        other = "the pool has none" if alone is theirs.ids else "what stands beside it has none"
        problem = f"has the row numbers 0 to {len(alone) - 1} in another order for ids, and {other}"
        raise alone.wrong(problem, "give both sides ids, or neither.")
    return None


def order_of(theirs: Ids, pool: Ids) -> IntArray:
    """For each row of the pool, the row that has its id; every id must be there once on both sides."""
    if theirs.keys == pool.keys:
        return np.arange(len(pool))
    _refuse_repeats(theirs)
    _refuse_repeats(pool)
    foreign = [row for row, key in enumerate(theirs.keys) if key not in pool.places]
    missing = [row for row, key in enumerate(pool.keys) if key not in theirs.places]
    if foreign or missing:
        raise _unmatched(theirs, pool, foreign, missing)
    return np.array([theirs.places[key] for key in pool.keys], dtype=np.int64)


def rows_of(theirs: Ids, pool: Ids) -> IntArray:
    """The pool's row for each id, which must be one of the pool's and there once."""
    _refuse_repeats(theirs)
    _refuse_repeats(pool)
    foreign = [row for row, key in enumerate(theirs.keys) if key not in pool.places]
    if foreign:
        raise _unmatched(theirs, pool, foreign, [])
    return np.array([pool.places[key] for key in theirs.keys], dtype=np.int64)


def _are_shuffled_rows(ids: Ids) -> bool:
    """Whether ids are all the row numbers, in another order than that of the rows."""
    numbers = list(map(str, range(len(ids))))
    return ids.keys != numbers and set(ids.keys) == set(numbers)


def _is_numbered(theirs: RowNames, pool: RowNames, alone: Ids) -> bool:
    """Whether the side without ids counts its rows: the pool always does, another only by an index."""
    return alone is theirs.ids or (alone is pool.index and theirs.index is not None)


def _refuse_repeats(ids: Ids) -> None:
    if ids.repeated is None:
        return
    first, second = ids.repeated
    one, other = ids.shown([first]), ids.shown([second])
    what = one if one == other else f"{one} and {other}, which are one id,"
    raise ids.wrong(f"repeats the id {what} (rows {first} and {second})", "each must be there once.")


def _unmatched(theirs: Ids, pool: Ids, foreign: Sequence[int], missing: Sequence[int]) -> InvalidData:
    problems = []
    if foreign:
        what = "an id that is" if len(foreign) == 1 else f"{len(foreign)} ids that are"
        problems.append(f"holds {what} none of the pool's {len(pool)} ({theirs.shown(foreign)})")
    if missing:
        problems.append(f"lacks {len(missing)} of the pool's {len(pool)} ids ({pool.shown(missing)})")
    return theirs.wrong(" and ".join(problems), _mend(theirs, pool, foreign, missing))


def _mend(theirs: Ids, pool: Ids, foreign: Sequence[int], missing: Sequence[int]) -> str:
    strange = [theirs.keys[row] for row in foreign]
    if strange and {key.lstrip("0") for key in strange} <= {key.lstrip("0") for key in pool.keys}:
        return "they differ by leading zeros alone: keep ids as text (dtype=str) where they are read and written."
    if strange and {key.casefold() for key in strange} <= {key.casefold() for key in pool.keys}:
        return "they differ in upper and lower case alone: write them alike."
    if foreign:
        return "drop or correct those rows." if not missing else "pass a row for each row of the pool and no others."
    return "pass a row for each."
