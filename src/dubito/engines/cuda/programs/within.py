"""Triton programs over all pairs of points: those within a limit, and upper bounds on what each point covers.

Products run on tensor cores and only rule pairs out. A block of rows is compared with some blocks of others before the
next one is, so that both are found in the cache.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from dubito.engines.cuda.points import Shaped, Slot, Tensor
from dubito.engines.cuda.programs.pairs import LOOSE, _products, _width

WITHIN_ROWS = 128
WITHIN_COLUMNS = 128
GROUP = 16
MOST = 2.0**100
"""Blocks of rows that go through the others together."""
FLOOR = tl.constexpr(int(Slot.FLOOR))
SUM_ROOM = tl.constexpr(1.0 + 2.0**-12)
"""More than the rounding of a kernel and of a sum over a block in float32."""
NEAR_ROOM = tl.constexpr(1.0 + 2.0**-21)
"""1, and more than the rounding of a share of the reach."""


@triton.jit
def _place(n_rows, n_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUP: tl.constexpr):
    """Which block of rows and which of columns a program has."""
    n_down, n_across = tl.cdiv(n_rows, ROWS), tl.cdiv(n_columns, COLUMNS)
    first = tl.program_id(0) // (GROUP * n_across) * GROUP
    size = tl.minimum(n_down - first, GROUP)
    rest = tl.program_id(0) % (GROUP * n_across)
    return first + rest % size, rest // size


@triton.jit
def _sizes(lengths, rows, n_rows, constants):
    """Squared lengths, less what products may be off by."""
    found = tl.load(lengths + rows, mask=rows < n_rows, other=0.0).to(tl.float64)
    return (found * found * (1.0 - tl.load(constants + LOOSE)) - tl.load(constants + FLOOR)).to(tl.float32)


@triton.jit(do_not_specialize=["capacity", "n_rows", "n_columns"])
def _within(
    x, y, x_lengths, y_lengths, x_limits, y_limits, constants, count, out_rows, out_columns, capacity, n_rows,
    n_columns, d: tl.constexpr, SYMMETRIC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    GROUP: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    down, across = _place(n_rows, n_columns, ROWS, COLUMNS, GROUP)
    first = 0
    if SYMMETRIC:
        first = down * ROWS
    if (across + 1) * COLUMNS <= first:
        return
    rows, columns = down * ROWS + tl.arange(0, ROWS), across * COLUMNS + tl.arange(0, COLUMNS)
    is_row, is_column = rows < n_rows, columns < n_columns
    products = _products(x, y, rows, columns, n_rows, n_columns, d, WIDTH, PRECISION)
    x_sizes, y_sizes = _sizes(x_lengths, rows, n_rows, constants), _sizes(y_lengths, columns, n_columns, constants)
    lowest = x_sizes[:, None] + y_sizes[None, :] - 2.0 * products
    is_near = lowest <= tl.load(x_limits + rows, mask=is_row, other=-1.0)[:, None]
    if SYMMETRIC:
        is_near = is_near | (lowest <= tl.load(y_limits + columns, mask=is_column, other=-1.0)[None, :])
        is_near = is_near & (rows[:, None] < columns[None, :])
    is_near = is_near & is_row[:, None] & is_column[None, :]
    if tl.sum(is_near.to(tl.int32)) > 0:
        nowhere = tl.zeros((ROWS, COLUMNS), tl.int32)
        places = tl.atomic_add(count + nowhere, nowhere.to(tl.int64) + 1, mask=is_near)
        is_kept = is_near & (places < capacity)
        tl.store(out_rows + places, rows[:, None] + nowhere, mask=is_kept)
        tl.store(out_columns + places, columns[None, :] + nowhere, mask=is_kept)


class Within(NamedTuple):
    """Pairs, those that there was room for, and how many there are."""

    lefts: Tensor
    rights: Tensor
    n_found: int


def pairs_within(x: Shaped, y: Shaped, x_limits: Tensor, y_limits: Tensor, constants: Tensor, capacity: int) -> Within:
    """Pairs of an x and a y whose squared distance may be no more than the x's limit.

    Where x is y, each pair is found once, if it is within either one's limit. More than ``capacity`` are counted, not
    kept. Limits are float32, as products see distances.
    """
    count = torch.zeros(1, dtype=torch.int64, device=x_limits.device)
    lefts, rights = torch.empty((2, capacity), dtype=torch.int32, device=x_limits.device)
    n_rows, n_columns = len(x.points), len(y.points)
    n_programs = triton.cdiv(n_rows, WITHIN_ROWS) * triton.cdiv(n_columns, WITHIN_COLUMNS)
    _within[(n_programs,)](
        x.points, y.points, x.lengths, y.lengths, x_limits, y_limits, constants, count, lefts, rights, capacity,
        n_rows, n_columns, x.points.shape[1], x is y, WITHIN_ROWS, WITHIN_COLUMNS, GROUP, _width(x.points), "tf32",
        num_warps=8,
    )  # fmt: skip
    found = int(count)
    return Within(lefts[:found], rights[:found], found)


@triton.jit(do_not_specialize=["n_rows", "n_columns"])
def _most_covered(
    x, y, x_lengths, y_lengths, weights, cover, reach, constants, out, n_rows, n_columns, d: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    down, across = _place(n_rows, n_columns, ROWS, COLUMNS, GROUP)
    rows, columns = down * ROWS + tl.arange(0, ROWS), across * COLUMNS + tl.arange(0, COLUMNS)
    is_row, is_column = rows < n_rows, columns < n_columns
    products = _products(x, y, rows, columns, n_rows, n_columns, d, WIDTH, PRECISION)
    x_sizes, y_sizes = _sizes(x_lengths, rows, n_rows, constants), _sizes(y_lengths, columns, n_columns, constants)
    lowest = x_sizes[:, None] + y_sizes[None, :] - 2.0 * products
    near = tl.minimum(tl.maximum(lowest * -tl.load(reach) + NEAR_ROOM, 0.0), 1.0)
    there = tl.load(cover + rows, mask=is_row, other=1.0)
    more = tl.maximum(near * near * SUM_ROOM - there[:, None], 0.0)
    added = tl.sum(more * tl.load(weights + rows, mask=is_row, other=0.0)[:, None], axis=0)
    tl.atomic_add(out + columns, added.to(tl.float64) * SUM_ROOM, mask=is_column & (added > 0.0))


def most_covered(
    x: Shaped, y: Shaped, weights: Tensor, cover: Tensor, reach: float, constants: Tensor, out: Tensor
) -> None:
    """Add to ``out`` (y,) upper bounds on what each y covers of the rows x beyond the cover that they have.

    ``weights`` (x,), float32 and rounded up, must not underflow there; ``cover`` (x,) is float32, rounded down.
    ``reach`` is R² as products see it.
    """
    n_rows, n_columns = len(x.points), len(y.points)
    n_programs = triton.cdiv(n_rows, WITHIN_ROWS) * triton.cdiv(n_columns, WITHIN_COLUMNS)
    # Of a reach next to nothing a smaller inverse, which float32 holds: nothing is bounded too low by it.
    inverse = torch.full((1,), min(1.0 / reach, MOST), dtype=torch.float32, device=out.device)
    _most_covered[(n_programs,)](
        x.points, y.points, x.lengths, y.lengths, weights, cover, inverse, constants, out, n_rows, n_columns,
        x.points.shape[1], WITHIN_ROWS, WITHIN_COLUMNS, GROUP, _width(x.points), "tf32", num_warps=8,
    )  # fmt: skip
