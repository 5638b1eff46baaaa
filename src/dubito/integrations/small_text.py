"""small-text: dubito's strategies as query strategies.

``PoolBasedActiveLearner(factory, QueryStrategy("doubt-coverage"), dataset)`` queries the picks of `dubito.select` for
the features of the texts, the labels and the classifier's probabilities. small-text itself is not imported.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dubito.core.problem import Metric
from dubito.errors import InvalidArgument, InvalidData
from dubito.integrations.picking import as_dense, pick
from dubito.matrix import IntArray
from dubito.strategies import Strategy, configure_strategy
from dubito.strategies.base import uses_doubt

HINT = "pass small-text's learner a trained classifier with predict_proba, or use a strategy that needs no model."
EMBEDDINGS = "pass query_strategy_kwargs={'embeddings': array} to the learner's query()."


@dataclass(frozen=True)
class QueryStrategy:
    """A query strategy with the arguments of `dubito.select` of the same names."""

    strategy: str | Strategy = "auto"
    metric: Metric = "euclidean"
    standardize: bool | None = None
    engine: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        configure_strategy(self.strategy, self.engine)

    def query(
        self, clf: Any, dataset: Any, indices_unlabeled: Any, indices_labeled: Any, y: Any, n: int = 10,
        embeddings: Any = None, embed_kwargs: Any = None,
    ) -> IntArray:  # fmt: skip
        """Rows of the data set in the order of the picks.

        Features are ``embeddings`` (n, d), else those of the classifier's ``embed``, else those of the data set.
        """
        strategy, probabilities = configure_strategy(self.strategy, self.engine), None
        if uses_doubt(strategy) and clf is not None:
            if isinstance(dataset, np.ndarray):
                problem = "hides the texts from the classifier, whose doubt the strategy needs"
                raise InvalidArgument(problem, argument="representation", hint=f"leave it out, and {EMBEDDINGS}")
            if hasattr(y, "toarray"):
                problem = "has several labels per text, and the strategy needs the probabilities of a single class"
                raise InvalidData(problem, argument="y", hint="use a strategy without a model, such as 'coverage'.")
            probabilities = clf.predict_proba(dataset)
        features = features_of(clf, dataset, embed_kwargs or {}) if embeddings is None else embeddings
        given = {"metric": self.metric, "standardize": self.standardize, "engine": self.engine, "seed": self.seed}
        given |= {"labeled": indices_labeled, "candidates": indices_unlabeled, "probabilities": probabilities}
        return pick(as_dense(features, "embeddings"), n, strategy, HINT, **given).indices


def features_of(clf: Any, dataset: Any, how: dict[str, Any]) -> Any:
    if isinstance(dataset, np.ndarray):
        return dataset
    if hasattr(clf, "embed"):
        return clf.embed(dataset, **how)
    rows = getattr(dataset, "x", None)
    if hasattr(rows, "shape"):
        return rows
    raise InvalidArgument("has texts without features", argument="dataset", hint=EMBEDDINGS)
