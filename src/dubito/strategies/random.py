"""Random acquisition: the baseline every other strategy must beat."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.problem import Request
from dubito.strategies.base import Choice, without_distances


@dataclass(frozen=True, slots=True)
class Random:
    """Uniformly at random, without replacement; the seed decides. Its priorities are NaN."""

    name: ClassVar[str] = "random"
    uses_engine: ClassVar[bool] = False
    uses_doubt: ClassVar[bool] = False

    def plan(self, request: Request) -> None:
        """It takes any request, and no engine."""

    def choose(self, request: Request) -> Choice:
        """O(n) time."""
        generator = np.random.default_rng(request.seed)
        indices = generator.choice(request.candidates, request.budget, replace=False)
        return without_distances(request, indices, np.full(request.budget, np.nan))
