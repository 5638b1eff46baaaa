"""Where each row lies on a map: two numbers a row, computed once."""

import numpy as np

from dubito.matrix import FloatArray, Matrix, blocks, len_of, rows_per_read
from dubito.scales import measure_scale, on_scale

SAMPLE = 20_000


def lay_out(features: Matrix) -> FloatArray:
    """(n, 2) the two directions in which a standardised sample varies most, each between -1 and 1.

    Examples
    --------
    >>> lay_out(np.array([[0.0, 0.0], [1.0, 0.1], [2.0, -0.1]])).shape
    (3, 2)
    """
    scaled = on_scale(features, measure_scale(features))
    n_rows = len_of(features)
    rows = np.unique(np.linspace(0, n_rows - 1, min(n_rows, SAMPLE)).astype(np.int64))
    sample = np.asarray(scaled[rows], dtype=np.float64)
    middle = sample.mean(axis=0)
    axes = _widest(sample - middle)
    placed = np.zeros((n_rows, 2))
    for span in blocks(n_rows, rows_per_read(scaled)):
        placed[span, : axes.shape[1]] = (np.asarray(scaled[span], dtype=np.float64) - middle) @ axes
    largest = np.abs(placed).max(axis=0)
    return placed / np.where(largest > 0.0, largest, 1.0)


def _widest(centred: FloatArray) -> FloatArray:
    """(d, 2) the directions of the largest spread, or (d, 1) where there is but one."""
    if len(centred) <= centred.shape[1]:
        return np.asarray(np.linalg.svd(centred, full_matrices=False)[2][:2].T)
    return np.asarray(np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :2])
