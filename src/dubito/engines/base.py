"""The interface of an engine, which solves problems of some kinds exactly."""

from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from dubito.core.problem import Problem, Solution

P = TypeVar("P", contravariant=True)
"""The kind of problem that an engine solves, such as `dubito.core.problem.Problem`."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The predicted cost of a selection."""

    bytes: int
    """Upper bound on the memory beyond the inputs, in GPU memory if the engine runs on a GPU."""
    seconds: float
    """Time on this machine if nothing else runs; features without structure can take several times as long."""
    engine: str
    """Name of the engine that the estimate is for; ``"none"`` for a strategy without one."""


def keeps_quotas(engine: object) -> bool:
    """Whether an engine enforces quotas itself. Engines that do not are never passed any."""
    return bool(getattr(engine, "keeps_quotas", False))


def group_refusals(engine: object, problem: object) -> list[str]:
    """A reason if the problem has groups and the engine does not declare that it picks groups."""
    picks_groups = getattr(engine, "picks_groups", False)
    return [] if picks_groups or getattr(problem, "groups", None) is None else ["it does not pick groups"]


@runtime_checkable
class Engine(Protocol[P]):
    """Solves problems with the same picks as the reference, in the same order.

    A class that inherits from this one needs to define only `name`, `refusals` and `solve`. Several engines may share
    a name if they solve different kinds of problems. On Ctrl-C an engine returns the picks so far with
    ``complete=False``.
    """

    @property
    def name(self) -> str:
        """The value of ``engine=`` that selects this engine."""

    @property
    def solves(self) -> tuple[type, ...]:
        """The classes of the problems it solves. The other methods are never called with any other problem."""
        return (Problem,)

    def refusals(self, problem: P) -> list[str]:
        """The reasons why this engine cannot solve the problem on this machine; empty if it can."""

    def pays(self, problem: P) -> bool:
        """Whether ``engine="auto"`` should use this engine for the problem if it is not refused. Must be fast."""
        return False

    def estimate(self, problem: P) -> Estimate | None:
        """The cost of solving the problem, or None if unknown. Must be fast and must not read features."""
        return None

    def catch_up(self, problem: P) -> None:
        """Update the distances in ``problem.known`` with the problem's references.

        `dubito.Pool` calls it between rounds. Doing nothing is correct: known distances only save time.
        """
        return

    def solve(self, problem: P) -> Solution:
        """The configurations, best first."""
