"""`select(labels=...)`: labels become doubt, in the library and in `Pool`, and it says so."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import dubito
from dubito.errors import DubitoError

DIGITS, ANSWERS = load_digits(return_X_y=True)
N = 300
POOL = DIGITS[:N, 16:48]
SOME = np.arange(0, N, 7)[:40]
LABELS = dict(zip(SOME.tolist(), ANSWERS[SOME].tolist(), strict=True))
NAMES = [f"d{row}" for row in range(N)]
METHOD = "doubt-coverage"


@cache
def fitted() -> dubito.Fit:
    return dubito.fit(POOL, LABELS)


def by_hand(strategy: str = METHOD) -> list[int]:
    picked = dubito.select(POOL, 12, labeled=SOME, probabilities=fitted().probabilities, strategy=strategy)
    return list(picked.indices)


@pytest.mark.parametrize(
    "given",
    [
        {"labels": LABELS},
        {"labels": [LABELS.get(row) for row in range(N)]},
        {"labels": pd.Series(LABELS)},
        {"labels": list(LABELS.values()), "labeled": SOME},
        {"labels": ANSWERS[:N], "labeled": SOME},
        {"labels": [LABELS.get(row, -1) for row in range(N)], "no_label": [-1]},
        {"labels": {NAMES[row]: label for row, label in LABELS.items()}, "ids": NAMES},
    ],
)
def test_labels_are_learned_from_and_their_rows_never_picked(given: dict[str, Any]) -> None:
    picked = dubito.select(POOL, 12, strategy=METHOD, **given)
    assert picked.indices.tolist() == by_hand()
    assert set(picked.indices.tolist()).isdisjoint(SOME.tolist())
    described = [note for note in picked.notes if note.startswith("fitted: ")]
    assert described == [f"fitted: {fitted().described()}."]
    assert "linear model, 40 labels of 10 classes, right on " in described[0]


@pytest.mark.parametrize("strategy", ["margin", "entropy", "badge", "doubt-coreset", "auto"])
def test_every_strategy_that_minds_doubt_takes_it(strategy: str) -> None:
    assert dubito.select(POOL, 12, labels=LABELS, strategy=strategy).indices.tolist() == by_hand(strategy)


@pytest.mark.parametrize("strategy", ["coreset", "coverage", "typiclust", "closest-kmeans", "random"])
def test_a_strategy_that_minds_no_doubt_has_nothing_fitted_for_it(strategy: str) -> None:
    picked = dubito.select(POOL, 5, labels=LABELS, strategy=strategy)
    plain = dubito.select(POOL, 5, labeled=SOME, strategy=strategy)
    assert picked.indices.tolist() == plain.indices.tolist()
    assert not [note for note in picked.notes if note.startswith("fitted")]


def test_what_another_model_says_counts_more() -> None:
    theirs = np.random.default_rng(1).dirichlet(np.ones(10), N)
    picked = dubito.select(POOL, 12, labels=LABELS, probabilities=theirs, strategy=METHOD)
    plain = dubito.select(POOL, 12, labeled=SOME, probabilities=theirs, strategy=METHOD)
    assert picked.indices.tolist() == plain.indices.tolist() != by_hand()
    assert not [note for note in picked.notes if note.startswith("fitted")]


def test_no_model_is_fitted_where_none_is_wanted_and_another_kind_where_it_is() -> None:
    none = dubito.select(POOL, 12, labels=LABELS, model="none", strategy="auto")
    assert none.strategy == "coverage"
    assert set(none.indices.tolist()).isdisjoint(SOME.tolist())
    few = {int(row): int(ANSWERS[row]) for row in np.flatnonzero(ANSWERS[:N] < 2)[:3]}  # A forest for each, and one.
    forest = dubito.select(POOL, 12, labels=few, model="forest", strategy=METHOD)
    assert any(note.startswith("fitted: forest model, 3 labels") for note in forest.notes)
    assert forest.indices.tolist() != dubito.select(POOL, 12, labels=few, strategy=METHOD).indices.tolist()
    with pytest.raises(DubitoError, match="model='linea' is not known"):
        dubito.select(POOL, 12, labels=LABELS, model="linea", strategy=METHOD)


@pytest.mark.parametrize(("labels", "words"), [({}, "nothing is labeled yet"), ({3: "a"}, "only one class has labels")])
def test_too_few_labels_are_a_cold_start_that_says_so(labels: dict[int, str], words: str) -> None:
    picked = dubito.select(POOL, 5, labels=labels, strategy="auto")
    assert picked.strategy == "coverage"
    assert any(words in note for note in picked.notes)
    assert 3 not in picked.indices or not labels


def test_quotas_go_by_the_names_of_the_classes() -> None:
    named = {row: f"digit {label}" for row, label in LABELS.items()}
    picked = dubito.select(POOL, 12, labels=named, strategy=METHOD, quotas={"digit 8": 0, None: 2})
    predicted = dubito.fit(POOL, named).predicted[picked.indices].tolist()
    assert "digit 8" not in predicted
    assert max(map(predicted.count, predicted)) <= 2


@pytest.mark.parametrize("standardize", [None, True])
def test_a_pool_learns_from_labels_round_after_round(standardize: bool | None) -> None:
    pool = dubito.Pool(POOL, ids=NAMES, standardize=standardize)
    pool.label(rows=SOME[:25])
    first = pool.select(10, labels=ANSWERS[SOME[:25]], strategy="doubt-coreset")
    plain = dubito.select(
        POOL, 10, labels=ANSWERS[SOME[:25]], labeled=SOME[:25], strategy="doubt-coreset", standardize=standardize
    )
    assert first.indices.tolist() == plain.indices.tolist()
    pool.label(first)
    by_id = {NAMES[row]: int(ANSWERS[row]) for row in pool.labeled}
    second = pool.select(10, labels=by_id, strategy="doubt-coreset")
    assert set(second.indices.tolist()).isdisjoint(pool.labeled.tolist())
    assert any(note.startswith("fitted: linear model, 35 labels") for note in second.notes)
    with pytest.raises(DubitoError, match="rows that are not labeled"):
        pool.select(10, labels={NAMES[int(second.indices[0])]: 1, **by_id})


def test_a_class_found_late_turns_the_picks_to_it() -> None:
    """Four rounds by labels alone: every class is found, and it beats as many labels at random."""
    labels = {int(row): int(ANSWERS[row]) for row in np.flatnonzero(ANSWERS[:N] < 5)[:10]}
    for _ in range(4):
        picked = dubito.select(POOL, 12, labels=labels, strategy=METHOD)
        labels |= {int(row): int(ANSWERS[row]) for row in picked.indices}
    ours = dubito.fit(POOL, labels)
    assert ours.classes.tolist() == list(range(10))
    rest = np.setdiff1d(np.arange(N), list(labels))
    by_chance = []
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(N)[: len(labels)]
        left = np.setdiff1d(np.arange(N), rows)
        by_chance.append((dubito.fit(POOL, ANSWERS[rows], labeled=rows).predicted[left] == ANSWERS[left]).mean())
    assert (ours.predicted[rest] == ANSWERS[rest]).mean() > np.mean(by_chance)


@pytest.mark.parametrize("strategy", ["doubt-coverage", "badge", "entropy", "doubt-coreset"])
def test_names_of_classes_change_no_pick(strategy: str) -> None:
    wanted = dubito.select(POOL, 20, labels=LABELS, strategy=strategy)
    names = [f"{name}" for name in np.random.default_rng(len(strategy)).permutation([*"qwertzuiop"])]
    renamed = {row: names[label] for row, label in LABELS.items()}
    picked = dubito.select(POOL, 20, labels=renamed, strategy=strategy)
    assert picked.indices.tolist() == wanted.indices.tolist()
    assert picked.priorities.tolist() == wanted.priorities.tolist()


@pytest.mark.parametrize(
    "model", ["linear", RandomForestClassifier(10, random_state=0)], ids=["linear", "an estimator"]
)
def test_columns_of_a_fit_go_by_the_names_of_classes_and_are_the_same_under_any(model: object) -> None:
    names = np.array([*"qwertzuiop"])
    one = dubito.fit(POOL, LABELS, model=model)
    other = dubito.fit(POOL, {row: names[label] for row, label in LABELS.items()}, model=model)
    assert one.classes.tolist() == list(range(10))
    assert other.classes.tolist() == sorted(names)
    assert one.probabilities is not None
    assert other.probabilities is not None
    assert one.held_out is not None
    assert other.held_out is not None
    order = np.argsort(names)
    assert np.array_equal(one.probabilities[:, order], other.probabilities)
    assert np.array_equal(one.held_out[:, order], other.held_out, equal_nan=True)
    assert one.counts[order].tolist() == other.counts.tolist()
    assert (one.predicted[SOME] == ANSWERS[SOME]).mean() > 0.9
