"""Random acquisition: the baseline every other strategy must beat."""

from dataclasses import dataclass

import numpy as np

from dubito.problem import Request
from dubito.strategies.base import Choice, without_distances


@dataclass(frozen=True, slots=True)
class Random:
    """Uniformly at random, without replacement; the seed decides. Its priorities are NaN."""

    name: str = "random"
    uses_engine: bool = False

    def choose(self, request: Request) -> Choice:
        """O(n) time."""
        generator = np.random.default_rng(request.seed)
        indices = generator.choice(request.candidates, request.budget, replace=False)
        return without_distances(request, indices, np.full(request.budget, np.nan))
