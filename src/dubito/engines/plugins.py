"""Engines that other packages offer by entry point.

Those written before engines told what they solve, whether they pay and what they cost need no change: they solve
core-sets, ``"auto"`` leaves them alone, and their cost is not known. One that cannot be used says why when it is named.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dubito.engines.base import Engine, Estimate
from dubito.problem import Problem, Solution

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@runtime_checkable
class EarlierEngine(Protocol):
    """What an engine had to have at first."""

    @property
    def name(self) -> str:
        """What ``engine=`` calls it."""
        ...

    def refusals(self, problem: Problem) -> list[str]:
        """Why this engine cannot take the problem."""
        ...

    def solve(self, problem: Problem) -> Solution:
        """The configurations, best first."""
        ...


@dataclass(frozen=True, slots=True)
class Completed:
    """An `EarlierEngine` as an `Engine`."""

    engine: EarlierEngine

    @property
    def name(self) -> str:
        """Its own."""
        return self.engine.name

    @property
    def solves(self) -> tuple[type, ...]:
        """Core-sets: there was nothing else."""
        return (Problem,)

    def refusals(self, problem: Problem) -> list[str]:
        """Its own."""
        return self.engine.refusals(problem)

    def pays(self, problem: Problem) -> bool:
        """It has to be asked for by name."""
        return False

    def estimate(self, problem: Problem) -> Estimate | None:
        """It cannot tell."""
        return None

    def catch_up(self, problem: Problem) -> None:
        """It knows nothing of pools."""

    def solve(self, problem: Problem) -> Solution:
        """Its own."""
        return self.engine.solve(problem)


@dataclass(frozen=True, slots=True)
class Unusable:
    """Stands in the place of an engine that cannot be used, and says why."""

    name: str
    reason: str

    @property
    def solves(self) -> tuple[type, ...]:
        """Any kind: the reason is the same for all."""
        return (object,)

    def refusals(self, problem: object) -> list[str]:
        """The reason."""
        return [self.reason]

    def pays(self, problem: object) -> bool:
        """Never."""
        return False

    def estimate(self, problem: object) -> Estimate | None:
        """Unknown."""
        return None

    def catch_up(self, problem: object) -> None:
        """Nothing."""

    def solve(self, problem: object) -> Solution:
        """Never asked for."""
        raise NotImplementedError(self.reason)


def load_engine(entry: "EntryPoint") -> tuple[Engine[Any], ...]:
    """The engine of an entry point; one that fails to load must not take the others with it."""
    try:
        return (as_engine(entry.name, entry.load()()),)
    except Exception as error:
        return (Unusable(entry.name, f"it cannot be loaded ({type(error).__name__}: {error})"),)


def as_engine(name: str, found: object) -> Engine[Any]:
    """Whatever was offered under a name, as an engine.

    Examples
    --------
    >>> as_engine("mine", object()).refusals(None)
    ['it is no engine: it has no name, refusals, solve']
    """
    if isinstance(found, Engine):
        return found
    if isinstance(found, EarlierEngine):
        return Completed(found)
    missing = [part for part in ("name", "refusals", "solve") if not hasattr(found, part)]
    return Unusable(name, f"it is no engine: it has no {', '.join(missing)}")
