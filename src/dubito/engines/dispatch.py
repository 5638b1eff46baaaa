"""Which engine solves a problem: ``"auto"`` takes the first that pays, a named one never falls back."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, runtime_checkable

from dubito.core.problem import Problem, Solution
from dubito.engines.base import Engine, Estimate
from dubito.engines.cluster.engine import ClusterCoverage, ClusterEngine
from dubito.engines.cpu.coverage.engine import CpuCoverage
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.cuda.coverage.engine import CudaCoverage
from dubito.engines.cuda.engine import CudaEngine
from dubito.engines.reference_engine import CoverageReference, ReferenceEngine
from dubito.errors import PASS, InvalidArgument, named
from dubito.registry import Registry
from dubito.request.arrays import check_choice

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Engines that other packages offer by entry point.
#
# Those written before engines told what they solve, whether they pay and what they cost need no change: they solve
# core-sets, ``"auto"`` leaves them alone, and their cost is not known. One that cannot be used says why when it is
# named.


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


P = TypeVar("P")

BUILT_IN: dict[str, tuple[Engine[Any], ...]] = {
    "cuda": (CudaEngine(), CudaCoverage()),
    "cpu": (CpuEngine(), CpuCoverage()),
    "cluster": (ClusterEngine(), ClusterCoverage()),
    "reference": (ReferenceEngine(), CoverageReference()),
}
"""In order of preference. One name may stand for several engines, each for other kinds of problem."""
ENGINES = Registry("dubito.engines", BUILT_IN, load=load_engine)


@cache
def installed_engines() -> dict[str, tuple[Engine[Any], ...]]:
    """Every engine by name, in order of preference: whoever installs one means it to be asked before dubito's own."""
    return {name: ENGINES.find("engine", name) for name in (*ENGINES.offered(), *ENGINES.built_in)}


def engines_for(problem: P) -> dict[str, Engine[P]]:
    """The engines that solve problems of this kind, by name, in order of preference."""
    return {
        name: cast(Engine[P], engine)
        for name, engines in installed_engines().items()
        for engine in engines
        if isinstance(problem, engine.solves)
    }


def is_for(name: str, kind: type) -> bool:
    """Whether the engine of that name solves problems of this class; ``"auto"`` finds one.

    Examples
    --------
    >>> from dubito.core.problem import Problem
    >>> is_for("cpu", Problem), is_for("cpu", int)
    (True, False)
    """
    return name == "auto" or any(issubclass(kind, each.solves) for each in installed_engines().get(name, ()))


def choose_engine(name: str, problem: P) -> Engine[P]:
    """The engine of that name, or for ``"auto"`` the first that pays and refuses nothing."""
    engines = engines_for(problem)
    if name == "auto":
        return _first_that_pays(engines, problem)
    if name == "gpu":
        raise InvalidArgument("is not known", argument="engine", value=name, hint=f"{PASS} {named('engine', 'cuda')}.")
    check_choice("engine", name, ("auto", *installed_engines()))
    reasons = engines[name].refusals(problem) if name in engines else [f"it solves no {kind_of(problem)} problems"]
    if reasons:
        hint = f"pass {named('engine', 'auto')}."
        raise InvalidArgument(f"cannot do this: {'; '.join(reasons)}", argument="engine", value=name, hint=hint)
    return engines[name]


def _first_that_pays(engines: dict[str, Engine[P]], problem: P) -> Engine[P]:
    for engine in engines.values():
        if engine.pays(problem) and not engine.refusals(problem):
            return engine
    refused = f"finds no engine that solves {kind_of(problem)} problems"
    raise InvalidArgument(refused, argument="engine", value="auto", hint="name another one.")


def kind_of(problem: object) -> str:
    """What messages call a kind of problem."""
    return str(getattr(problem, "kind", type(problem).__name__))
