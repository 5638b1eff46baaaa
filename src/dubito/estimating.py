"""`estimate`: bytes and seconds before a run."""

from typing import NamedTuple

import numpy as np

from dubito.checks import check_choice, check_integer, check_memory_limit
from dubito.coverage import CoverageProblem
from dubito.engines.base import Estimate
from dubito.engines.dispatch import choose_engine, is_for
from dubito.errors import InvalidArgument
from dubito.problem import Problem, Request
from dubito.strategies.auto import LARGE, SAMPLE
from dubito.strategies.base import LeavesIt, Planner, Strategy
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
    beam_width: int | None = None,
    scaled: bool | None = None,
    strategy: str = "auto",
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
    budget : int
        As in `dubito.select`.
    beam_width : int, optional
        As in `dubito.select`, 1 by default. With ``auto`` this and the next mean ``doubt-coreset``.
    scaled : bool, optional
        Whether doubt scales a core-set's distances, as it does by default; the plain core-set looks at every row.
    strategy : str
        ``auto``, ``coreset``, ``doubt-coreset``, ``coverage`` or ``doubt-coverage``. ``auto`` is taken to cover, and
        a sample of a large pool alone, as it does where features are frozen.
    engine : str
        As in `dubito.select`.
    memory_limit : int or str, optional
        As in `dubito.select`; one that cannot hold the minimum is an error here too.

    Examples
    --------
    >>> import dubito
    >>> dubito.estimate(45_000, 512, 5_000, 5_000, strategy="doubt-coreset", engine="cpu").bytes < 150e6
    True
    """
    n, d = check_integer("n", n, least=1), check_integer("d", d, least=1)
    m, budget = check_integer("m", m, least=0), check_integer("budget", budget, least=1)
    width = 1 if beam_width is None else check_integer("beam_width", beam_width, least=1)
    limit, is_cover = check_memory_limit(memory_limit), check_choice("strategy", strategy, ESTIMATED) in COVERS
    n_covered = n
    if strategy == "auto":
        is_cover = beam_width is None and scaled is None and is_for(engine, CoverageProblem)
        n_covered = n if n <= LARGE else SAMPLE
    core_set = _core_set(n, d, m, budget, width, scaled is not False, limit)
    problem = _cover(n, d, m, budget, n_covered, limit) if is_cover else core_set
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
    strategy: str
    """The one that would choose."""
    note: str | None = None
    """Why that one, where another left it the choice."""


def forecast(strategy: Strategy, request: Request) -> Forecast:
    """Who would do the work of a request, and what it would take; whatever a run would refuse is refused."""
    refuse_limits(strategy, request)
    taken, note = strategy.take(request) if isinstance(strategy, LeavesIt) else (strategy, None)
    problem = taken.plan(request) if isinstance(taken, Planner) else None
    if problem is None:
        return Forecast(None, None, taken.name, note)
    engine = choose_engine(request.engine, problem)
    return Forecast(engine.name, engine.estimate(problem), taken.name, note)


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


def _cover(n: int, d: int, m: int, budget: int, n_covered: int, limit: int | None) -> CoverageProblem:
    return CoverageProblem(
        pool=np.broadcast_to(np.float32(0.0), (n, d)),
        references=np.broadcast_to(np.float32(0.0), (m, d)),
        candidates=np.broadcast_to(np.int64(0), (n,)),
        budget=budget,
        weights=(np.arange(n) < n_covered).astype(np.float64),
        sample=np.empty(0, dtype=np.int64),
        memory_limit=limit,
    )
