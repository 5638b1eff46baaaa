"""Lower bounds on distances from a few numbers a point: its probe.

A probe holds a point's coordinates s along k orthonormal directions, and the length r of what they leave out. By
Cauchy and Schwarz ``x·y <= s·t + r·q``, so that ``|x|² + |y|² - 2·(s·t + r·q)`` never exceeds the squared distance. The
last length counts: most points are about equally far from the directions, and their rests are hardly parallel.
"""

from dataclasses import dataclass

import numpy as np

from dubito.engines.cpu.coverage.space import Space
from dubito.engines.cpu.products import product
from dubito.engines.cpu.sketch import orthonormal
from dubito.engines.lazy.rounding import FLOOR, UNIT, Float32Array, product_slack, squared_lengths
from dubito.matrix import BoolArray, FloatArray, IntArray, blocks, len_of

WIDTHS = (16, 32, 48, 64, 96, 128, 192, 256)
"""Directions that a probe may have."""
NARROWEST = 48
"""Fewer features than this are compared as they are."""
READ_ROWS = 1024


@dataclass(frozen=True, slots=True)
class Probes:
    """Directions, and what rounding is worth.

    The left probe of x is ``(s, r, 1, -a)``, the right one ``(s, r, -a, 1)`` with about ``a = |x|²/2``. The product of
    a left and a right one, as computed in float32 with any order of additions, is at least minus half of the squared
    distance of the shifted points.
    """

    directions: Float32Array | None
    """(d, k) orthonormal but for rounding, the longest first; None for the points themselves."""
    width: int
    """Numbers of a point in a probe: k, or d."""

    def narrow(self, width: int) -> "Probes":
        """The same with fewer directions, or with the points themselves if there are not so many."""
        if self.directions is None or width > self.directions.shape[1]:
            return Probes(None, self.width if self.directions is None else len(self.directions))
        return Probes(np.ascontiguousarray(self.directions[:, :width]), width)

    def left(self, shifted: Float32Array, sizes: FloatArray, threads: int | None = None) -> Float32Array:
        """(r, width + 3) left probes of shifted points, given their squared lengths; for `threads` see `product`."""
        probes = np.empty((len(shifted), self.width + 3), dtype=np.float32)
        inner = probes[:, : self.width]
        np.copyto(inner, shifted if self.directions is None else product(shifted, self.directions.T, threads))
        rest = np.maximum(sizes - squared_lengths(inner), 0.0) if self.directions is not None else 0.0
        probes[:, -3] = np.sqrt(rest + self._off * sizes)
        probes[:, -2] = 1.0
        probes[:, -1] = -0.5 * ((1.0 - self._slack) * sizes - FLOOR)
        return probes

    @property
    def _off(self) -> float:
        """How much of a squared length the coordinates may be off by, all together; with room.

        Each is off by at most (d + 8)·UNIT of the length: the sum of d products, and rounded directions.
        """
        if self.directions is None:
            return 0.0
        return float(4.0 * (len(self.directions) + 8) * np.sqrt(self.width) * UNIT)

    @property
    def _slack(self) -> float:
        """What products may be off by, against squared lengths, which ride along as two more columns."""
        return product_slack(self.width + 3) + self._off


def right(left: Float32Array) -> Float32Array:
    """Right probes of left ones."""
    probes = left.copy()
    probes[:, -2], probes[:, -1] = left[:, -1], left[:, -2]
    return probes


def fit_probes(sample: Float32Array) -> Probes:
    """Directions along which a sample (r, d) of shifted points is long, as many as the widest probe holds.

    Any directions give true bounds, good ones tight bounds. They are found by a step of subspace iteration from some of
    the points; without LAPACK, see `dubito.engines.cpu.sketch.orthonormal`.
    """
    d = sample.shape[1]
    width = max((each for each in WIDTHS if 2 * each <= d), default=0)
    if d < NARROWEST or len(sample) < 2 * width:
        return Probes(None, d)
    start = sample[:: len(sample) // width][:width]
    basis = orthonormal(product(product(sample, start).T, sample.T).astype(np.float64))
    directions = np.einsum("ij,jd->id", _turns(product(sample, basis.astype(np.float32))), basis)
    return Probes(np.ascontiguousarray(directions.T, dtype=np.float32), width)


def _turns(inside: Float32Array) -> FloatArray:
    """(k, k) orthonormal rows that turn the axes of points (r, k) to where they are long, about the longest first.

    So a narrow probe is the beginning of a wide one. Three steps more of subspace iteration, among the few coordinates;
    further ones would drown short directions in rounding.
    """
    spread = product(inside.T, inside.T)
    spread /= max(float(spread.max(initial=0.0)), FLOOR)
    return orthonormal(product(product(spread, spread), spread).astype(np.float64))


class Probed:
    """Left probes of rows of the pool, kept where there is memory for them."""

    def __init__(self, space: Space, probes: Probes, is_kept: bool) -> None:
        self.space, self.probes = space, probes
        n_pool = len_of(space.problem.pool)
        self.sizes = np.zeros(n_pool)
        """(n,) squared lengths of the shifted rows that were asked for."""
        self._lefts = np.empty((n_pool, probes.width + 3), dtype=np.float32) if is_kept else None
        self._is_there: BoolArray = np.zeros(n_pool, dtype=np.bool_)

    def missing(self, groups: list[IntArray]) -> list[tuple[IntArray]]:
        """Of some groups of rows, each in one of them, those that are to be prepared; none where nothing is kept."""
        left = [rows[~self._is_there[rows]] for rows in groups] if self._lefts is not None else []
        return [(rows[span],) for rows in left for span in blocks(len(rows), READ_ROWS)]

    def prepare(self, rows: IntArray) -> None:
        """Make the probes of rows that are kept."""
        if self._lefts is not None:
            self._lefts[rows] = self._make(rows)
            self._is_there[rows] = True

    def left(self, rows: IntArray) -> Float32Array:
        """(r, width + 3) of rows, prepared where they are kept."""
        return self._make(rows) if self._lefts is None else self._lefts[rows]

    def _make(self, rows: IntArray) -> Float32Array:
        shifted = self.space.shifted(rows)
        self.sizes[rows] = squared_lengths(shifted)
        return self.probes.left(shifted, self.sizes[rows], threads=1)
