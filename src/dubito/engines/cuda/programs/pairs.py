"""Triton programs over pairs of points: what the nearest reference leaves, and the pairs near enough to matter.

Each has a plain function around it that takes tensors. Numbers that differ from call to call are not compiled into a
program, nor where the lengths of some references begin. Products run on tensor cores and only rule pairs out; what
decides is `dubito.engines.cuda.programs.settling`.
"""

import torch
import triton
import triton.language as tl

from dubito.engines.cuda.points import Shaped, Slot, Tensor

ROWS = 128
REFERENCES = 128
WIDTH_BYTES = 128
"""Of features multiplied at a time."""
FIRST_CAPACITY = 1 << 19
PIECE = 1024
"""Room for pairs comes in whole pieces: a kernel is compiled anew for an address that is not aligned."""
FULL_GRID = 264
"""Programs that keep a large GPU busy: two on each multiprocessor."""

# Triton lets programs see whole numbers of this kind alone.
LOOSE, SLACK, FLOOR = tl.constexpr(int(Slot.LOOSE)), tl.constexpr(int(Slot.SLACK)), tl.constexpr(int(Slot.FLOOR))
TO_FEATURES, TO_PRODUCTS = tl.constexpr(int(Slot.TO_FEATURES)), tl.constexpr(int(Slot.TO_PRODUCTS))
SMALLEST = tl.constexpr(int(Slot.SMALLEST))
NO_REFERENCE = tl.constexpr(2**31 - 1)
"""Beyond every count of references: what a row that is not there has seen."""


@triton.jit
def _products(x, y, rows, columns, n_rows, n_columns, d: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr):
    """Products (rows, columns) of two blocks of points."""
    ROWS: tl.constexpr = rows.shape[0]
    COLUMNS: tl.constexpr = columns.shape[0]
    products = tl.zeros((ROWS, COLUMNS), tl.float32)
    is_row, is_column = rows < n_rows, columns < n_columns
    x_rows = x + rows.to(tl.int64)[:, None] * d
    y_rows = y + columns.to(tl.int64)[None, :] * d
    for start in range(0, d, WIDTH):
        features = start + tl.arange(0, WIDTH)
        is_feature = features < d
        left = tl.load(x_rows + features[None, :], mask=is_row[:, None] & is_feature[None, :], other=0.0)
        right = tl.load(y_rows + features[:, None], mask=is_column[None, :] & is_feature[:, None], other=0.0)
        products = tl.dot(left, right, products, input_precision=PRECISION)
    return products


@triton.jit(do_not_specialize=["n_rows", "n_columns"], do_not_specialize_on_alignment=["y_lengths"])
def _tighten(
    x, y, x_lengths, y_lengths, numbers, starts, weights, bound, constants, n_rows, n_columns, d: tl.constexpr,
    NUMBERED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_row = rows < n_rows
    number = rows.to(tl.int64)
    start = tl.program_id(1) * COLUMNS
    if NUMBERED:
        number = tl.load(numbers + rows, mask=is_row, other=0)
        start += tl.min(tl.load(starts + number, mask=is_row, other=n_columns)) // COLUMNS * COLUMNS
    slack = 1.0 + tl.load(constants + LOOSE)
    nearest = tl.full((ROWS,), float("inf"), tl.float32)
    while start < n_columns:
        columns = start + tl.arange(0, COLUMNS)
        products = _products(x, y, rows, columns, n_rows, n_columns, d, WIDTH, PRECISION)
        lengths = tl.load(y_lengths + columns, mask=columns < n_columns, other=float("inf"))
        sizes = (lengths * lengths) * slack.to(tl.float32)
        nearest = tl.minimum(nearest, tl.min(sizes[None, :] - 2.0 * products, axis=1))
        start += tl.num_programs(1) * COLUMNS
    lengths = tl.load(x_lengths + rows, mask=is_row, other=0.0).to(tl.float64)
    squared = tl.maximum(nearest.to(tl.float64) + lengths * lengths * slack + tl.load(constants + FLOOR), 0.0)
    upper = squared * tl.load(constants + TO_FEATURES) * tl.load(weights + number, mask=is_row, other=0.0)
    tl.atomic_min(bound + number, upper, mask=is_row & (nearest < float("inf")))


def tighten(
    x: Shaped, y: Shaped, bound: Tensor, weights: Tensor, constants: Tensor, rows: Tensor | None = None,
    starts: Tensor | None = None,
) -> None:  # fmt: skip
    """Lower upper bounds on squared priorities to what the nearest of some references leaves.

    ``rows`` says which bounds the points x belong to, and ``starts`` (n,) how many references each of them may pass
    over; by default bounds, weights and points go together. Rows that start alike should stand together.
    """
    n_blocks = triton.cdiv(len(x.points), ROWS)
    n_parts = max(1, min(triton.cdiv(len(y.points), REFERENCES), FULL_GRID // n_blocks))
    is_numbered = rows is not None
    _tighten[(n_blocks, n_parts)](
        x.points, y.points, x.lengths, y.lengths, rows if is_numbered else bound, starts if is_numbered else bound,
        weights, bound, constants, len(x.points), len(y.points), x.points.shape[1],
        is_numbered, ROWS, REFERENCES, _width(x.points), "tf32", num_warps=8,
    )  # fmt: skip


@triton.jit
def _lower_size(lengths, constants):
    lengths = lengths.to(tl.float64)
    return (lengths * lengths * (1.0 - tl.load(constants + SLACK)) - tl.load(constants + FLOOR)).to(tl.float32)


@triton.jit
def _limit(height, weight, constants, WEIGHTED: tl.constexpr):
    """What a lower bound may reach: as such, or times the weight of a pick."""
    if WEIGHTED:
        limit = height * tl.load(constants + TO_PRODUCTS) + tl.load(constants + SMALLEST)
    else:
        limit = (height + tl.load(constants + SMALLEST)) / weight * tl.load(constants + TO_PRODUCTS)
        limit = tl.minimum(limit, 1e37).to(tl.float32)
    return limit


@triton.jit(
    do_not_specialize=["offset", "capacity", "n_rows", "n_columns"], do_not_specialize_on_alignment=["y_lengths"]
)
def _near_pairs(
    x, y, x_lengths, y_lengths, numbers, priorities, weights, y_weights, seen, constants, count, out_rows, out_columns,
    offset, capacity, n_rows, n_columns, d: tl.constexpr, SYMMETRIC: tl.constexpr, WEIGHTED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_row, is_column = rows < n_rows, columns < n_columns
    number = tl.load(numbers + rows, mask=is_row, other=0)
    if SYMMETRIC:
        if (tl.program_id(1) + 1) * COLUMNS <= tl.program_id(0) * ROWS:
            return
    else:
        if tl.min(tl.load(seen + number, mask=is_row, other=NO_REFERENCE)) >= offset + (tl.program_id(1) + 1) * COLUMNS:
            return
    products = _products(x, y, rows, columns, n_rows, n_columns, d, WIDTH, PRECISION)
    row_sizes = _lower_size(tl.load(x_lengths + rows, mask=is_row, other=0.0), constants)
    column_sizes = _lower_size(tl.load(y_lengths + columns, mask=is_column, other=0.0), constants)
    lowest = row_sizes[:, None] + column_sizes[None, :] - 2.0 * products
    height = tl.load(priorities + number, mask=is_row, other=0.0)
    weight = tl.load(weights + number, mask=is_row, other=1.0)
    limit = _limit(height, weight, constants, WEIGHTED)
    if WEIGHTED:
        lowest = tl.maximum(lowest, 0.0).to(tl.float64)
        is_near = lowest * tl.load(y_weights + columns, mask=is_column, other=0.0)[None, :] <= limit[:, None]
    else:
        is_near = lowest <= limit[:, None]
    if SYMMETRIC:
        own = lowest
        if WEIGHTED:
            own = lowest * weight[:, None]
        other = tl.load(numbers + columns, mask=is_column, other=0)
        other_height = tl.load(priorities + other, mask=is_column, other=0.0)
        other_weight = tl.load(weights + other, mask=is_column, other=1.0)
        is_near = is_near | (own <= _limit(other_height, other_weight, constants, WEIGHTED)[None, :])
        is_near = is_near & (rows[:, None] < columns[None, :])
    is_near = is_near & is_row[:, None] & is_column[None, :]
    if tl.sum(is_near.to(tl.int32)) > 0:
        nowhere = tl.zeros((ROWS, COLUMNS), tl.int32)
        places = tl.atomic_add(count + nowhere, nowhere + 1, mask=is_near)
        is_kept = is_near & (places < capacity)
        tl.store(out_rows + places, rows[:, None] + nowhere, mask=is_kept)
        tl.store(out_columns + places, columns[None, :] + nowhere, mask=is_kept)


def near_pairs(
    x: Shaped, y: Shaped, rows: Tensor, priorities: Tensor, weights: Tensor, constants: Tensor, precision: str,
    y_weights: Tensor | None = None, seen: Tensor | None = None, offset: int = 0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Pairs (of x, of y), in any order, near enough that the y may lower the squared priority of the x.

    ``rows`` says which priorities and weights (n,) the points x have. A priority is scaled by its own weight, or by
    that of the y where ``y_weights`` are given. Where x is y, each pair counts once, if it counts either way about;
    otherwise an x may pass over the first ``seen`` (n,) references, of which y starts at ``offset``.
    """
    capacity, is_symmetric, is_weighted = FIRST_CAPACITY, x is y, y_weights is not None
    n_rows, n_columns, d = len(x.points), len(y.points), x.points.shape[1]
    grid = triton.cdiv(n_rows, ROWS), triton.cdiv(n_columns, REFERENCES)
    while True:
        count = torch.zeros(1, dtype=torch.int32, device=rows.device)
        lefts, rights = torch.empty((2, capacity), dtype=torch.int32, device=rows.device)
        _near_pairs[grid](
            x.points, y.points, x.lengths, y.lengths, rows, priorities, weights, y_weights if is_weighted else weights,
            rows if is_symmetric else seen, constants, count, lefts, rights, offset, capacity, n_rows, n_columns, d,
            is_symmetric, is_weighted, ROWS, REFERENCES, _width(x.points), precision, num_warps=8,
        )  # fmt: skip
        found = int(count)
        if found <= capacity:
            return lefts[:found], rights[:found]
        capacity = triton.cdiv(found, PIECE) * PIECE


def _width(x: Tensor) -> int:
    return int(WIDTH_BYTES // x.element_size())
