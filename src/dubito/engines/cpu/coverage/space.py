"""Where the points of a problem lie: exact rows, and shifted ones in float32, as products take them."""

from dataclasses import dataclass

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.distances import read_rows, settle
from dubito.core.problem import Known
from dubito.engines.cpu.products import Packed, product
from dubito.engines.cpu.sketch import Sketch, orthonormal, plain_sketch
from dubito.engines.lazy.bounds import FLOOR, MEDIAN_ROWS, UNIT, Float32Array, product_slack, squared_lengths
from dubito.matrix import BoolArray, FloatArray, IntArray, Matrix, Rows, blocks, len_of
from dubito.threads import parallel_map

FIT_ROWS = 2048
"""Points whose directions probes are fitted to."""


class Space:
    """Rows of the pool and of what is labeled, moved and scaled alike; see `dubito.engines.cpu.sketch.Sketch`."""

    def __init__(self, problem: CoverageProblem) -> None:
        self.problem, self.metric = problem, problem.metric
        few = read_rows(problem.pool, evenly(len_of(problem.pool), MEDIAN_ROWS), problem.metric)
        self.shape: Sketch = plain_sketch(few, problem.largest)
        self.unit = self.shape.scale**2
        """Squared distances of shifted points over those of the points."""

    def shifted(self, rows: slice | IntArray, matrix: Matrix | None = None) -> Float32Array:
        """Rows of the pool, or of another matrix. Not to be written to."""
        return self.shape.read(self.problem.pool if matrix is None else matrix, rows, self.metric)

    def exact(self, rows: slice | IntArray, matrix: Matrix | None = None) -> FloatArray:
        """Rows as the reference sees them."""
        return read_rows(self.problem.pool if matrix is None else matrix, rows, self.metric)

    def sample(self) -> Float32Array:
        """Some shifted rows of the pool, evenly."""
        return self.shifted(evenly(len_of(self.problem.pool), FIT_ROWS))


def evenly(n_rows: int, n_chosen: int) -> IntArray:
    """At most so many of the numbers below ``n_rows``, from the first on."""
    n_chosen = min(n_rows, n_chosen)
    return np.arange(n_chosen, dtype=np.int64) * n_rows // max(n_chosen, 1)


def difference_bounds(differences: Float32Array, lengths: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds on the distances of shifted points, from their differences in float32.

    ``lengths`` are those of one of the two points, whose shift may have been rounded.
    """
    length = np.sqrt(squared_lengths(differences))
    width = differences.shape[1]
    # The other point is no longer than this one and the way to it.
    slack = 8.0 * UNIT * (lengths + length) + 1e-15
    return np.maximum(length * (1.0 - width * UNIT) - slack, 0.0), length * (1.0 + width * UNIT) + slack


def product_bounds(products: FloatArray, sizes: FloatArray, width: int) -> FloatArray:
    """Lower bounds on squared distances of shifted points, from products and the sums of their squared lengths."""
    return np.asarray((1.0 - product_slack(width)) * sizes - FLOOR - 2.0 * products)


# Lower bounds on distances from a few numbers a point: its probe.
#
# A probe holds a point's coordinates s along k orthonormal directions, and the length r of what they leave out. By
# Cauchy and Schwarz ``x·y <= s·t + r·q``, so that ``|x|² + |y|² - 2·(s·t + r·q)`` never exceeds the squared distance.
# The last length counts: most points are about equally far from the directions, and their rests are hardly parallel.

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


# The exact squared distance of rows of the pool to what is labeled.
#
# Probes bound every distance from below, the nearest by probes bounds it from above; float32 differences of what is
# left rule out nearly all the rest, and `settle` decides. What a `Pool` knows from earlier rounds is not looked at
# again.

ROWS = 512
"""Rows of the pool in a block."""
REFERENCES = 8192
"""Labeled points in a block."""
PAIR_ROWS = 256
"""Pairs whose differences are taken at once."""


class Nearest:
    """Squared distances to the nearest of the references, for those rows of the pool that were asked for."""

    def __init__(self, space: Space, known: Known | None) -> None:
        problem = space.problem
        self.space, self.n_references = space, len_of(problem.references)
        n_pool = len_of(problem.pool)
        self.known = known or Known(np.full(n_pool, np.inf), np.zeros(n_pool, np.int32), np.empty(0, np.int64))

    def of(self, rows: IntArray, probes: Probes) -> FloatArray:
        """(r,) exact; infinite where nothing is labeled."""
        known, problem = self.known, self.space.problem
        missing = rows[known.seen[rows] < self.n_references]
        for first in np.unique(known.seen[missing]).tolist():
            group = missing[known.seen[missing] == first]
            unseen = Rows(problem.references, np.arange(first, self.n_references))
            search = Search(self.space, probes, unseen)
            parallel_map(search.lower, [(group[span], known.squared) for span in blocks(len(group), ROWS)])
            known.seen[group] = self.n_references
        return known.squared[rows]

    @property
    def squared(self) -> FloatArray:
        """(n,) what is known of all rows."""
        return self.known.squared


class Search:
    """Some references, ready to be compared with any rows."""

    def __init__(self, space: Space, probes: Probes, references: Rows) -> None:
        self.space, self.probes, self.references = space, probes, references
        spans = blocks(len_of(references), REFERENCES)
        self.blocks = [(span.start, space.shifted(span, references)) for span in spans]
        self.rights = [Packed(right(probes.left(shifted, squared_lengths(shifted)))) for _, shifted in self.blocks]

    def lower(self, rows: IntArray, squared: FloatArray) -> None:
        """Lower ``squared`` (n,), at these rows, to their squared distances to the nearest reference."""
        block = Block(self.space, rows, squared[rows])
        left = self.probes.left(block.shifted, block.sizes, threads=1)
        for (start, others), rights in zip(self.blocks, self.rights, strict=True):
            block.look_at(rights.product(left, threads=1), start, others)
        squared[rows] = block.settled(self.references)


class Block:
    """Rows that are compared together: upper bounds on their distances, and the pairs that may be nearest."""

    def __init__(self, space: Space, rows: IntArray, squared: FloatArray) -> None:
        self.space, self.rows, self.squared = space, rows, squared
        self.shifted = space.shifted(rows)
        self.sizes = squared_lengths(self.shifted)
        self.lengths = np.sqrt(self.sizes)
        with np.errstate(over="ignore"):
            self.limits = np.sqrt(squared * space.unit) * (1.0 + 1e-12)
        """(r,) no nearest reference lies farther, among shifted points."""
        self.found: list[tuple[IntArray, IntArray, FloatArray]] = []

    def look_at(self, nearness: Float32Array, start: int, others: Float32Array) -> None:
        """Keep the pairs with a block of references that may be nearest; ``nearness`` is minus half of d², at least."""
        best = nearness.argmax(axis=1)
        all_rows = np.arange(len(best))
        _, highest = self._bounds(all_rows, best, others)
        self.limits = np.minimum(self.limits, highest)
        floor = (-0.5 * np.minimum(self.limits, 1e18) ** 2 * (1.0 + 1e-6)).astype(np.float32)
        near = np.flatnonzero(nearness >= floor[:, None])
        row, other = np.divmod(near, nearness.shape[1])
        lowest, highest = self._bounds(row, other, others)
        np.minimum.at(self.limits, row, highest)
        self.found.append((row, other + start, lowest))

    def _bounds(self, row: IntArray, other: IntArray, others: Float32Array) -> tuple[FloatArray, FloatArray]:
        lowest, highest = np.empty(len(row)), np.empty(len(row))
        for span in blocks(len(row), PAIR_ROWS):
            differences = self.shifted[row[span]]
            differences -= others[other[span]]
            lowest[span], highest[span] = difference_bounds(differences, self.lengths[row[span]])
        return lowest, highest

    def settled(self, references: Rows) -> FloatArray:
        """(r,) exact squared distances."""
        row, other, lowest = (np.concatenate(parts) for parts in zip(*self.found, strict=True))
        near = np.flatnonzero(lowest <= self.limits[row])
        for span in blocks(len(near), PAIR_ROWS):
            pairs = near[span]
            points = self.space.exact(self.rows[row[pairs]])
            exact = settle(points, self.space.exact(other[pairs], references))
            np.minimum.at(self.squared, row[pairs], exact)
        return self.squared
