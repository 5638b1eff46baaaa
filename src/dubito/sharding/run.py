"""Selecting from shards on a Ray cluster."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Interrupted, Metric, Problem, Progress, Request, Selection
from dubito.doubt.reading import read_doubt
from dubito.engines.cluster.coverage.driver import Covered, cover
from dubito.engines.cluster.engine import leave_out, open_all, solve
from dubito.engines.cluster.frontier import Placed, Traffic, leading
from dubito.engines.cluster.shard import Opened, Part
from dubito.engines.cluster.workers import RayWorkers, Workers, connect, thread_pool_of
from dubito.errors import InvalidArgument, InvalidData, named
from dubito.io.lookup import DOUBT_ROLES
from dubito.io.source import reading, stack_rows
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix, len_of
from dubito.request.arrays import (
    check_budget,
    check_choice,
    check_features,
    check_finite,
    check_integer,
    refuse_zero_rows,
)
from dubito.sharding.shards import Item, Read, Shards
from dubito.strategies.auto import FEWEST, Auto
from dubito.strategies.base import Strategy
from dubito.strategies.coreset import Coreset, DoubtCoreset
from dubito.strategies.coverage import Coverage, DoubtCoverage

# A worker's part of the pool: a few shards one below another, read and made a problem where they are wanted.

NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Group:
    """Shards that one worker holds."""

    items: tuple[Item, ...]
    strategy: Strategy
    metric: Metric

    def open(self) -> Opened:
        """Read every one of them, check it, and let the strategy make a problem of them."""
        read = [item.read() for item in self.items]
        features = _joined([each.features for each in read], [name_of(item) for item in self.items])
        largest = check_finite("pool", features)
        if self.metric == "cosine":
            refuse_zero_rows("pool", features)
        marked = np.concatenate([_mask(each) for each in read])
        candidates, labeled = np.flatnonzero(~marked), np.flatnonzero(marked)
        probabilities, doubt = _doubt(read)
        planned = alternatives(self.strategy, doubt is not None)
        if all(getattr(each, "doubt", "confidence") == "confidence" for each in planned):
            probabilities = None  # All that is asked of them is known by now.
        request = _request(features, candidates, labeled, self.metric, 1.0 if self.metric == "cosine" else largest)
        request = replace(request, probabilities=probabilities, doubt=doubt)
        problems = [plan(each, request) for each in planned]
        ids = [each.ids for each in read if each.ids is not None]
        named_rows = np.concatenate(ids) if len(ids) == len(read) else None
        return Opened(problems[0], labeled, named_rows, problems[1] if len(problems) > 1 else None)


def alternatives(strategy: Strategy, is_doubted: bool) -> list[Strategy]:
    """What is taken where enough is labeled, and where little is, if that is another one."""
    if not isinstance(strategy, Auto):
        return [strategy]
    return list(dict.fromkeys(strategy.take_unasked(is_doubted, n_labeled)[0] for n_labeled in (FEWEST, 0)))


def asked(strategy: Strategy, n_features: int, is_doubted: bool, metric: Metric) -> Problem | CoverageProblem:
    """What a strategy asks of an engine, whatever the rows."""
    request = _request(np.zeros((1, n_features)), np.zeros(1, np.int64), NO_ROWS, metric, 1.0)
    return plan(strategy, replace(request, doubt=np.ones(1) if is_doubted else None))


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
    """What a strategy asks of an engine, of these rows alone: a sample is taken of all shards together."""
    if isinstance(strategy, Coverage | DoubtCoverage):
        return replace(strategy, sample=None).plan(request)
    if isinstance(strategy, Coreset | DoubtCoreset):
        return strategy.plan(request)
    names = ", ".join(named("strategy", name) for name in ("doubt-coverage", "coverage", "doubt-coreset"))
    hint = f"pass {names} or {named('strategy', 'coreset')}."
    raise InvalidArgument("cannot choose from shards", argument="strategy", value=strategy.name, hint=hint)


def name_of(item: Item) -> str:
    """What messages call a shard."""
    return str(getattr(item, "address", None) or getattr(item, "name", None) or name_of(getattr(item, "item", item)))


def _joined(parts: list[Matrix], names: list[str]) -> Matrix:
    return parts[0] if len(parts) == 1 else stack_rows(parts, names)


def _mask(read: Read) -> AnyArray:
    return np.zeros(len_of(read.features), dtype=np.bool_) if read.labeled is None else read.labeled


def _doubt(read: list[Read]) -> tuple[AnyArray | None, FloatArray | None]:
    """Probabilities, where there are any, and doubt; each shard is checked by itself, and brought to doubt there."""
    found = [_doubt_of(each) for each in read]
    doubts = [doubt for _, doubt in found if doubt is not None]
    if len(doubts) < len(read):
        return None, None
    probabilities = [each for each, _ in found if each is not None]
    n_filled = sum(len(doubt) > 0 for doubt in doubts)
    whole = np.concatenate(probabilities) if len(probabilities) == n_filled > 0 else None
    return whole, np.concatenate(doubts)


def _doubt_of(read: Read) -> tuple[AnyArray | None, FloatArray | None]:
    if read.doubt is None:
        return None, None
    role, values = read.doubt
    if len(values) == 0:
        return None, np.empty(0)
    given = (values if role == each else None for each in DOUBT_ROLES)
    probabilities, doubt = read_doubt(len(values), *given)
    return (None if probabilities is None else np.asarray(probabilities[:])), doubt


# A journal of picks: what a run has picked by now, so that another can go on where it broke off.

KIND = "dubito picks"


class PickJournal:
    """A file with a line for every round, each with a checksum; a line that was not written whole is left out."""

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
        """What is written down already."""
        return np.array(self.rows, dtype=np.int64), np.array(self.squared)

    def limit(self, budget: int) -> None:
        """Forget what a smaller budget does not ask for; the file keeps it."""
        self.rows, self.squared = self.rows[:budget], self.squared[:budget]

    def note(self, picks: IntArray, squared: FloatArray) -> None:
        """Write a round down; it is on the disk when this returns."""
        with reading(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(_line({"rows": picks.tolist(), "squared": [float(each).hex() for each in squared]}))
            _flush(file)

    def _read(self) -> None:
        with reading(self.path), open(self.path, "rb") as file:
            lines = file.read().split(b"\n")
        whole = [_parsed(line) for line in lines[:-1]]
        if not whole or whole[0] is None or whole[0].get("kind") != KIND:
            raise InvalidData(f"{self.path} is no journal of picks", hint="name another file.")
        if whole[0]["signature"] != self.signature:
            raise InvalidArgument(
                f"{self.path} belongs to another run: other shards, labels or another strategy",
                argument="journal",
                hint="name another file, or remove this one to begin anew.",
            )
        for number, entry in enumerate(whole[1:], 2):
            if entry is None:
                raise InvalidData(
                    f"{self.path} is damaged in line {number}", hint="remove that line and all behind it."
                )
            self.rows += entry["rows"]
            self.squared += [float.fromhex(each) for each in entry["squared"]]
        if lines[-1]:
            self._cut_off(lines[-1])

    def _cut_off(self, rest: bytes) -> None:
        """A line that was being written when the run ended is no round."""
        with reading(self.path), open(self.path, "r+b") as file:
            file.truncate(os.path.getsize(self.path) - len(rest))


def digest(values: Any) -> str:
    """What tells one run from another, in a few digits."""
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


GROUND_ROWS = 2**15
"""So many rows stand for all that is to be covered, where nobody says how many: every worker holds them all."""
Hire = Callable[[Iterable[Part]], Workers]
"""Processes for some parts."""


def select_from(
    pool: object,
    budget: object,
    labeled: object,
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
            hint = "leave it out; what belongs to rows goes into dubito.Shards, beside the features."
            raise InvalidArgument("means nothing to shards", argument=name, hint=hint)
    check_choice("engine", engine, ("auto", "cluster"))
    known: Metric = check_choice("metric", metric, get_args(Metric))
    return select_shards(pool, budget, strategy=strategy, labeled=labeled, metric=known, seed=seed, progress=progress)


def select_shards(
    shards: Shards,
    budget: object,
    *,
    labeled: object = None,
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
        thread_pool = thread_pool_of(ray, shards.workers, shards.workers_per_gpu)
        hire, n_workers = (lambda parts: RayWorkers(parts, ray, thread_pool)), thread_pool.size
    groups = shards.groups(n_workers or 1)
    workers = hire(Group(items, strategy, metric) for items in groups)
    try:
        placed, references = _opened(workers, labeled, groups)
        placed, taken, notes = _taken(strategy, workers, placed, len(references))
        n_picks = check_budget(budget, int(placed.n_candidates.sum()), int(placed.starts[-1]))
        problem = _asked(taken, metric, placed, references, n_picks, progress)
        journal = _journal(shards, taken, problem, placed)
        found = _solved(taken, problem, workers, placed, journal)
        notes += _describe_of_sample(taken, found.sampled)
        notes += (described(workers, placed, found.traffic, journal),)
        names = _names(workers, found.solution.configurations[0].indices)
    finally:
        workers.close()
    seconds, n_pool = time.perf_counter() - started, int(placed.starts[-1])
    return _selection(found, taken.name, seed, seconds, n_pool, names, notes)


def _taken(
    strategy: Strategy, workers: Workers, placed: Placed, n_labeled: int
) -> tuple[Placed, Strategy, tuple[str, ...]]:
    """The strategy that `auto` leaves it to, now that it is known what there is, with shards that know it, too."""
    if not isinstance(strategy, Auto):
        return placed, strategy, ()
    taken, note = strategy.take_unasked(placed.facts[leading(placed.facts)].is_doubted, n_labeled)
    if n_labeled < FEWEST:
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


def _describe_of_sample(strategy: Strategy, sampled: int | None) -> tuple[str, ...]:
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


def described(workers: Workers, placed: Placed, traffic: Traffic, journal: PickJournal | None) -> str:
    """What a person may want to know of the run."""
    lost = f", {workers.n_lost} of which died and were made anew" if workers.n_lost else ""
    earlier = (
        f"; {len(journal.rows):,} picks were in the journal already" if journal is not None and journal.rows else ""
    )
    n_devices = sum(each.on_device for each in placed.facts)
    on = f" ({n_devices} on GPUs)" if n_devices else ""
    moved = (traffic.sent + traffic.received) / 1e6
    return f"cluster: {len(workers)} workers{on}{lost}, {traffic.rounds} rounds, {moved:.1f} MB moved{earlier}"


def _opened(workers: Workers, labeled: object, groups: Sequence[Sequence[Item]]) -> tuple[Placed, AnyArray]:
    """Shards read and placed, and the features of what is labeled: marked in them, named by row, or given."""
    placed = open_all(workers, [name_of(items[0]) for items in groups])
    parts = [part for part in workers.ask("labeled") if len(part)]
    width = placed.facts[leading(placed.facts)].n_features
    if labeled is not None:
        given = np.asarray(labeled)
        if given.ndim == 1 and given.dtype.kind in "iu":
            rows = _checked_rows(given.astype(np.int64), int(placed.starts[-1]))
            placed = leave_out(workers, placed, rows)
            parts += [each.features for each in workers.ask("read", (rows,)) if len(each)]
        else:
            parts.append(np.asarray(check_features("labeled", labeled).matrix[:]))
            if parts[-1].shape[1] != width:
                problem = f"has {parts[-1].shape[1]} features, and the shards {width}"
                raise InvalidArgument(problem, argument="labeled", hint="embed them alike, or name rows of the pool.")
    return placed, np.concatenate(parts) if parts else np.empty((0, width))


def _checked_rows(rows: IntArray, n_pool: int) -> IntArray:
    wrong = rows[(rows < 0) | (rows >= n_pool)]
    if len(wrong):
        hint = f"rows go from 0 to {n_pool - 1:,}, through all shards."
        raise InvalidArgument(f"names row {wrong[0]}, which is not there", argument="labeled", hint=hint)
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
        hint = f"leave it out, or {named('beam_width')}."
        raise InvalidArgument("cannot keep the configurations of a beam", argument="journal", hint=hint)
    signature = {
        "strategy": repr(strategy),
        "metric": problem.metric,
        "shards": [name_of(item) for item in shards.items],
        "rows": int(placed.starts[-1]),
        "candidates": int(placed.n_candidates.sum()),
        "largest": max(each.largest for each in placed.facts).hex(),
        "labeled": hashlib.sha256(np.ascontiguousarray(problem.references).tobytes()).hexdigest(),
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
