"""The candidates of a shard on the CPU: their bounds, their kernels, and room for picks of all shards."""

import math
from dataclasses import replace
from typing import Protocol

import numpy as np

from dubito.engines.cluster.messages import Points, Start
from dubito.engines.cluster.room import Extended
from dubito.engines.cluster.shares import levels_of
from dubito.engines.cpu.kernels import CpuKernels
from dubito.engines.lazy.bounds import Bounds
from dubito.engines.lazy.frontier import Fresh
from dubito.matrix import FloatArray, IntArray, len_of
from dubito.problem import Problem

UNEVEN = 0.25
"""Of all picks, how many more than its share a shard should be ready for."""


class Candidates(Protocol):
    """What a shard knows of its candidates, which are numbered from 0, on whatever machine it has."""

    @property
    def weights(self) -> FloatArray | None:
        """(n,) of the shard's rows."""
        ...

    def add(self, picks: Points) -> None:
        """Picks of the whole pool become references."""
        ...

    def lower(self, numbers: IntArray, values: FloatArray) -> None:
        """Squared priorities are no larger than these."""
        ...

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """The first candidates in order, and some others, all of them up to date."""
        ...

    def levels(self, size: int) -> tuple[IntArray, FloatArray]:
        """Ranks in the order of the bounds, and the bounds there."""
        ...

    def drop(self, numbers: IntArray) -> None:
        """They may not be picked any more."""
        ...

    def zeros(self, n_wanted: int | None) -> IntArray:
        """The first candidates that are left."""
        ...


class HostCandidates:
    """See `Candidates`."""

    def __init__(self, problem: Problem, start: Start) -> None:
        """Bound every candidate by what is labelled and picked; or by the farthest of those that stand apart."""
        n_apart, self.n_picks = len(start.apart), 0
        room = max(start.budget, len(start.picks)) + n_apart
        self.extended, self.n_own = Extended(problem.pool, room), len_of(problem.pool)
        self.all_weights = None if problem.weights is None else np.concatenate([problem.weights, np.zeros(room)])
        local = replace(
            problem,
            pool=self.extended,
            references=start.references,
            weights=self.all_weights,
            budget=start.budget,
            largest=start.largest,
        )
        share = min(1.0, len(problem.candidates) / max(1, start.n_candidates) + UNEVEN)
        kernels = self.kernels = CpuKernels(local, math.ceil(share * start.budget))
        self.bounds = Bounds(local, kernels)
        # A pick scales what is near it by its own weight, and labelled points do not: first bounds know one kind alone.
        is_mixed = problem.scaling == "acquired" and len(kernels.references) > 0
        if is_mixed:
            self.bounds.bound, self.bounds.seen = kernels.first_bounds()
        self.add(start.picks)
        if len(kernels.references) == 0:
            self.bounds.bound = kernels.farthest_from(self._store(start.apart, room - n_apart))
            self.bounds.seen = np.zeros(len(self.bounds.bound), dtype=np.int32)
        elif not is_mixed:
            self.bounds.bound, self.bounds.seen = kernels.first_bounds()

    @property
    def weights(self) -> FloatArray | None:
        """Those that the kernels have: a shard need not keep others."""
        return None if self.all_weights is None else self.all_weights[: self.n_own]

    def add(self, picks: Points) -> None:
        """They are kept behind the shard's own rows."""
        self.kernels.references.add(self._store(picks, self.n_picks))
        self.bounds.n_references = len(self.kernels.references)
        self.n_picks += len(picks)

    def _store(self, points: Points, start: int) -> IntArray:
        """Keep points behind the shard's own; their rows there."""
        rows = self.extended.store(start, points.features)
        if self.all_weights is not None and points.weights is not None:
            self.all_weights[rows] = points.weights
        return rows

    def lower(self, numbers: IntArray, values: FloatArray) -> None:
        """What a shard made anew knows may be less already: both hold."""
        bound = self.bounds.bound
        bound[numbers] = np.minimum(bound[numbers], values)

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """See `dubito.engines.lazy.bounds`."""
        return self.bounds.fresh(size, own)

    def levels(self, size: int) -> tuple[IntArray, FloatArray]:
        """See `levels_of`."""
        return levels_of(self.bounds.bound, size)

    def drop(self, numbers: IntArray) -> None:
        """They count as picked."""
        self.bounds.drop(numbers)

    def zeros(self, n_wanted: int | None) -> IntArray:
        """Whatever is known of them."""
        return self.bounds.zeros(n_wanted)
