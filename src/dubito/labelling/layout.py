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
    _, _, directions = np.linalg.svd(_narrow(sample - middle), full_matrices=False)
    axes = directions[:2].T
    placed = np.zeros((n_rows, 2))
    for span in blocks(n_rows, rows_per_read(scaled)):
        placed[span, : axes.shape[1]] = (np.asarray(scaled[span], dtype=np.float64) - middle) @ axes
    largest = np.abs(placed).max(axis=0)
    return placed / np.where(largest > 0.0, largest, 1.0)


def _narrow(sample: FloatArray) -> FloatArray:
    """The same directions from the smaller of the sample and its scatter."""
    return (
        sample
        if len(sample) <= sample.shape[1]
        else np.linalg.cholesky(sample.T @ sample + 1e-9 * np.trace(sample.T @ sample) * np.eye(sample.shape[1])).T
    )
