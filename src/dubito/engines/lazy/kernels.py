"""What the lazy algorithm asks of a machine: all the work on features is here, and nothing else touches them."""

from typing import Protocol

from dubito.engines.lazy.front import Front
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray


class Kernels(Protocol):
    """The work on features, which each machine does its own way. Candidates are numbered 0 to n - 1."""

    @property
    def front_rows(self) -> int:
        """How many candidates a front should have."""
        ...

    def first_bounds(self) -> tuple[FloatArray, AnyArray]:
        """(n,) upper bounds on squared priorities, and (n,) how many references they account for."""
        ...

    def farthest_bounds(self, picks: IntArray) -> FloatArray:
        """(n,) upper bounds on the squared priorities that any single one of these candidates would leave."""
        ...

    def refresh(
        self, rows: IntArray, bounds: FloatArray, seen: AnyArray, needed: float
    ) -> tuple[FloatArray, BoolArray]:
        """Exact squared priorities of these candidates against every reference, and True where they are.

        A candidate whose bound falls under ``needed`` may be left there, unfinished.
        """
        ...

    def front(self, rows: IntArray) -> Front:
        """These candidates with all distances among them."""
        ...

    def add_references(self, picks: IntArray) -> None:
        """These candidates are references from now on."""
        ...
