"""What an engine is: something that solves a `Problem` exactly, or says why it cannot."""

from typing import Protocol, runtime_checkable

from dubito.problem import Problem, Solution


@runtime_checkable
class Engine(Protocol):
    """Solves problems to the picks of `dubito.reference`, in order.

    On Ctrl-C an engine returns the picks so far with ``complete=False``.
    """

    @property
    def name(self) -> str:
        """What ``engine=`` calls it."""
        ...

    def refusals(self, problem: Problem) -> list[str]:
        """Why this engine cannot take the problem; empty where it can."""
        ...

    def solve(self, problem: Problem) -> Solution:
        """The configurations, best first."""
        ...
