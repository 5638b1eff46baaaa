"""The optional C extension module; without it NumPy computes the same results, more slowly.

`steps` is the module, or None if it was not built or ``DUBITO_COMPILED=0`` disables it; `why_missing` is the reason.
"""

import os
import warnings
from functools import cache
from importlib import import_module
from typing import Protocol, cast

import numpy as np

from dubito.errors import SlowWarning
from dubito.matrix import AnyArray

DONE, OUTSIDE, UNSURE = range(3)
"""Why a run of steps ended: limit reached, a candidate outside the front may come first, or exact priorities are
needed."""

FLOATS = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
"""Types that the module reads without conversion."""

Arrays = tuple[AnyArray, ...]


class CompiledSteps(Protocol):
    """The functions of the module; ``module.c`` lists the arrays in the order in which they are read."""

    def pick_greedily(
        self,
        arrays: Arrays,
        n: int,
        limit: int,
        n_picks: int,
        unit: float,
        by_pick: bool,
        threshold: float,
        threshold_row: int,
        /,
    ) -> tuple[int, int, int]:
        """Pick greedily inside a front. Returns why it ended, the number of picks and of unsure candidates."""
        ...

    def step_beam(
        self,
        arrays: Arrays,
        m: int,
        width: int,
        n_words: int,
        n_leaves: int,
        limit: int,
        threshold: float,
        threshold_row: int,
        /,
    ) -> tuple[int, int, int, int]:
        """Step a beam. Returns why it ended and the number of steps, of configurations and of unsure ones."""
        ...

    def own_intervals(
        self, arrays: Arrays, n: int, m: int, n_leaves: int, n_picks: int, unit: float, by_pick: bool, /
    ) -> None:
        """Intervals of listed candidates after each configuration's own picks."""
        ...

    def bounds_between(self, arrays: Arrays, n: int, m: int, n_picks: int, unit: float, by_pick: bool, /) -> None:
        """Lower and upper bounds (picks, m) on the priorities of listed candidates after each pick."""
        ...

    def first_in_order(
        self, arrays: Arrays, n: int, n_subset: int, size: int, has_subset: bool, n_threads: int, /
    ) -> tuple[int, float, int]:
        """The first candidates by bound. Returns how many, and the value and row of the next one."""
        ...

    def float16_rows(self, arrays: Arrays, n_matrix: int, n: int, d: int, has_rows: bool, /) -> None:
        """Convert rows (n, d) of a finite float16 matrix, or its first n, to float32."""
        ...

    def refresh(
        self,
        arrays: Arrays,
        n: int,
        d: int,
        n_pool: int,
        n_others: int,
        n_labeled: int,
        n_picks: int,
        width: int,
        n_bounded: int,
        n_passed: int,
        pool_itemsize: int,
        labeled_itemsize: int,
        is_cosine: bool,
        in_single: bool,
        has_center: bool,
        has_directions: bool,
        n_threads: int,
        /,
    ) -> tuple[bool, int, int]:
        """Compute exact priorities of candidates given all references.

        Returns False if the sketches rule out too few pairs; and the numbers of pairs compared and not ruled out.
        """
        ...

    def pack_references(
        self,
        arrays: Arrays,
        d: int,
        n_pool: int,
        n_others: int,
        n_labeled: int,
        n_picks: int,
        width: int,
        start: int,
        capacity: int,
        pool_itemsize: int,
        labeled_itemsize: int,
        is_cosine: bool,
        in_single: bool,
        has_center: bool,
        has_directions: bool,
        scale: float,
        slack: float,
        n_threads: int,
        /,
    ) -> None:
        """Sketch the references from ``start`` on, and pack them as operands of products."""
        ...

    def top_k(self, arrays: Arrays, n: int, k: int, m: int, stride: int, n_best: int, n_threads: int, /) -> None:
        """The nearest of m columns for each row, by products less the column's offset."""
        ...

    def anchor_bounds(
        self,
        arrays: Arrays,
        n: int,
        d: int,
        n_pool: int,
        block: int,
        itemsize: int,
        is_cosine: bool,
        in_single: bool,
        has_center: bool,
        has_weights: bool,
        scale: float,
        grow: float,
        floor: float,
        unit: float,
        level: float,
        n_threads: int,
        /,
    ) -> None:
        """The nearest of a few references for each candidate, using only float32 dot products."""
        ...

    def bound_rows(self, arrays: Arrays, n: int, m: int, d: int, grow: float, floor: float, unit: float, /) -> None:
        """Upper bounds (n,) on squared distances, from products (n, m) of points (n, d) with references."""
        ...

    def pick_small(
        self,
        arrays: Arrays,
        n: int,
        d: int,
        n_pool: int,
        n_others: int,
        n_labeled: int,
        n_before: int,
        n_picks: int,
        limit: int,
        capacity: int,
        pool_itemsize: int,
        labeled_itemsize: int,
        is_cosine: bool,
        in_single: bool,
        has_center: bool,
        is_bounded: bool,
        /,
    ) -> None:
        """Pick greedily in a small problem, continuing after the picks so far."""
        ...

    def cell_bounds(
        self,
        arrays: Arrays,
        n: int,
        d: int,
        n_pool: int,
        n_others: int,
        n_labeled: int,
        n_picks: int,
        n_members: int,
        n_cells: int,
        n_pieces: int,
        pool_itemsize: int,
        labeled_itemsize: int,
        is_cosine: bool,
        in_single: bool,
        has_center: bool,
        scale: float,
        grow: float,
        floor: float,
        unit: float,
        n_threads: int,
        /,
    ) -> None:
        """Lower the bounds of candidates by all references of their cells, using only float32 dot products."""
        ...

    def multiply_rows(self, arrays: Arrays, n: int, k: int, n_panels: int, n_threads: int, /) -> None:
        """Product of rows (n, k) and panels (panels, k, 64)."""
        ...

    def pairwise_sq_distances(
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
        """Pairwise squared distances (n, n) of rows of the pool, in float64."""
        ...

    # The numbers that the following functions take are fields of the structures in ``coverage.h``; their order is that
    # in ``module.c``.

    def find_nearest(self, arrays: Arrays, /, *numbers: float) -> None:
        """Lower squared distances of points to the exact ones to the nearest of other points."""
        ...

    def encode_points(self, arrays: Arrays, /, *numbers: float) -> None:
        """Encode points (n, k)."""
        ...

    def read_points(self, arrays: Arrays, /, *numbers: float) -> None:
        """Read heads, lengths and codes of rows of a matrix."""
        ...

    def take_rows(self, arrays: Arrays, n_from: int, n: int, row_bytes: int, n_threads: int, /) -> None:
        """Copy rows of a matrix of bytes in another order."""
        ...

    def search_pairs(self, arrays: Arrays, /, *numbers: float) -> tuple[bool, int]:
        """Find the pairs of rows and candidates within the rows' limits; with ``fills_edges``, only compute ``edges``.

        Returns whether there were too many pairs, and the number of entries used so far.
        """
        ...

    def group_pairs(self, arrays: Arrays, /, *numbers: int) -> None:
        """Sort pairs by candidate."""
        ...

    def pick_covering(self, arrays: Arrays, /, *numbers: int) -> int:
        """Pick greedily by coverage. Returns why it ended; see `dubito.engines.cpu.coverage.gains`."""
        ...

    def update_gains(self, arrays: Arrays, /, *numbers: int) -> None:
        """Update the bounds on gains of coverage; with ``is_exact``, make them exact."""
        ...

    def magnitude(self, arrays: Arrays, n: int, itemsize: int, n_threads: int, /) -> float:
        """The largest magnitude of n floats; NaN if one of them is NaN."""
        ...


def can_read(array: AnyArray) -> bool:
    """Whether the module can read the array in memory, or in a memory map, without a copy."""
    is_plain = array.dtype in FLOATS and array.dtype.isnative
    return is_plain and array.flags.c_contiguous and array.flags.aligned


def _load() -> tuple[CompiledSteps | None, str]:
    if os.environ.get("DUBITO_COMPILED", "1") == "0":
        return None, DISABLED
    try:
        return cast(CompiledSteps, import_module("dubito.native._steps")), ""
    except ModuleNotFoundError:
        return None, "dubito was installed from source without a C compiler that can build it"
    except ImportError as error:
        return None, f"it cannot be loaded ({error})"


DISABLED = "DUBITO_COMPILED=0 disables it"
steps, why_missing = _load()


@cache
def warn_if_missing() -> None:
    """Warn once per process that selections are slow because there is no C extension, unless the user disabled it."""
    if steps is None and why_missing != DISABLED:
        warnings.warn(
            f"dubito runs without its C extension, so selections of large pools are slow: {why_missing}. "
            "Install a wheel (pip install --only-binary dubito dubito), or reinstall dubito from source where a C "
            "compiler is available.",
            SlowWarning,
            stacklevel=2,
        )
