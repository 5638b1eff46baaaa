"""Triton kernels over pairs of points: bounds by the nearest reference, and the pairs that are near enough to matter.

Each kernel is called by a function that takes tensors. Kernels are not compiled again for numbers that differ between
calls, nor for the alignment of the references. Products run on tensor cores and only rule pairs out; decisions are made
with the distances of `dubito.engines.cuda.programs.exact`.
"""

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from dubito.engines.cuda.points import PreparedPoints, Slot, Tensor
from dubito.engines.cuda.sketch import Sketches
from dubito.matrix import blocks

ROWS = 128
REFERENCES = 128
WIDTH_BYTES = 128
"""Bytes of features per row that are multiplied at a time."""
FIRST_CAPACITY = 1 << 19
PIECE = 1024
"""The length of arrays of pairs is a multiple of this: a kernel would be compiled again for an unaligned address."""
FULL_GRID = 1056
"""Number of programs that uses a large GPU fully: eight per multiprocessor."""
WIDE_REFERENCES, WIDE_WARPS, WIDE_BYTES = 256, 8, 160_000
"""Size of blocks of references for bounds, and warps, on GPUs with so many bytes of shared memory per block."""

# Triton kernels can read global integers only as constexpr.
LOOSE, SLACK, FLOOR = tl.constexpr(int(Slot.LOOSE)), tl.constexpr(int(Slot.SLACK)), tl.constexpr(int(Slot.FLOOR))
TO_FEATURES, TO_PRODUCTS = tl.constexpr(int(Slot.TO_FEATURES)), tl.constexpr(int(Slot.TO_PRODUCTS))
SMALLEST = tl.constexpr(int(Slot.SMALLEST))
NO_REFERENCE = tl.constexpr(2**31 - 1)
"""Larger than every number of references: ``seen`` of a row outside the block."""


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
    x, y, x_lengths, y_lengths, x_rows, numbers, starts, weights, bound, constants, n_rows, n_columns, d: tl.constexpr,
    GATHERED: tl.constexpr, NUMBERED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_row = rows < n_rows
    number = rows.to(tl.int64)
    x_row = number
    if GATHERED:
        x_row = tl.load(x_rows + rows, mask=is_row, other=NO_REFERENCE)
    start = tl.program_id(1) * COLUMNS
    if NUMBERED:
        number = tl.load(numbers + rows, mask=is_row, other=0)
        start += tl.min(tl.load(starts + number, mask=is_row, other=n_columns)) // COLUMNS * COLUMNS
    n_points = n_rows
    if GATHERED:
        n_points = NO_REFERENCE
    slack = 1.0 + tl.load(constants + LOOSE)
    nearest = tl.full((ROWS,), float("inf"), tl.float32)
    while start < n_columns:
        columns = start + tl.arange(0, COLUMNS)
        products = _products(x, y, x_row, columns, n_points, n_columns, d, WIDTH, PRECISION)
        lengths = tl.load(y_lengths + columns, mask=columns < n_columns, other=float("inf"))
        sizes = (lengths * lengths) * slack.to(tl.float32)
        nearest = tl.minimum(nearest, tl.min(sizes[None, :] - 2.0 * products, axis=1))
        start += tl.num_programs(1) * COLUMNS
    lengths = tl.load(x_lengths + x_row, mask=is_row, other=0.0).to(tl.float64)
    squared = tl.maximum(nearest.to(tl.float64) + lengths * lengths * slack + tl.load(constants + FLOOR), 0.0)
    upper = squared * tl.load(constants + TO_FEATURES) * tl.load(weights + number, mask=is_row, other=0.0)
    tl.atomic_min(bound + number, upper, mask=is_row & (nearest < float("inf")))


def tighten(
    x: PreparedPoints, y: PreparedPoints, bound: Tensor, weights: Tensor, constants: Tensor, rows: Tensor | None = None,
    starts: Tensor | None = None, x_rows: Tensor | None = None,
) -> None:  # fmt: skip
    """Lower upper bounds on squared priorities by the nearest of the references y.

    ``x_rows`` are the rows of x to use, by default all; ``rows`` are their numbers in the bounds and weights, by
    default in the same order; ``starts`` (n,) is the number of references that each may skip. Rows with similar starts
    should be adjacent.
    """
    n_rows = len(x.points) if x_rows is None else len(x_rows)
    n_blocks, columns, n_warps = triton.cdiv(n_rows, ROWS), REFERENCES, _warps(x.points)
    if shared_bytes(x.points.device) >= WIDE_BYTES:
        columns, n_warps = WIDE_REFERENCES, WIDE_WARPS
    n_parts = max(1, min(triton.cdiv(len(y.points), columns), FULL_GRID // n_blocks))
    _tighten[(n_blocks, n_parts)](
        x.points, y.points, x.lengths, y.lengths, bound if x_rows is None else x_rows, bound if rows is None else rows,
        bound if starts is None else starts, weights, bound, constants, n_rows, len(y.points), x.points.shape[1],
        x_rows is not None, rows is not None, ROWS, columns, _width(x.points), "tf32", num_warps=n_warps,
    )  # fmt: skip


@cache
def shared_bytes(device: torch.device) -> int:
    """The maximum shared memory of a block in bytes; 0 on a CPU, or if this version of torch does not report it."""
    properties = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
    return getattr(properties, "shared_memory_per_block_optin", 0)


@triton.jit
def _lower_size(lengths, constants):
    lengths = lengths.to(tl.float64)
    return (lengths * lengths * (1.0 - tl.load(constants + SLACK)) - tl.load(constants + FLOOR)).to(tl.float32)


@triton.jit
def _limit(priority, weight, constants, WEIGHTED: tl.constexpr):
    """A pair matters if its lower bound, or with WEIGHTED the bound times the weight of the pick, is at most this."""
    if WEIGHTED:
        limit = priority * tl.load(constants + TO_PRODUCTS) + tl.load(constants + SMALLEST)
    else:
        limit = (priority + tl.load(constants + SMALLEST)) / weight * tl.load(constants + TO_PRODUCTS)
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
    priority = tl.load(priorities + number, mask=is_row, other=0.0)
    weight = tl.load(weights + number, mask=is_row, other=1.0)
    limit = _limit(priority, weight, constants, WEIGHTED)
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
        other_priority = tl.load(priorities + other, mask=is_column, other=0.0)
        other_weight = tl.load(weights + other, mask=is_column, other=1.0)
        is_near = is_near | (own <= _limit(other_priority, other_weight, constants, WEIGHTED)[None, :])
        is_near = is_near & (rows[:, None] < columns[None, :])
    is_near = is_near & is_row[:, None] & is_column[None, :]
    if tl.sum(is_near.to(tl.int32)) > 0:
        zeros = tl.zeros((ROWS, COLUMNS), tl.int32)
        positions = tl.atomic_add(count + zeros, zeros + 1, mask=is_near)
        is_kept = is_near & (positions < capacity)
        tl.store(out_rows + positions, rows[:, None] + zeros, mask=is_kept)
        tl.store(out_columns + positions, columns[None, :] + zeros, mask=is_kept)


class TooManyPairs(Exception):
    """There are too many pairs, or they do not fit into memory; ``n_pairs`` is a lower bound on their number."""

    def __init__(self, n_pairs: int) -> None:
        super().__init__(n_pairs)
        self.n_pairs = n_pairs


def near_pairs(
    x: PreparedPoints, y: PreparedPoints, rows: Tensor, priorities: Tensor, weights: Tensor, constants: Tensor,
    precision: str, y_weights: Tensor | None = None, seen: Tensor | None = None, offset: int = 0,
    most: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Pairs (of x, of y), in any order, that are so near that y may lower the squared priority of x.

    ``rows`` are the numbers of the points x in the priorities and weights (n,). Distances are scaled by the weight of
    x, or by that of y if ``y_weights`` are given. If x is y, each pair is returned once, if either may lower the other;
    otherwise each x skips its first ``seen`` (n,) references, where y starts at reference ``offset``. Raises
    TooManyPairs if there are more than ``most``.
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
            is_symmetric, is_weighted, ROWS, REFERENCES, _width(x.points), precision, num_warps=_warps(x.points),
        )  # fmt: skip
        n_found = int(count)
        if n_found <= capacity:
            return lefts[:n_found], rights[:n_found]
        if most is not None and n_found > most:
            raise TooManyPairs(n_found)
        capacity = triton.cdiv(n_found, PIECE) * PIECE


def _width(x: Tensor) -> int:
    return int(WIDTH_BYTES // x.element_size())


def _warps(x: Tensor) -> int:
    """Measured: 16-bit products are fastest with four warps, others with eight."""
    return 4 if x.element_size() == 2 else 8


# Coverage: all pairs of points within a limit, and upper bounds on the cover that each point adds. Blocks of rows and
# columns are processed in groups, so that both stay in the cache.

WITHIN_ROWS = 128
WITHIN_COLUMNS = 128
TILE_WARPS, WITHIN_WARPS = 4, 8
STRIP = 16
"""Number of blocks of columns whose sketches one program compares."""
MOST_TILES = 1 << 25
"""Number of blocks that are searched at a time."""
BEYOND = tl.constexpr(1e38)
"""The squared length of a row outside the block: larger than every limit."""
GROUP = 16
"""Number of blocks of rows that are compared with a block of columns in succession."""
MAX_INVERSE = 2.0**100
SUM_MARGIN = tl.constexpr(1.0 + 2.0**-12)
"""Covers the rounding of a kernel and of a sum over a block in float32."""
NEAR_MARGIN = tl.constexpr(1.0 + 2.0**-21)
"""Covers the rounding of a distance relative to the reach."""


@triton.jit
def _block_of(n_rows, n_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUP: tl.constexpr):
    """The block of rows and the block of columns of a program."""
    n_down, n_across = tl.cdiv(n_rows, ROWS), tl.cdiv(n_columns, COLUMNS)
    first = tl.program_id(0) // (GROUP * n_across) * GROUP
    size = tl.minimum(n_down - first, GROUP)
    rest = tl.program_id(0) % (GROUP * n_across)
    return first + rest % size, rest // size


@triton.jit
def _sizes(lengths, rows, n_rows, constants):
    """Squared lengths minus the error bound of products."""
    length = tl.load(lengths + rows, mask=rows < n_rows, other=0.0).to(tl.float64)
    return (length * length * (1.0 - tl.load(constants + LOOSE)) - tl.load(constants + FLOOR)).to(tl.float32)


@triton.jit(do_not_specialize=["first", "capacity", "n_rows", "n_columns"])
def _near_tiles(
    x, y, x_sizes, y_sizes, x_limits, y_limits, count, out, first, capacity, n_rows, n_columns,
    SYMMETRIC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STRIP: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    down, features = first + tl.program_id(0), tl.arange(0, WIDTH)
    rows = down * ROWS + tl.arange(0, ROWS)
    is_row = rows < n_rows
    left = tl.load(x + rows.to(tl.int64)[:, None] * WIDTH + features[None, :], mask=is_row[:, None], other=0.0)
    sizes = tl.load(x_sizes + rows, mask=is_row, other=BEYOND)
    limits = tl.load(x_limits + rows, mask=is_row, other=-1.0)
    n_across, passed = tl.cdiv(n_columns, COLUMNS), 0
    if SYMMETRIC:
        passed = tl.maximum(down * ROWS // COLUMNS - tl.program_id(1) * STRIP, 0)
    for step in range(passed, STRIP):
        across = tl.program_id(1) * STRIP + step
        columns = across * COLUMNS + tl.arange(0, COLUMNS)
        is_column = columns < n_columns
        places = y + columns.to(tl.int64)[None, :] * WIDTH + features[:, None]
        products = tl.dot(left, tl.load(places, mask=is_column[None, :], other=0.0))
        lowest = sizes[:, None] + tl.load(y_sizes + columns, mask=is_column, other=BEYOND)[None, :] - 2.0 * products
        limit = limits[:, None]
        if SYMMETRIC:
            limit = tl.maximum(limit, tl.load(y_limits + columns, mask=is_column, other=-1.0)[None, :])
        if tl.max(tl.max(limit - lowest, axis=1), axis=0) >= 0.0:
            place = tl.atomic_add(count, 1)
            tl.store(out + place, down.to(tl.int64) * n_across + across, mask=place < capacity)


@triton.jit(do_not_specialize=["capacity", "n_rows", "n_columns"])
def _within(
    points, lengths, limits, x_rows, y_rows, tiles, constants, count, out_rows, out_columns, capacity, n_rows,
    n_columns, d: tl.constexpr, SYMMETRIC: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    tile = tl.load(tiles + tl.program_id(0))
    n_across = tl.cdiv(n_columns, COLUMNS)
    down, across = (tile // n_across).to(tl.int32), (tile % n_across).to(tl.int32)
    first = 0
    if SYMMETRIC:
        first = down * ROWS
    if (across + 1) * COLUMNS <= first:
        return
    rows, columns = down * ROWS + tl.arange(0, ROWS), across * COLUMNS + tl.arange(0, COLUMNS)
    is_row, is_column = rows < n_rows, columns < n_columns
    x_row, y_row = tl.load(x_rows + rows, mask=is_row, other=0), tl.load(y_rows + columns, mask=is_column, other=0)
    products = _products(points, points, x_row, y_row, NO_REFERENCE, NO_REFERENCE, d, WIDTH, PRECISION)
    x_sizes, y_sizes = _sizes(lengths, x_row, NO_REFERENCE, constants), _sizes(lengths, y_row, NO_REFERENCE, constants)
    lowest = x_sizes[:, None] + y_sizes[None, :] - 2.0 * products
    is_near = lowest <= tl.load(limits + x_row)[:, None]
    if SYMMETRIC:
        is_near = is_near | (lowest <= tl.load(limits + y_row)[None, :])
        is_near = is_near & (rows[:, None] < columns[None, :])
    is_near = is_near & is_row[:, None] & is_column[None, :]
    if tl.sum(is_near.to(tl.int32)) > 0:
        zeros = tl.zeros((ROWS, COLUMNS), tl.int32)
        positions = tl.atomic_add(count + zeros, zeros.to(tl.int64) + 1, mask=is_near)
        is_kept = is_near & (positions < capacity)
        tl.store(out_rows + positions, x_row[:, None].to(tl.int32) + zeros, mask=is_kept)
        tl.store(out_columns + positions, y_row[None, :].to(tl.int32) + zeros, mask=is_kept)


class FoundPairs(NamedTuple):
    """Pairs up to the capacity, and their total number."""

    lefts: Tensor
    rights: Tensor
    n_found: int


def pairs_within(
    x: PreparedPoints, rows: Tensor, others: Tensor, limits: Tensor, constants: Tensor, capacity: int,
    sketches: Sketches | None = None,
) -> FoundPairs:  # fmt: skip
    """Pairs of ``rows`` and ``others``, of the points x, whose squared distance may be within the limit of the row.

    If ``others`` is ``rows``, each pair is returned once, if it is within the limit of either. Pairs beyond
    ``capacity`` are only counted. Limits (n,) are float32, in the units of prepared points. With ``sketches``, only the
    blocks that `near_tiles` returns are searched; the rows should then be in the order of `Sketches.ordered`.
    """
    device, is_symmetric = limits.device, others is rows
    count = torch.zeros(1, dtype=torch.int64, device=device)
    lefts, rights = torch.empty((2, capacity), dtype=torch.int32, device=device)
    n_down, n_across = triton.cdiv(len(rows), WITHIN_ROWS), triton.cdiv(len(others), WITHIN_COLUMNS)
    for span in blocks(n_down, max(1, MOST_TILES // n_across) if n_across else 1):
        if sketches is None:
            tiles = torch.arange(span.start * n_across, span.stop * n_across, device=device)
        else:
            tiles = near_tiles(sketches, rows, others, limits, span)
        if len(tiles):
            _within[(len(tiles),)](
                x.points, x.lengths, limits, rows, others, tiles, constants, count, lefts, rights, capacity,
                len(rows), len(others), x.points.shape[1], is_symmetric, WITHIN_ROWS, WITHIN_COLUMNS,
                _width(x.points), "tf32", num_warps=WITHIN_WARPS,
            )  # fmt: skip
    n_found = int(count)
    return FoundPairs(lefts[:n_found], rights[:n_found], n_found)


def near_tiles(sketches: Sketches, rows: Tensor, others: Tensor, limits: Tensor, span: slice) -> Tensor:
    """The blocks with pairs that may be within a limit, numbered row by row; ``span`` are rows of blocks to search."""
    is_symmetric, n_across = others is rows, triton.cdiv(len(others), WITHIN_COLUMNS)
    scaled = limits * sketches.unit
    left = sketches.points[rows], sketches.sizes[rows], scaled[rows]
    right = left if is_symmetric else (sketches.points[others], sketches.sizes[others], scaled[others])
    count = torch.zeros(1, dtype=torch.int32, device=limits.device)
    tiles = torch.empty((span.stop - span.start) * n_across, dtype=torch.int64, device=limits.device)
    _near_tiles[(span.stop - span.start, triton.cdiv(n_across, STRIP))](
        left[0], right[0], left[1], right[1], left[2], right[2], count, tiles, span.start, len(tiles), len(rows),
        len(others), is_symmetric, WITHIN_ROWS, WITHIN_COLUMNS, STRIP, left[0].shape[1], num_warps=TILE_WARPS,
    )  # fmt: skip
    return tiles[: int(count)]


@triton.jit(do_not_specialize=["n_rows", "n_columns"])
def _most_covered(
    x, y, x_lengths, y_lengths, weights, cover, reach, constants, out, n_rows, n_columns, d: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    down, across = _block_of(n_rows, n_columns, ROWS, COLUMNS, GROUP)
    rows, columns = down * ROWS + tl.arange(0, ROWS), across * COLUMNS + tl.arange(0, COLUMNS)
    is_row, is_column = rows < n_rows, columns < n_columns
    products = _products(x, y, rows, columns, n_rows, n_columns, d, WIDTH, PRECISION)
    x_sizes, y_sizes = _sizes(x_lengths, rows, n_rows, constants), _sizes(y_lengths, columns, n_columns, constants)
    lowest = x_sizes[:, None] + y_sizes[None, :] - 2.0 * products
    near = tl.minimum(tl.maximum(lowest * -tl.load(reach) + NEAR_MARGIN, 0.0), 1.0)
    current = tl.load(cover + rows, mask=is_row, other=1.0)
    more = tl.maximum(near * near * SUM_MARGIN - current[:, None], 0.0)
    added = tl.sum(more * tl.load(weights + rows, mask=is_row, other=0.0)[:, None], axis=0)
    tl.atomic_add(out + columns, added.to(tl.float64) * SUM_MARGIN, mask=is_column & (added > 0.0))


def most_covered(
    x: PreparedPoints, y: PreparedPoints, weights: Tensor, cover: Tensor, reach: float, constants: Tensor, out: Tensor
) -> None:
    """Add to ``out`` (y,) upper bounds on the cover that each y adds to the rows x.

    ``weights`` (x,) are float32, rounded up, without underflow; ``cover`` (x,) is float32, rounded down. ``reach``
    is the squared reach in the units of prepared points.
    """
    n_rows, n_columns = len(x.points), len(y.points)
    n_programs = triton.cdiv(n_rows, WITHIN_ROWS) * triton.cdiv(n_columns, WITHIN_COLUMNS)
    # The inverse of a tiny reach is limited to float32. A smaller inverse only raises the bounds.
    inverse = torch.full((1,), min(1.0 / reach, MAX_INVERSE), dtype=torch.float32, device=out.device)
    _most_covered[(n_programs,)](
        x.points, y.points, x.lengths, y.lengths, weights, cover, inverse, constants, out, n_rows, n_columns,
        x.points.shape[1], WITHIN_ROWS, WITHIN_COLUMNS, GROUP, _width(x.points), "tf32", num_warps=8,
    )  # fmt: skip
