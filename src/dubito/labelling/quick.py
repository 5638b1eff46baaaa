"""Picks of a large pool within seconds, so that nobody waits: fewer rows stand for all that is to be covered."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dubito.matrix import BoolArray, IntArray, Matrix, Rows, len_of
from dubito.problem import Request
from dubito.selecting import select
from dubito.strategies import Strategy
from dubito.strategies.auto import Auto
from dubito.strategies.base import Choice, Planner
from dubito.strategies.coverage import Coverage, DoubtCoverage

LARGE = 20_000
"""Rows beyond which a pool is large here."""
SAMPLE = 5_000
"""Rows that then stand for all."""


@dataclass(frozen=True, slots=True)
class QuickAuto:
    """What ``auto`` takes, with a sample to cover where it covers."""

    name: ClassVar[str] = "auto"
    uses_engine: ClassVar[bool] = True
    keeps_limits: ClassVar[bool] = True

    def choose(self, request: Request) -> Choice:
        """What the strategy that is taken chooses."""
        return self._taken(request).choose(request)

    def plan(self, request: Request) -> object:
        """What it would ask."""
        taken = self._taken(request)
        assert isinstance(taken, Planner)
        return taken.plan(request)

    def _taken(self, request: Request) -> Strategy:
        taken, _ = Auto().take(request)
        return replace(taken, sample=SAMPLE) if isinstance(taken, Coverage | DoubtCoverage) else taken


def strategy_for(name: str, n_rows: int) -> str | Strategy:
    """The strategy of a name, or of a large pool what is quicker and nearly the same."""
    return QuickAuto() if name == "auto" and n_rows > LARGE else name


def first_picks(features: Matrix, labelled: IntArray, candidates: BoolArray, budget: int, seed: int) -> IntArray:
    """Rows that cover a random sample of a large pool: where nothing tells classes apart, that is soon done."""
    rows = np.flatnonzero(candidates)
    if len_of(features) > LARGE:
        drawn = np.random.default_rng([seed, 5]).choice(rows, min(len(rows), max(SAMPLE, budget)), replace=False)
        rows = np.sort(drawn)
    sample = np.asarray(features[rows])
    known = np.asarray(Rows(features, labelled)[:]) if len(labelled) else None
    return rows[select(sample, min(budget, len(rows)), labelled=known, seed=seed).indices]
