"""`estimate`: bytes and seconds before a run."""

from typing import NamedTuple

import numpy as np

from dubito.checks import check_choice, check_integer, check_memory_limit
from dubito.coverage import CoverageProblem
from dubito.engines.base import Estimate
from dubito.engines.dispatch import choose_engine
from dubito.errors import InvalidArgument
from dubito.problem import Problem, Request
from dubito.strategies.base import Planner, Strategy
from dubito.strategies.within import refuse_limits
from dubito.wording import named

__all__ = ["Estimate", "Forecast", "estimate", "forecast"]

COVERS = ("auto", "coverage", "doubt-coverage")
ESTIMATED = ("coreset", "doubt-coreset", *COVERS)


def estimate(
    n: int,
    d: int,
    m: int,
    budget: int,
    *,
    beam_width: int = 1,
    scaled: bool = True,
    strategy: str = "doubt-coreset",
    engine: str = "auto",
    memory_limit: int | str | None = None,
) -> Estimate:
    """Bytes and seconds of a selection by core-set or coverage, before it runs, by the engine that would run it.

    Parameters
    ----------
    n, d : int
        Pool rows and features, taken to be float32 in the memory of the machine.
    m : int
        Labelled points.
    budget, beam_width : int
        As in `dubito.select`.
    scaled : bool
        Whether doubt scales the distances; the plain core-set looks at every row.
    strategy : str
        ``coreset``, ``doubt-coreset``, ``coverage`` or ``doubt-coverage``.
    engine : str
        As in `dubito.select`.
    memory_limit : int or str, optional
        As in `dubito.select`; one that cannot hold the minimum is an error here too.

    Examples
    --------
    >>> import dubito
    >>> dubito.estimate(45_000, 512, 5_000, 5_000, engine="cpu").bytes < 150e6
    True
    """
    n, d = check_integer("n", n, least=1), check_integer("d", d, least=1)
    m, budget = check_integer("m", m, least=0), check_integer("budget", budget, least=1)
    width, limit = check_integer("beam_width", beam_width, least=1), check_memory_limit(memory_limit)
    is_cover = check_choice("strategy", strategy, ESTIMATED) in COVERS
    problem = _cover(n, d, m, budget, limit) if is_cover else _core_set(n, d, m, budget, width, scaled, limit)
    found = choose_engine(engine, problem).estimate(problem)
    if found is None:
        mend = f"pass {named('engine', 'auto')}."
        raise InvalidArgument("cannot tell what it costs", argument="engine", value=engine, mend=mend)
    return found


class Forecast(NamedTuple):
    """What a request will take."""

    engine: str | None
    """Who would solve it; None for a strategy that uses no engine, or does not say what it would ask of one."""
    cost: Estimate | None
    """None where that is not known."""


def forecast(strategy: Strategy, request: Request) -> Forecast:
    """Who would do the work of a request, and what it would take; whatever a run would refuse is refused."""
    refuse_limits(strategy, request)
    problem = strategy.plan(request) if isinstance(strategy, Planner) else None
    if problem is None:
        return Forecast(None, None)
    engine = choose_engine(request.engine, problem)
    return Forecast(engine.name, engine.estimate(problem))


def _core_set(n: int, d: int, m: int, budget: int, width: int, scaled: bool, limit: int | None) -> Problem:
    """A problem of these sizes: its arrays have their shapes, and one number each."""
    return Problem(
        pool=np.broadcast_to(np.float32(0.0), (n, d)),
        references=np.broadcast_to(np.float32(0.0), (m, d)),
        candidates=np.broadcast_to(np.int64(0), (n,)),
        budget=budget,
        weights=np.broadcast_to(np.float64(1.0), (n,)) if scaled else None,
        scores=np.broadcast_to(np.int64(0), (n,)) if width > 1 else None,
        beam_width=width,
        memory_limit=limit,
    )


def _cover(n: int, d: int, m: int, budget: int, limit: int | None) -> CoverageProblem:
    return CoverageProblem(
        pool=np.broadcast_to(np.float32(0.0), (n, d)),
        references=np.broadcast_to(np.float32(0.0), (m, d)),
        candidates=np.broadcast_to(np.int64(0), (n,)),
        budget=budget,
        weights=np.broadcast_to(np.float64(1.0), (n,)),
        sample=np.empty(0, dtype=np.int64),
        memory_limit=limit,
    )
