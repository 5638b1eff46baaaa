"""Strategies that ask for the same rows are one experiment, and one test."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dubito.experiments.data import make_dataset
from dubito.experiments.plan import Arm, Experiment, Schedule
from dubito.experiments.records import Curve, Round, curves
from dubito.experiments.runner import run_experiment
from dubito.experiments.statistics import compare
from dubito.experiments.summary import describe_alike, group_alike, notes, summarize

NAMES = ("random", "margin", "least-confidence", "entropy", "coreset")


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> list[Round]:
    """Two classes that overlap, learned by five strategies."""
    rng = np.random.default_rng(8)
    labels = np.arange(160) % 2
    data = make_dataset("two", rng.normal(size=(160, 3)) + 1.2 * labels[:, None], labels)
    plan = Experiment("two", tuple(Arm(name) for name in NAMES), schedule=Schedule(8, 6, 3), seeds=(0, 1, 2, 3, 4))
    folder: Path = tmp_path_factory.mktemp("two")
    return list(run_experiment(plan, folder, dataset=data))


def test_with_two_classes_margin_least_confidence_and_entropy_are_found_to_be_one(rounds: list[Round]) -> None:
    assert group_alike(rounds) == (("margin", "least-confidence", "entropy"),)
    described = summarize(rounds)
    assert described.alike == (("margin", "least-confidence", "entropy"),)
    assert described.as_dict()["alike"] == [["margin", "least-confidence", "entropy"]]
    said = "margin, least-confidence and entropy asked for the same rows throughout, as they must with two classes, "
    assert f"{said}and count once in the correction." in notes(described)


def test_the_correction_is_that_of_the_strategies_that_differ(rounds: list[Round]) -> None:
    described = {each.name: each.p_holm for each in summarize(rounds).against_random}
    fewer = [each for each in rounds if each.strategy in ("random", "margin", "coreset")]
    expected = {each.name: each.p_holm for each in summarize(fewer).against_random}
    assert described["margin"] == described["least-confidence"] == described["entropy"] == expected["margin"]
    assert described["coreset"] == expected["coreset"]
    counted_each = {each.name: each.p_holm for each in compare(curves(rounds), "random")}
    assert counted_each["margin"] >= described["margin"]


def test_strategies_that_differ_in_one_pick_or_one_accuracy_are_not_alike(rounds: list[Round]) -> None:
    first = next(place for place, each in enumerate(rounds) if each.strategy == "entropy")
    for changed in ({"picked": (*rounds[first].picked[1:], 159)}, {"test_accuracy": 0.123}):
        other = [*rounds[:first], replace(rounds[first], **changed), *rounds[first + 1 :]]
        assert group_alike(other) == (("margin", "least-confidence"),)


def test_the_order_of_picks_within_a_round_does_not_matter(rounds: list[Round]) -> None:
    turned = [replace(each, picked=each.picked[::-1]) if each.strategy == "margin" else each for each in rounds]
    assert group_alike(turned) == group_alike(rounds)


def test_other_strategies_that_agree_are_not_said_to_have_to() -> None:
    assert describe_alike(["coreset", "margin"], 2).startswith("asked for the same rows throughout and count once")
    assert describe_alike(["margin", "entropy"], 3).startswith("asked for the same rows throughout and count once")


def test_without_a_word_of_likeness_each_strategy_is_a_test() -> None:
    labels = np.array([10, 20])
    made = [
        Curve(name, labels, np.array([[0.5, a], [0.5, b], [0.5, c]]))
        for name, a, b, c in [("random", 0.6, 0.7, 0.6), ("margin", 0.8, 0.9, 0.82), ("entropy", 0.8, 0.9, 0.82)]
    ]
    apart, together = compare(made, "random"), compare(made, "random", [("margin", "entropy")])
    assert apart[0].p_holm == pytest.approx(2 * together[0].p_holm)
    assert together[0].p_holm == together[0].p
