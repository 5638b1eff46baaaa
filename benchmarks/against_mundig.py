"""lightly-mundig's diversifying strategy, in Rust: handing the embeddings over and selecting are timed apart."""

import time
from importlib import import_module

import numpy as np
from timing import Contestant, Outcome
from workloads import Array, Task

NAME = "lightly-mundig"


def contestant(task: Task) -> Contestant:
    """Raises ImportError where lightly-mundig is not installed."""
    import_module("lightly_mundig")
    features, few = stack(task), stack(task.small())
    return Contestant(
        NAME,
        lambda: select(features, len(task.workload.labeled), task.budget),
        lambda: select(few, len(task.small().workload.labeled), task.small().budget),
        repeats=3,
        cap=40.0,
    )


def stack(task: Task) -> Array:
    """One matrix, the pool first, so that rows agree."""
    return np.concatenate([task.workload.pool, task.workload.labeled])


def select(features: Array, n_labeled: int, budget: int) -> Outcome:
    """The labeled points are its preselected samples. It takes an array faster than lists."""
    started = time.perf_counter()
    selection = import_module("lightly_mundig").Selection()
    selection.add_diversifying_strategy(features, 1.0)
    handed_over = time.perf_counter()
    n = len(features)
    chosen = selection.run_selection(list(range(n - n_labeled, n)), n, n_labeled + budget)
    done = time.perf_counter()
    picks = np.array(chosen[n_labeled:], dtype=np.int64)
    return Outcome(picks, parts={"ingest": handed_over - started, "run": done - handed_over})
