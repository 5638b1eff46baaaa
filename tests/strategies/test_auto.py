"""`auto`: which strategy it uses, why, and how it reports that."""

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression

import dubito
from dubito.strategies import Auto, DoubtCoreset, DoubtCoverage
from dubito.strategies import auto as module


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Real features, what is labeled, and probabilities of a linear model."""
    features, classes = load_digits(return_X_y=True)
    labeled = np.sort(np.random.default_rng(0).permutation(len(features))[:100])
    model = LogisticRegression(max_iter=500).fit(features[labeled], classes[labeled])
    return features, labeled, model.predict_proba(features)


def bent(n_rows: int = 600, n_classes: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features as a network has them that knows its labels by heart: classes apart, labeled rows without doubt."""
    random = np.random.default_rng(1)
    classes = np.arange(n_rows) % n_classes
    features = 10.0 * np.eye(n_classes)[classes] + random.normal(size=(n_rows, n_classes))
    labeled = np.arange(0, n_rows, 5)
    sure = np.full(n_rows, 0.7)
    sure[labeled] = 0.99999
    probabilities = np.repeat((1.0 - sure)[:, None] / (n_classes - 1), n_classes, axis=1)
    probabilities[np.arange(n_rows), classes] = sure
    return features, labeled, probabilities


def test_frozen_features_are_covered_and_the_selection_says_why() -> None:
    features, labeled, probabilities = digits()
    given: dict[str, Any] = {"labeled": labeled, "probabilities": probabilities}
    picked = dubito.select(features, 10, strategy="auto", **given)
    wanted = dubito.select(features, 10, strategy=DoubtCoverage(strength=3.0), **given)
    assert picked.indices.tolist() == wanted.indices.tolist()
    assert picked.strategy == "doubt-coverage"
    assert picked.notes[-1].startswith("auto chose doubt-coverage, strength 3: the features were not trained on ")


def test_trained_features_are_detected() -> None:
    features, labeled, probabilities = bent()
    given: dict[str, Any] = {"labeled": labeled, "probabilities": probabilities}
    picked = dubito.select(features, 10, strategy="auto", **given)
    wanted = dubito.select(features, 10, strategy=DoubtCoreset(strength=0.25), **given)
    assert picked.indices.tolist() == wanted.indices.tolist()
    assert picked.strategy == "doubt-coreset"
    assert "100.0% of them are next to one of their class" in picked.notes[-1]


def test_a_sure_model_on_untrained_features_counts_as_frozen() -> None:
    features, labeled, probabilities = bent()
    mixed = np.random.default_rng(2).normal(size=features.shape)
    picked = dubito.select(mixed, 10, strategy="auto", labeled=labeled, probabilities=probabilities)
    assert picked.strategy == "doubt-coverage"
    assert "of the labeled rows are next to one of their class" in picked.notes[-1]


@pytest.mark.parametrize(("features", "taken"), [("frozen", "doubt-coverage"), ("trained", "doubt-coreset")])
def test_the_user_may_set_the_origin_of_features(features: str, taken: str) -> None:
    pool, labeled, probabilities = digits()
    given: dict[str, Any] = {"labeled": labeled, "probabilities": probabilities}
    picked = dubito.select(pool, 5, strategy=f"auto:features={features}", **given)
    assert picked.strategy == taken
    assert "as you set" in picked.notes[-1]


def test_without_doubt_all_rows_have_the_same_weight() -> None:
    pool, labeled, _ = digits()
    picked = dubito.select(pool, 5, labeled=labeled, strategy="auto")
    assert picked.strategy == "coverage"
    assert picked.indices.tolist() == dubito.select(pool, 5, labeled=labeled, strategy="coverage").indices.tolist()


def test_a_model_without_doubt_is_ignored() -> None:
    pool, labeled, probabilities = digits()
    certain = np.eye(10)[probabilities.argmax(axis=1)]
    picked = dubito.select(pool, 20, labeled=labeled, probabilities=certain)
    assert picked.indices.tolist() == dubito.select(pool, 20, labeled=labeled, strategy="coverage").indices.tolist()
    assert picked.notes[-1] == "auto chose coverage: the model has no doubt about any row, so all have the same weight."


def test_picks_that_cover_nothing_more_are_reported() -> None:
    pool, labeled, probabilities = digits()
    certain = np.eye(10)[probabilities.argmax(axis=1)]
    certain[1700] = 0.1
    picked = dubito.select(pool, 5, labeled=labeled, probabilities=certain)
    assert picked.indices[0] == 1700
    assert picked.notes[-1].endswith(" The last 4 picks cover nothing more, and are the first rows left.")


def test_labels_of_nearly_one_class_do_not_say_that_features_were_trained() -> None:
    features, labeled, probabilities = bent(n_classes=2)
    probabilities = probabilities[:, [0, 1]]
    probabilities[:, 0], probabilities[:, 1] = probabilities.max(axis=1), probabilities.min(axis=1)
    probabilities[labeled[0]] = probabilities[labeled[0], ::-1]
    picked = dubito.select(features, 5, labeled=labeled, probabilities=probabilities)
    assert picked.strategy == "doubt-coverage"
    assert "one class has nearly all labels" in picked.notes[-1]


def test_few_labels_are_not_enough_to_detect_training() -> None:
    features, labeled, probabilities = bent()
    picked = dubito.select(features, 5, labeled=labeled[:10], probabilities=probabilities, strategy="auto")
    assert picked.strategy == "doubt-coverage"
    assert "use auto:features=trained; with only 10 labeled rows, auto cannot detect that." in picked.notes[-1]


@pytest.mark.parametrize(("n_labels", "strength"), [(0, 1.0), (19, 1.0), (20, 3.0)])
def test_a_model_of_very_few_labels_gets_a_lower_strength(n_labels: int, strength: float) -> None:
    features, labeled, probabilities = digits()
    for given in (labeled[:n_labels], features[labeled[:n_labels]] + 0.5):
        picked = dubito.select(features, 10, labeled=given, probabilities=probabilities)
        taken = DoubtCoverage(strength=strength)
        wanted = dubito.select(features, 10, labeled=given, probabilities=probabilities, strategy=taken)
        assert picked.indices.tolist() == wanted.indices.tolist()
        assert f"auto chose doubt-coverage (strength {strength:g}), which suits raw or " in picked.notes[-1]


def test_a_class_that_no_label_is_of_is_asked_for_within_a_few_rounds() -> None:
    features, classes = load_iris(return_X_y=True)
    labeled = np.array([50, 51, 52, 100, 101, 102])
    for _ in range(4):
        model = LogisticRegression(max_iter=1000).fit(features[labeled], classes[labeled])
        picked = dubito.select(features, 3, labeled=labeled, probabilities=model.predict_proba(features))
        labeled = np.concatenate([labeled, picked.indices])
    assert set(classes[labeled]) == {0, 1, 2}


def test_a_large_pool_is_covered_by_a_sample_and_the_selection_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE", 1000)
    monkeypatch.setattr(module, "SAMPLE", 300)
    pool, labeled, probabilities = digits()
    picked = dubito.select(pool, 5, labeled=labeled, probabilities=probabilities, strategy="auto")
    assert picked.sampled == 300
    assert picked.notes[-1].endswith(" A sample of 300 rows is covered.")
    assert dubito.select(pool, 5, strategy="auto").sampled == 300


def test_other_origins_are_errors() -> None:
    with pytest.raises(dubito.DubitoError, match="features='melted' is not known; choose from frozen, trained"):
        Auto(features="melted")  # type: ignore[arg-type]


def test_quotas_hold() -> None:
    pool, labeled, probabilities = digits()
    picked = dubito.select(pool, 10, labeled=labeled, probabilities=probabilities, strategy="auto", quotas=1)
    assert sorted(probabilities[picked.indices].argmax(axis=1).tolist()) == list(range(10))
