"""Products of float32 matrices on the threads of the C extension, with which spinning BLAS threads would compete."""

import numpy as np

from dubito import native as compiled
from dubito.engines.lazy.bounds import Float32Array
from dubito.matrix import AnyArray
from dubito.threads import n_threads

PANEL = 64
"""Number of columns that are multiplied together."""


def product(left: Float32Array, right: Float32Array, threads: int | None = None) -> Float32Array:
    """(n, m) products of rows (n, k) and (m, k). Pass 1 for ``threads`` if many threads call this."""
    return Packed(right).product(left, threads)


class Packed:
    """Rows (m, k), packed once for several products."""

    def __init__(self, rows: Float32Array) -> None:
        self.n_rows, self._columns = len(rows), rows.T if compiled.steps is None else pack(rows)

    def product(self, left: Float32Array, threads: int | None = None) -> Float32Array:
        """(n, m) products of rows (n, k) and the packed rows; see `product`."""
        if compiled.steps is None:
            return np.asarray(left @ self._columns)
        n_panels, k, _ = self._columns.shape
        out = np.empty((len(left), n_panels * PANEL), dtype=np.float32)
        compiled.steps.multiply_rows(
            (np.ascontiguousarray(left), self._columns, out), len(left), k, n_panels, threads or n_threads()
        )
        return out[:, : self.n_rows]


def project(points: Float32Array, directions: Float32Array) -> Float32Array:
    """(n, k) coordinates of points (n, d) along directions (d, k)."""
    return product(points, directions.T)


def pack(rows: Float32Array) -> Float32Array:
    """(panels, k, 64) the rows (m, k), transposed in panels as C reads them; padded with 0."""
    (m, k), n_whole = rows.shape, len(rows) // PANEL
    panels = np.empty((-(-m // PANEL), k, PANEL), dtype=np.float32)
    panels[:n_whole] = rows[: n_whole * PANEL].reshape(n_whole, PANEL, k).transpose(0, 2, 1)
    for last in panels[n_whole:]:
        last[:, : m % PANEL], last[:, m % PANEL :] = rows[n_whole * PANEL :].T, 0.0
    return panels


def closest(
    steps: compiled.CompiledSteps,
    rows: Float32Array,
    panels: Float32Array,
    offsets: Float32Array,
    *,
    stride: int = 1,
    n_best: int = 1,
) -> tuple[AnyArray, Float32Array]:
    """(n, n_best) the nearest of every ``stride``-th column for rows (n, k), and (n,) the largest nearness to any.

    The nearness is the product minus the column's offset.
    """
    positions, largest = np.empty((len(rows), n_best), dtype=np.int32), np.empty(len(rows), dtype=np.float32)
    arrays = (np.ascontiguousarray(rows), panels, np.ascontiguousarray(offsets), positions, largest)
    n, k = rows.shape
    steps.top_k(arrays, n, k, len(offsets), stride, n_best, n_threads())
    return positions, largest
