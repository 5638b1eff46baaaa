"""REFINE (Huseljic et al., CVPR 2026): several strategies filter the candidates, and herding picks from the rest.

In each of five steps, every strategy of an ensemble selects batches from random subsets of the candidates, and the
union of all batches are the candidates of the next step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dubito.core.problem import Request
from dubito.matrix import IntArray
from dubito.published.bait import Bait
from dubito.published.flips import AlfaMix, DropQuery
from dubito.published.herding import MaxHerding, UncertaintyHerding
from dubito.published.typiclust import PublishedTypiClust
from dubito.request.arrays import check_integer, check_real
from dubito.strategies import Badge, Margin, Random, Strategy
from dubito.strategies.base import Choice, require_probabilities

ENSEMBLE: tuple[Strategy, ...] = (
    Random(),
    Margin(),
    Badge(),
    Bait(likelihood="binary"),
    PublishedTypiClust(),
    AlfaMix(),
    DropQuery(),
    MaxHerding(),
    UncertaintyHerding(),
)
FIRST_SUBSET = 5000
"""Number of candidates that a batch of the first step is selected from."""
MAX_CANDIDATES = 10_000
"""After each step, at most this many candidates are kept, at random."""


@dataclass(frozen=True, slots=True)
class Refine:
    """Uncertainty Herding among the candidates that an ensemble of nine strategies selects.

    Takes the time of ``depth`` times ``batches`` selections from at most 5,000 candidates. Uncertainty Herding is not
    calibrated here.

    Parameters
    ----------
    depth : int
        The number of filtering steps.
    batches : int
        The number of batches of a step, shared evenly by the strategies.
    share : float
        The share of the candidates that a batch is selected from, after the first step.
    """

    name: ClassVar[str] = "refine"
    uses_engine: ClassVar[bool] = False
    depth: int = 5
    batches: int = 100
    share: float = 0.4

    def __post_init__(self) -> None:
        check_integer("depth", self.depth, least=0)
        check_integer("batches", self.batches, least=len(ENSEMBLE))
        check_real("share", self.share, least=0.0)

    def plan(self, request: Request) -> None:
        require_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are gains of coverage of the remaining candidates."""
        self.plan(request)
        candidates, subset = request.candidates, FIRST_SUBSET
        rng = np.random.default_rng(request.seed)
        for _ in range(self.depth):
            remaining = replace(request, candidates=candidates, progress=None)
            candidates = np.unique(np.concatenate(list(batches_of(ENSEMBLE, remaining, self.batches, subset, rng))))
            if len(candidates) > MAX_CANDIDATES:
                candidates = np.sort(rng.choice(candidates, MAX_CANDIDATES, replace=False))
            subset = max(request.budget, int(self.share * len(candidates)))
        return UncertaintyHerding().choose(replace(request, candidates=candidates))


def batches_of(
    ensemble: tuple[Strategy, ...], request: Request, n_batches: int, subset: int, rng: np.random.Generator
) -> Iterator[IntArray]:
    """The same number of batches from each strategy, selected from random subsets of ``subset`` candidates."""
    for strategy in ensemble:
        for _ in range(max(n_batches // len(ensemble), 1)):
            size = max(min(subset, len(request.candidates)), request.budget)
            candidates = np.sort(rng.choice(request.candidates, size, replace=False))
            choice = strategy.choose(replace(request, candidates=candidates, known=None, seed=int(rng.integers(2**31))))
            yield choice.configurations[0].indices
