"""dubito itself, as a user calls it: checks and all."""

from importlib import import_module
from typing import Any

import numpy as np
from agreement import assert_identical
from timing import Contestant, Outcome
from workloads import Array, Floats, Ints, Task

import dubito

NAME = "dubito"
METHOD = "doubt-coreset"


def contestant(task: Task, expected: Ints, repeats: int = 5, cap: float = 30.0) -> Contestant:
    """`dubito.select`; every timed run must repeat the picks expected."""
    name = f"{NAME}, beam {task.beam_width}" if task.beam_width > 1 else NAME
    return Contestant(
        name,
        lambda: select(task),
        lambda: select(task.small()),
        check=lambda outcome: assert_identical(outcome.picks, expected, NAME),
        repeats=repeats,
        cap=cap,
    )


def select(task: Task, memory_limit: str | None = None) -> Outcome:
    """One call."""
    selection = dubito.select(
        task.workload.pool,
        task.budget,
        labeled=task.workload.labeled,
        doubt=task.workload.doubt if task.is_scaled else None,
        strategy=METHOD if task.is_scaled else "coreset",
        beam_width=task.beam_width,
        memory_limit=memory_limit,
    )
    return Outcome(selection.indices, selection.priorities)


def second_round(features: Array, rows: Ints, budget: int, doubts: tuple[Floats, Floats]) -> list[Contestant]:
    """A `dubito.Pool` with a round behind it, and a call from scratch, both on the second round's doubts."""
    make_pool = import_module("dubito").Pool
    first = dubito.select(features, budget, labeled=rows, doubt=doubts[0], strategy=METHOD).indices
    known = np.concatenate([rows, first])
    expected = dubito.select(features, budget, labeled=known, doubt=doubts[1], strategy=METHOD).indices
    pools: list[Any] = []
    picks: list[Any] = []

    def play_first_round() -> None:
        pools[:] = [make_pool(features)]
        pools[0].label(rows)
        picks[:] = [pools[0].select(budget, doubt=doubts[0], strategy=METHOD).indices]

    def play_and_label() -> None:
        play_first_round()
        pools[0].label(picks[0])

    def play_second_round() -> Outcome:
        return Outcome(pools[0].select(budget, doubt=doubts[1], strategy=METHOD).indices)

    def label_and_play() -> Outcome:
        pools[0].label(picks[0])
        return play_second_round()

    def start_from_scratch() -> Outcome:
        return Outcome(dubito.select(features, budget, labeled=known, doubt=doubts[1], strategy=METHOD).indices)

    def check(outcome: Outcome) -> str:
        return assert_identical(outcome.picks, expected, "second round")

    return [
        Contestant("dubito.Pool", play_second_round, prepare=play_and_label, check=check),
        Contestant("dubito.Pool, label() too", label_and_play, prepare=play_first_round, check=check),
        Contestant("dubito from scratch", start_from_scratch, check=check),
    ]
