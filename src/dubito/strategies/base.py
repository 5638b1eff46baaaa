"""What a strategy is: a frozen dataclass of its own options, with one method."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from dubito.doubt import DOUBT_SOURCES, uncertainty
from dubito.errors import InvalidArgument
from dubito.matrix import FloatArray, IntArray, Matrix
from dubito.problem import Configuration, Request
from dubito.wording import keyword, named


@dataclass(frozen=True, slots=True)
class Choice:
    """What a strategy chose: configurations, best first, and the engine that computed them, if any."""

    configurations: tuple[Configuration, ...]
    engine: str | None = None
    complete: bool = True
    sampled: int | None = None
    """Rows that stood for the whole pool; None where every row counted."""


@runtime_checkable
class Strategy(Protocol):
    """Decides what to label next."""

    @property
    def name(self) -> str:
        """What ``strategy=`` calls it."""
        ...

    @property
    def uses_engine(self) -> bool:
        """Whether ``engine=`` means anything to it."""
        ...

    def choose(self, request: Request) -> Choice:
        """``request.budget`` rows out of ``request.candidates``."""
        ...


def rank_by(request: Request, scores: FloatArray) -> Choice:
    """The ``b`` candidates of largest score (n,), ties to the lowest index."""
    order = np.argsort(-scores[request.candidates], kind="stable")[: request.budget]
    return without_distances(request, request.candidates[order], scores[request.candidates[order]])


def without_distances(request: Request, indices: IntArray, priorities: FloatArray) -> Choice:
    """A choice of a strategy that has no radius."""
    doubted = None if request.doubt is None else uncertainty(request.doubt[indices])
    return Choice((Configuration(indices, priorities, radius=None, uncertainty=doubted),))


def need_doubt(request: Request, strategy: str) -> FloatArray:
    """The doubt, or an error that says how to give it."""
    if request.doubt is None:
        mend = f"pass {DOUBT_SOURCES}, or {named('strategy', 'coreset')}, which needs none."
        raise InvalidArgument("needs the model's doubt", argument="strategy", value=strategy, mend=mend)
    return request.doubt


def need_probabilities(request: Request, strategy: str) -> Matrix:
    """The probabilities, or an error that says how to give them."""
    if request.probabilities is None:
        mend = f"pass {keyword('probabilities')} or {keyword('logits')}."
        raise InvalidArgument("needs class probabilities", argument="strategy", value=strategy, mend=mend)
    return request.probabilities
