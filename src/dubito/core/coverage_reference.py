"""Coverage in doubt, slow and obvious, in float64: the oracle of every engine that covers.

``F(s) = Σ_x w(x) · max over y in labelled ∪ s of k(‖x - y‖²)``, over all rows x of the pool, candidates or not, with
the kernel ``k(d²) = max(1 - d²/R², 0)²``. A pick is the candidate that adds most to F, ties go to the lowest index; its
priority is what it adds, over its cost where there are costs. A pair farther apart than the reach R is exactly nothing.

Every number comes of additions, products and quotients of float64 in one fixed order, so that it has the same bits on
every machine. A sum over rows adds one row after another, from the first to the last: a row that adds nothing changes
nothing, so that an engine may pass over the pairs beyond reach. As cover grows no gain grows, rounding included,
because each of these operations keeps the order of its arguments: a stale gain is an upper bound, to the last bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core.distances import read_rows, settle, squared_radii
from dubito.core.problem import Configuration, Known, Metric, Progress, Quotas
from dubito.doubt import uncertainty
from dubito.matrix import FloatArray, IntArray, Matrix, Rows, blocks, len_of, rows_per_read

SAMPLE_ROWS = 4096
"""Rows whose distances give the reach, at most; a constant, because it is part of the result."""
GOLDEN = 2654435769
"""2³² over the golden ratio: multiples of it are spread evenly, whatever their number."""
KEPT_BYTES = 1 << 26
"""Kernels are kept where they take no more than this, and otherwise computed again for every pick."""


@dataclass(frozen=True, slots=True)
class CoverageProblem:
    """What an engine solves: which candidates cover most of what there is to cover."""

    kind: ClassVar[str] = "coverage"
    pool: Matrix
    references: Matrix
    candidates: IntArray
    budget: int
    weights: FloatArray
    """(n,) what there is to cover at each row of the pool, 0 or more."""
    sample: IntArray
    """Rows of the pool, ascending, whose distances give the reach; see `sample_rows`."""
    radius: float | None = None
    """The reach itself, where it is given."""
    factor: float = 1.4
    """The reach over the median distance of the sample to what is labelled; a cold start has its own rule."""
    doubt: FloatArray | None = None
    """(n,) in [0, 1]; for the uncertainty of the picks alone."""
    metric: Metric = "euclidean"
    largest: float = 1.0
    """No feature of the pool or the references is larger in magnitude."""
    memory_limit: int | None = None
    progress: Progress | None = None
    known: Known | None = None
    """An engine may read it and add to it."""
    costs: FloatArray | None = None
    """(n,) above 0; None where every one is 1."""
    quotas: Quotas | None = None
    """No class of a candidate has a limit of 0; for engines that keep them."""

    def priorities(self, places: IntArray | slice, added: FloatArray) -> FloatArray:
        """What some candidates add, over what they cost; rounding keeps the order of what one of them adds."""
        return added if self.costs is None else added / self.costs[self.candidates[places]]


def sample_rows(rows: IntArray) -> IntArray:
    """At most `SAMPLE_ROWS` of some rows, evenly.

    Examples
    --------
    >>> sample_rows(np.arange(8192))[:3].tolist()
    [0, 2, 4]
    """
    n_chosen = min(len(rows), SAMPLE_ROWS)
    return np.asarray(rows[np.arange(n_chosen) * len(rows) // max(n_chosen, 1)])


def running_sums(weights: FloatArray, before: float = 0.0) -> FloatArray:
    """(n,) sums of all weights up to each, one after another, on top of what stands before them."""
    return np.asarray(np.add.accumulate(np.concatenate([[before], weights]))[1:])


def thinned(weights: FloatArray, n_rows: int, before: float = 0.0, total: float | None = None) -> FloatArray:
    """Weights of at most so many rows that stand for all: a row as often as its weight makes up a share of the whole.

    Of a part of the pool, ``before`` is the sum of the weights that stand before it, ``total`` that of all.

    Examples
    --------
    >>> thinned(np.array([1.0, 1.0, 2.0, 0.0, 4.0]), 4).tolist()
    [2.0, 0.0, 2.0, 0.0, 4.0]
    >>> thinned(np.array([2.0, 0.0, 4.0]), 4, before=2.0, total=8.0).tolist()
    [2.0, 0.0, 4.0]
    """
    running = running_sums(weights, before)
    last = float(running[-1]) if len(running) else before
    step = (last if total is None else total) / n_rows
    marks = (np.arange(n_rows) + 0.5) * step
    rows = np.searchsorted(running, marks[(marks > before) & (marks <= last)])
    return np.asarray(np.bincount(rows, minlength=len(weights)) * step)


def squared_reach(problem: CoverageProblem) -> float:
    """R²: as given, or from the median distance of the sample to its nearest reference, in a cold start of pairs."""
    if problem.radius is not None:
        return problem.radius * problem.radius
    if len_of(problem.references):
        sample = Rows(problem.pool, problem.sample)
        return warm_reach(squared_radii(sample, problem.references, problem.metric), problem.factor)
    return cold_reach(problem)


def warm_reach(nearest: FloatArray, factor: float) -> float:
    """R² from squared distances of the sample to what is labelled, of which those of copies (0) do not count.

    Examples
    --------
    >>> warm_reach(np.array([0.0, 1.0, 4.0, 9.0]), 2.0)
    16.0
    """
    return whole_square(factor * factor * median(nearest[nearest > 0.0]))


def cold_reach(problem: CoverageProblem) -> float:
    """R² where nothing is labelled: half the median distance of pairs of the sample, copies aside."""
    left, right = pairs_of(len(problem.sample))
    parts = [np.empty(0)]
    for span in blocks(len(left), rows_per_read(problem.pool)):
        ends = (problem.sample[which[span]] for which in (left, right))
        parts.append(settle(*(read_rows(problem.pool, rows, problem.metric) for rows in ends)))
    squared = np.concatenate(parts)
    return whole_square(0.25 * median(squared[squared > 0.0]))


def whole_square(squared: float) -> float:
    """The square of its own root: R² comes again from R, so that ``radius`` can repeat a reach to the last bit."""
    root = float(np.sqrt(squared))
    return root * root


def pairs_of(n_rows: int) -> tuple[IntArray, IntArray]:
    """Each of some rows with another one, or itself, spread evenly over all of them.

    Examples
    --------
    >>> pairs_of(5)[1].tolist()
    [0, 3, 1, 4, 2]
    """
    numbers = np.arange(n_rows, dtype=np.int64)
    return numbers, (numbers * GOLDEN % 2**32) * n_rows >> 32


def median(values: FloatArray) -> float:
    """The middle one, of two the smaller: never a number that is not among them; 0 of none."""
    place = (len(values) - 1) // 2
    return float(np.partition(values, place)[place]) if len(values) else 0.0


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


def add_rows(terms: FloatArray) -> FloatArray:
    """Sums over the last axis, which is never empty, one term after another. (`numpy.sum` would add in pairs.)"""
    return np.asarray(np.add.accumulate(terms, axis=-1)[..., -1])


def gains(kernels: FloatArray, cover: FloatArray, weights: FloatArray) -> FloatArray:
    """(r,) what each of some candidates adds, from its kernels (r, n) and the cover (n,) that there is."""
    terms = kernels - cover
    np.maximum(terms, 0.0, out=terms)
    terms *= weights
    return add_rows(terms)


def first_cover(problem: CoverageProblem, reach: float) -> FloatArray:
    """(n,) the kernel of each row to its nearest reference; 0 where there is none, or no reach."""
    n_pool = len_of(problem.pool)
    if reach == 0.0 or len_of(problem.references) == 0:
        return np.zeros(n_pool)
    return kernel(squared_radii(problem.pool, problem.references, problem.metric), reach)


class Kernels:
    """Kernels of candidates to every row of the pool. Without reach a candidate covers itself alone."""

    def __init__(self, problem: CoverageProblem, reach: float) -> None:
        self.problem, self.reach = problem, reach
        n_pool = len_of(problem.pool)
        self.points = read_rows(problem.pool, slice(0, n_pool), problem.metric)
        is_kept = 8 * n_pool * len(problem.candidates) <= KEPT_BYTES
        self.kept = np.stack([self[place] for place in range(len(problem.candidates))]) if is_kept else None

    def __getitem__(self, place: int) -> FloatArray:
        """(n,) of one candidate."""
        row = self.problem.candidates[place]
        if self.reach == 0.0:
            return np.asarray(np.arange(len(self.points)) == row, dtype=np.float64)
        return kernel(settle(self.points, self.points[row]), self.reach)

    def blocks(self) -> Iterator[FloatArray]:
        """(r, n) of candidates in order."""
        if self.kept is not None:
            yield self.kept
            return
        for place in range(len(self.problem.candidates)):
            yield self[place][None]


def greedy(problem: CoverageProblem) -> Configuration:
    """O(b·candidates·n·d) time, O(n·d) memory."""
    reach = squared_reach(problem)
    kernels, cover = Kernels(problem, reach), first_cover(problem, reach)
    before = float(add_rows(problem.weights * cover))
    is_left = np.ones(len(problem.candidates), dtype=np.bool_)
    picks, gained = list[int](), list[float]()
    for _ in range(problem.budget):
        added = np.concatenate([gains(block, cover, problem.weights) for block in kernels.blocks()])
        best = int(np.argmax(np.where(is_left, problem.priorities(slice(None), added), -1.0)))
        is_left[best] = False
        if problem.quotas is not None:
            room = problem.quotas.room(problem.candidates[[*picks, best]])
            is_left &= room[problem.quotas.classes[problem.candidates]] > 0
        cover = np.maximum(cover, kernels[best])
        picks.append(best)
        gained.append(float(added[best]))
    return finished(problem, reach, before, picks, gained)


def shares(weights: FloatArray, before: float, gained: FloatArray) -> FloatArray:
    """(b,) how much of what there is to cover is covered after each pick, at most 1, and 1 where there is nothing.

    What was covered before, then what each pick adds, one after another, over the sum of all weights.

    Examples
    --------
    >>> shares(np.array([1.0, 3.0]), 1.0, np.array([0.5, 0.25])).tolist()
    [0.375, 0.4375]
    """
    total = float(add_rows(weights))
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
    """A configuration of candidates and what each adds; ``before`` is what was covered before any of them."""
    places, added = np.asarray(picks, dtype=np.int64), np.asarray(gained, dtype=np.float64)
    indices = problem.candidates[places]
    return Configuration(
        indices=indices,
        priorities=problem.priorities(places, added),
        radius=None,
        uncertainty=None if problem.doubt is None or len(indices) == 0 else uncertainty(problem.doubt[indices]),
        covered=shares(problem.weights, before, added),
        reach=float(np.sqrt(reach)),
    )
