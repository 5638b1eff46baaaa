import importlib
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dubito
from dubito.errors import InvalidArgument, InvalidData
from dubito.integrations.picking import committee_probabilities, pick, seed_of, sequential_utilities
from dubito.matrix import FloatArray
from dubito.strategies import build_strategy

LINE = np.array([[0.0], [1.0], [4.0], [9.0]])


def model(said: list[list[float]], **more: Any) -> Any:
    return SimpleNamespace(predict_proba=lambda points: np.array(said), **more)


def whole(strategy: str, budget: int, **given: Any) -> dubito.Selection:
    return dubito.select(LINE, budget, strategy=strategy, **given)


def test_a_missing_model_is_asked_for_in_the_words_of_the_tool() -> None:
    with pytest.raises(InvalidArgument, match=r"strategy='margin' needs class probabilities; pass clf=\.") as caught:
        pick(LINE, 1, build_strategy("margin", {}), "pass clf=.")
    assert caught.value.hint == "pass clf=."
    with pytest.raises(InvalidArgument, match="budget=9 exceeds"):
        pick(LINE, 9, build_strategy("margin", {}), "pass clf=.", probabilities=np.full((4, 2), 0.5))


def test_that_nothing_is_left_is_said_so() -> None:
    with pytest.raises(InvalidData, match="nothing to pick: every row is labeled"):
        pick(LINE, 0, build_strategy("coreset", {}), "pass clf=.")


def test_a_number_is_the_seed_and_a_state_gives_one() -> None:
    state = np.random.RandomState(0)
    assert (seed_of(7, state), seed_of(np.int64(7), state)) == (7, 7)
    assert seed_of(None, np.random.RandomState(3)) == seed_of(None, np.random.RandomState(3))


def test_members_of_a_committee_must_know_the_same_classes() -> None:
    stacked = committee_probabilities([model([[0.5, 0.5]]), model([[1.0, 0.0]])], LINE)
    assert stacked.tolist() == [[[0.5, 0.5], [1.0, 0.0]]]
    with pytest.raises(InvalidData, match="ensemble has members that know 1 and 2 classes; pass all"):
        committee_probabilities([model([[0.5, 0.5]]), model([[1.0]])], LINE)


def test_one_model_is_no_committee_but_an_ensemble_without_labels_is() -> None:
    assert committee_probabilities([model([[0.5, 0.5]])], LINE).shape == (1, 1, 2)
    assert committee_probabilities([model([[0.5, 0.5]], n_estimators=100)], LINE).shape == (1, 2, 2)


def test_classes_that_a_member_never_met_have_no_probability() -> None:
    members = [model([[1.0]], classes_=np.array([0.0])), model([[0.25, 0.75]], classes_=np.array([0.0, 1.0]))]
    inner = SimpleNamespace(classes_=np.array(["b", "c"]))
    ensemble = SimpleNamespace(estimators_=members, estimator_=inner, classes_=np.array(["a", "b", "c"]))
    assert committee_probabilities([ensemble], LINE).tolist() == [[[0.0, 1.0, 0.0], [0.0, 0.25, 0.75]]]


def argmaxes(table: FloatArray) -> list[int]:
    return [int(row) for row in np.nanargmax(table, axis=1)]


@pytest.mark.parametrize("strategy", ["coreset", "coverage", "random", "closest-kmeans", "optimal-coreset"])
def test_before_each_pick_it_is_worth_most(strategy: str) -> None:
    picks = whole(strategy, 3, labeled=[0]).indices
    table = sequential_utilities(picks, whole(strategy, 3, labeled=[0]), 4)
    assert argmaxes(table) == picks.tolist()
    assert np.isnan(table).sum(axis=1).tolist() == [1, 2, 3]


def test_a_ranking_is_worth_its_scores() -> None:
    said = np.array([[0.5, 0.5], [0.6, 0.4], [0.9, 0.1], [0.7, 0.3]])
    given = {"probabilities": said, "labeled": [2]}
    table = sequential_utilities(
        whole("least-confidence", 2, **given).indices, whole("least-confidence", 3, **given), 4
    )
    np.testing.assert_allclose(table, [[0.5, 0.4, np.nan, 0.3], [np.nan, 0.4, np.nan, 0.3]])


def test_a_row_is_worth_what_comes_after_it_where_the_order_depends_on_the_budget() -> None:
    first = np.array([3, 1])
    table = sequential_utilities(first, whole("coreset", 3, labeled=[0]), 4)
    np.testing.assert_array_equal(table[0], [np.nan, 1.0, 0.0, 2.0])


def printed_by(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_no_adapter_is_loaded_before_it_is_used_and_none_loads_its_tool() -> None:
    described = printed_by(
        "import sys, dubito; print([name for name in sys.modules if 'integrations' in name])\n"
        "import dubito.integrations.modal, dubito.integrations.small_text\n"
        "print(sys.modules.keys() & {'modAL', 'small_text', 'skactiveml', 'torch'})"
    )
    assert described == "[]\nset()\n"


def test_scikit_activeml_is_missed_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [name for name in sys.modules if name.startswith("skactiveml.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "skactiveml", None)
    monkeypatch.delitem(sys.modules, "dubito.integrations.skactiveml", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'dubito\[skactiveml\]'"):
        importlib.import_module("dubito.integrations.skactiveml")
