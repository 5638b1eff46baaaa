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
FIRST_SUBSET, MOST_LEFT = 5000, 10_000


@dataclass(frozen=True, slots=True)
class Refine:
    """Uncertainty Herding among the candidates that an ensemble of nine strategies prefers.

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
        """Priorities are gains of coverage of the candidates that are left."""
        self.plan(request)
        left, subset = request.candidates, FIRST_SUBSET
        rng = np.random.default_rng(request.seed)
        for _ in range(self.depth):
            among = replace(request, candidates=left, progress=None)
            found = [picks for _, picks in batches_of(ENSEMBLE, among, self.batches, subset, rng)]
            left = np.unique(np.concatenate(found))
            if len(left) > MOST_LEFT:
                left = np.sort(rng.choice(left, MOST_LEFT, replace=False))
            subset = max(request.budget, int(self.share * len(left)))
        return UncertaintyHerding().choose(replace(request, candidates=left))


def batches_of(
    ensemble: tuple[Strategy, ...], request: Request, n_batches: int, subset: int, rng: np.random.Generator
) -> Iterator[tuple[Strategy, IntArray]]:
    """Batches of each strategy, from random subsets of the candidates."""
    for strategy in ensemble:
        for _ in range(max(n_batches // len(ensemble), 1)):
            size = max(min(subset, len(request.candidates)), request.budget)
            candidates = np.sort(rng.choice(request.candidates, size, replace=False))
            choice = strategy.choose(replace(request, candidates=candidates, known=None, seed=int(rng.integers(2**31))))
            yield strategy, choice.configurations[0].indices
