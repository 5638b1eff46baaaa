"""Choose the engine for a problem: ``"auto"`` takes the first that pays, a named engine never falls back."""

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from dubito.core.problem import Solution
from dubito.engines.base import Engine, group_refusals
from dubito.engines.cluster.engine import ClusterCoverage, ClusterEngine
from dubito.engines.cpu.coverage.engine import CpuCoverage
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.cuda.engine import CudaCoverage, CudaEngine
from dubito.engines.reference_engine import CoverageReference, ReferenceEngine
from dubito.errors import PASS, InvalidArgument, named
from dubito.registry import Registry
from dubito.request.arrays import check_choice

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Unusable(Engine[object]):
    """Placeholder for a plug-in engine that cannot be used: it refuses every problem with the reason."""

    solves: ClassVar[tuple[type, ...]] = (object,)

    def __init__(self, name: str, reason: str) -> None:
        self._name, self.reason = name, reason

    @property
    def name(self) -> str:
        return self._name

    def refusals(self, problem: object) -> list[str]:
        return [self.reason]

    def solve(self, problem: object) -> Solution:
        raise NotImplementedError(self.reason)


def load_engine(entry: "EntryPoint") -> tuple[Engine[Any], ...]:
    """The engine of an entry point. A failure is reported only when this engine is used, so others keep working."""
    try:
        return (as_engine(entry.name, entry.load()()),)
    except Exception as error:
        return (Unusable(entry.name, f"it cannot be loaded ({type(error).__name__}: {error})"),)


def as_engine(name: str, found: object) -> Engine[Any]:
    """``found`` itself, or an `Unusable` engine that names the missing attributes."""
    if isinstance(found, Engine):
        return found
    missing = [attribute for attribute in ENGINE_ATTRIBUTES if not hasattr(found, attribute)]
    reason = f"it is not a subclass of dubito.engines.base.Engine and has no {', '.join(missing)}"
    return Unusable(name, reason)


P = TypeVar("P")
ENGINE_ATTRIBUTES = ("name", "solves", "refusals", "pays", "estimate", "catch_up", "solve")

BUILT_IN: dict[str, tuple[Engine[Any], ...]] = {
    "cuda": (CudaEngine(), CudaCoverage()),
    "cpu": (CpuEngine(), CpuCoverage()),
    "cluster": (ClusterEngine(), ClusterCoverage()),
    "reference": (ReferenceEngine(), CoverageReference()),
}
"""In order of preference. The engines of one name solve different kinds of problems."""
ENGINES = Registry("dubito.engines", BUILT_IN, load=load_engine)


@cache
def installed_engines() -> dict[str, tuple[Engine[Any], ...]]:
    """Every engine by name, in order of preference: plug-ins come before the built-in engines."""
    return {name: ENGINES.find("engine", name) for name in (*ENGINES.plug_ins(), *ENGINES.built_in)}


def engines_for(problem: P) -> dict[str, Engine[P]]:
    """The engines that solve problems of this kind, by name, in order of preference."""
    return {
        name: cast(Engine[P], engine)
        for name, engines in installed_engines().items()
        for engine in engines
        if isinstance(problem, engine.solves)
    }


def is_for(name: str, kind: type) -> bool:
    """Whether the engine of that name solves problems of this class; always true for ``"auto"``.

    Examples
    --------
    >>> from dubito.core.problem import Problem
    >>> is_for("cpu", Problem), is_for("cpu", int)
    (True, False)
    """
    return name == "auto" or any(issubclass(kind, each.solves) for each in installed_engines().get(name, ()))


def choose_engine(name: str, problem: P) -> Engine[P]:
    """The engine of that name, or for ``"auto"`` the first one that pays and does not refuse the problem."""
    engines = engines_for(problem)
    if name == "auto":
        for engine in engines.values():
            if not group_refusals(engine, problem) and engine.pays(problem) and not engine.refusals(problem):
                return engine
        refused = f"finds no engine that solves {_kind_of(problem)} problems"
        raise InvalidArgument(refused, argument="engine", value="auto", hint="name another one.")
    if name == "gpu":
        raise InvalidArgument("is not known", argument="engine", value=name, hint=f"{PASS} {named('engine', 'cuda')}.")
    check_choice("engine", name, ("auto", *installed_engines()))
    reasons = [f"it solves no {_kind_of(problem)} problems"]
    if name in engines:
        reasons = group_refusals(engines[name], problem) or engines[name].refusals(problem)
    if reasons:
        hint = f"pass {named('engine', 'auto')}."
        raise InvalidArgument(f"cannot do this: {'; '.join(reasons)}", argument="engine", value=name, hint=hint)
    return engines[name]


def _kind_of(problem: object) -> str:
    return str(getattr(problem, "kind", type(problem).__name__))
