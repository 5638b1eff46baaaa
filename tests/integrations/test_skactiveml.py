import pickle
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid
from sklearn.tree import DecisionTreeClassifier

import dubito
from dubito.errors import InvalidArgument
from dubito.matrix import AnyArray, FloatArray
from dubito.strategies import BUILT_IN, build_strategy

pytest.importorskip("skactiveml", reason="scikit-activeml is not installed: make integrations")
adapter = import_module("dubito.integrations.skactiveml")
classifiers = import_module("skactiveml.classifier")

OPTIONS: dict[str, dict[str, object]] = {"probabilistic-coreset": {"components": 4, "batches": 20}}


@pytest.fixture(scope="module")
def digits() -> tuple[FloatArray, AnyArray]:
    """400 rows, of which the first 20 are labeled, and not one after another."""
    points, answers = load_digits(return_X_y=True)
    labels = np.full(400, np.nan)
    labels[::20] = answers[:400:20]
    return points[:400] / 16.0, labels


def probe() -> Any:
    return classifiers.SklearnClassifier(LogisticRegression(max_iter=500), classes=list(range(10)))


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_picks_are_those_of_select(name: str, digits: tuple[FloatArray, AnyArray]) -> None:
    points, labels = digits
    query = getattr(adapter, BUILT_IN[name].__name__)(random_state=7, **OPTIONS.get(name, {}))
    if name in {"bald", "batchbald"}:
        members = [classifiers.ParzenWindowClassifier(classes=list(range(10)), n_neighbors=k) for k in (2, 4, 8)]
        picks = query.query(points, labels, ensemble=members, batch_size=12)
        said = np.stack([member.fit(points, labels).predict_proba(points) for member in members], axis=1)
    else:
        picks = query.query(points, labels, probe(), batch_size=12)
        said = probe().fit(points, labels).predict_proba(points)
    expected = dubito.select(
        points,
        12,
        labeled=~np.isnan(labels),
        probabilities=said,
        strategy=build_strategy(name, OPTIONS.get(name, {})),
        seed=7,
    )
    assert picks.tolist() == expected.indices.tolist()


def test_parameters_are_those_of_the_strategy_and_can_be_cloned_set_and_pickled() -> None:
    query = adapter.DoubtCoverage(strength=2.0, metric="cosine", random_state=1)
    twin = pickle.loads(pickle.dumps(clone(query).set_params(factor=0.5)))
    options = {"strength", "doubt", "radius", "factor", "sample", "sharpen", "variance"}
    assert options | set(adapter.USUAL) == twin.get_params().keys()
    assert (twin.strength, twin.factor, twin.metric) == (2.0, 0.5, "cosine")
    assert repr(query) == "DoubtCoverage(metric='cosine', random_state=1, strength=2.0)"
    assert type(twin) is adapter.DoubtCoverage
    assert len({repr(clone(query).set_params(**each)) for each in ParameterGrid({"strength": [0.5, 1.0]})}) == 2


def test_options_reach_the_strategy(digits: tuple[FloatArray, AnyArray]) -> None:
    points, labels = digits
    said = probe().fit(points, labels).predict_proba(points)
    query = adapter.DoubtCoreset(strength=0.5, beam_width=3, doubt="margin", metric="cosine", standardize=False)
    expected = dubito.select(
        points,
        5,
        labeled=~np.isnan(labels),
        probabilities=said,
        strategy="doubt-coreset:strength=0.5,beam_width=3,doubt=margin",
        metric="cosine",
    )
    assert query.query(points, labels, probe(), batch_size=5).tolist() == expected.indices.tolist()
    with pytest.raises(InvalidArgument, match="strength=-1"):
        adapter.DoubtCoreset(strength=-1.0).query(points, labels, probe())


def test_a_model_that_is_fitted_already_is_taken_as_it_is(digits: tuple[FloatArray, AnyArray]) -> None:
    points, labels = digits
    few = np.where(np.arange(400) < 200, labels, np.nan)
    fitted = probe().fit(points, few)
    picks = adapter.Margin().query(points, labels, fitted, fit_clf=False, batch_size=4)
    expected = dubito.select(
        points, 4, labeled=~np.isnan(labels), probabilities=fitted.predict_proba(points), strategy="margin"
    )
    assert picks.tolist() == expected.indices.tolist()


def test_candidates_may_be_rows_or_features(digits: tuple[FloatArray, AnyArray]) -> None:
    points, labels = digits
    rows = np.flatnonzero(np.isnan(labels))[:50]
    picks = adapter.Coreset().query(points, labels, candidates=rows, batch_size=5)
    assert set(picks) <= set(rows)
    # What a core-set takes of some rows does not depend on those that are neither labeled nor candidates.
    again = adapter.Coreset().query(points, labels, candidates=points[rows], batch_size=5)
    assert rows[again].tolist() == picks.tolist()
    _, worth = adapter.Coreset().query(points, labels, candidates=points[rows], batch_size=5, return_utilities=True)
    assert worth.shape == (5, 50)
    with pytest.raises(ValueError, match="must not contain labeled"):
        adapter.Coreset().query(points, labels, candidates=[0])


def test_a_forest_of_trees_is_a_committee(digits: tuple[FloatArray, AnyArray]) -> None:
    points, labels = digits
    bagged = BaggingClassifier(DecisionTreeClassifier(max_depth=3), 4, random_state=0)
    ensemble = classifiers.SklearnClassifier(bagged, classes=list(range(10)), random_state=0)
    picks = adapter.DoubtCoverage(doubt="learnable").query(points, labels, ensemble=ensemble, batch_size=3)
    assert len(set(picks.tolist())) == 3
    with pytest.raises(InvalidArgument, match=r"got shape \(400, 1, 10\); pass clf=.* ensemble=, several"):
        adapter.Bald().query(points, labels, ensemble=classifiers.ParzenWindowClassifier(classes=list(range(10))))


def test_a_model_is_not_fitted_where_the_strategy_has_no_use_for_one(digits: tuple[FloatArray, AnyArray]) -> None:
    points, labels = digits
    # No classifier counts its neighbors by a word.
    never = classifiers.ParzenWindowClassifier(n_neighbors="none")
    assert len(adapter.Coverage().query(points, labels, never, batch_size=2)) == 2
    with pytest.raises(TypeError):
        adapter.DoubtCoverage().query(points, labels, never, batch_size=2)


def test_a_missing_model_and_a_strange_name_are_reported() -> None:
    labels = np.array([0.0, np.nan, np.nan])
    with pytest.raises(InvalidArgument, match=r"strategy='margin' needs class probabilities; pass clf=, a classifier"):
        adapter.Margin().query(np.eye(3), labels)
    with pytest.raises(AttributeError, match="no attribute 'Coverege'; it has Auto, Random"):
        getattr(adapter, "Cover" + "ege")
