"""The rows of the benchmark: what each measures, and how its picks are proved first."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import against_dubito
import against_numpy
import numpy as np
from agreement import SAME, assert_identical, certify, compare_with
from machine import installed
from memory import STATUS, measure_in_child
from sizes import FULL, QUICK, Shape
from timing import Contestant, time_in_turn
from workloads import Ints, Task, Workload, generate_workload, open_workload, read_workload, write_workload

import dubito

Record = dict[str, Any]

SWEEP_CAP = 8.0
"""Seconds a contestant may spend on one point of a sweep; a single run may take longer."""
SHORT = 10
"""A short round has the budget over this."""


@dataclass(frozen=True, slots=True)
class Row:
    """A name such as ``pool/30000/scaled``, and the measurement behind it."""

    name: str
    measure: Callable[[], Record]


class Plan:
    """Every row of a run. Workloads are made when a row first needs them."""

    def __init__(self, pool_file: Path | None, is_quick: bool) -> None:
        self.pool_file, self.sizes = pool_file, QUICK if is_quick else FULL
        self.is_quick = is_quick
        self.scratch = tempfile.TemporaryDirectory(prefix="dubito-bench-")

    @cached_property
    def real(self) -> Workload:
        """The pool given, or one of its shape and character."""
        shape = self.sizes.real
        if self.pool_file is None:
            return generate_workload(shape.n, shape.m)
        whole = read_workload(self.pool_file)
        return whole.head(shape.n, shape.m) if self.is_quick else whole

    @cached_property
    def folder(self) -> Path:
        """Where the generated pool of a million rows lies."""
        print(f"    writing a pool of {self.sizes.map.n:,} rows to a temporary file", flush=True)
        write_workload(Path(self.scratch.name), self.sizes.map.n, self.sizes.map.m)
        return Path(self.scratch.name)

    @cached_property
    def mapped(self) -> Workload:
        """That pool as a memory map."""
        return open_workload(self.folder)

    def rows(self) -> Iterator[Row]:
        """In the order they are run."""
        sizes = self.sizes
        for scaled in (True, False):
            yield Row(f"real/{word(scaled)}", partial(self.against_loops, scaled))
        yield Row("peers", partial(self.against_peers, sizes.peers, ("torch", "skactiveml", "mundig")))
        yield Row("slow-peers", partial(self.against_peers, sizes.slow_peers, ("small_text", "modal")))
        if hasattr(dubito, "Pool"):
            yield Row("short-round", partial(self.second_round, sizes.real.budget // SHORT))
            yield Row("second-round", partial(self.second_round, sizes.real.budget))
        for width in sizes.beams:
            yield Row(f"beam/{width}", partial(self.by_beam, width))
        for budget in sizes.map_budgets:
            yield Row(f"million/{budget}", partial(self.from_map, budget))
        for n in sizes.pools:
            yield Row(f"memory/{n}", partial(self.memory_of, n))
        yield from self.sweeps()

    def sweeps(self) -> Iterator[Row]:
        """Time against one number at a time. The loop costs the same with doubt and without, so it runs once."""
        sizes, middle = self.sizes, self.sizes.middle
        points = [("pool", n, replace(sizes.sweep, n=n), n <= sizes.loop_pool) for n in sizes.pools]
        points += [("budget", b, replace(middle, budget=b), b <= sizes.loop_budget) for b in sizes.budgets]
        points += [("labelled", m, replace(middle, m=m), True) for m in sizes.labeled]
        for kind, value, shape, has_loop in points:
            for scaled in (True, False):
                name = f"{kind}/{value}/{word(scaled)}"
                yield Row(name, partial(self.sweep_point, shape, scaled, has_loop and not scaled))

    def against_loops(self, scaled: bool) -> Record:
        """The real pool, equal to a float64 run of the loop first."""
        task = Task(self.real, min(self.sizes.real.budget, len(self.real.pool)), scaled)
        expected = against_numpy.greedy_loop(task, np.float64)
        assert_identical(against_dubito.select(task).picks, expected, "dubito against a float64 loop")
        contestants = [
            against_dubito.contestant(task, expected),
            checked(against_numpy.contestant(task), task, expected),
        ]
        if scaled:
            contestants.insert(1, self.wide_beam(replace(task, beam_width=self.sizes.real_beam)))
        record = race(task, contestants, ("torch",), expected, self.sizes.repeats)
        loop = record["contestants"][against_numpy.NAME]["median"]
        return record | {"gigabytes_per_second": against_numpy.bandwidths(task, loop)}

    def wide_beam(self, task: Task) -> Contestant:
        """A beam's float64 run is slow, so it is compared over fewer picks."""
        few = replace(task, budget=self.sizes.beam_check)
        expected = against_numpy.beam_loop(few, np.float64)
        assert_identical(against_dubito.select(few).picks, expected, f"beam of {task.beam_width}")
        return against_dubito.contestant(task, against_dubito.select(task).picks)

    def against_peers(self, shape: Shape, peers: tuple[str, ...]) -> Record:
        """Real features, unscaled, because no peer scales as we do."""
        task = Task(self.real.head(shape.n, shape.m), shape.budget, False)
        expected = against_numpy.greedy_loop(task, np.float64)
        assert_identical(against_dubito.select(task).picks, expected, "dubito against a float64 loop")
        contestants = [
            against_dubito.contestant(task, expected),
            checked(against_numpy.contestant(task), task, expected),
        ]
        return race(task, contestants, peers, expected, self.sizes.repeats)

    def by_beam(self, width: int) -> Record:
        """The peers' shape, doubt-scaled."""
        shape = self.sizes.peers
        task = Task(self.real.head(shape.n, shape.m), shape.budget, True, width)
        contestants = [self.wide_beam(task)]
        if width <= self.sizes.loop_beam:
            loop, expected = against_numpy.contestant(task, SWEEP_CAP), against_dubito.select(task).picks
            contestants.append(replace(loop, check=lambda outcome: overlap(outcome.picks, expected)))
        return race(task, contestants, (), np.empty(0, dtype=np.int64), self.sizes.repeats) | {"beam_width": width}

    def sweep_point(self, shape: Shape, scaled: bool, has_loop: bool) -> Record:
        """A generated pool in float32, certified first."""
        task = Task(self.mapped.head(shape.n, shape.m), shape.budget, scaled)
        first = against_dubito.select(task)
        proof = certify(task, first.picks, first.priorities) if first.priorities is not None else ""
        contestants = [against_dubito.contestant(task, first.picks, repeats=3, cap=2 * SWEEP_CAP)]
        if has_loop:
            contestants.append(checked(against_numpy.contestant(task, SWEEP_CAP), task, first.picks))
        return race(task, contestants, (), first.picks, self.sizes.repeats) | {"proof": proof}

    def from_map(self, budget: int) -> Record:
        """The whole memory map, doubt-scaled, within 2 GB."""
        return self.measure_memory(Task(self.mapped, budget, True), "2GB", repeats=2)

    def memory_of(self, n: int) -> Record:
        """The first rows of the memory map, by default settings, with everything labeled there is."""
        part = replace(self.mapped, pool=self.mapped.pool[:n], doubt=self.mapped.doubt[:n])
        task = Task(part, min(self.sizes.map.budget, n // 2), True)
        return self.measure_memory(task, None, repeats=1) | {"promise_bytes": 32 * n + 128 * 10**6}

    def measure_memory(self, task: Task, memory_limit: str | None, repeats: int) -> Record:
        """In processes of their own; where there are several, the picks of the first are certified."""
        if not STATUS.exists():
            return task.describe() | {"absent": {"dubito": "only Linux reports RssAnon"}}
        runs = [measure_in_child(self.folder, task, memory_limit, turn == 0 and repeats > 1) for turn in range(repeats)]
        seconds, peaks = [run["seconds"] for run in runs], [run["peak_bytes"] for run in runs]
        print(f"    {seconds} s, {max(peaks) / 1e6:.0f} MB, {runs[0].get('agreement', '')}", flush=True)
        timing = {"median": float(np.median(seconds)), "least": min(seconds), "most": max(seconds), "seconds": seconds}
        record = task.describe() | {"contestants": {"dubito": timing}, "peak_bytes": max(peaks)}
        return record | {"proof": runs[0].get("agreement", ""), "memory_limit": memory_limit}

    def second_round(self, budget: int) -> Record:
        """All rows in one matrix; a model trained on more labels changes its doubts by a factor of e or so."""
        features = np.concatenate([self.real.pool, self.real.labeled])
        rows = np.arange(len(self.real.pool), len(features))
        doubt = np.append(self.real.doubt, np.full(len(rows), 0.5)).clip(1e-30, 1.0 - 1e-12)
        shift = np.exp(np.random.default_rng(2).standard_normal(len(doubt)))
        later = 1.0 / (1.0 + (1.0 - doubt) / (doubt * shift))
        task = Task(self.real, budget, True)
        contestants = against_dubito.second_round(features, rows, task.budget, (doubt, later))
        return task.describe() | {"contestants": time_in_turn(contestants, self.sizes.repeats)}


def race(task: Task, contestants: list[Contestant], peers: tuple[str, ...], expected: Ints, repeats: int) -> Record:
    """Time contestants and those peers that can run; say of the others why not."""
    absent = {}
    for peer in peers:
        module = import_module(f"against_{peer}")
        try:
            entrant = checked(module.contestant(task), task, expected)
            entrant.warm_up()
            contestants.append(entrant)
        except ModuleNotFoundError as error:
            absent[module.NAME] = f"not installed ({error.name})"
        # A peer that breaks, in whatever way, is a row that says so, not the end of the benchmark.
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:160]
            absent[module.NAME] = f"does not run with scikit-learn {installed('scikit-learn')}: {reason}"
    return task.describe() | {"contestants": time_in_turn(contestants, repeats), "absent": absent}


def checked(contestant: Contestant, task: Task, expected: Ints) -> Contestant:
    """A contestant in float32: the picks expected, up to its rounding."""
    return replace(contestant, check=lambda outcome: compare_with(task, outcome.picks, expected))


def overlap(found: Ints, expected: Ints) -> str:
    """How much of two beams is the same: rounding can send one another way."""
    if np.array_equal(found, expected):
        return SAME
    return f"{len(np.intersect1d(found, expected))} of {len(expected)} picks in common"


def word(scaled: bool) -> str:
    """As rows are named."""
    return "scaled" if scaled else "unscaled"
