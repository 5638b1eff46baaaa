"""Which engine solves a problem: ``"auto"`` takes the first that refuses nothing, a named one never falls back."""

from functools import cache
from importlib.metadata import entry_points

from dubito.checks import check_choice
from dubito.engines.base import Engine
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.cuda.engine import CudaEngine
from dubito.engines.oracle import ReferenceEngine
from dubito.errors import InvalidArgument
from dubito.problem import Problem

BUILT_IN: tuple[Engine, ...] = (CudaEngine(), CpuEngine(), ReferenceEngine())
"""In order of preference."""
ENTRY_POINTS = "dubito.engines"


@cache
def installed_engines() -> dict[str, Engine]:
    """Every engine by name: dubito's own, then those other packages offer by entry point."""
    engines = {engine.name: engine for engine in BUILT_IN}
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name not in engines:
            engines[entry.name] = entry.load()()
    return engines


def choose_engine(name: str, problem: Problem) -> Engine:
    """The engine of that name, or for ``"auto"`` the first that takes the problem, a GPU only where it pays."""
    engines = installed_engines()
    if name == "auto":
        return next(engine for engine in engines.values() if _pays(engine, problem) and not engine.refusals(problem))
    engine = engines[check_choice("engine", name, ("auto", *engines))]
    reasons = engine.refusals(problem)
    if reasons:
        raise InvalidArgument(f"engine={name!r} cannot do this: {'; '.join(reasons)}; pass engine='auto'.")
    return engine


def _pays(engine: Engine, problem: Problem) -> bool:
    return not isinstance(engine, CudaEngine) or engine.pays(problem)
