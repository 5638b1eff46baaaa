"""What an engine is: something that solves problems of some kinds exactly, or says why it cannot."""

from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from dubito.core.problem import Problem, Solution

P = TypeVar("P", contravariant=True)
"""The kind of problem that an engine solves, such as `dubito.core.problem.Problem`."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a selection will take."""

    bytes: int
    """Memory beyond the inputs, at most: of the machine, or of its GPU where the engine runs there."""
    seconds: float
    """On this machine; features without structure can take several times as long."""
    engine: str
    """Whose cost this is."""


@runtime_checkable
class KeepsQuotas(Protocol):
    """An engine that says whether it minds the ``quotas`` of a problem. One that does not is never shown any."""

    @property
    def keeps_quotas(self) -> bool:
        """Whether it does."""
        ...


def keeps_quotas(engine: object) -> bool:
    """Whether an engine minds quotas itself."""
    return isinstance(engine, KeepsQuotas) and engine.keeps_quotas


@runtime_checkable
class Engine(Protocol[P]):
    """Solves problems to the picks of the reference, in order.

    A class of its own may inherit from this one, and then has to bring `name`, `refusals` and `solve` alone. One name
    may stand for several engines, each for other kinds of problem. On Ctrl-C an engine returns the picks so far with
    ``complete=False``.
    """

    @property
    def name(self) -> str:
        """What ``engine=`` calls it."""
        ...

    @property
    def solves(self) -> tuple[type, ...]:
        """The kinds of problem it solves: their classes. It is asked about no others."""
        return (Problem,)

    def refusals(self, problem: P) -> list[str]:
        """Why this engine cannot take the problem, here and now; empty where it can."""
        ...

    def pays(self, problem: P) -> bool:
        """Whether ``engine="auto"`` should take it for this problem, if it refuses nothing. Quick to tell."""
        return False

    def estimate(self, problem: P) -> Estimate | None:
        """What solving the problem would take; None where it cannot tell. Reads no features, and is quick."""
        return None

    def catch_up(self, problem: P) -> None:
        """Bring what ``problem.known`` has of the candidates up to date with the references.

        A `dubito.Pool` asks for it between rounds. Nothing need be done: what is known only saves work.
        """
        return

    def solve(self, problem: P) -> Solution:
        """The configurations, best first."""
        ...
