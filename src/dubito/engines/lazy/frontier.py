"""What the lazy algorithm asks of the candidates, wherever they lie: in this process, or in many."""

from dataclasses import dataclass
from typing import Protocol

from dubito.engines.lazy.front import Front, Threshold
from dubito.matrix import FloatArray, IntArray
from dubito.problem import Configuration


@dataclass(frozen=True, slots=True)
class Fresh:
    """Candidates whose priorities are exact, ascending, and what comes next of all others."""

    rows: IntArray
    values: FloatArray
    """(K,) squared priorities; -1 once picked."""
    threshold: Threshold


class Frontier(Protocol):
    """Candidates in the order of what is known of them. They go by numbers, in the order of the pool."""

    @property
    def front_rows(self) -> int:
        """How many candidates a front should have."""
        ...

    @property
    def is_cold(self) -> bool:
        """Whether nothing is labelled."""
        ...

    def cold_order(self, n_wanted: int) -> IntArray:
        """The first candidates as a cold start takes them."""
        ...

    def open(self, first: IntArray) -> None:
        """Bound every candidate by what is labelled and by these picks, which are references from now on."""
        ...

    def open_apart(self, first: IntArray) -> None:
        """Bound every candidate by the farthest of these, which are picks of different configurations."""
        ...

    def fresh(self, size: int, own: IntArray) -> Fresh:
        """The first candidates in order, and some others, all of them up to date."""
        ...

    def front(self, rows: IntArray) -> Front:
        """Fresh candidates with all distances among them."""
        ...

    def close(self, rows: IntArray, values: FloatArray, picks: IntArray) -> None:
        """Leave a front: what its candidates fell to, and those that are references from now on."""
        ...

    def drop(self, rows: IntArray) -> None:
        """Candidates that may not be picked any more."""
        ...

    def zeros(self, n_wanted: int | None) -> IntArray:
        """The first candidates that are left, all of whose priorities are 0; every one for None."""
        ...

    def largest(self) -> float:
        """No squared priority is larger."""
        ...

    def scores(self, rows: IntArray) -> IntArray:
        """What a beam ranks candidates by."""
        ...

    def configuration(self, rows: IntArray, squared: FloatArray, radius: float) -> Configuration:
        """These picks with their squared priorities."""
        ...
