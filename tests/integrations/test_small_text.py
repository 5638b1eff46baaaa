"""The adapter for small-text, by classifiers that have what small-text's have; `test_small_text_loop` has its own."""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import dubito
from dubito.errors import InvalidArgument, InvalidData
from dubito.integrations.small_text import QueryStrategy
from dubito.matrix import FloatArray

POINTS, ANSWERS = load_digits(return_X_y=True)
POINTS, ANSWERS = POINTS[:300] / 16.0, ANSWERS[:300]
KNOWN, REST = np.arange(0, 60, 2), np.setdiff1d(np.arange(280), np.arange(0, 60, 2))
"""The last 20 rows are ignored: neither labeled nor asked for."""


@dataclass
class Texts:
    """What a data set of small-text's has."""

    x: Any


class Classifier:
    """What a classifier of small-text's has."""

    def __init__(self) -> None:
        self.model = LogisticRegression(max_iter=500).fit(POINTS[KNOWN], ANSWERS[KNOWN])

    def predict_proba(self, texts: Texts) -> FloatArray:
        return np.asarray(self.model.predict_proba(texts.x))


class Embedding(Classifier):
    """One that embeds texts, as those of networks do."""

    def embed(self, texts: Texts, scale: float = 1.0) -> FloatArray:
        return np.asarray(scale * texts.x[:, 20:40])


def expected(strategy: str, points: FloatArray = POINTS, **more: Any) -> list[int]:
    said = Classifier().predict_proba(Texts(POINTS))
    given = {"labeled": KNOWN, "candidates": REST, "probabilities": said, **more}
    return list(dubito.select(points, 8, strategy=strategy, **given).indices)


def asked(query: QueryStrategy, clf: Any, dataset: Any, **more: Any) -> list[int]:
    return list(query.query(clf, dataset, REST, KNOWN, ANSWERS[KNOWN], n=8, **more))


@pytest.mark.parametrize("strategy", ["auto", "doubt-coverage:strength=2", "coreset", "entropy", "badge", "random"])
def test_the_picks_are_those_of_select(strategy: str) -> None:
    query = pickle.loads(pickle.dumps(QueryStrategy(strategy, seed=3)))
    assert asked(query, Classifier(), Texts(POINTS)) == expected(strategy, seed=3)


def test_features_are_what_was_handed_over_what_is_embedded_or_the_rows_themselves() -> None:
    query, other = QueryStrategy("doubt-coreset", metric="cosine"), POINTS[:, ::-1] ** 2
    own = asked(query, Classifier(), Texts(POINTS))
    assert own == expected("doubt-coreset", metric="cosine")
    assert asked(query, Classifier(), Texts(csr_matrix(POINTS))) == own
    given = asked(query, Embedding(), Texts(POINTS), embeddings=other)
    assert given == expected("doubt-coreset", other, metric="cosine")
    embedded = asked(QueryStrategy("coreset"), Embedding(), Texts(POINTS), embed_kwargs={"scale": 3.0})
    assert embedded == expected("coreset", POINTS[:, 20:40])
    assert asked(QueryStrategy("coreset"), Classifier(), POINTS[:, 20:40]) == embedded


def test_ignored_rows_are_never_asked_for() -> None:
    assert max(asked(QueryStrategy("random"), None, Texts(POINTS))) < 280


def test_without_a_classifier_the_start_is_cold() -> None:
    picks = asked(QueryStrategy(), None, Texts(POINTS))
    assert picks == dubito.select(POINTS, 8, labeled=KNOWN, candidates=REST).indices.tolist()
    with pytest.raises(InvalidArgument, match=r"strategy='entropy' needs .*; pass small-text's learner a trained"):
        asked(QueryStrategy("entropy"), None, Texts(POINTS))


def test_what_cannot_be_used_is_reported_with_what_to_pass() -> None:
    with pytest.raises(InvalidArgument, match=r"representation hides the texts .*\{'embeddings': array\}"):
        asked(QueryStrategy(), Classifier(), POINTS)
    with pytest.raises(InvalidArgument, match=r"dataset has texts without features; .*\{'embeddings': array\}"):
        asked(QueryStrategy("coverage"), Classifier(), Texts(["a text"] * 300))
    with pytest.raises(InvalidData, match="y has several labels per text"):
        QueryStrategy().query(Classifier(), Texts(POINTS), REST, KNOWN, csr_matrix((30, 10)), n=8)
    with pytest.raises(InvalidArgument, match="strategy='coverege'"):
        QueryStrategy("coverege")
