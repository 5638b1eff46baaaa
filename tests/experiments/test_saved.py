"""Labels saved: the same words everywhere, and no claim that the interval does not bear out."""

from math import inf, nan

import numpy as np
import pytest

from dubito.cli.commands.report import show_table
from dubito.experiments.plots.comparing import savings_figure
from dubito.experiments.records import Round
from dubito.experiments.report import curves_picture, short_finding, statistics_table
from dubito.experiments.statistics import Interval, Saving
from dubito.experiments.summary import Summary, describe_saved, finding, format_saved, is_sure, summarize


def saving(estimate: float, low: float, high: float) -> Saving:
    return Saving("margin", "random", 0.9, 140.0 - estimate, 140.0, Interval(estimate, low, high))


CASES = [
    (saving(40, 20, 60), True, "40 [20 to 60]", ": 40 saved (95% interval 20 to 60)"),
    (
        saving(40, -inf, 60),
        False,
        "40 [not reached to 60]",
        ": 40 saved, but not surely (95% interval not reached to 60)",
    ),
    (saving(40, -3, 60), False, "40 [-3 to 60]", ": 40 saved, but not surely (95% interval -3 to 60)"),
    (saving(40, 0.2, 60), False, "40 [0 to 60]", ": 40 saved, but not surely (95% interval 0 to 60)"),
    (saving(40, nan, nan), False, "40", ": 40 saved"),
    (saving(-12, -30, 5), False, "-12 [-30 to 5]", ": 12 more (95% interval -30 to 5)"),
    (saving(-inf, -inf, -inf), False, "not reached", "yet it does not reach what random learns from 140 labels"),
]


@pytest.mark.parametrize(("described", "sure", "shown", "sentence"), CASES)
def test_savings_are_worded_once_and_sure_only_where_the_whole_interval_saves(
    described: Saving, sure: bool, shown: str, sentence: str
) -> None:
    assert is_sure(described) is sure
    assert format_saved(described) == shown
    assert describe_saved(described).endswith(sentence)


def experiment(noise: float) -> Summary:
    """margin is ahead of random by enough to beat it; with much noise at the end labels saved are not sure."""
    rng = np.random.default_rng(1)
    means = {"random": (0.5, 0.6, 0.7, 0.8), "margin": (0.5, 0.75, 0.78, 0.81)}
    return summarize(
        [
            Round(
                strategy=name,
                seed=seed,
                turn=turn,
                labels=20 + 20 * turn,
                test_accuracy=means[name][turn] + (noise if turn == 3 else 0.004) * rng.normal(),
                train_accuracy=1.0,
                recall=(0.5, 0.5),
                core_set_loss=0.3,
                radius=1.0,
                scaled_radius=0.5,
                uncertainty=0.1,
                picked=(turn,),
                train_seconds=1.0,
                select_seconds=0.1,
            )
            for name in means
            for seed in range(8)
            for turn in range(4)
        ]
    )


@pytest.mark.parametrize("noise", [0.001, 0.02])
def test_headline_tables_and_pictures_say_the_same(noise: float, capsys: pytest.CaptureFixture[str]) -> None:
    described = experiment(noise)
    (each,) = described.savings
    shown = format_saved(each)
    ends = shown.partition(" [")[2].removesuffix("]")
    assert described.against_random[0].is_better
    assert f"(95% interval {ends})" in finding(described)
    show_table(described)
    assert shown in capsys.readouterr().out
    assert f"[{ends}]" in statistics_table(described)
    assert shown in [text.get_text() for text in savings_figure(described.savings).axes[0].texts]


def test_a_picture_claims_nothing_where_the_interval_reaches_none() -> None:
    unsure, sure = experiment(0.02), experiment(0.001)
    assert not is_sure(unsure.savings[0])
    assert is_sure(sure.savings[0])
    assert "labels for what random learns" in short_finding(sure)
    assert "points above random on average" in short_finding(unsure)
    marked = [
        any("labels saved" in text.get_text() for text in curves_picture(described).axes[0].texts)
        for described in (sure, unsure)
    ]
    assert marked == [True, False]
