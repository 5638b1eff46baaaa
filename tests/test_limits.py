"""Costs, spending and quotas at the door: what is taken, and what is refused with which words."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dubito
from dubito.core.constraints import check_costs, n_affordable
from dubito.errors import DubitoError, InvalidArgument, InvalidData

POOL = np.array([[0.0], [1.0], [2.0], [4.0], [8.0], [16.0]])
PROBABILITIES = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.1, 0.9], [0.55, 0.45]])


def picked(**arguments: Any) -> list[int]:
    found = dubito.select(POOL, 2, labeled=[0], strategy="coreset", **arguments)
    return [int(row) for row in found.indices]


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ([1, 1, 1, 0, 1, 1], "costs holds 0 at row 3; pass what a label costs, above 0."),
        ([1, 1, 1, -2, 1, 1], "costs holds -2 at row 3; pass what a label costs, above 0."),
        ([1, 1, 1, np.nan, 1, 1], "costs holds nan at row 3"),
        ([1, 1, 1, np.inf, 1, 1], "costs holds inf at row 3"),
        ([1, 1, 1, 1e-12, 1, 1], "costs holds 1e-12 at row 3; pass costs in another unit."),
        ([1, 1, 1, 1e12, 1, 1], "costs holds 1e.12 at row 3; pass costs in another unit."),
        ([1, 1, 1], r"costs has shape \(3,\); pass one number per pool row, shape \(6,\)."),
        (np.ones((6, 2)), r"costs has shape \(6, 2\)"),
        (["1", "2", "3", "4", "5", "6"], "costs holds text instead of numbers"),
    ],
)
def test_costs_that_cannot_be_are_refused(costs: object, words: str) -> None:
    with pytest.raises((InvalidArgument, InvalidData), match=words):
        picked(costs=costs)


def test_costs_of_a_frame_go_by_their_ids() -> None:
    pool = pd.DataFrame({"x": POOL[:, 0]}, index=list("abcdef"))
    costs = pd.DataFrame({"cost": [1.0, 9.0, 1.0, 1.0, 1.0, 1.0]}, index=list("bfacde"))
    by_id = dubito.select(pool, 2, labeled=["a"], strategy="coreset", costs=costs)
    assert by_id.indices.tolist() == picked(costs=[1.0, 1.0, 1.0, 1.0, 1.0, 9.0])
    assert by_id.indices.tolist() != picked()
    named = pl.DataFrame({"id": list("fabcde"), "cost": [9.0, 1.0, 1.0, 1.0, 1.0, 1.0]})
    assert dubito.select(pool, 2, labeled=["a"], strategy="coreset", costs=named).ids is not None
    with pytest.raises(InvalidData, match="not among the pool's"):
        dubito.select(pool, 2, strategy="coreset", costs=costs.rename(index={"b": "z"}))


def test_whole_numbers_and_half_precision_are_costs() -> None:
    assert check_costs(np.array([1, 2], dtype=np.int8), 2).tolist() == [1.0, 2.0]
    assert check_costs(np.array([[0.5], [2]], dtype=np.float16), 2).dtype == np.float64


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"spend": 3.0}, "spend=3.0 requires costs; pass costs=, too."),
        ({"spend": 0.5, "costs": np.ones(6)}, "spend=0.5 is less than the cheapest candidate costs; pass spend >= 1."),
        ({"spend": np.nan, "costs": np.ones(6)}, "spend=nan is not allowed"),
        ({"spend": -1, "costs": np.ones(6)}, "spend=-1 is not allowed"),
        ({"spend": "much", "costs": np.ones(6)}, "spend='much' is not allowed"),
        ({"quotas": 2}, "quotas need the class of each row; pass probabilities=, logits=, or the classes themselves"),
        ({"quotas": 0, "probabilities": PROBABILITIES}, "quotas=0 is too small"),
        ({"quotas": 1.5, "probabilities": PROBABILITIES}, "quotas=1.5 is not a whole number"),
        ({"quotas": {0: -1}, "probabilities": PROBABILITIES}, "quotas=-1 is too small"),
        (
            {"quotas": {"a": 1}, "probabilities": PROBABILITIES},
            "quotas='a' is not a class of any row; classes are 0, 1",
        ),
        ({"quotas": {2: 1}, "probabilities": PROBABILITIES}, "quotas='2' is not a class of any row"),
        ({"quotas": {1: 1, "1.0": 2}, "probabilities": PROBABILITIES}, "names a class twice"),
        (
            {"quotas": {0: 1, 1: 0}, "probabilities": PROBABILITIES},
            "budget=2 exceeds the 1 of 5 candidates that quotas",
        ),
        ({"quotas": {0: 0, 1: 0}, "probabilities": PROBABILITIES}, "quotas leave; pass larger quotas."),
        ({"classes": [0] * 6}, "classes requires quotas; pass quotas=, too."),
        ({"quotas": [1, 2], "classes": [0] * 6}, r"quotas=\[1, 2\] is neither a whole number nor a mapping; pass one"),
        ({"quotas": 1, "classes": [[0], [0, 1]] * 3}, "classes cannot be read as an array"),
        ({"quotas": 1, "classes": [0] * 5}, r"classes has shape \(5,\)"),
        ({"quotas": 1, "classes": ["a", "b", "", "a", "b", "a"]}, "classes has no value at row 2"),
        ({"quotas": 1, "classes": [1, 2, None, 1, 1, 1]}, "classes has no value at row 2"),
    ],
)
def test_limits_that_cannot_be_meant_are_refused(given: Mapping[str, object], words: str) -> None:
    with pytest.raises(DubitoError, match=words):
        picked(**given)


def test_classes_are_one_however_they_are_written() -> None:
    expected = picked(quotas={1: 0}, probabilities=PROBABILITIES)
    assert expected != picked()
    for classes in ([0, 0, 1, 0, 1, 0], ["0", "0", "1.0", "0", "1", "0"], np.array([0, 0, 1, 0, 1, 0], np.uint8)):
        for name in (1, "1", 1.0, np.int64(1)):
            assert picked(quotas={name: 0}, classes=classes) == expected
    assert picked(quotas={1: 0}, logits=np.log(PROBABILITIES)) == expected


def test_classes_of_a_frame_go_by_their_ids() -> None:
    pool = pd.DataFrame({"x": POOL[:, 0]}, index=list("abcdef"))
    classes = pd.DataFrame({"kind": ["cat", "cat", "dog", "dog", "dog", "dog"]}, index=list("fedcba"))
    found = dubito.select(pool, 2, labeled=["a"], strategy="coreset", quotas={"cat": 1}, classes=classes)
    assert found.indices.tolist() == [5, 3]


def test_rounding_does_not_make_money_short() -> None:
    assert len(picked(costs=np.full(6, 0.1), spend=0.2)) == 2
    found = dubito.select(POOL, 5, labeled=[0], strategy="coreset", costs=np.full(6, 0.1), spend=0.3)
    assert len(found) == 3


def test_nobody_can_buy_more_than_the_cheapest() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        costs = rng.uniform(0.1, 3.0, 20)
        spend = float(rng.uniform(0.1, 30.0))
        order = rng.permutation(20)
        assert np.count_nonzero(np.cumsum(costs[order]) <= spend) <= n_affordable(costs, spend)
