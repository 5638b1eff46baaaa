"""Random problems with edge cases for engines, each generated from a seed."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Problem, Quotas
from dubito.doubt import beam_scores, scaling_weights
from dubito.matrix import AnyArray, FloatArray, Matrix, Rows, Stack, len_of

# Points at the limits of float32 and float64, which test the error bounds. Each function takes a generator and a shape
# (rows, features), and returns float64 points.

PointMaker = Callable[[np.random.Generator, tuple[int, int]], FloatArray]


def mixed_columns(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Columns that span 60 orders of magnitude; only the largest ones matter."""
    return np.asarray(rng.standard_normal(shape) * 10.0 ** rng.uniform(-30, 30, shape[1]))


def mixed_rows(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Rows that span 20 orders of magnitude, without a common center."""
    return np.asarray(rng.standard_normal(shape) * 10.0 ** rng.uniform(-10, 10, (shape[0], 1)))


def one_outlier(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """One point so far away that all others nearly coincide in comparison."""
    points = rng.standard_normal(shape)
    points[rng.integers(shape[0])] *= 10.0 ** rng.integers(5, 30)
    return points


def large_offsets(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Small integers plus an offset so large that float32 cannot represent the sums."""
    offset = 2.0 ** rng.integers(20, 50, shape[1])
    return np.asarray(offset + rng.integers(-3, 4, shape))


def near_one(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """1 plus a few float32 units in the last place, so that rounding errors add up."""
    return np.asarray(1.0 + rng.integers(0, 8, shape) * 2.0**-24)


def near_float32_max(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Numbers from 1e36 to the largest float32, whose squares and differences may overflow."""
    return np.asarray(rng.choice([-1.0, 1.0], shape) * rng.uniform(0.5, 1.5, shape) * rng.choice([1e36, 1e37, 2e38]))


def near_float32_min(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Numbers around 1e-37, and subnormal float32 numbers, which have fewer digits."""
    return np.asarray(rng.standard_normal(shape) * rng.choice([1e-36, 1e-37, 1e-38, 1e-43]))


def subnormal_columns(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Some features around 1, the others subnormal in float32."""
    is_subnormal = rng.random(shape) < 0.5
    return np.asarray(np.where(is_subnormal, rng.standard_normal(shape) * 1e-40, rng.integers(-1, 2, shape)))


def subnormal_squares(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """Numbers so small that squared differences are subnormal in float64, or 0."""
    return np.asarray(rng.standard_normal(shape) * rng.choice([1e-155, 1e-160, 2e-162]))


def near_limit(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    """The largest allowed numbers."""
    return np.asarray(rng.uniform(-1.0, 1.0, shape) * 1e140)


EDGES: tuple[PointMaker, ...] = (
    mixed_columns,
    mixed_rows,
    one_outlier,
    large_offsets,
    near_one,
    near_float32_max,
    near_float32_min,
    subnormal_columns,
    subnormal_squares,
    near_limit,
)

STRENGTHS = (0.0, 0.25, 0.5, 0.7, 1.0, 2.0)
WIDEST_BEAM = 5

P = TypeVar("P", Problem, CoverageProblem)
PoolAndReferences = tuple[FloatArray, FloatArray]
"""Pool (n, d) and references (m, d)."""


def make_problem(seed: int, *, beams: bool = True, least_rows: int = 1) -> Problem:
    """A small problem with edge cases: ties, near-ties, duplicates, zero doubt, costs, quotas, unusual storage.

    Parameters
    ----------
    seed : int
        The same number gives the same problem.
    beams : bool
        Whether the problem may have a beam.
    least_rows : int
        Minimum number of rows of the pool; most pools have fewer than 60 more.

    Examples
    --------
    >>> make_problem(3).budget == make_problem(3).budget
    True
    """
    rng = np.random.default_rng(seed)
    pool, references = KINDS[rng.integers(len(KINDS))](rng, least_rows)
    _duplicate_some(rng, pool, references)
    stored, stored_references = _store(rng, pool), _store(rng, references)
    doubt, strength = _make_doubt(rng, len(pool)), float(rng.choice(STRENGTHS))
    width = int(rng.integers(1, WIDEST_BEAM + 1)) if beams else 1
    is_candidate = rng.random(len(pool)) < rng.choice([0.7, 1.0, 1.0])
    is_candidate[rng.integers(len(pool))] = True
    candidates = np.flatnonzero(is_candidate)
    is_cosine = rng.random() < 0.15 and _has_directions(stored) and _has_directions(stored_references)
    problem = Problem(
        pool=stored,
        references=stored_references,
        candidates=candidates,
        budget=len(candidates) if rng.random() < 0.3 else int(rng.integers(1, len(candidates) + 1)),
        doubt=doubt,
        weights=None if strength == 0 else scaling_weights(doubt, strength),
        scores=beam_scores(doubt) if width > 1 else None,
        scaling="acquired" if rng.random() < 0.5 else "respective",
        beam_width=width,
        metric="cosine" if is_cosine else "euclidean",
        largest=1.0 if is_cosine else max(_largest(stored), _largest(stored_references)),
    )
    is_plain = width == 1 and problem.scaling == "respective"
    return with_quotas(_with_costs(problem, make_costs(seed, len(pool))), seed) if is_plain else problem


def make_costs(seed: int, n: int) -> FloatArray | None:
    """The costs of rows in some problems: few values with many ties, distinct values, or the largest possible range."""
    rng = np.random.default_rng([seed, 15])
    kind = rng.integers(8)
    if kind == 0:
        return rng.choice([0.5, 1.0, 2.0, 3.0], n)
    if kind == 1:
        return rng.uniform(0.1, 10.0, n)
    return np.asarray(10.0 ** rng.integers(-9, 10, n), dtype=np.float64) if kind == 2 else None


def _with_costs(problem: Problem, costs: FloatArray | None) -> Problem:
    """The problem with costs, which divide priorities; a core-set without doubt starts near the mean."""
    if costs is None:
        return problem
    doubt, weights = (None, 1.0) if problem.weights is None else (problem.doubt, problem.weights)
    return replace(problem, doubt=doubt, weights=weights / (costs * costs), costs=costs)


def with_quotas(problem: P, seed: int) -> P:
    """Add class quotas to some problems, and reduce the budget to what they allow."""
    rng, n = np.random.default_rng([seed, 16]), len_of(problem.pool)
    if rng.random() < 0.8:
        return problem
    classes, limits = rng.integers(4, size=n), rng.choice([1, 1, 2, 5, n], 4)
    largest_budget = np.minimum(np.bincount(classes[problem.candidates], minlength=4), limits).sum()
    return replace(problem, quotas=Quotas(classes, limits), budget=min(problem.budget, int(largest_budget)))


def _has_directions(matrix: Matrix) -> bool:
    return bool(np.asarray(matrix[:]).any(axis=1).all())


def _largest(matrix: Matrix) -> float:
    return float(np.abs(np.asarray(matrix[:], dtype=np.float64)).max(initial=0.0))


def _shape(rng: np.random.Generator, least_rows: int) -> tuple[int, int, int]:
    return least_rows + int(rng.integers(59)), int(rng.choice([0, 0, 1, 3, 20])), int(rng.choice([1, 2, 3, 8, 17]))


def _integers(rng: np.random.Generator, least_rows: int) -> PoolAndReferences:
    """Integers: no rounding, and many ties."""
    (n, m, d), span = _shape(rng, least_rows), int(rng.choice([1, 2, 3, 10, 1000]))
    return rng.integers(-span, span + 1, (n, d)).astype(float), rng.integers(-span, span + 1, (m, d)).astype(float)


def _near_ties(rng: np.random.Generator, least_rows: int) -> PoolAndReferences:
    """Rows of nearly equal length: one row with its coordinates permuted, negated and changed by a few ulps."""
    n, m, d = _shape(rng, least_rows)
    pool = rng.permuted(np.tile(rng.standard_normal(d), (n, 1)), axis=1) * rng.choice([-1.0, 1.0], (n, d))
    pool += np.spacing(pool) * rng.integers(-2, 3, (n, d))
    return pool, np.zeros((min(m, 1), d))


def _large_offset(rng: np.random.Generator, least_rows: int) -> PoolAndReferences:
    """Small differences on a large offset, most of them lost in float32."""
    (n, m, d), offset = _shape(rng, least_rows), float(rng.choice([1e3, 1e6, 1e9]))
    noise = float(rng.choice([1.0, 1e-3]))
    return rng.standard_normal((n, d)) * noise + offset, rng.standard_normal((m, d)) * noise + offset


def _extreme_scale(rng: np.random.Generator, least_rows: int) -> PoolAndReferences:
    """Magnitudes whose squares overflow or underflow in float32 or float64."""
    (n, m, d), scale = _shape(rng, least_rows), float(rng.choice([1e-160, 1e-100, 1e-20, 1e20, 1e60, 1e139]))
    return rng.standard_normal((n, d)) * scale, rng.standard_normal((m, d)) * scale


def _low_rank(rng: np.random.Generator, least_rows: int) -> PoolAndReferences:
    """Wide rows of low rank, like the features of networks."""
    n, m, d, rank = least_rows + int(rng.integers(129, 199)), int(rng.choice([0, 5, 150])), 200, int(rng.integers(1, 6))
    directions = rng.standard_normal((rank, d))
    return rng.standard_normal((n, rank)) @ directions, rng.standard_normal((m, rank)) @ directions


def _edge_case(rng: np.random.Generator, least_rows: int) -> PoolAndReferences:
    """One of the edge cases of `EDGES`."""
    n, m, d = _shape(rng, least_rows)
    points = EDGES[rng.integers(len(EDGES))](rng, (n + m, d))
    return points[:n], points[n:]


KINDS: tuple[Callable[[np.random.Generator, int], PoolAndReferences], ...] = (
    _integers,
    _integers,
    _near_ties,
    _large_offset,
    _extreme_scale,
    _low_rank,
    _edge_case,
    _edge_case,
)


def _duplicate_some(rng: np.random.Generator, pool: FloatArray, references: FloatArray) -> None:
    """Replace some pool rows, in place, by copies of other rows or of references."""
    if rng.random() < 0.3:
        pool[rng.random(len(pool)) < 0.3] = pool[0]
    if rng.random() < 0.3:
        n_same = min(len(pool), len(references)) // 2
        pool[:n_same] = references[:n_same]


def _make_doubt(rng: np.random.Generator, n: int) -> FloatArray:
    kind = rng.integers(4)
    if kind == 0:
        return rng.random(n) * 10.0 ** rng.integers(-12, 1, n)
    if kind == 1:
        return np.full(n, float(rng.choice([0.0, 0.5, 1.0])))
    return rng.choice([0.0, 0.25, 0.5, 0.75, 1.0], n)


def _store(rng: np.random.Generator, array: FloatArray) -> Matrix:
    """The rows in a random storage format; in a smaller type only if it can represent the numbers."""
    kept: AnyArray = array
    smaller = rng.choice(["float16", "float32", "float64"])
    if 1e-3 < np.abs(array).max(initial=0.0) < np.finfo(smaller).max / 2:
        kept = array.astype(smaller)
    layout = rng.integers(6)
    if layout == 0:
        return np.asfortranarray(kept)
    if layout == 1:
        kept.flags.writeable = False
        return kept
    if layout == 2 and kept.size:
        with tempfile.TemporaryFile() as file:
            mapped = np.memmap(file, dtype=kept.dtype, mode="w+", shape=kept.shape)
        mapped[:] = kept
        return mapped
    if layout == 3:
        order = rng.permutation(len(kept))
        return Rows(kept[order], np.argsort(order))
    if layout == 4:
        cut = len(kept) // 2
        return Stack([kept[:cut], kept[cut:].astype(np.float64)])
    return kept
