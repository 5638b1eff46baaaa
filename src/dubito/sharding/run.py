"""Selecting from shards on a Ray cluster."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Interrupted, Metric, Problem, Progress, Request, Selection
from dubito.doubt.reading import read_doubt
from dubito.engines.cluster.coverage.driver import cover
from dubito.engines.cluster.driver import ShardLayout, Traffic
from dubito.engines.cluster.shard import NO_ROWS, ShardData, ShardSource
from dubito.engines.cluster.solving import exclude, open_all, solve
from dubito.engines.cluster.workers import RayWorkers, Workers, connect, plan_workers
from dubito.errors import InvalidArgument, InvalidData, named
from dubito.io.lookup import DOUBT_ROLES
from dubito.io.source import reading, stack_rows
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, len_of
from dubito.request.arrays import (
    check_budget,
    check_features,
    check_finite,
    check_integer,
    refuse_zero_rows,
)
from dubito.sharding.shards import Item, ItemData, Shards, item_name
from dubito.strategies.auto import FEWEST, Auto
from dubito.strategies.base import Strategy
from dubito.strategies.coreset import Coreset, DoubtCoreset
from dubito.strategies.coverage import Coverage, DoubtCoverage

# The part of the pool that a worker holds: some consecutive shards, read in the worker.


@dataclass(frozen=True, slots=True)
class ShardGroup:
    items: tuple[Item, ...]
    strategy: Strategy
    metric: Metric

    def open(self) -> ShardData:
        """Read and check the shards, and let the strategy create the problem."""
        read = [item.read() for item in self.items]
        features = stack_rows([each.features for each in read], [item_name(item) for item in self.items])
        largest = check_finite("pool", features)
        if self.metric == "cosine":
            refuse_zero_rows("pool", features)
        marked = np.concatenate([_mask(each) for each in read])
        candidates, labeled = np.flatnonzero(~marked), np.flatnonzero(marked)
        probabilities, doubt = _doubt(read)
        strategies = possible_strategies(self.strategy, doubt is not None)
        if all(getattr(each, "doubt", "confidence") == "confidence" for each in strategies):
            probabilities = None  # The doubt is computed already.
        request = _request(features, candidates, labeled, self.metric, 1.0 if self.metric == "cosine" else largest)
        request = replace(request, probabilities=probabilities, doubt=doubt)
        problems = [plan(each, request) for each in strategies]
        ids = [each.ids for each in read if each.ids is not None]
        all_ids = np.concatenate(ids) if len(ids) == len(read) else None
        return ShardData(problems[0], labeled, all_ids, problems[1] if len(problems) > 1 else None)


def possible_strategies(strategy: Strategy, has_doubt: bool) -> list[Strategy]:
    """The strategy; for `auto`, its choices for many and for few labeled rows, without duplicates."""
    if not isinstance(strategy, Auto):
        return [strategy]
    return list(dict.fromkeys(strategy.take_for_shards(has_doubt, n_labeled)[0] for n_labeled in (FEWEST, 0)))


def _request(features: Matrix, candidates: IntArray, labeled: IntArray, metric: Metric, largest: float) -> Request:
    return Request(
        pool=features,
        budget=1,
        references=np.empty((0, features.shape[1])),
        candidates=candidates,
        probabilities=None,
        doubt=None,
        metric=metric,
        largest=largest,
        engine="cluster",
        memory_limit=None,
        seed=0,
        progress=None,
        labeled=labeled,
    )


def plan(strategy: Strategy, request: Request) -> Problem | CoverageProblem:
    """The problem of a strategy for these rows. The driver samples targets, so the option is removed here."""
    for option, usual in (("variance", 0.0), ("sharpen", 1.0)) if isinstance(strategy, DoubtCoverage) else ():
        if (value := getattr(strategy, option)) != usual:
            problem = f"of {named('strategy', strategy.name)} needs the whole pool on one machine"
            raise InvalidArgument(problem, argument=option, value=value, hint="leave it out.")
    if isinstance(strategy, Coverage | DoubtCoverage):
        return replace(strategy, sample=None).plan(request)
    if isinstance(strategy, Coreset | DoubtCoreset):
        return strategy.plan(request)
    names = ", ".join(named("strategy", name) for name in ("doubt-coverage", "coverage", "doubt-coreset"))
    hint = f"pass {names} or {named('strategy', 'coreset')}."
    raise InvalidArgument("cannot choose from shards", argument="strategy", value=strategy.name, hint=hint)


def _mask(data: ItemData) -> AnyArray:
    return np.zeros(len_of(data.features), dtype=np.bool_) if data.labeled is None else data.labeled


def _doubt(read: list[ItemData]) -> tuple[AnyArray | None, FloatArray | None]:
    """The probabilities, if all shards have any, and the doubt, computed for each shard."""
    found = [_doubt_of(each) for each in read]
    doubts = [doubt for _, doubt in found if doubt is not None]
    if len(doubts) < len(read):
        return None, None
    probabilities = [each for each, _ in found if each is not None]
    n_filled = sum(len(doubt) > 0 for doubt in doubts)
    whole = np.concatenate(probabilities) if len(probabilities) == n_filled > 0 else None
    return whole, np.concatenate(doubts)


def _doubt_of(data: ItemData) -> tuple[AnyArray | None, FloatArray | None]:
    if data.doubt is None:
        return None, None
    role, values = data.doubt
    if len(values) == 0:
        return None, np.empty(0)
    given = (values if role == each else None for each in DOUBT_ROLES)
    probabilities, doubt = read_doubt(len(values), *given)
    return (None if probabilities is None else np.asarray(probabilities[:])), doubt


# The journal of picks, from which an interrupted run can resume.

KIND = "dubito picks"


class PickJournal:
    """A file with one line per round, each with a checksum. An incomplete last line is removed."""

    def __init__(self, path: str, signature: dict[str, Any]) -> None:
        self.path, self.signature = path, digest(signature)
        self.rows: list[int] = []
        self.squared: list[float] = []
        if os.path.exists(path) and os.path.getsize(path):
            self._read()
        else:
            with reading(path), open(path, "x" if not os.path.exists(path) else "w", encoding="utf-8") as file:
                file.write(_line({"kind": KIND, "signature": self.signature}))
                _flush(file)

    @property
    def earlier(self) -> tuple[IntArray, FloatArray]:
        return np.array(self.rows, dtype=np.int64), np.array(self.squared)

    def limit(self, budget: int) -> None:
        """Ignore picks beyond the budget, which stay in the file."""
        self.rows, self.squared = self.rows[:budget], self.squared[:budget]

    def note(self, picks: IntArray, squared: FloatArray) -> None:
        """Append a round; it is on the disk when this returns."""
        with reading(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(_line({"rows": picks.tolist(), "squared": [float(each).hex() for each in squared]}))
            _flush(file)

    def _read(self) -> None:
        with reading(self.path), open(self.path, "rb") as file:
            lines = file.read().split(b"\n")
        whole = [_parsed(line) for line in lines[:-1]]
        if not whole or whole[0] is None or whole[0].get("kind") != KIND:
            raise InvalidData(f"{self.path} is not a journal of picks", hint="pass another file.")
        if whole[0]["signature"] != self.signature:
            problem = f"{self.path} belongs to another run, with other shards, labels or strategy"
            hint = "pass another file, or remove this one to start again."
            raise InvalidArgument(problem, argument="journal", hint=hint)
        for number, entry in enumerate(whole[1:], 2):
            if entry is None:
                hint = "remove that line and all lines after it."
                raise InvalidData(f"{self.path} is damaged in line {number}", hint=hint)
            self.rows += entry["rows"]
            self.squared += [float.fromhex(each) for each in entry["squared"]]
        if lines[-1]:  # Incomplete: remove it.
            with reading(self.path), open(self.path, "r+b") as file:
                file.truncate(os.path.getsize(self.path) - len(lines[-1]))


def digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _line(entry: dict[str, Any]) -> str:
    return json.dumps({**entry, "sum": digest(entry)[:16]}) + "\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry: dict[str, Any] = json.loads(line)
        return entry if entry.pop("sum") == digest(entry)[:16] else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _flush(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


DEFAULT_TARGETS = 2**15
"""The size of the sample to cover if the strategy does not set one. Every worker holds all targets in memory."""
MakeWorkers = Callable[[Iterable[ShardSource]], Workers]


def refuse_with_shards(**arguments: object) -> None:
    """Raise if an argument of `dubito.select` was given that cannot be used with shards."""
    for name, value in arguments.items():
        if value is not None:
            hint = "leave it out; values per row are passed to dubito.Shards, with the features."
            raise InvalidArgument("cannot be used with shards", argument=name, hint=hint)


def select_shards(
    shards: Shards,
    budget: object,
    *,
    labeled: object = None,
    strategy: Strategy,
    metric: Metric = "euclidean",
    seed: int = 0,
    progress: Progress | None = None,
    make_workers: MakeWorkers | None = None,
    n_workers: int | None = None,
) -> Selection:
    """The picks that one machine would make from the concatenated shards.

    The workers are those of a Ray cluster, one for each GPU or processor, unless ``make_workers`` is passed.
    """
    started = time.perf_counter()
    check_integer("budget", budget, least=1)
    if make_workers is None:
        ray = connect()
        worker_plan = plan_workers(ray, shards.workers, shards.workers_per_gpu)
        make_workers, n_workers = (lambda sources: RayWorkers(sources, ray, worker_plan)), worker_plan.size
    groups = shards.groups(n_workers or 1)
    workers = make_workers(ShardGroup(items, strategy, metric) for items in groups)
    try:
        layout, references = _open(workers, labeled, groups)
        layout, chosen, notes = _choose_strategy(strategy, workers, layout, len(references))
        n_picks = check_budget(budget, int(layout.n_candidates.sum()), int(layout.starts[-1]))
        problem = _problem(chosen, metric, layout, references, n_picks, progress)
        journal = _journal(shards, chosen, problem, layout)
        if isinstance(problem, CoverageProblem):
            assert isinstance(chosen, Coverage | DoubtCoverage)
            n_targets = chosen.sample or DEFAULT_TARGETS
            solution, traffic, sampled = cover(problem, workers, layout, journal, n_targets)
        else:
            (solution, traffic), sampled = solve(problem, workers, layout, journal), None
        notes += _describe_sample(chosen, sampled)
        notes += (describe_run(workers, layout, traffic, journal),)
        ids = _ids(workers, solution.configurations[0].indices)
    finally:
        workers.close()
    best = solution.configurations[0]
    selection = Selection(
        indices=best.indices,
        priorities=best.priorities,
        radius=best.radius,
        uncertainty=best.uncertainty,
        configurations=solution.configurations,
        strategy=chosen.name,
        engine="cluster",
        seed=seed,
        seconds=time.perf_counter() - started,
        n_pool=int(layout.starts[-1]),
        ids=ids,
        complete=solution.complete,
        covered=best.covered,
        reach=best.reach,
        sampled=sampled,
        notes=notes,
    )
    if not solution.complete:
        raise Interrupted(selection)
    return selection


def _choose_strategy(
    strategy: Strategy, workers: Workers, layout: ShardLayout, n_labeled: int
) -> tuple[ShardLayout, Strategy, tuple[str, ...]]:
    """The choice of `auto`, and the layout, with shards that solve its problem."""
    if not isinstance(strategy, Auto):
        return layout, strategy, ()
    chosen, note = strategy.take_for_shards(layout.infos[layout.lead].has_doubt, n_labeled)
    if n_labeled < FEWEST:
        layout = exclude(workers, layout, layout.excluded, is_early=True)
    return layout, chosen, (note,)


def _describe_sample(strategy: Strategy, sampled: int | None) -> tuple[str, ...]:
    """A note if only a sample is covered although the strategy does not ask for one."""
    if sampled is None or getattr(strategy, "sample", None) is not None:
        return ()
    more = named("strategy", f"{strategy.name}:sample={4 * sampled}")
    return (f"a sample of {sampled:,} rows is covered; for a larger one pass {more}",)


def describe_run(workers: Workers, layout: ShardLayout, traffic: Traffic, journal: PickJournal | None) -> str:
    lost = f", {workers.n_lost} of which died and were replaced" if workers.n_lost else ""
    n_earlier = 0 if journal is None else len(journal.rows)
    earlier = f"; {n_earlier:,} picks were in the journal already" if n_earlier else ""
    n_devices = sum(each.on_device for each in layout.infos)
    on = f" ({n_devices} on GPUs)" if n_devices else ""
    moved = (traffic.sent + traffic.received) / 1e6
    return f"cluster: {len(workers)} workers{on}{lost}, {traffic.rounds} rounds, {moved:.1f} MB moved{earlier}"


def _open(workers: Workers, labeled: object, groups: Sequence[Sequence[Item]]) -> tuple[ShardLayout, AnyArray]:
    """Have the workers read their shards; returns the layout, and the features of all labeled points.

    Labeled points are marked in the shards, or given as row numbers or features.
    """
    layout = open_all(workers, [item_name(items[0]) for items in groups])
    parts = [part for part in workers.ask("labeled") if len(part)]
    width = layout.infos[layout.lead].n_features
    if labeled is not None:
        given = np.asarray(labeled)
        if given.ndim == 1 and given.dtype.kind in "iu":
            n_pool = int(layout.starts[-1])
            wrong = given[(given < 0) | (given >= n_pool)]
            if len(wrong):
                hint = f"pass rows from 0 to {n_pool - 1:,}, numbered through all shards."
                raise InvalidArgument(f"has row {wrong[0]}, which does not exist", argument="labeled", hint=hint)
            rows = np.unique(given.astype(np.int64))
            layout = exclude(workers, layout, rows)
            parts += [each.features for each in workers.ask("read", (rows,)) if len(each)]
        else:
            parts.append(np.asarray(check_features("labeled", labeled).matrix[:]))
            if parts[-1].shape[1] != width:
                problem = f"has {parts[-1].shape[1]} features, and the shards {width}"
                hint = "embed both with the same model, or pass row numbers of the pool."
                raise InvalidArgument(problem, argument="labeled", hint=hint)
    return layout, np.concatenate(parts) if parts else np.empty((0, width))


def _problem(
    strategy: Strategy,
    metric: Metric,
    layout: ShardLayout,
    references: AnyArray,
    budget: int,
    progress: Progress | None,
) -> Problem | CoverageProblem:
    """The problem for the driver, without a row of the pool."""
    info = layout.infos[layout.lead]
    largest = float(np.abs(references.astype(np.float64)).max(initial=0.0))
    request = _request(np.zeros((1, info.n_features)), np.zeros(1, np.int64), NO_ROWS, metric, 1.0)
    return replace(
        plan(strategy, replace(request, doubt=np.ones(1) if info.has_doubt else None)),
        pool=np.empty((0, info.n_features), info.dtype),
        references=references,
        budget=budget,
        largest=1.0 if metric == "cosine" else largest,
        progress=progress,
    )


def _journal(
    shards: Shards, strategy: Strategy, problem: Problem | CoverageProblem, layout: ShardLayout
) -> PickJournal | None:
    if shards.journal is None:
        return None
    if isinstance(problem, Problem) and problem.beam_width > 1:
        hint = f"leave it out, or {named('beam_width')}."
        raise InvalidArgument("cannot store the configurations of a beam", argument="journal", hint=hint)
    signature = {
        "strategy": repr(strategy),
        "metric": problem.metric,
        "shards": [item_name(item) for item in shards.items],
        "rows": int(layout.starts[-1]),
        "candidates": int(layout.n_candidates.sum()),
        "largest": max(each.largest for each in layout.infos).hex(),
        "labeled": hashlib.sha256(np.ascontiguousarray(problem.references).tobytes()).hexdigest(),
    }
    if isinstance(problem, CoverageProblem):
        signature["ground"] = getattr(strategy, "sample", None) or DEFAULT_TARGETS
    journal = PickJournal(shards.journal, signature)
    journal.limit(problem.budget)
    return journal


def _ids(workers: Workers, rows: IntArray) -> AnyArray | None:
    """(b,) ids of the picks, if every shard that has any of them has ids."""
    found = [(here, ids) for here, ids in workers.ask("ids", (rows,)) if len(here)]
    if not found or any(ids is None for _, ids in found):
        return None
    here, ids = np.concatenate([each for each, _ in found]), np.concatenate([each for _, each in found])
    order = np.argsort(here, kind="stable")
    return np.asarray(ids[order][np.searchsorted(here[order], rows)])
