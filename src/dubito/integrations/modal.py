"""modAL: dubito's strategies as query strategies.

``ActiveLearner(estimator, query_strategy=Sampling("doubt-coverage"), ...)`` queries the picks of `dubito.select` for
the learner's pool, training data and probabilities. modAL itself is not imported.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from dubito.core.problem import Metric
from dubito.integrations.picking import as_dense, pick
from dubito.matrix import FloatArray, IntArray
from dubito.strategies import Strategy, configure_strategy
from dubito.strategies.base import uses_doubt

HINT = "give the learner a fitted estimator with predict_proba, or use a Committee if posterior samples are needed."


@dataclass(frozen=True)
class Sampling:
    """A query strategy with the arguments of `dubito.select` of the same names.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> learner = SimpleNamespace(estimator=None, X_training=[[0.0]], on_transformed=False)
    >>> Sampling("coreset")(learner, [[1.0], [5.0], [2.0]], n_instances=2)
    (array([1, 2]), array([5., 2.]))
    """

    strategy: str | Strategy = "auto"
    metric: Metric = "euclidean"
    standardize: bool | None = None
    engine: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        configure_strategy(self.strategy, self.engine)

    def __call__(self, learner: Any, X_pool: Any, n_instances: int = 1, **more: Any) -> tuple[IntArray, FloatArray]:
        """Rows of ``X_pool`` in the order of the picks, and their priorities.

        ``more`` is passed to `dubito.select`: ``learner.query(pool, n_instances=20, costs=costs)``.
        """
        strategy = configure_strategy(self.strategy, self.engine)
        given = {
            "metric": self.metric,
            "standardize": self.standardize,
            "engine": self.engine,
            "seed": self.seed,
            **more,
        }
        if uses_doubt(strategy) and not given.keys() & {"probabilities", "logits", "doubt", "labels"}:
            given["probabilities"] = probabilities_of(learner, X_pool)
        transform = learner.transform_without_estimating if learner.on_transformed else lambda points: points
        training_sets = [each.X_training for each in members_of(learner) if each.X_training is not None]
        known = [as_dense(transform(points), "X_training") for points in training_sets]
        labeled = np.concatenate(known) if known else None
        picked = pick(as_dense(transform(X_pool), "X_pool"), n_instances, strategy, HINT, labeled=labeled, **given)
        return picked.indices, picked.priorities


def members_of(learner: Any) -> list[Any]:
    return list(getattr(learner, "learner_list", [learner]))


def probabilities_of(learner: Any, points: Any) -> Any:
    """(n, c) probabilities, or (n, k, c) of a committee; None if the model has none or is not fitted yet."""
    if not all(hasattr(member.estimator, "predict_proba") for member in members_of(learner)):
        return None
    try:
        return learner.vote_proba(points) if hasattr(learner, "vote_proba") else learner.predict_proba(points)
    except NotFittedError:
        return None
