"""Standardization of features to mean 0 and standard deviation 1.

The statistics come from the pool alone and are applied to labeled features too. Blocks are standardized when they are
read, so that memory maps larger than main memory work.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dubito.errors import ScaleWarning
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, OnDevice, Rows, blocks, len_of, rows_per_read
from dubito.request.arrays import check_finite
from dubito.request.ids import feature_names
from dubito.request.rows import Labeled

NOISE = 4 * np.finfo(np.float64).eps
"""A standard deviation this small relative to a column's values is rounding error."""
DOMINANT_SHARE = 0.9
"""Columns dominate the distances if they contribute this fraction of them."""
MOST_NAMED = 3


class Scale(NamedTuple):
    """Column statistics: a row is standardized to ``(row - mean) / deviation``."""

    mean: FloatArray
    """(d,)"""
    deviation: FloatArray
    """(d,) standard deviation (ddof=0); infinite for constant columns, which become 0."""
    share: FloatArray
    """(d,) fraction that each column contributes to the mean squared distance, unscaled; 0 if all are constant."""
    ends: FloatArray
    """(2, d) minimum and maximum of each column."""

    def applied(self, block: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
        """Standardize a block of rows: computed in float64, then rounded once."""
        wide = np.subtract(block, self.mean, dtype=np.float64)
        wide /= self.deviation
        return wide.astype(dtype, copy=False)

    def with_shared_deviation(self) -> "Scale":
        """Replace the deviations of non-constant columns by their root mean square, which keeps relative scales."""
        varies = np.isfinite(self.deviation)
        if not varies.any():
            return self
        largest = float(self.deviation[varies].max())
        root = largest * float(np.sqrt(np.mean((self.deviation[varies] / largest) ** 2)))
        return self._replace(deviation=np.where(varies, root, np.inf))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Scaled:
    """A matrix whose blocks are standardized as they are read.

    Examples
    --------
    >>> pool = np.array([[1.0, 500.0], [3.0, 900.0]])
    >>> Scaled(pool, measure_scale(pool))[:].tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """

    matrix: Matrix
    scale: Scale

    @property
    def shape(self) -> tuple[int, ...]:
        return self.matrix.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return scaled_dtype(self.matrix)

    def __getitem__(self, rows: slice | IntArray) -> AnyArray:
        return self.scale.applied(self.matrix[rows], self.dtype)


def scaled_dtype(matrix: Matrix) -> np.dtype[Any]:
    """The type of standardized values: float32 for floats of at most 4 bytes, else float64."""
    return np.dtype(np.float32 if matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 4 else np.float64)


def standardized(matrix: Matrix, scale: Scale) -> Matrix:
    """The standardized matrix: a lazy view, or for features on a GPU a new tensor there with the same values."""
    if not isinstance(matrix, OnDevice):
        return Scaled(matrix, scale)
    tensor = matrix.tensor
    result = (tensor.float() if scaled_dtype(matrix) == np.float32 else tensor.double()).clone()
    for span in blocks(len_of(matrix), rows_per_read(matrix)):
        wide = tensor[span].double()
        wide = wide.sub(wide.new_tensor(scale.mean.tolist())).div(wide.new_tensor(scale.deviation.tolist()))
        result[span] = wide
    return OnDevice(result)


def measure_scale(matrix: Matrix) -> Scale:
    """Mean and standard deviation of every column, in float64.

    Two passes over blocks; the second subtracts the mean of the first, so that a small spread far from 0 is not lost.
    The block size depends only on the width, so that shards, memory maps and arrays of the same rows give bitwise equal
    results. O(n·d) time.

    Examples
    --------
    >>> result = measure_scale(np.array([[1.0, 7.0, 100.0], [3.0, 7.0, 300.0]]))
    >>> result.mean.tolist(), result.deviation.tolist(), result.share.round(4).tolist()
    ([2.0, 7.0, 200.0], [1.0, inf, 100.0], [0.0001, 0.0, 0.9999])
    """
    n, spans = len_of(matrix), list(blocks(len_of(matrix), rows_per_read(matrix)))
    sums, low, high = np.zeros(matrix.shape[1]), np.full(matrix.shape[1], np.inf), np.full(matrix.shape[1], -np.inf)
    for span in spans:
        block = np.ascontiguousarray(matrix[span], dtype=np.float64)
        sums = sums + block.sum(axis=0)
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    approximate_mean = sums / n
    first, second = np.zeros(len(sums)), np.zeros(len(sums))
    for span in spans:
        deviations = np.ascontiguousarray(matrix[span], dtype=np.float64) - approximate_mean
        first, second = first + deviations.sum(axis=0), second + (deviations * deviations).sum(axis=0)
    variance = np.maximum(second / n - (first / n) ** 2, 0.0)
    variance[np.sqrt(variance) <= NOISE * np.maximum(np.abs(low), np.abs(high))] = 0.0
    deviation = np.where(variance > 0.0, np.sqrt(variance), np.inf)
    share = variance / variance.sum() if variance.any() else variance
    return Scale(approximate_mean + first / n, deviation, share, np.stack([low, high]))


def largest_scaled(matrix: Matrix, scale: Scale) -> float:
    """The largest magnitude of the standardized pool, from the column minima and maxima (rounding is monotonic)."""
    return float(np.abs(scale.applied(scale.ends, scaled_dtype(matrix))).max())


def dominant(scale: Scale, fraction: float = DOMINANT_SHARE, most: int | None = None) -> list[int]:
    """The fewest columns that contribute this fraction of the distances, largest first.

    Empty if more than ``most`` columns are needed, by default half of all columns.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> dominant(measure_scale(rng.normal(size=(100, 5)) * [1.0, 1.0, 50.0, 1.0, 30.0]))
    [2, 4]
    """
    order = np.argsort(-scale.share, kind="stable")
    count = int(np.searchsorted(np.cumsum(scale.share[order]), fraction)) + 1
    return order[:count].tolist() if count <= (len(order) // 2 if most is None else most) else []


def describe_dominant(
    scale: Scale, names: Sequence[str], fraction: float = DOMINANT_SHARE, most: int | None = None
) -> str:
    """The dominant columns and their share, for a message; empty if no columns dominate.

    Examples
    --------
    >>> describe_dominant(measure_scale(np.array([[1.0, 100.0], [2.0, 900.0]])), ["age", "income"])
    'income makes over 99.9% of the squared distances'
    """
    columns = dominant(scale, fraction, most)
    if not columns:
        return ""
    shown = [names[column] for column in columns[:MOST_NAMED]]
    shown += [f"{len(columns) - MOST_NAMED} more"] if len(columns) > MOST_NAMED else []
    named = " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
    share = 100.0 * float(scale.share[columns].sum())
    percent = f"{share:.1f}%" if share < 99.95 else "over 99.9%"
    return f"{named} make{'s' * (len(columns) == 1)} {percent} of the squared distances"


WARNING_SHARE = 0.99
"""Columns of a frame that contribute this fraction of the distances cause a warning."""


class Standardized(NamedTuple):
    """Pool and labeled points, standardized with the pool's statistics."""

    pool: Matrix
    labeled: Labeled
    largest: float
    """Largest magnitude of the pool."""
    scale: Scale


def standardize_points(pool: Matrix, labeled: Labeled) -> Standardized:
    """Standardize pool and labeled points with the pool's statistics, without a copy."""
    scale = measure_scale(pool)
    scaled = standardized(pool, scale)
    references = labeled.references
    if isinstance(references, Rows) and references.matrix is pool:
        scaled_labeled = labeled._replace(references=Rows(scaled, references.rows))
    else:
        other = standardized(references, scale)
        scaled_labeled = labeled._replace(references=other, largest=check_finite("labeled", other))
    return Standardized(scaled, scaled_labeled, largest_scaled(pool, scale), scale)


def warn_of_scales(pool: object, matrix: Matrix, stacklevel: int) -> None:
    """Warn if the features are named columns of a frame and very few of them dominate the distances."""
    names = feature_names(pool)
    if len(names) != matrix.shape[1] or len(names) < 2:
        return
    dominant = describe_dominant(measure_scale(matrix), names, WARNING_SHARE, most=max(1, len(names) // 4))
    if dominant:
        warnings.warn(
            f"{dominant} between rows of pool; pass standardize=True to give every column the same weight, or "
            "standardize=False to keep them as they are.",
            ScaleWarning,
            stacklevel=stacklevel + 1,
        )
