"""Sketches of the pool on a device, and its rows sorted by clusters.

A sketch holds the coordinates of a point along the directions of largest variance. The distance of two sketches never
exceeds that of their points, so blocks of rows whose sketches are too far apart need not be compared by all features.
Rows are sorted by their nearest center, so that this is true of most pairs of blocks.
"""

from math import frexp

import numpy as np
import torch

from dubito.engines.cuda.points import PreparedPoints, Tensor, evenly_spaced_rows, product_slack
from dubito.matrix import blocks

SKETCH_WIDTH = 64
SKETCH_SAMPLE = 4096
DEPENDENT = 1e-10
"""Directions whose squared length, relative to the largest, is at most this are left out."""
CELL_ROWS, MOST_CELLS = 1024, 4096
LARGEST_BITS = 10
"""Coordinates are scaled to magnitudes below 2 to this power, so that float16 does not overflow."""
HALF_SLACK = 1.02 * 2.0**-9
"""Error bound of coordinates rounded to float16, in units of |s|² + |t|²."""
SHIFT_SLACK = 2.0**-20
"""Error bound of the prepared points themselves, in units of |x|² + |y|²."""
HALF_FLOOR = 2.0**-18
"""Covers the underflow of coordinates in float16."""
BLOCK_ROWS = 1 << 16


class Sketches:
    """Sketches of all rows of the pool. Their squared distances are in units of prepared points, times ``unit``."""

    def __init__(self, prepared: PreparedPoints, limits: Tensor) -> None:
        n, device = len(prepared.points), prepared.points.device
        sample = prepared.points[evenly_spaced_rows(n, min(n, SKETCH_SAMPLE), device)].double()
        center = sample.mean(dim=0)
        directions = long_directions(sample - center)
        coordinates = torch.zeros((n, SKETCH_WIDTH), dtype=torch.float32, device=device)
        for span in blocks(n, BLOCK_ROWS):
            coordinates[span, : len(directions)] = (prepared.points[span].double() - center) @ directions.T
        scale = 2.0 ** (LARGEST_BITS - frexp(float(coordinates.abs().amax()))[1])
        self.unit = scale * scale
        self.points = (coordinates * scale).half()
        squared = self.points.double().square().sum(dim=1)
        lost = self.unit * SHIFT_SLACK * prepared.lengths.double().square()
        slack = product_slack(SKETCH_WIDTH) + HALF_SLACK
        self.sizes = ((1.0 - slack) * squared - lost - HALF_FLOOR).float()
        """(n,) squared lengths minus the error bound."""
        by_limit = limits.argsort()
        self.order = by_limit[self._cells()[by_limit].argsort(stable=True)]
        """The rows by cell, and within a cell by limit."""

    def _cells(self) -> Tensor:
        """(n,) the number of the nearest center for each row; the centers are some of the rows."""
        n = len(self.points)
        centers = self.points[
            evenly_spaced_rows(n, min(max(n // CELL_ROWS, 1), MOST_CELLS), self.points.device)
        ].float()
        sizes = centers.square().sum(dim=1)
        spans = (self.points[span].float() for span in blocks(n, BLOCK_ROWS))
        return torch.cat([(sizes - 2.0 * (points @ centers.T)).argmin(dim=1) for points in spans])

    def ordered(self, rows: Tensor) -> Tensor:
        """Some rows, sorted by cell."""
        is_included = torch.zeros(len(self.order), dtype=torch.bool, device=rows.device)
        is_included[rows] = True
        return self.order[is_included[self.order]]


def long_directions(sample: Tensor) -> Tensor:
    """(k, d) orthogonal directions of large variance of centered points (r, d), as a map that lengthens no vector.

    One step of subspace iteration, started from points of the sample.
    """
    start = sample[:: max(1, len(sample) // SKETCH_WIDTH)][:SKETCH_WIDTH]
    rows = (sample @ start.T).T @ sample
    values, vectors = np.linalg.eigh((rows @ rows.T).cpu().numpy())
    kept = values > max(DEPENDENT * float(values[-1]), 0.0)
    mixing = vectors[:, kept] / np.sqrt(values[kept])
    directions = torch.from_numpy(np.ascontiguousarray(mixing.T)).to(sample.device) @ rows
    # The largest row sum of their products bounds the squared norm of the map, rounding included.
    longest = (directions @ directions.T).abs().sum(dim=1).amax() if len(directions) else 1.0
    return directions / (longest * (1.0 + 2.0**-30)) ** 0.5
