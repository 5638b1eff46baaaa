"""Selecting from shards on a Ray cluster."""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from dubito.checks import check_budget, check_choice, check_integer
from dubito.checks.rows import check_features
from dubito.coverage import CoverageProblem
from dubito.engines.cluster.covering.driver import Covered, cover
from dubito.engines.cluster.frontier import Placed, Traffic, leading
from dubito.engines.cluster.rays import RayWorkers, connect, crew_of
from dubito.engines.cluster.shard import Part
from dubito.engines.cluster.solving import leave_out, open_all, solve
from dubito.engines.cluster.workers import Workers
from dubito.errors import InvalidArgument
from dubito.matrix import AnyArray, IntArray
from dubito.problem import Interrupted, Metric, Problem, Progress, Selection
from dubito.sharding.items import Item
from dubito.sharding.journal import PickJournal
from dubito.sharding.parts import Group, asked, name_of
from dubito.sharding.shards import Shards
from dubito.strategies.auto import FEWEST, Auto
from dubito.strategies.base import Strategy
from dubito.strategies.coverage import Coverage, DoubtCoverage
from dubito.wording import named

GROUND_ROWS = 2**15
"""So many rows stand for all that is to be covered, where nobody says how many: every worker holds them all."""
Hire = Callable[[Iterable[Part]], Workers]
"""Processes for some parts."""


def select_from(
    pool: object,
    budget: object,
    labelled: object,
    strategy: Strategy,
    metric: object,
    engine: str,
    seed: int,
    progress: Progress | None,
    beside: Mapping[str, object],
) -> Selection:
    """What `dubito.select` makes of shards; what goes with an array alone is refused."""
    assert isinstance(pool, Shards)
    for name, value in beside.items():
        if value is not None:
            mend = "leave it out; what belongs to rows goes into dubito.Shards, beside the features."
            raise InvalidArgument("means nothing to shards", argument=name, mend=mend)
    check_choice("engine", engine, ("auto", "cluster"))
    known: Metric = check_choice("metric", metric, get_args(Metric))
    return select_shards(pool, budget, strategy=strategy, labelled=labelled, metric=known, seed=seed, progress=progress)


def select_shards(
    shards: Shards,
    budget: object,
    *,
    labelled: object = None,
    strategy: Strategy,
    metric: Metric = "euclidean",
    seed: int = 0,
    progress: Progress | None = None,
    hire: Hire | None = None,
    n_workers: int | None = None,
) -> Selection:
    """The picks that one machine would make of all shards one below another.

    Workers are those of a Ray cluster, one for each GPU or processor, unless others are given.
    """
    started = time.perf_counter()
    check_integer("budget", budget, least=1)
    if hire is None:
        ray = connect()
        crew = crew_of(ray, shards.workers, shards.workers_per_gpu)
        hire, n_workers = (lambda parts: RayWorkers(parts, ray, crew)), crew.size
    groups = shards.groups(n_workers or 1)
    workers = hire(Group(items, strategy, metric) for items in groups)
    try:
        placed, references = _opened(workers, labelled, groups)
        placed, taken, notes = _taken(strategy, workers, placed, len(references))
        n_picks = check_budget(budget, int(placed.n_candidates.sum()), int(placed.starts[-1]))
        problem = _asked(taken, metric, placed, references, n_picks, progress)
        journal = _journal(shards, taken, problem, placed)
        found = _solved(taken, problem, workers, placed, journal)
        notes += _told_of_sample(taken, found.sampled)
        notes += (told(workers, placed, found.traffic, journal),)
        names = _names(workers, found.solution.configurations[0].indices)
    finally:
        workers.close()
    seconds, n_pool = time.perf_counter() - started, int(placed.starts[-1])
    return _selection(found, taken.name, seed, seconds, n_pool, names, notes)


def _taken(
    strategy: Strategy, workers: Workers, placed: Placed, n_labelled: int
) -> tuple[Placed, Strategy, tuple[str, ...]]:
    """The strategy that `auto` leaves it to, now that it is known what there is, with shards that know it, too."""
    if not isinstance(strategy, Auto):
        return placed, strategy, ()
    taken, note = strategy.take_unasked(placed.facts[leading(placed.facts)].is_doubted, n_labelled)
    if n_labelled < FEWEST:
        placed = leave_out(workers, placed, placed.left_out, is_early=True)
    return placed, taken, (note,)


def _solved(
    strategy: Strategy,
    problem: Problem | CoverageProblem,
    workers: Workers,
    placed: Placed,
    journal: PickJournal | None,
) -> Covered:
    if not isinstance(problem, CoverageProblem):
        return Covered(*solve(problem, workers, placed, journal), None)
    assert isinstance(strategy, Coverage | DoubtCoverage)
    return cover(problem, workers, placed, journal, strategy.sample or GROUND_ROWS)


def _told_of_sample(strategy: Strategy, sampled: int | None) -> tuple[str, ...]:
    """That a sample is covered, where nobody asked for one."""
    if sampled is None or getattr(strategy, "sample", None) is not None:
        return ()
    more = named("strategy", f"{strategy.name}:sample={4 * sampled}")
    return (f"{sampled:,} rows stand for all that is to be covered; for more say {more}",)


def _selection(
    found: Covered, strategy: str, seed: int, seconds: float, n_pool: int, ids: AnyArray | None, notes: tuple[str, ...]
) -> Selection:
    """What was found; raises Interrupted with it after Ctrl-C."""
    solution, best = found.solution, found.solution.configurations[0]
    selection = Selection(
        indices=best.indices,
        priorities=best.priorities,
        radius=best.radius,
        uncertainty=best.uncertainty,
        configurations=solution.configurations,
        strategy=strategy,
        engine="cluster",
        seed=seed,
        seconds=seconds,
        n_pool=n_pool,
        ids=ids,
        complete=solution.complete,
        covered=best.covered,
        reach=best.reach,
        sampled=found.sampled,
        notes=notes,
    )
    if not solution.complete:
        raise Interrupted(selection)
    return selection


def told(workers: Workers, placed: Placed, traffic: Traffic, journal: PickJournal | None) -> str:
    """What a person may want to know of the run."""
    lost = f", {workers.n_lost} of which died and were made anew" if workers.n_lost else ""
    earlier = (
        f"; {len(journal.rows):,} picks were in the journal already" if journal is not None and journal.rows else ""
    )
    n_devices = sum(each.on_device for each in placed.facts)
    on = f" ({n_devices} on GPUs)" if n_devices else ""
    moved = (traffic.sent + traffic.received) / 1e6
    return f"cluster: {len(workers)} workers{on}{lost}, {traffic.rounds} rounds, {moved:.1f} MB moved{earlier}"


def _opened(workers: Workers, labelled: object, groups: Sequence[Sequence[Item]]) -> tuple[Placed, AnyArray]:
    """Shards read and placed, and the features of what is labelled: marked in them, named by row, or given."""
    placed = open_all(workers, [name_of(items[0]) for items in groups])
    parts = [part for part in workers.ask("labelled") if len(part)]
    width = placed.facts[leading(placed.facts)].n_features
    if labelled is not None:
        given = np.asarray(labelled)
        if given.ndim == 1 and given.dtype.kind in "iu":
            rows = _checked_rows(given.astype(np.int64), int(placed.starts[-1]))
            placed = leave_out(workers, placed, rows)
            parts += [each.features for each in workers.ask("read", (rows,)) if len(each)]
        else:
            parts.append(np.asarray(check_features("labelled", labelled).matrix[:]))
            if parts[-1].shape[1] != width:
                problem = f"has {parts[-1].shape[1]} features, and the shards {width}"
                raise InvalidArgument(problem, argument="labelled", mend="embed them alike, or name rows of the pool.")
    return placed, np.concatenate(parts) if parts else np.empty((0, width))


def _checked_rows(rows: IntArray, n_pool: int) -> IntArray:
    wrong = rows[(rows < 0) | (rows >= n_pool)]
    if len(wrong):
        mend = f"rows go from 0 to {n_pool - 1:,}, through all shards."
        raise InvalidArgument(f"names row {wrong[0]}, which is not there", argument="labelled", mend=mend)
    return np.unique(rows)


def _asked(
    strategy: Strategy, metric: Metric, placed: Placed, references: AnyArray, budget: int, progress: Progress | None
) -> Problem | CoverageProblem:
    """What is asked for, without a row of the pool."""
    facts = placed.facts[leading(placed.facts)]
    largest = float(np.abs(references.astype(np.float64)).max(initial=0.0))
    return replace(
        asked(strategy, facts.n_features, facts.is_doubted, metric),
        pool=np.empty((0, facts.n_features), facts.dtype),
        references=references,
        budget=budget,
        largest=1.0 if metric == "cosine" else largest,
        progress=progress,
    )


def _journal(
    shards: Shards, strategy: Strategy, problem: Problem | CoverageProblem, placed: Placed
) -> PickJournal | None:
    if shards.journal is None:
        return None
    if isinstance(problem, Problem) and problem.beam_width > 1:
        mend = f"leave it out, or {named('beam_width')}."
        raise InvalidArgument("cannot keep the configurations of a beam", argument="journal", mend=mend)
    signature = {
        "strategy": repr(strategy),
        "metric": problem.metric,
        "shards": [name_of(item) for item in shards.items],
        "rows": int(placed.starts[-1]),
        "candidates": int(placed.n_candidates.sum()),
        "largest": max(each.largest for each in placed.facts).hex(),
        "labelled": hashlib.sha256(np.ascontiguousarray(problem.references).tobytes()).hexdigest(),
    }
    if isinstance(problem, CoverageProblem):
        signature["ground"] = getattr(strategy, "sample", None) or GROUND_ROWS
    journal = PickJournal(shards.journal, signature)
    journal.limit(problem.budget)
    return journal


def _names(workers: Workers, rows: IntArray) -> AnyArray | None:
    """(b,) what picks are called, where every shard that has any of them knows."""
    found = [(here, ids) for here, ids in workers.ask("names", (rows,)) if len(here)]
    if not found or any(ids is None for _, ids in found):
        return None
    here, ids = np.concatenate([each for each, _ in found]), np.concatenate([each for _, each in found])
    order = np.argsort(here, kind="stable")
    return np.asarray(ids[order][np.searchsorted(here[order], rows)])
