"""Which engine solves a problem: ``"auto"`` takes the first that pays, a named one never falls back."""

from functools import cache
from typing import Any, TypeVar, cast

from dubito.checks import check_choice
from dubito.engines.base import Engine
from dubito.engines.cluster.engine import ClusterCoverage, ClusterEngine
from dubito.engines.cpu.coverage.engine import CpuCoverage
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.cuda.coverage.engine import CudaCoverage
from dubito.engines.cuda.engine import CudaEngine
from dubito.engines.oracle import CoverageReference, ReferenceEngine
from dubito.engines.plugins import load_engine
from dubito.errors import InvalidArgument
from dubito.registry import Registry
from dubito.wording import PASS, named

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
    >>> from dubito.problem import Problem
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
        raise InvalidArgument("is not known", argument="engine", value=name, mend=f"{PASS} {named('engine', 'cuda')}.")
    check_choice("engine", name, ("auto", *installed_engines()))
    reasons = engines[name].refusals(problem) if name in engines else [f"it solves no {kind_of(problem)} problems"]
    if reasons:
        mend = f"pass {named('engine', 'auto')}."
        raise InvalidArgument(f"cannot do this: {'; '.join(reasons)}", argument="engine", value=name, mend=mend)
    return engines[name]


def _first_that_pays(engines: dict[str, Engine[P]], problem: P) -> Engine[P]:
    for engine in engines.values():
        if engine.pays(problem) and not engine.refusals(problem):
            return engine
    refused = f"finds no engine that solves {kind_of(problem)} problems"
    raise InvalidArgument(refused, argument="engine", value="auto", mend="name another one.")


def kind_of(problem: object) -> str:
    """What messages call a kind of problem."""
    return str(getattr(problem, "kind", type(problem).__name__))
