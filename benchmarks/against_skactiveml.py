"""scikit-activeml's CoreSet: a pass over the pool per pick, and a budget × pool matrix of float64."""

from importlib import import_module

import numpy as np
from timing import Contestant, Outcome
from workloads import Array, Task

NAME = "scikit-activeml CoreSet"


def contestant(task: Task) -> Contestant:
    """Raises ImportError where scikit-activeml is not installed. It has no doubt scaling."""
    import_module("skactiveml.pool")
    stacked, few = stack(task), stack(task.small())
    return Contestant(
        NAME, lambda: query(*stacked, task.budget), lambda: query(*few, task.small().budget), repeats=3, cap=40.0
    )


def stack(task: Task) -> tuple[Array, Array]:
    """It wants one matrix, with labels that are nan where there is none: the pool first, so that rows agree."""
    n, m = len(task.workload.pool), len(task.workload.labeled)
    features = np.concatenate([task.workload.pool, task.workload.labeled])
    return features, np.concatenate([np.full(n, np.nan), np.zeros(m)])


def query(features: Array, labels: Array, budget: int) -> Outcome:
    """The seed decides only between exact ties."""
    strategy = import_module("skactiveml.pool").CoreSet(random_state=0)
    return Outcome(np.asarray(strategy.query(features, labels, batch_size=budget), dtype=np.int64))
