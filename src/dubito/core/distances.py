"""Reproducible float64 distances, and the core-set radii (Algorithm 3).

Δ² is the sum of squared differences. The squares are summed by repeatedly adding the upper half of the features to the
lower half, with plain additions: no library reduction and no fused multiply-add. The result is therefore bitwise
identical for every memory layout, block size and device, and exact for integer features.
"""

import numpy as np

from dubito.core.problem import Metric
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, blocks, len_of, rows_per_read

UNIT64 = 2.0**-53
"""Unit roundoff: the largest relative rounding error of float64."""
QUANTUM = 2.0**-1074
"""The smallest positive float64, which bounds the absolute rounding error on underflow."""
SUM_ROWS = 1024
"""Rows per block of `feature_sums`. A constant, because the order of the additions determines the result."""


def read_rows(matrix: Matrix, rows: slice | IntArray, metric: Metric = "euclidean") -> FloatArray:
    """A copy of some rows in float64, normalized to unit length if the metric is cosine."""
    block = np.array(matrix[rows], dtype=np.float64, order="C")
    return unit_rows(block) if metric == "cosine" else block


def unit_rows(block: FloatArray) -> FloatArray:
    """Each row divided by its Euclidean norm.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0]])).tolist()
    [[0.6, 0.8]]
    """
    # Scale by a power of two first, so that squares neither overflow nor underflow; the quotient's bits do not change.
    _, exponents = np.frexp(np.abs(block).max(axis=1, keepdims=True))
    block = np.ldexp(block, -exponents)
    return block / np.sqrt(sums_by_halving(block * block))[:, None]


def sums_by_halving(terms: FloatArray) -> FloatArray:
    """The sum of each row, by adding its second half to its first again and again; overwrites ``terms``."""
    width = terms.shape[1]
    while width > 1:
        half = (width + 1) // 2
        terms[:, : width - half] += terms[:, half:width]
        width = half
    return terms[:, 0].copy() if terms.shape[1] else np.zeros(len(terms))


def exact_sq_distances(points: FloatArray, others: FloatArray) -> FloatArray:
    """(k,) Δ² of paired rows, (k, d) against (k, d) or (d,), added in a fixed order: what decides near-ties.

    Examples
    --------
    >>> exact_sq_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0.0, 0.0])).tolist()
    [0.0, 25.0]
    """
    differences = points - others
    differences *= differences
    return sums_by_halving(differences)


def feature_sums(matrix: Matrix, metric: Metric = "euclidean") -> FloatArray:
    """Sum of each feature over all rows, in a fixed order."""
    total = np.zeros(matrix.shape[1])
    for span in blocks(len_of(matrix), SUM_ROWS):
        total += sums_by_halving(np.ascontiguousarray(read_rows(matrix, span, metric).T))
    return total


def scaled_sq_distances_from_mean(matrix: Matrix, rows: IntArray, metric: Metric = "euclidean") -> FloatArray:
    """Σ(n·x - Σx)² of the given rows: n² times the squared distance from the mean; exact for integers."""
    n_rows, total = len_of(matrix), feature_sums(matrix, metric)
    parts = [
        exact_sq_distances(n_rows * read_rows(matrix, rows[span], metric), total)
        for span in blocks(len(rows), rows_per_read(matrix))
    ]
    return np.concatenate(parts)


def squared_radii(
    points: Matrix, references: Matrix, metric: Metric = "euclidean", batch_size: int = 1024
) -> FloatArray:
    """Squared distance of each point to its nearest reference; infinite if there are no references.

    Matrix products find the references that could be nearest; `exact_sq_distances` computes the distances to those.
    """
    nearest = np.full(len_of(points), np.inf)
    for rows in blocks(len_of(points), batch_size):
        block = read_rows(points, rows, metric)
        for others in blocks(len_of(references), batch_size):
            _update_nearest(nearest[rows], block, read_rows(references, others, metric))
    return nearest


def _update_nearest(nearest: FloatArray, block: FloatArray, others: FloatArray) -> None:
    """Lower ``nearest`` in place by a block of points against a block of references."""
    origin = others[0]
    near_block, near_others = block - origin, others - origin
    sizes, other_sizes = (near_block**2).sum(axis=1), (near_others**2).sum(axis=1)
    approximate = sizes[:, None] + other_sizes - 2.0 * (near_block @ near_others.T)
    # The squared norms and the product each sum d rounded terms of once-rounded differences: their error is at most
    # (2·d + 10) units of the squared norms, or of the smallest number on underflow. `slack` is over twice that, for
    # safety, which only costs a few more calls of exact_sq_distances. Two approximations are compared: 2 · slack.
    slack = 4.0 * (block.shape[1] + 8) * (UNIT64 * (sizes + other_sizes.max()) + QUANTUM)
    near = approximate <= (np.minimum(approximate.min(axis=1), nearest) + 2.0 * slack)[:, None]
    point, other = np.nonzero(near)
    for pairs in blocks(len(point), max(1, (1 << 20) // block.shape[1])):
        exact = exact_sq_distances(block[point[pairs]], others[other[pairs]])
        np.minimum.at(nearest, point[pairs], exact)


def core_set_radii(points: AnyArray, references: AnyArray, batch_size: int = 1024) -> FloatArray:
    """Distance of each point to its nearest reference (Algorithm 3, compute_min_δ).

    Θ(n·m·d) time and O(batch_size²) extra memory; no n×m matrix is stored. (The published algorithm increments ``i``
    by 1 and runs one block too far.)

    Examples
    --------
    >>> core_set_radii(np.array([[0.0], [4.0]]), np.array([[1.0], [9.0]])).tolist()
    [1.0, 3.0]
    """
    return np.sqrt(squared_radii(points, references, batch_size=batch_size))
