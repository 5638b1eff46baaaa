"""Coverage: each pick covers the most of what is not covered yet, of the pool or of the model's doubt about it."""

from dataclasses import dataclass, replace
from typing import ClassVar, get_args

import numpy as np

from dubito.core.coverage_reference import CoverageProblem, sample_rows, systematic_sample
from dubito.core.distances import feature_sums, read_rows
from dubito.core.problem import Request
from dubito.doubt import scaling_weights, sharpened_doubt
from dubito.errors import InvalidArgument, named
from dubito.matrix import FloatArray, IntArray, Matrix, blocks, len_of, rows_per_read
from dubito.request.arrays import check_choice, check_integer, check_real
from dubito.strategies.base import LEARNABLE, Choice, Kind, doubt_of
from dubito.strategies.constraints import solve_with_constraints

FACTOR = 1.4
"""The reach over the median distance to what is labeled."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The points that lie nearest to most of the pool: every row counts alike.

    Parameters
    ----------
    radius : float, optional
        How far a point covers. By default ``factor`` times the median distance of the pool to what is labeled.
    factor : float
        See ``radius``.
    sample : int, optional
        Cover only so many rows, evenly chosen, in place of all: an estimate, for pools too large for more.
    """

    name: ClassVar[str] = "coverage"
    uses_engine: ClassVar[bool] = True
    keeps_limits: ClassVar[bool] = True
    picks_groups: ClassVar[bool] = True
    uses_doubt: ClassVar[bool] = False
    radius: float | None = None
    factor: float = FACTOR
    sample: int | None = None

    def __post_init__(self) -> None:
        _check(self.radius, self.factor, self.sample)

    def choose(self, request: Request) -> Choice:
        """See `dubito.core.coverage_reference` for the meaning, the engines for the cost."""
        problem = self.plan(request)
        return replace(solve_with_constraints(request, problem), sampled=problem.sampled)

    def plan(self, request: Request) -> CoverageProblem:
        """Every row counts alike."""
        return _problem(request, np.ones(len_of(request.pool)), self.radius, self.factor, self.sample)


@dataclass(frozen=True, slots=True)
class DoubtCoverage:
    """The points that lie nearest to most of the model's doubt. Without any doubt every row counts alike.

    Parameters
    ----------
    strength : float
        A row counts with its doubt to this power; with 0 all count alike.
    doubt : {"margin", "confidence", "learnable"}
        ``1 - (p1 - p2)`` of the two largest probabilities, ``1 - p1``, or how far posterior samples (n, k, c) disagree.
        Doubt that was handed in as such is taken.
    radius : float, optional
        How far a point covers. By default ``factor`` times the median distance of the pool to what is labeled.
    factor : float
        See ``radius``.
    sample : int, optional
        Cover only so many rows, chosen evenly by doubt, in place of all: an estimate, for pools too large for more.
    variance : float
        A row also counts with its `variance_share` to this power: where classes overlap, doubt stays high however many
        labels there are, and this share falls. O(n·d²) time; not for shards.
    sharpen : float
        Probabilities of a model so unsure that the median doubt of the unlabeled rows is larger than this are sharpened
        until it is not: see `dubito.doubt.sharpened_doubt`. 1 leaves all as they are. Not for shards.
    """

    name: ClassVar[str] = "doubt-coverage"
    uses_engine: ClassVar[bool] = True
    keeps_limits: ClassVar[bool] = True
    picks_groups: ClassVar[bool] = True
    strength: float = 1.0
    doubt: Kind = "margin"
    radius: float | None = None
    factor: float = FACTOR
    sample: int | None = None
    variance: float = 0.0
    sharpen: float = 1.0

    def __post_init__(self) -> None:
        check_real("strength", self.strength, least=0.0)
        check_real("variance", self.variance, least=0.0)
        check_choice("doubt", self.doubt, get_args(Kind))
        check_real("sharpen", self.sharpen, least=0.0, most=1.0)
        if self.sharpen < 1.0 and self.doubt != "margin":
            problem = f"needs {named('doubt', 'margin')}, not {named('doubt', self.doubt)}"
            raise InvalidArgument(problem, argument="sharpen", value=self.sharpen, hint="leave one of them out.")
        _check(self.radius, self.factor, self.sample)

    @property
    def needs_samples(self) -> bool:
        """Whether its doubt is what posterior samples disagree on."""
        return self.doubt == LEARNABLE

    def choose(self, request: Request) -> Choice:
        """See `dubito.core.coverage_reference` for the meaning, the engines for the cost."""
        problem = self.plan(request)
        return replace(solve_with_constraints(request, problem), sampled=problem.sampled)

    def plan(self, request: Request) -> CoverageProblem:
        """Rows count by their doubt."""
        return _problem(request, self.weights(request), self.radius, self.factor, self.sample)

    def weights(self, request: Request) -> FloatArray:
        """(n,) doubt to the power of ``strength``, times `variance_share` to that of ``variance``."""
        if request.doubt is None:
            return np.ones(len_of(request.pool))
        if self.sharpen < 1.0 and request.probabilities is not None:
            left = np.setdiff1d(np.arange(len(request.doubt)), request.labeled)
            doubt = sharpened_doubt(request.probabilities, left, self.sharpen)
        else:
            doubt = doubt_of(request, self.name, self.doubt)
        weights = scaling_weights(doubt, self.strength / 2.0)
        if self.variance == 0.0 or len_of(request.references) == 0:
            return weights
        return np.asarray(weights * variance_share(request) ** self.variance)


def variance_share(request: Request) -> FloatArray:
    """(n,) ``v / (1 + v)``, with v the variance of a row's logit given the labels, and 1 that of noise.

    ``v = x' H⁻¹ x`` by Laplace's approximation for a linear model with a normal prior: ``H = I + Σ p (1 - p) x x'``
    over the labeled rows, with the largest probability p; labeled points outside the pool count with p = ½. Features
    are centered and have a mean squared length of 1, and a constant is appended: neither units nor origin matter.
    """
    assert request.doubt is not None
    n_rows, metric = len_of(request.pool), request.metric
    spans = list(blocks(n_rows, rows_per_read(request.pool)))
    center = feature_sums(request.pool, metric) / n_rows
    squared = sum(float(((read_rows(request.pool, span, metric) - center) ** 2).sum()) for span in spans)
    scale = np.sqrt(squared / n_rows) or 1.0

    def read(matrix: Matrix, rows: slice | IntArray) -> FloatArray:
        points = (read_rows(matrix, rows, metric) - center) / scale
        return np.column_stack([points, np.ones(len(points))])

    labeled = read(request.references, slice(0, len_of(request.references)))
    is_in_pool = len(request.labeled) == len(labeled)
    doubt = request.doubt[request.labeled] if is_in_pool else np.full(len(labeled), 0.5)
    labeled = read(request.pool, request.labeled) if is_in_pool else labeled
    information = np.eye(len(center) + 1) + (labeled * (doubt * (1.0 - doubt))[:, None]).T @ labeled
    half = np.linalg.inv(np.linalg.cholesky(information)).T
    variances = np.concatenate([((read(request.pool, span) @ half) ** 2).sum(axis=1) for span in spans])
    # In single precision, as the last bits depend on the machine's linear algebra.
    return (variances / (1.0 + variances)).astype(np.float32).astype(np.float64)


def _check(radius: float | None, factor: float, sample: int | None) -> None:
    if radius is not None:
        check_real("radius", radius, least=0.0)
    check_real("factor", factor, least=0.0)
    if sample is not None:
        check_integer("sample", sample, least=1)


def _problem(
    request: Request, weights: FloatArray, radius: float | None, factor: float, sample: int | None
) -> CoverageProblem:
    weights = weights.copy()
    weights[request.labeled] = 0.0
    is_sampled = sample is not None and sample < np.count_nonzero(weights)
    unlabeled = np.setdiff1d(np.arange(len_of(request.pool)), request.labeled, assume_unique=True)
    return CoverageProblem(
        pool=request.pool,
        references=request.references,
        candidates=request.candidates,
        budget=request.budget,
        weights=systematic_sample(weights, sample) if sample is not None and is_sampled else weights,
        sample=sample_rows(unlabeled),
        radius=radius,
        factor=factor,
        doubt=request.doubt,
        metric=request.metric,
        largest=request.largest,
        memory_limit=request.memory_limit,
        progress=request.progress,
        known=request.known,
        costs=request.costs,
        sampled=sample if is_sampled else None,
    )
