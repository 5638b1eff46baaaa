"""`dubito.fit`: as right as a pipeline written by hand, honest where labels are few, and the same from every input."""

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegressionCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import dubito
from dubito.errors import DubitoError, InvalidArgument, InvalidData

DIGITS, ANSWERS = load_digits(return_X_y=True)
ROWS = np.sort(np.random.default_rng(0).permutation(len(DIGITS))[:60])
LABELS = dict(zip(ROWS.tolist(), ANSWERS[ROWS].tolist(), strict=True))
POOL = DIGITS[:400, 16:48]
SOME = np.arange(0, 400, 8)


class Uncloneable:
    """Has the methods of an estimator and none of its parameters."""

    def fit(self, features: np.ndarray, codes: np.ndarray) -> None: ...

    def predict_proba(self, features: np.ndarray) -> None: ...


class Odd(GaussianNB):  # type: ignore[misc]
    """Learns, and answers with something else than probabilities."""

    def __init__(self, how: str = "mute") -> None:
        super().__init__()
        self.how = how

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        if self.how == "mute":
            raise ValueError("there are none")
        given: np.ndarray = super().predict_proba(X)
        return given[:, :1] if self.how == "narrow" else given * np.nan


@cache
def plain() -> dubito.Fit:
    """Of `POOL`, labels as a column with gaps."""
    return dubito.fit(POOL, with_gaps())


def with_gaps(rows: np.ndarray = SOME, n: int = len(POOL)) -> list[Any]:
    return [int(ANSWERS[row]) if row in set(rows.tolist()) else None for row in range(n)]


def quality(probabilities: np.ndarray, classes: np.ndarray, rows: np.ndarray) -> tuple[float, float]:
    """Accuracy and log-loss on rows whose class has a label."""
    rows = rows[np.isin(ANSWERS[rows], classes)]
    codes = np.searchsorted(classes, ANSWERS[rows])
    theirs = probabilities[rows]
    right = float((theirs.argmax(axis=1) == codes).mean())
    return right, float(-np.log(np.maximum(theirs[np.arange(len(rows)), codes], 1e-15)).mean())


def answers_of(fitted: dubito.Fit) -> np.ndarray:
    assert fitted.probabilities is not None
    return fitted.probabilities


# As right, and as sure as it is right


@pytest.mark.parametrize("m", [20, pytest.param(60, marks=pytest.mark.slow), 200])
def test_a_fit_is_no_worse_than_a_pipeline_written_by_hand(m: int) -> None:
    ours, theirs = [], []
    for seed in range(3):
        rows = np.sort(np.random.default_rng(seed).permutation(len(DIGITS))[:m])
        rest = np.setdiff1d(np.arange(len(DIGITS)), rows)
        fitted = dubito.fit(DIGITS, ANSWERS[rows], labeled=rows)
        assert fitted.probabilities is not None
        ours.append(quality(fitted.probabilities, fitted.classes, rest))
        n_folds = int(min(5, np.bincount(ANSWERS[rows]).max()))  # It refuses more.
        by_hand = make_pipeline(StandardScaler(), LogisticRegressionCV(Cs=5, cv=n_folds))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Classes with few members, and words on coming versions.
            by_hand.fit(DIGITS[rows], ANSWERS[rows])
        theirs.append(quality(by_hand.predict_proba(DIGITS), by_hand.classes_, rest))
    assert np.mean(ours, axis=0)[0] >= np.mean(theirs, axis=0)[0] - 0.002
    assert np.mean(ours, axis=0)[1] <= np.mean(theirs, axis=0)[1]


def test_the_accuracy_on_labels_held_out_is_that_on_the_rest() -> None:
    rows = np.random.default_rng(3).permutation(len(DIGITS))[:200]
    fitted = dubito.fit(DIGITS, ANSWERS[rows], labeled=rows)
    assert fitted.interval is not None
    low, high = fitted.interval
    assert low <= (fitted.predicted == ANSWERS).mean() <= high
    assert fitted.tested is not None
    assert fitted.tested.of == 200
    assert high - low < 0.12


def test_held_out_probabilities_are_those_that_accuracy_and_loss_are_counted_on() -> None:
    fitted = dubito.fit(DIGITS, LABELS)
    assert fitted.held_out is not None
    codes = np.searchsorted(fitted.classes, ANSWERS[ROWS])
    assert fitted.accuracy == pytest.approx((fitted.held_out.argmax(axis=1) == codes).mean())
    assert fitted.log_loss == pytest.approx(-np.log(fitted.held_out[np.arange(60), codes]).mean())
    assert fitted.probabilities is not None
    assert fitted.log_loss > -np.log(fitted.probabilities[ROWS][np.arange(60), codes]).mean()


def test_noise_is_not_believed() -> None:
    rng = np.random.default_rng(0)
    pool, labels = rng.normal(size=(500, 40)), rng.integers(0, 4, 100)
    fitted = dubito.fit(pool, labels, labeled=np.arange(100))
    assert fitted.interval is not None
    assert fitted.interval[0] <= 0.25 <= fitted.interval[1]
    assert fitted.doubt is not None
    assert fitted.doubt.mean() > 0.55  # Nothing but guesses: at most 0.75.


def test_the_same_call_gives_the_same_bits() -> None:
    again = dubito.fit(POOL, with_gaps())
    np.testing.assert_array_equal(again.probabilities, plain().probabilities)
    assert again.settings == plain().settings


# Few labels


def test_without_labels_it_is_a_cold_start_and_says_so() -> None:
    fitted = dubito.fit(POOL, [None] * len(POOL))
    assert fitted.probabilities is None
    assert fitted.doubt is None
    assert fitted.n_labels == 0
    assert fitted.notes == ("nothing is labeled yet, so this is a cold start.",)
    assert repr(fitted) == "Fit(no model: no labels)"
    with pytest.raises(InvalidArgument, match="nothing is predicted"):
        _ = fitted.predicted


@pytest.mark.parametrize("labels", [{3: "cat"}, {3: "cat", 9: "cat"}])
def test_one_class_alone_is_a_cold_start(labels: dict[int, str]) -> None:
    fitted = dubito.fit(POOL, labels)
    assert fitted.probabilities is None
    assert fitted.classes.tolist() == ["cat"]
    assert fitted.notes == (
        f"only one class has labels ('cat', {len(labels)}): nothing to tell apart yet, so this is a cold start.",
    )


def test_a_class_with_one_label_is_learned_and_never_held_out() -> None:
    fitted = dubito.fit(POOL, {0: "a", 1: "b", 2: "b", 11: "b", 10: "a", 20: "c"})
    assert fitted.counts.tolist() == [2, 3, 1]
    assert fitted.tested is not None
    assert fitted.tested.of == 5
    assert fitted.held_out is not None
    assert np.isnan(fitted.held_out[-1]).all()
    assert np.isfinite(fitted.held_out[:-1]).all()
    assert fitted.predicted[20] == "c"
    assert "1 class has one label only ('c')" in fitted.notes[0]


def test_thirty_classes_with_a_label_each_are_a_model_of_which_nothing_is_known() -> None:
    fitted = dubito.fit(POOL, {row: f"k{row}" for row in range(30)})
    assert fitted.probabilities is not None
    assert fitted.probabilities.shape == (400, 30)
    np.testing.assert_allclose(fitted.probabilities.sum(axis=1), 1.0)
    assert fitted.accuracy is None
    assert fitted.interval is None
    assert fitted.log_loss is None
    assert fitted.predicted[:30].tolist() == [f"k{row}" for row in range(30)]
    assert "none could be held out" in repr(fitted)
    assert "30 classes have one label only ('k0', 'k1', 'k10', ...)" in fitted.notes[0]


def test_two_labels_of_two_classes_point_the_right_way() -> None:
    zeros, ones = np.flatnonzero(ANSWERS == 0), np.flatnonzero(ANSWERS == 1)
    fitted = dubito.fit(DIGITS, {int(zeros[0]): "zero", int(ones[0]): "one"})
    both = np.concatenate([zeros, ones])
    truth = np.where(ANSWERS[both] == 0, "zero", "one")
    assert (fitted.predicted[both] == truth).mean() > 0.85
    assert fitted.doubt is not None
    assert fitted.doubt[both].mean() > 0.05  # Two labels are no reason to be sure.


def test_a_class_that_appears_in_round_three_is_learned_then() -> None:
    early = {row: label for row, label in LABELS.items() if label < 5}
    before, after = dubito.fit(DIGITS, early), dubito.fit(DIGITS, LABELS)
    assert before.classes.tolist() == [0, 1, 2, 3, 4]
    assert after.classes.tolist() == list(range(10))
    late = np.flatnonzero(ANSWERS >= 5)
    assert (after.predicted[late] == ANSWERS[late]).mean() > 0.7


# Features


@pytest.mark.parametrize(
    "change",
    [
        lambda pool: pool * 1e120,
        lambda pool: pool * 1e-120,
        lambda pool: pool + 1e9,
        lambda pool: np.hstack([pool, np.full((len(pool), 3), 7.0)]),
        lambda pool: np.asfortranarray(pool),
        lambda pool: np.repeat(pool, 2, axis=0)[::2],
        lambda pool: np.repeat(pool, 2, axis=1)[:, ::2],
        lambda pool: torch.from_numpy(pool),
        lambda pool: pool.astype(np.float16),
        lambda pool: pool.astype(np.uint8),
        lambda pool: pool.astype(np.float32),
    ],
    ids=["huge", "tiny", "far", "constant", "fortran", "rows", "columns", "tensor", "half", "bytes", "single"],
)
def test_scale_layout_and_type_of_features_change_nothing(change: Any) -> None:
    changed = dubito.fit(change(POOL), with_gaps())
    np.testing.assert_allclose(answers_of(changed), answers_of(plain()), atol=2e-3)


def test_a_memory_map_is_a_pool(tmp_path: Path) -> None:
    np.save(tmp_path / "pool.npy", POOL)
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    np.testing.assert_array_equal(dubito.fit(mapped, with_gaps()).probabilities, plain().probabilities)


def test_features_that_are_all_the_same_leave_the_shares_of_the_labels() -> None:
    fitted = dubito.fit(np.ones((50, 4)), ["a"] * 6 + ["b"] * 2 + [None] * 42)
    assert fitted.probabilities is not None
    assert (np.ptp(fitted.probabilities, axis=0) == 0).all()
    assert fitted.predicted.tolist() == ["a"] * 50
    assert 0.6 < fitted.probabilities[0, 0] < 0.9


def test_more_features_than_labels_and_rows() -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(40) % 2
    pool = rng.normal(size=(40, 3000)) + 0.2 * codes[:, None]
    fitted = dubito.fit(pool, codes[:20], labeled=np.arange(20))
    assert (fitted.predicted[20:] == codes[20:]).mean() > 0.9


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_that_are_no_numbers_are_refused(bad: float) -> None:
    pool = POOL.copy()
    pool[7, 3] = bad
    with pytest.raises(InvalidData, match=r"pool holds (nan|inf) at row 7, column 3"):
        dubito.fit(pool, with_gaps())


# Labels


NAMES = [f"item-{row}" for row in range(len(POOL))]
FRAME = pd.DataFrame(POOL, index=NAMES).rename(columns=str)
PICKED = [int(ANSWERS[row]) for row in SOME]


@pytest.mark.parametrize(
    "given",
    [
        {"pool": POOL, "labels": with_gaps()},
        {"pool": POOL, "labels": np.array([np.nan if label is None else label for label in with_gaps()])},
        {"pool": POOL, "labels": ["" if label is None else str(label) for label in with_gaps()]},
        {"pool": POOL, "labels": pd.Series(with_gaps())},
        {"pool": POOL, "labels": pd.Series(with_gaps(), dtype="Int64")},
        {"pool": POOL, "labels": pd.Series(PICKED, index=SOME)},
        {"pool": POOL, "labels": dict(zip(SOME.tolist(), PICKED, strict=True))},
        {"pool": POOL, "labels": PICKED[::-1], "labeled": SOME[::-1]},
        {"pool": POOL, "labels": ANSWERS[:400], "labeled": SOME},
        {"pool": POOL, "labels": ANSWERS[:400], "labeled": np.isin(np.arange(400), SOME)},
        {"pool": POOL, "labels": [-1 if label is None else label for label in with_gaps()], "no_label": -1},
        {"pool": POOL, "ids": NAMES, "labels": {NAMES[row]: int(ANSWERS[row]) for row in SOME[::-1]}},
        {"pool": POOL, "ids": NAMES, "labels": pd.Series(PICKED, index=[NAMES[row] for row in SOME])},
        {"pool": FRAME, "labels": pd.DataFrame({"id": [NAMES[row] for row in SOME], "label": PICKED, "who": "me"})},
        {"pool": FRAME, "labels": pl.DataFrame({"id": [NAMES[row] for row in SOME], "class": PICKED})},
        {"pool": POOL, "labels": PICKED, "labeled": POOL[SOME]},
    ],
)
def test_labels_mean_the_same_however_they_are_handed_over(given: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = dubito.fit(given.pop("pool"), given.pop("labels"), **given)
    np.testing.assert_allclose(answers_of(fitted), answers_of(plain()), atol=1e-12)
    assert [int(each) for each in fitted.classes] == plain().classes.tolist() == list(range(10))
    if given.get("labeled") is None or np.ndim(given["labeled"]) == 1:
        assert fitted.rows is not None
        assert fitted.rows.tolist() == SOME.tolist()


@pytest.mark.parametrize(
    ("one", "other", "classes"),
    [(True, False, ["False", "True"]), ("no", "yes", ["no", "yes"]), (7, 12, [7, 12]), (1.0, 2.5, ["1", "2.5"])],
)
def test_classes_are_integers_or_text(one: object, other: object, classes: list[object]) -> None:
    assert dubito.fit(POOL, {0: one, 1: other, 10: one, 11: other}).classes.tolist() == classes


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"labels": [1, 2, 3]}, r"labels has shape \(3,\); pass one for each of the 400 pool rows"),
        ({"labels": np.zeros((400, 2))}, r"labels has shape \(400, 2\)"),
        ({"labels": {400: 1}}, "labels names 400, and the pool has no ids, only row numbers, 0 to 399"),
        ({"labels": {"x": 1}}, "labels names 'x', and the pool has no ids, only row numbers"),
        ({"labels": {"x": 1}, "ids": NAMES}, "labels holds an id that is not among the pool's 400 .'x'."),
        ({"labels": {7: 1, "7": 2}}, "labels name a row twice"),
        ({"labels": [-1] * 400}, "labels has the label -1 in 400 rows, which may be a class or mean no label"),
        ({"labels": {3: 1, 5: 2}, "labeled": [3]}, "labels are of 1 rows that are not labeled"),
        ({"labels": [1, 2], "labeled": [3]}, r"labels has shape \(2,\); pass one for each of the 1 labeled rows"),
        ({"labels": pd.DataFrame({"a": [1], "b": [2]})}, "labels has the columns a, b, none of them called label"),
        ({"labels": pd.DataFrame({"label": [1]})}, "labels has 1 rows without ids"),
        ({"labels": with_gaps(), "model": "lineal"}, "model='lineal' is not known; choose from linear, forest"),
        ({"labels": with_gaps(), "model": "sklearn.svm.LinearSVC"}, "has no predict_proba"),
        ({"labels": with_gaps(), "model": LinearSVC()}, "has no predict_proba"),
        ({"labels": with_gaps(), "model": "sklearn.no.Such"}, "cannot be imported"),
        ({"labels": with_gaps(), "model": GaussianNB}, "is not known"),
        ({"labels": with_gaps(), "model": "sklearn.ensemble.VotingClassifier"}, "cannot be made .*needs no arguments"),
        ({"labels": with_gaps(), "model": Uncloneable()}, "cannot be cloned; pass a scikit-learn estimator"),
        (
            {"labels": with_gaps(), "model": GaussianNB(priors=[0.5, 0.5])},
            "model='GaussianNB' cannot be trained on the",
        ),
        ({"labels": with_gaps(), "model": Odd("mute")}, "model='Odd' cannot predict probabilities: there are none"),
        (
            {"labels": with_gaps(), "model": Odd("nan")},
            r"model='Odd' predicts probabilities of shape .*; choose one that",
        ),
        (
            {"labels": with_gaps(), "model": Odd("narrow")},
            r"predicts probabilities of shape \(\d+, 1\) for \d+ rows and 10",
        ),
        ({"labels": with_gaps(), "seed": -1}, "seed=-1 is too small"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(DubitoError, match=words):
        dubito.fit(POOL, given.pop("labels"), **given)


# Other models


@pytest.mark.slow
def test_a_forest_is_held_out_and_calibrated_too() -> None:
    """By six labels, as two hundred trees take a while for each of them."""
    two = np.flatnonzero(ANSWERS < 2)
    fitted = dubito.fit(DIGITS[two], ANSWERS[two[:6]], labeled=np.arange(6), model="forest")
    np.testing.assert_allclose(answers_of(fitted).sum(axis=1), 1.0)
    assert (fitted.predicted == ANSWERS[two]).mean() > 0.8
    assert fitted.tested is not None
    assert fitted.tested.of == 6
    assert "temperature" in fitted.settings
    assert "forest" in repr(fitted)


def test_many_classes_of_few_labels_are_not_taken_for_numbers() -> None:
    """scikit-learn would warn, which is an error in tests."""
    fitted = dubito.fit(POOL, dict(enumerate(range(30))), model=DecisionTreeClassifier())
    assert len(fitted.classes) == 30


@pytest.mark.parametrize("model", ["sklearn.naive_bayes.GaussianNB", GaussianNB()])
def test_other_models_are_held_out_and_calibrated_alike(model: object) -> None:
    rows = np.random.default_rng(1).permutation(len(DIGITS))[:120]
    fitted = dubito.fit(DIGITS, ANSWERS[rows], labeled=rows, model=model)
    assert fitted.probabilities is not None
    np.testing.assert_allclose(fitted.probabilities.sum(axis=1), 1.0)
    assert (fitted.predicted == ANSWERS).mean() > 0.7
    assert fitted.interval is not None
    assert fitted.interval[0] - 0.05 <= (fitted.predicted == ANSWERS).mean() <= fitted.interval[1] + 0.05
    assert "temperature" in fitted.settings
    assert fitted.model in repr(fitted)


def test_naive_bayes_is_far_too_sure_until_it_is_calibrated() -> None:
    rows = np.random.default_rng(1).permutation(len(DIGITS))[:120]
    rest = np.setdiff1d(np.arange(len(DIGITS)), rows)
    fitted = dubito.fit(DIGITS, ANSWERS[rows], labeled=rows, model=GaussianNB())
    plain = GaussianNB().fit(DIGITS[rows], ANSWERS[rows])
    assert fitted.probabilities is not None
    ours = quality(fitted.probabilities, fitted.classes, rest)[1]
    assert ours < 0.5 * quality(plain.predict_proba(DIGITS), plain.classes_, rest)[1]


def accuracy(pool: np.ndarray, answers: np.ndarray, n_labels: int) -> float:
    found = dubito.fit(pool, answers[:n_labels], labeled=np.arange(n_labels)).predicted
    return float((found == answers)[n_labels:].mean())


def test_directions_of_an_embedding_keep_their_sizes_and_units_of_a_table_do_not_count() -> None:
    rng = np.random.default_rng(0)
    answers = np.arange(600) % 4
    strong = 3.0 * np.eye(4)[answers] + rng.normal(size=(600, 4))
    # As an embedding of words: what tells is large, and there is much small noise, which standardized would be as loud.
    embedding = np.hstack([strong, 0.05 * rng.normal(size=(600, 200))])
    assert accuracy(embedding, answers, 80) > 0.9
    # As a table: the columns that tell have small units beside a few large ones that tell nothing.
    table = np.hstack([0.001 * strong, 1000.0 * rng.normal(size=(600, 4))])
    assert accuracy(table, answers, 80) > 0.8


def test_text_comes_back_as_text() -> None:
    line = np.array([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]])
    fitted = dubito.fit(line, ["9.0", "9", None, "10", "10", None])
    assert fitted.classes.tolist() == ["9.0", "10"]
    assert fitted.predicted.tolist() == ["9.0"] * 3 + ["10"] * 3
    assert dubito.fit(line, [9, 9, None, 10, 10, None]).classes.tolist() == [9, 10]
