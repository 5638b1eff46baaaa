"""modAL's ranked batch, with all uncertainties 0: what is left of its score ranks by distance alone, a core-set."""

from importlib import import_module
from types import ModuleType

import numpy as np
from timing import Contestant, Outcome
from workloads import Task

NAME = "modAL ranked_batch"


def contestant(task: Task) -> Contestant:
    """Raises ImportError where modAL is not installed."""
    modal = import_module("modAL.batch")
    learner, few = make_learner(task), make_learner(task.small())
    return Contestant(
        NAME, lambda: select(modal, learner, task), lambda: select(modal, few, task.small()), repeats=3, cap=30.0
    )


def make_learner(task: Task) -> object:
    """A learner around a classifier that is never asked."""
    labeled = task.workload.labeled
    classifier = import_module("sklearn.dummy").DummyClassifier()
    learner: object = import_module("modAL.models").ActiveLearner(
        classifier, X_training=labeled, y_training=np.zeros(len(labeled))
    )
    return learner


def select(modal: ModuleType, learner: object, task: Task) -> Outcome:
    """Its own loop, in full."""
    pool = task.workload.pool
    picks, _ = modal.ranked_batch(learner, pool, np.zeros(len(pool)), task.budget, "euclidean", None)
    return Outcome(np.asarray(picks, dtype=np.int64))
