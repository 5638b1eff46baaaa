"""The greedy core-set (Algorithm 1) and the doubt-weighted core-set (Algorithm 2), with or without a beam."""

from dataclasses import dataclass, replace
from typing import ClassVar, get_args

from dubito.core.problem import Problem, Request, Scaling
from dubito.doubt import beam_scores, scaling_weights
from dubito.doubt.reading import DOUBT_SOURCES
from dubito.errors import InvalidArgument, keyword, named
from dubito.matrix import FloatArray
from dubito.request.arrays import check_choice, check_integer, check_real
from dubito.strategies.base import LEARNABLE, Choice, Kind, doubt_of, require_doubt
from dubito.strategies.constraints import solve_with_constraints


@dataclass(frozen=True, slots=True)
class Coreset:
    """Farthest point first: each pick is the point farthest from all labeled points and picks.

    A beam wider than 1 ranks configurations by their doubt, so it needs doubt.
    """

    name: ClassVar[str] = "coreset"
    uses_engine: ClassVar[bool] = True
    keeps_limits: ClassVar[bool] = True
    picks_groups: ClassVar[bool] = True
    beam_width: int = 1

    def __post_init__(self) -> None:
        check_integer("beam_width", self.beam_width, least=1)

    @property
    def uses_doubt(self) -> bool:
        """Whether the beam is wider than 1."""
        return self.beam_width > 1

    def choose(self, request: Request) -> Choice:
        """The picks of `dubito.core.reference`."""
        return solve_with_constraints(request, self.plan(request))

    def plan(self, request: Request) -> Problem:
        """Algorithm 1, or its beam."""
        return _problem(request, self.name, self.beam_width, "respective", None)


@dataclass(frozen=True, slots=True)
class DoubtCoreset:
    """The core-set with distances scaled by the model's doubt: the paper's method.

    Parameters
    ----------
    strength : float
        The priority is the distance times doubt to this power: 1 in the paper, 0 for the plain core-set.
    beam_width : int
        Number of configurations; the paper's full method has 10 to 20.
    scaling : {"respective", "acquired"}
        Whether the doubt of the remaining point scales a distance, or (as printed in line 11) that of the pick.
    doubt : {"confidence", "margin", "learnable"}
        ``1 - p1`` of the largest probability (the paper's), ``1 - (p1 - p2)`` of the two largest, or the disagreement
        of posterior samples (n, k, c), from 0 to 1. It scales distances, and ranks a cold start and a beam. Doubt that
        was passed directly is used unchanged.
    """

    name: ClassVar[str] = "doubt-coreset"
    uses_engine: ClassVar[bool] = True
    keeps_limits: ClassVar[bool] = True
    picks_groups: ClassVar[bool] = True
    strength: float = 1.0
    beam_width: int = 1
    scaling: Scaling = "respective"
    doubt: Kind = "confidence"

    def __post_init__(self) -> None:
        check_real("strength", self.strength, least=0.0)
        check_integer("beam_width", self.beam_width, least=1)
        check_choice("scaling", self.scaling, get_args(Scaling))
        check_choice("doubt", self.doubt, get_args(Kind))

    @property
    def needs_samples(self) -> bool:
        """Whether the doubt is the disagreement of posterior samples."""
        return self.doubt == LEARNABLE

    def choose(self, request: Request) -> Choice:
        """The picks of `dubito.core.reference`."""
        return solve_with_constraints(request, self.plan(request))

    def plan(self, request: Request) -> Problem:
        """Algorithm 2, or its beam; with strength 0, Algorithm 1."""
        if request.doubt is not None:
            request = replace(request, doubt=doubt_of(request, self.name, self.doubt))
        weights = None
        if self.strength > 0:
            weights = scaling_weights(require_doubt(request, self.name), self.strength)
        return _problem(request, self.name, self.beam_width, self.scaling, weights)


def _beam_doubt(request: Request, width: int) -> FloatArray:
    """The doubt by which a beam ranks configurations."""
    if request.doubt is None:
        hint = f"pass {DOUBT_SOURCES}, or leave {keyword('beam_width')} out."
        raise InvalidArgument("needs the model's doubt", argument="beam_width", value=width, hint=hint)
    return request.doubt


def _problem(request: Request, name: str, beam_width: int, scaling: Scaling, weights: FloatArray | None) -> Problem:
    doubt, costs = request.doubt, request.costs
    if costs is not None or request.quotas is not None or request.groups is not None:
        check_limits(beam_width, scaling)
    if costs is not None:
        # Without weights, a cold start begins near the mean and does not use doubt.
        doubt = None if weights is None else doubt
        weights = (1.0 if weights is None else weights) / (costs * costs)
    return Problem(
        pool=request.pool,
        references=request.references,
        candidates=request.candidates,
        budget=request.budget,
        doubt=doubt,
        weights=weights,
        scores=beam_scores(_beam_doubt(request, beam_width)) if beam_width > 1 else None,
        scaling=scaling,
        beam_width=beam_width,
        metric=request.metric,
        largest=request.largest,
        memory_limit=request.memory_limit,
        progress=request.progress,
        known=request.known,
        costs=costs,
    )


def check_limits(beam_width: int, scaling: Scaling = "respective") -> None:
    """Raise for options that do not support costs, quotas and groups."""
    if beam_width > 1:
        hint = f"leave it out, or {named('costs')}, {named('quotas')} and {named('groups')}."
        raise InvalidArgument(
            "cannot be combined with costs, quotas or groups", argument="beam_width", value=beam_width, hint=hint
        )
    if scaling == "acquired":
        hint = f"pass {named('scaling', 'respective')}."
        problem = "cannot be combined with costs, quotas or groups"
        raise InvalidArgument(problem, argument="scaling", value=scaling, hint=hint)
