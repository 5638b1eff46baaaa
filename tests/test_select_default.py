"""What `select`, `Pool.select` and `estimate` do where no strategy is named."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import dubito
from dubito.matrix import FloatArray, IntArray
from dubito.strategies import Coverage, DoubtCoreset, DoubtCoverage
from dubito.strategies.auto import LARGE

Case = tuple[FloatArray, IntArray, FloatArray]
COVER = DoubtCoverage(strength=3.0)


@pytest.fixture(scope="module")
def digits() -> Case:
    """Real features, what is labeled, and a linear model's probabilities."""
    features, classes = load_digits(return_X_y=True)
    labeled = np.sort(np.random.default_rng(0).permutation(len(features))[:120])
    model = LogisticRegression(max_iter=500).fit(features[labeled], classes[labeled])
    return features, labeled, model.predict_proba(features)


def bent(n_rows: int = 600, n_classes: int = 4) -> Case:
    """Classes far apart, and a model that has no doubt about what is labeled: as a network trained on it would."""
    classes = np.arange(n_rows) % n_classes
    features = 10.0 * np.eye(n_classes)[classes] + np.random.default_rng(1).normal(size=(n_rows, n_classes))
    sure, labeled = np.full(n_rows, 0.7), np.arange(0, n_rows, 5)
    sure[labeled] = 0.99999
    probabilities = np.repeat((1.0 - sure)[:, None] / (n_classes - 1), n_classes, axis=1)
    probabilities[np.arange(n_rows), classes] = sure
    return features, labeled, probabilities


def same(one: dubito.Selection, other: dubito.Selection) -> bool:
    return one.indices.tolist() == other.indices.tolist() and one.priorities.tobytes() == other.priorities.tobytes()


def test_doubt_is_covered_and_the_selection_says_so(digits: Case) -> None:
    pool, labeled, probabilities = digits
    picked = dubito.select(pool, 20, labeled=labeled, probabilities=probabilities)
    assert same(picked, dubito.select(pool, 20, labeled=labeled, probabilities=probabilities, strategy=COVER))
    assert repr(picked).startswith("Selection(20 of 1,797 rows by doubt-coverage: ")
    assert picked.notes == (
        "auto chose doubt-coverage, strength 3: the features were not trained on the labels (the model still doubts "
        "labeled rows).",
    )


def test_features_and_nothing_else_are_enough(digits: Case) -> None:
    picked = dubito.select(digits[0], 20)
    assert same(picked, dubito.select(digits[0], 20, strategy=Coverage()))
    assert picked.notes == ("auto chose coverage: without a model's doubt all rows have the same weight.",)


@pytest.mark.parametrize(
    ("options", "described"),
    [
        ({"strength": 1.0}, "strength"),
        ({"strength": 0.5}, "strength"),
        ({"beam_width": 1}, "beam_width"),
        ({"scaling": "respective"}, "scaling"),
        ({"strength": 2, "beam_width": 3}, "strength and beam_width"),
    ],
)
def test_an_option_of_the_paper_s_method_means_that_method(
    digits: Case, options: dict[str, Any], described: str
) -> None:
    pool, labeled, probabilities = digits
    given: dict[str, Any] = {"labeled": labeled, "probabilities": probabilities}
    picked = dubito.select(pool, 10, **given, **options)
    assert same(picked, dubito.select(pool, 10, **given, strategy=DoubtCoreset(**options)))
    assert picked.strategy == "doubt-coreset"
    assert picked.notes == (f"auto chose doubt-coreset, since you set {described}.",)


def test_the_paper_s_method_keeps_its_name_and_says_nothing_of_a_choice(digits: Case) -> None:
    pool, labeled, probabilities = digits
    given: dict[str, Any] = {"labeled": labeled, "probabilities": probabilities}
    picked = dubito.select(pool, 10, **given, strategy="doubt-coreset")
    assert same(picked, dubito.select(pool, 10, **given, strategy=DoubtCoreset(1.0, 1, "respective", "confidence")))
    assert picked.notes == ()


@pytest.mark.parametrize(("features", "taken"), [("frozen", COVER), ("trained", DoubtCoreset(0.25))])
def test_whether_features_were_trained_may_be_said(digits: Case, features: Any, taken: Any) -> None:
    pool, labeled, probabilities = digits
    given: dict[str, Any] = {"labeled": labeled, "probabilities": probabilities}
    picked = dubito.select(pool, 10, **given, features=features)
    assert same(picked, dubito.select(pool, 10, **given, strategy=taken))
    assert picked.notes[-1].endswith("(as you set).")
    rounds = dubito.Pool(pool)
    rounds.label(labeled)
    assert same(rounds.select(10, probabilities=probabilities, features=features), picked)


def test_a_pool_asks_anew_in_every_round() -> None:
    features, labeled, probabilities = bent()
    pool, taken = dubito.Pool(features), []
    pool.label(labeled[:84])
    for _ in range(4):
        picked = pool.select(8, probabilities=probabilities, candidates=np.setdiff1d(labeled, pool.labeled))
        fresh = dubito.select(
            features,
            8,
            labeled=pool.labeled,
            probabilities=probabilities,
            candidates=np.setdiff1d(labeled, pool.labeled),
        )
        assert same(picked, fresh)
        assert picked.notes == fresh.notes
        taken.append((len(pool.labeled), picked.strategy))
        pool.label(picked)
    assert taken == [(84, "doubt-coverage"), (92, "doubt-coverage"), (100, "doubt-coreset"), (108, "doubt-coreset")]


def test_posterior_samples_answer_together_what_the_features_are() -> None:
    features, labeled, probabilities = bent()
    samples = np.repeat(probabilities[:, None], 3, axis=1)
    picked = dubito.select(features, 5, labeled=labeled, probabilities=samples)
    assert same(picked, dubito.select(features, 5, labeled=labeled, probabilities=probabilities))
    assert picked.strategy == "doubt-coreset"


def test_frames_are_joined_by_their_ids_and_candidates_named_by_them(digits: Case) -> None:
    pool, labeled, probabilities = (each[:200] for each in digits)
    labeled = labeled[labeled < 200]
    names = [f"n{row}" for row in range(200)]
    order, allowed = np.random.default_rng(3).permutation(200), np.arange(50, 150)
    picked = dubito.select(
        pd.DataFrame(pool, index=names),
        10,
        labeled=[names[row] for row in labeled],
        probabilities=pd.DataFrame(probabilities, index=names).iloc[order],
        candidates=[names[row] for row in allowed],
        standardize=False,
    )
    plain = dubito.select(pool, 10, labeled=labeled, probabilities=probabilities, candidates=allowed)
    assert same(picked, plain)
    assert picked.strategy == "doubt-coverage"
    assert picked.ids is not None
    assert picked.ids.tolist() == [names[row] for row in plain.indices]
    assert set(picked.indices.tolist()) <= set(allowed.tolist())


@pytest.mark.parametrize("features", ["frozen", "trained"])
def test_costs_and_quotas_are_kept_whatever_is_taken(digits: Case, features: Any) -> None:
    pool, labeled, probabilities = digits
    costs = 1.0 + np.arange(len(pool)) % 7
    given: dict[str, Any] = {"labeled": labeled, "probabilities": probabilities, "features": features}
    free, dear = dubito.select(pool, 30, **given), dubito.select(pool, 30, **given, costs=costs, spend=40, quotas=4)
    assert dear.spent is not None
    assert dear.spent <= 40 < costs[free.indices].sum()
    assert np.bincount(probabilities[dear.indices].argmax(axis=1)).max() <= 4
    assert len(dear) > 4


def test_the_memory_limit_changes_no_pick_and_one_too_small_is_refused(digits: Case) -> None:
    pool, labeled, probabilities = digits
    given: dict[str, Any] = {"labeled": labeled, "probabilities": probabilities}
    assert same(dubito.select(pool, 20, **given), dubito.select(pool, 20, **given, memory_limit="10MB"))
    with pytest.raises(dubito.MemoryLimit, match=r"memory_limit=1000 .*pass at least \d+ bytes"):
        dubito.select(pool, 20, **given, memory_limit=1000)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_named_engine_does_the_work(digits: Case, engine: str) -> None:
    pool, labeled, probabilities = (each[:300] for each in digits)
    given: dict[str, Any] = {"labeled": labeled[labeled < 300], "probabilities": probabilities}
    picked = dubito.select(pool, 10, **given, engine=engine)
    assert (picked.engine, picked.strategy) == (engine, "doubt-coverage")
    assert same(picked, dubito.select(pool, 10, **given))
    with pytest.raises(dubito.InvalidArgument, match="engine='cpuu' is not known"):
        dubito.select(pool, 10, **given, engine="cpuu")


@pytest.mark.parametrize("doubt", [None, 0.0, 1.0, "one row"])
@pytest.mark.parametrize("labeled", [[], [0], range(25)])
@pytest.mark.parametrize("pool", ["line", "copies", "three"])
def test_no_pool_is_too_poor(pool: str, labeled: Any, doubt: Any) -> None:
    n = 3 if pool == "three" else 40
    rows = [row for row in labeled if row < n - 1]
    features = np.zeros((n, 2)) if pool == "copies" else np.arange(2.0 * n).reshape(n, 2)
    doubts = None if doubt is None else np.full(n, 0.0 if doubt == "one row" else doubt)
    if doubts is not None and doubt == "one row":
        doubts[n - 1] = 0.5
    picked = dubito.select(features, n - len(rows), labeled=np.array(rows, dtype=np.int64), doubt=doubts)
    assert sorted(picked.indices.tolist()) == sorted(set(range(n)) - set(rows))
    assert not np.isnan(picked.priorities).any()
    if doubt == "one row" and pool != "copies" and len(rows):
        assert picked.indices[0] == n - 1


def test_one_class_leaves_no_doubt_and_every_row_is_as_good(digits: Case) -> None:
    pool, labeled, _ = digits
    sure = np.tile([1.0, 0.0], (len(pool), 1))
    picked = dubito.select(pool, 5, labeled=labeled, probabilities=sure)
    assert len(set(picked.indices.tolist()) - set(labeled.tolist())) == 5
    assert picked.strategy == "coverage"


def test_a_selection_saved_as_json_says_what_was_taken(digits: Case, tmp_path: Path) -> None:
    path = tmp_path / "picks.json"
    dubito.select(digits[0], 3).save(str(path))
    described = pd.read_json(path, typ="series")
    assert described["strategy"] == "coverage"
    assert described["notes"] == ["auto chose coverage: without a model's doubt all rows have the same weight."]


# Estimates


@pytest.fixture
def steady_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate of products is measured anew for every estimate, and a busy machine is now quick, now slow."""
    monkeypatch.setattr("dubito.engines.cpu.coverage.engine.product_rate", lambda: 1e11)
    monkeypatch.setattr("dubito.engines.cpu.cost.product_rate", lambda: 1e11)


@pytest.mark.usefixtures("steady_machine")
def test_an_estimate_is_that_of_what_would_be_taken() -> None:
    sizes = (50_000, 64, 1_000, 100)
    assert dubito.estimate(*sizes) == dubito.estimate(*sizes, strategy="doubt-coverage")
    assert dubito.estimate(*sizes) != dubito.estimate(*sizes, strategy="doubt-coreset")
    for option in ({"beam_width": 1}, {"beam_width": 20}, {"scaled": True}, {"scaled": False}):
        given: Any = option
        assert dubito.estimate(*sizes, **given) == dubito.estimate(*sizes, **given, strategy="doubt-coreset")


@pytest.mark.usefixtures("steady_machine")
def test_an_estimate_for_a_large_pool_is_that_of_a_sample() -> None:
    whole, sample = (dubito.estimate(LARGE + 1, 64, 1_000, 100, strategy=name).seconds for name in ("coverage", "auto"))
    assert sample < whole / 3
    assert dubito.estimate(LARGE, 64, 1_000, 100).seconds > 2 * sample
