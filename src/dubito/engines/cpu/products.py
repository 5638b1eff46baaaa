"""Products of float32 matrices, by our own threads: NumPy's would wait busily for more of them while ours work."""

import numpy as np

from dubito import compiled
from dubito.engines.lazy.rounding import Float32Array
from dubito.threads import n_threads

PANEL = 64
"""Columns that are multiplied together."""


def product(left: Float32Array, right: Float32Array) -> Float32Array:
    """(n, m) of rows (n, k) and (m, k)."""
    if compiled.steps is None:
        return np.asarray(left @ right.T)
    (m, k), n_panels = right.shape, -(-len(right) // PANEL)
    padded = np.zeros((n_panels * PANEL, k), dtype=np.float32)
    padded[:m] = right
    panels = np.ascontiguousarray(padded.reshape(n_panels, PANEL, k).transpose(0, 2, 1))
    return _multiply(compiled.steps, left, panels)[:, :m]


def along(points: Float32Array, directions: Float32Array) -> Float32Array:
    """(n, k) coordinates of points (n, d) along directions (d, k)."""
    if compiled.steps is None or directions.shape[1] != PANEL:
        return np.asarray(points @ directions)
    return _multiply(compiled.steps, points, np.ascontiguousarray(directions)[None])


def _multiply(steps: compiled.CompiledSteps, rows: Float32Array, panels: Float32Array) -> Float32Array:
    n_panels, k, _ = panels.shape
    out = np.empty((len(rows), n_panels * PANEL), dtype=np.float32)
    steps.multiply((np.ascontiguousarray(rows), panels, out), len(rows), k, n_panels, n_threads())
    return out
