"""Reference implementation of coverage: slow, simple, in float64; the test oracle of the coverage engines.

``F(s) = Σ_x w(x) · max over y in labeled ∪ s of k(‖x - y‖²)``, over all rows x of the pool, candidates or not, with the
kernel ``k(d²) = max(1 - d²/R², 0)²``. Each pick is the candidate with the largest gain in F (divided by its cost, if
there are costs); ties go to the lowest index. Pairs farther apart than the reach R contribute exactly 0.

Every number is computed by float64 additions, products and quotients in a fixed order, so that results are bitwise
identical on every machine. Sums run over the rows in order; a term of 0 does not change them, so that engines may skip
the pairs beyond the reach. All operations are monotonic, rounding included: as coverage grows, no gain grows, and a
stale gain is an upper bound on the current one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core.distances import exact_sq_distances, read_rows, squared_radii
from dubito.core.problem import Configuration, EngineProblem
from dubito.doubt import uncertainty
from dubito.matrix import FloatArray, IntArray, Rows, blocks, len_of, rows_per_read

SAMPLE_ROWS = 4096
"""Maximum number of rows from which the reach is derived. A constant, because it determines the result."""
GOLDEN = 2654435769
"""2³² divided by the golden ratio: its multiples modulo 2³² are spread evenly, however many there are."""
KEPT_BYTES = 1 << 26
"""Kernels are cached if they need at most this much memory, and otherwise recomputed for every pick."""


@dataclass(frozen=True, slots=True)
class CoverageProblem(EngineProblem):
    """A coverage problem."""

    kind: ClassVar[str] = "coverage"
    weights: FloatArray
    """(n,) weight of each pool row in F, at least 0."""
    sample: IntArray
    """Rows of the pool, ascending, from whose distances the reach is derived; see `sample_rows`. Not `sampled`."""
    radius: float | None = None
    """The reach R, if the caller set it."""
    factor: float = 1.4
    """The reach divided by the median distance of the sample to the labeled points; without these, see
    `cold_squared_reach`."""
    doubt: FloatArray | None = None
    """(n,) in [0, 1]; used only for the uncertainty of the picks."""
    sampled: int | None = None
    """Number of rows that keep a weight, if the weights are those of a sample (`systematic_sample`)."""

    def priorities(self, positions: IntArray | slice, added: FloatArray) -> FloatArray:
        """The gains of some candidates divided by their costs; monotonic in each gain, rounding included."""
        return added if self.costs is None else added / self.costs[self.candidates[positions]]


def sample_rows(rows: IntArray) -> IntArray:
    """At most `SAMPLE_ROWS` of the given rows, evenly spaced.

    Examples
    --------
    >>> sample_rows(np.arange(8192))[:3].tolist()
    [0, 2, 4]
    """
    n_chosen = min(len(rows), SAMPLE_ROWS)
    return np.asarray(rows[np.arange(n_chosen) * len(rows) // max(n_chosen, 1)])


def running_sums(weights: FloatArray, before: float = 0.0) -> FloatArray:
    """(n,) cumulative sums of the weights, in order, starting from ``before``."""
    return np.asarray(np.add.accumulate(np.concatenate([[before], weights]))[1:])


def systematic_sample(weights: FloatArray, n_rows: int, before: float = 0.0, total: float | None = None) -> FloatArray:
    """Weights of a systematic sample of ``n_rows`` draws: evenly spaced marks on the running sum of the weights.

    The new weight of a row is the number of marks in its interval of the running sum, times their spacing. For a shard,
    ``before`` is the sum of the weights of the shards before it, and ``total`` that of the pool.

    Examples
    --------
    >>> systematic_sample(np.array([1.0, 1.0, 2.0, 0.0, 4.0]), 4).tolist()
    [2.0, 0.0, 2.0, 0.0, 4.0]
    >>> systematic_sample(np.array([2.0, 0.0, 4.0]), 4, before=2.0, total=8.0).tolist()
    [2.0, 0.0, 4.0]
    """
    running = running_sums(weights, before)
    last = float(running[-1]) if len(running) else before
    step = (last if total is None else total) / n_rows
    marks = (np.arange(n_rows) + 0.5) * step
    rows = np.searchsorted(running, marks[(marks > before) & (marks <= last)])
    return np.asarray(np.bincount(rows, minlength=len(weights)) * step)


def squared_reach(problem: CoverageProblem) -> float:
    """R²: from ``radius`` if given, otherwise by `warm_squared_reach`, or `cold_squared_reach` without references."""
    if problem.radius is not None:
        return problem.radius * problem.radius
    if len_of(problem.references):
        sample = Rows(problem.pool, problem.sample)
        return warm_squared_reach(squared_radii(sample, problem.references, problem.metric), problem.factor)
    return cold_squared_reach(problem)


def warm_squared_reach(nearest: FloatArray, factor: float) -> float:
    """R² from the median squared distance of the sample to the labeled points, without duplicates (distance 0).

    Examples
    --------
    >>> warm_squared_reach(np.array([0.0, 1.0, 4.0, 9.0]), 2.0)
    16.0
    """
    return square_of_rounded_root(factor * factor * median(nearest[nearest > 0.0]))


def cold_squared_reach(problem: CoverageProblem) -> float:
    """R² if nothing is labeled: R is half the median distance between pairs of the sample, without duplicates."""
    left, right = spread_pairs(len(problem.sample))
    parts = [np.empty(0)]
    for span in blocks(len(left), rows_per_read(problem.pool)):
        ends = (problem.sample[which[span]] for which in (left, right))
        parts.append(exact_sq_distances(*(read_rows(problem.pool, rows, problem.metric) for rows in ends)))
    squared = np.concatenate(parts)
    return square_of_rounded_root(0.25 * median(squared[squared > 0.0]))


def square_of_rounded_root(squared: float) -> float:
    """The rounded root, squared: passing the reported reach as ``radius`` then gives the same R², to the last bit."""
    root = float(np.sqrt(squared))
    return root * root


def spread_pairs(n_rows: int) -> tuple[IntArray, IntArray]:
    """Pair each row with another one, or with itself, so that the partners are spread evenly.

    Examples
    --------
    >>> spread_pairs(5)[1].tolist()
    [0, 3, 1, 4, 2]
    """
    numbers = np.arange(n_rows, dtype=np.int64)
    return numbers, (numbers * GOLDEN % 2**32) * n_rows >> 32


def median(values: FloatArray) -> float:
    """The lower median, which is always one of the values; 0 if there are none."""
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle]) if len(values) else 0.0


def kernel(squared: FloatArray, reach: float) -> FloatArray:
    """``max(1 - d²/R², 0)²``.

    Examples
    --------
    >>> kernel(np.array([0.0, 2.0, 4.0, np.inf]), 4.0).tolist()
    [1.0, 0.25, 0.0, 0.0]
    """
    with np.errstate(over="ignore"):
        near = np.maximum(1.0 - squared / reach, 0.0)
    return near * near


def sums_in_order(terms: FloatArray) -> FloatArray:
    """Sums over the last axis, which is never empty, from first to last. (`numpy.sum` adds pairwise.)"""
    return np.asarray(np.add.accumulate(terms, axis=-1)[..., -1])


def gains(kernels: FloatArray, cover: FloatArray, weights: FloatArray) -> FloatArray:
    """(r,) gains of candidates from their kernels (r, n) and the current coverage (n,)."""
    terms = kernels - cover
    np.maximum(terms, 0.0, out=terms)
    terms *= weights
    return sums_in_order(terms)


def initial_cover(problem: CoverageProblem, reach: float) -> FloatArray:
    """(n,) kernel of each row with its nearest reference; 0 without references or if the reach is 0."""
    n_pool = len_of(problem.pool)
    if reach == 0.0 or len_of(problem.references) == 0:
        return np.zeros(n_pool)
    return kernel(squared_radii(problem.pool, problem.references, problem.metric), reach)


class Kernels:
    """Kernels of candidates with every row of the pool. If the reach is 0, a candidate covers only itself."""

    def __init__(self, problem: CoverageProblem, reach: float) -> None:
        self.problem, self.reach = problem, reach
        n_pool = len_of(problem.pool)
        self.points = read_rows(problem.pool, slice(0, n_pool), problem.metric)
        is_kept = 8 * n_pool * len(problem.candidates) <= KEPT_BYTES
        self.kept = np.stack([self[position] for position in range(len(problem.candidates))]) if is_kept else None

    def __getitem__(self, position: int) -> FloatArray:
        """(n,) kernels of one candidate."""
        row = self.problem.candidates[position]
        if self.reach == 0.0:
            return np.asarray(np.arange(len(self.points)) == row, dtype=np.float64)
        return kernel(exact_sq_distances(self.points, self.points[row]), self.reach)

    def blocks(self) -> Iterator[FloatArray]:
        """Kernels (r, n) of all candidates, in order."""
        if self.kept is not None:
            yield self.kept
            return
        for position in range(len(self.problem.candidates)):
            yield self[position][None]


def greedy(problem: CoverageProblem) -> Configuration:
    """O(b·candidates·n·d) time, O(n·d) memory."""
    reach = squared_reach(problem)
    kernels, cover = Kernels(problem, reach), initial_cover(problem, reach)
    before = float(sums_in_order(problem.weights * cover))
    is_left = np.ones(len(problem.candidates), dtype=np.bool_)
    picks, gained = list[int](), list[float]()
    for _ in range(problem.budget):
        added = np.concatenate([gains(block, cover, problem.weights) for block in kernels.blocks()])
        best = int(np.argmax(np.where(is_left, problem.priorities(slice(None), added), -1.0)))
        is_left[best] = False
        if problem.quotas is not None:
            remaining = problem.quotas.remaining(problem.candidates[[*picks, best]])
            is_left &= remaining[problem.quotas.classes[problem.candidates]] > 0
        cover = np.maximum(cover, kernels[best])
        picks.append(best)
        gained.append(float(added[best]))
    return finished(problem, reach, before, picks, gained)


def shares(weights: FloatArray, before: float, gained: FloatArray) -> FloatArray:
    """(b,) covered fraction of the total weight after each pick, at most 1; 1 if the total weight is 0.

    ``before`` is the covered weight before the first pick, ``gained`` (b,) the gain of each pick.

    Examples
    --------
    >>> shares(np.array([1.0, 3.0]), 1.0, np.array([0.5, 0.25])).tolist()
    [0.375, 0.4375]
    """
    total = float(sums_in_order(weights))
    if total == 0.0:
        return np.ones(len(gained))
    covered = np.add.accumulate(np.concatenate([[before], gained]))[1:]
    return np.minimum(covered / total, 1.0)


def finished(
    problem: CoverageProblem,
    reach: float,
    before: float,
    picks: IntArray | list[int],
    gained: FloatArray | list[float],
) -> Configuration:
    """Build the configuration from positions among the candidates and their gains; see `shares` for ``before``."""
    positions, added = np.asarray(picks, dtype=np.int64), np.asarray(gained, dtype=np.float64)
    indices = problem.candidates[positions]
    return Configuration(
        indices=indices,
        priorities=problem.priorities(positions, added),
        radius=None,
        uncertainty=None if problem.doubt is None or len(indices) == 0 else uncertainty(problem.doubt[indices]),
        covered=shares(problem.weights, before, added),
        reach=float(np.sqrt(reach)),
    )
