"""small-text's greedy_coreset: every pick measures all distances to everything labeled anew."""

from importlib import import_module

import numpy as np
from timing import Contestant, Outcome
from workloads import Array, Task

NAME = "small-text greedy_coreset"


def contestant(task: Task) -> Contestant:
    """Raises ImportError where small-text is not installed. It has no doubt scaling."""
    import_module("small_text.query_strategies.coresets")
    features = np.concatenate([task.workload.pool, task.workload.labeled])
    return Contestant(
        NAME, lambda: select(features, len(task.workload.pool), task.budget), lambda: warm_up(task), repeats=3, cap=30.0
    )


def warm_up(task: Task) -> None:
    """A few picks."""
    few = task.small().workload
    select(np.concatenate([few.pool, few.labeled]), len(few.pool), 2)


def select(features: Array, n_pool: int, budget: int) -> Outcome:
    """The pool comes first: it takes a pick's place in the unlabeled list for its row of the matrix."""
    coreset = import_module("small_text.query_strategies.coresets").greedy_coreset
    unlabeled, labeled = np.arange(n_pool), np.arange(n_pool, len(features))
    picks = coreset(features, unlabeled, labeled, budget, distance_metric="euclidean")
    return Outcome(np.asarray(picks, dtype=np.int64))
