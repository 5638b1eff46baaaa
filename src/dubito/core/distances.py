"""The distance, in the one float64 form that decides, and the core-set radii (Algorithm 3).

Δ² is the sum of squared differences, the squares added over the features in one fixed order by plain additions:
the upper half of the features onto the lower half, again and again. No library reduction and no fused
multiply-add is involved, so the result has the same bits for every memory layout, block size and device. Integer
features have no rounding at all.
"""

import numpy as np

from dubito.core.problem import Metric
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, blocks, len_of, rows_per_read

UNIT64 = 2.0**-53
"""Largest relative rounding error of float64."""
QUANTUM = 2.0**-1074
"""The smallest number of float64: what is smaller is off by half of it."""
SUM_ROWS = 1024
"""Rows added in one tree by `column_sums`; a constant, because the order of additions is part of the result."""


def read_rows(matrix: Matrix, rows: slice | IntArray, metric: Metric = "euclidean") -> FloatArray:
    """Rows in float64; unit vectors where the metric is cosine. Never the caller's own memory."""
    block = np.array(matrix[rows], dtype=np.float64, order="C")
    return unit_rows(block) if metric == "cosine" else block


def unit_rows(block: FloatArray) -> FloatArray:
    """Each row over its length.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0]])).tolist()
    [[0.6, 0.8]]
    """
    # A power of two first, so that squares neither overflow nor vanish; it does not change the quotient's bits.
    _, exponents = np.frexp(np.abs(block).max(axis=1, keepdims=True))
    block = np.ldexp(block, -exponents)
    return block / np.sqrt(add_columns(block * block))[:, None]


def add_columns(terms: FloatArray) -> FloatArray:
    """Row sums in the fixed order; ``terms`` is used up."""
    width = terms.shape[1]
    while width > 1:
        half = (width + 1) // 2
        terms[:, : width - half] += terms[:, half:width]
        width = half
    return terms[:, 0].copy() if terms.shape[1] else np.zeros(len(terms))


def settle(points: FloatArray, others: FloatArray) -> FloatArray:
    """Δ² of paired rows, (k, d) against (k, d) or (d,): the function that decides every near-tie.

    Examples
    --------
    >>> settle(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0.0, 0.0])).tolist()
    [0.0, 25.0]
    """
    differences = points - others
    differences *= differences
    return add_columns(differences)


def column_sums(matrix: Matrix, metric: Metric = "euclidean") -> FloatArray:
    """Sum of each feature over all rows, in a fixed order."""
    total = np.zeros(matrix.shape[1])
    for span in blocks(len_of(matrix), SUM_ROWS):
        total += add_columns(np.ascontiguousarray(read_rows(matrix, span, metric).T))
    return total


def distance_from_mean(matrix: Matrix, rows: IntArray, metric: Metric = "euclidean") -> FloatArray:
    """Σ(n·x - Σx)² of each named row: its squared distance from the matrix's mean times n², exact on integers."""
    n_rows, total = len_of(matrix), column_sums(matrix, metric)
    parts = [
        settle(n_rows * read_rows(matrix, rows[span], metric), total)
        for span in blocks(len(rows), rows_per_read(matrix))
    ]
    return np.concatenate(parts)


def squared_radii(
    points: Matrix, references: Matrix, metric: Metric = "euclidean", batch_size: int = 1024
) -> FloatArray:
    """Squared distance of each point to its nearest reference, infinite where there is none.

    Matrix products find which references can be nearest, `settle` decides among them.
    """
    nearest = np.full(len_of(points), np.inf)
    for rows in blocks(len_of(points), batch_size):
        block = read_rows(points, rows, metric)
        for others in blocks(len_of(references), batch_size):
            _lower(nearest[rows], block, read_rows(references, others, metric))
    return nearest


def _lower(nearest: FloatArray, block: FloatArray, others: FloatArray) -> None:
    """Lower ``nearest`` in place by a block of points against a block of references."""
    origin = others[0]
    near_block, near_others = block - origin, others - origin
    sizes, other_sizes = (near_block**2).sum(axis=1), (near_others**2).sum(axis=1)
    approximate = sizes[:, None] + other_sizes - 2.0 * (near_block @ near_others.T)
    # Two lengths and twice a product are sums of d roundings, of differences rounded once: (2·d + 10) units of the
    # sizes at most, or of the smallest number where these vanish. Twice that: what it lets through is only settled.
    slack = 4.0 * (block.shape[1] + 8) * (UNIT64 * (sizes + other_sizes.max()) + QUANTUM)
    near = approximate <= (np.minimum(approximate.min(axis=1), nearest) + 2.0 * slack)[:, None]
    point, other = np.nonzero(near)
    for pairs in blocks(len(point), max(1, (1 << 20) // block.shape[1])):
        exact = settle(block[point[pairs]], others[other[pairs]])
        np.minimum.at(nearest, point[pairs], exact)


def core_set_radii(points: AnyArray, references: AnyArray, batch_size: int = 1024) -> FloatArray:
    """Distance of each point to its nearest reference (Algorithm 3, compute_min_δ).

    Θ(n·m·d) time and O(batch_size²) extra memory; no n×m matrix is held. (The printed algorithm steps ``i`` by 1
    and one block too far.)

    Examples
    --------
    >>> core_set_radii(np.array([[0.0], [4.0]]), np.array([[1.0], [9.0]])).tolist()
    [1.0, 3.0]
    """
    return np.sqrt(squared_radii(points, references, batch_size=batch_size))
