"""Steps in C, where Python's own share of the time counts: an optional module, and NumPy does the same without it.

`steps` is the module, or None: where no compiler was there to build it, or ``DUBITO_COMPILED=0`` says not to use it.
"""

import os
from importlib import import_module
from typing import Protocol, cast

import numpy as np

from dubito.matrix import AnyArray

DONE, OUTSIDE, UNSURE = range(3)
"""Why a run of steps ended: the limit was met, something outside may come first, or intervals do not tell."""

FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
"""What can be read as it lies."""

Arrays = tuple[AnyArray, ...]


class CompiledSteps(Protocol):
    """The module's functions; ``steps.h`` says which arrays they take, and in which order."""

    def pick(
        self, arrays: Arrays, n: int, limit: int, n_picks: int, unit: float, by_pick: bool, bar: float, bar_row: int, /
    ) -> tuple[int, int, int]:
        """Greedy picks inside a front: why they ended, how many there are, and how many candidates are unsure."""
        ...

    def step(
        self,
        arrays: Arrays,
        m: int,
        width: int,
        n_words: int,
        n_leaves: int,
        limit: int,
        bar: float,
        bar_row: int,
        /,
    ) -> tuple[int, int, int, int]:
        """CompiledSteps of a beam: why they ended, how many, how many configurations there are, and are unsure."""
        ...

    def intervals(
        self, arrays: Arrays, n: int, m: int, n_leaves: int, n_picks: int, unit: float, by_pick: bool, /
    ) -> None:
        """Intervals that configurations' own picks leave to listed candidates."""
        ...

    def between(self, arrays: Arrays, n: int, m: int, n_picks: int, unit: float, by_pick: bool, /) -> None:
        """Lower and upper bounds (picks, m) on what picks leave to listed candidates."""
        ...

    def first(
        self, arrays: Arrays, n: int, n_among: int, size: int, is_part: bool, n_threads: int, /
    ) -> tuple[int, float, int]:
        """The first candidates in order: how many, and what comes next."""
        ...

    def widen(self, arrays: Arrays, n_matrix: int, n: int, d: int, has_rows: bool, /) -> None:
        """Rows (n, d) of a matrix of finite halves, or its first n, as float32."""
        ...

    def refresh(
        self,
        arrays: Arrays,
        n: int,
        d: int,
        n_pool: int,
        n_others: int,
        n_labelled: int,
        n_picks: int,
        width: int,
        n_bounded: int,
        n_passed: int,
        pool_itemsize: int,
        labelled_itemsize: int,
        is_cosine: bool,
        in_single: bool,
        has_centre: bool,
        has_directions: bool,
        n_threads: int,
        /,
    ) -> tuple[bool, int, int]:
        """Candidates brought up to date against all references.

        False where their sketches are of no use; pairs looked at, and those passed on.
        """
        ...

    def take_in(
        self,
        arrays: Arrays,
        d: int,
        n_pool: int,
        n_others: int,
        n_labelled: int,
        n_picks: int,
        width: int,
        start: int,
        room: int,
        pool_itemsize: int,
        labelled_itemsize: int,
        is_cosine: bool,
        in_single: bool,
        has_centre: bool,
        has_directions: bool,
        scale: float,
        slack: float,
        n_threads: int,
        /,
    ) -> None:
        """References from ``start`` on sketched, and packed as products read them."""
        ...

    def closest(self, arrays: Arrays, n: int, k: int, m: int, stride: int, n_best: int, n_threads: int, /) -> None:
        """Each row's nearest of m columns, by products less what is taken off for each column."""
        ...

    def nearest(
        self,
        arrays: Arrays,
        n: int,
        d: int,
        n_pool: int,
        block: int,
        itemsize: int,
        is_cosine: bool,
        in_single: bool,
        has_centre: bool,
        has_weights: bool,
        scale: float,
        grow: float,
        floor: float,
        unit: float,
        level: float,
        n_threads: int,
        /,
    ) -> None:
        """Each candidate's nearest of a few references, by products alone."""
        ...

    def bound(self, arrays: Arrays, n: int, m: int, d: int, grow: float, floor: float, unit: float, /) -> None:
        """Upper bounds (n,) on squared distances, from products (n, m) of points (n, d) with references."""
        ...

    def small(
        self,
        arrays: Arrays,
        n: int,
        d: int,
        n_pool: int,
        n_others: int,
        n_labelled: int,
        n_before: int,
        n_picks: int,
        limit: int,
        room: int,
        pool_itemsize: int,
        labelled_itemsize: int,
        is_cosine: bool,
        in_single: bool,
        has_centre: bool,
        is_bounded: bool,
        /,
    ) -> None:
        """Picks of a small problem; it goes on behind those there are."""
        ...

    def closer(
        self,
        arrays: Arrays,
        n: int,
        d: int,
        n_pool: int,
        n_others: int,
        n_labelled: int,
        n_picks: int,
        n_members: int,
        n_cells: int,
        n_pieces: int,
        pool_itemsize: int,
        labelled_itemsize: int,
        is_cosine: bool,
        in_single: bool,
        has_centre: bool,
        scale: float,
        grow: float,
        floor: float,
        unit: float,
        n_threads: int,
        /,
    ) -> None:
        """Candidates compared with all references of their cells, by products alone."""
        ...

    def multiply(self, arrays: Arrays, n: int, k: int, n_panels: int, n_threads: int, /) -> None:
        """Rows (n, k) by panels (panels, k, 64)."""
        ...

    def among(
        self,
        arrays: Arrays,
        n: int,
        d: int,
        n_pool: int,
        itemsize: int,
        is_cosine: bool,
        scale: float,
        n_threads: int,
        /,
    ) -> None:
        """Squared distances (n, n) among rows of the pool, in float64."""
        ...

    def magnitude(self, arrays: Arrays, n: int, itemsize: int, n_threads: int, /) -> float:
        """The largest magnitude of n numbers of half, single or double precision; a NaN where there is one."""
        ...


def can_read(array: AnyArray) -> bool:
    """Whether the numbers lie in memory, or in a memory map, as C has them."""
    is_plain = array.dtype in FLOATS and array.dtype.isnative
    return is_plain and array.flags.c_contiguous and array.flags.aligned


def _load() -> CompiledSteps | None:
    if os.environ.get("DUBITO_COMPILED", "1") == "0":
        return None
    try:
        return cast(CompiledSteps, import_module("dubito.native._steps"))
    except ImportError:
        return None


steps = _load()
