"""The board of regret is what its records say."""

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dubito.experiments import Data, Experiment, Schedule, run_experiment
from dubito.experiments.models.linear import Forest
from dubito.experiments.plan import parse_strategy

ROOT = Path(__file__).parents[1]


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools" / "docs"), *sys.path])
    return runpy.run_path(str(ROOT / "tools" / "docs" / "regret.py"))


def test_the_page_is_made_from_the_records(board: dict[str, Any]) -> None:
    made = board["page"](list(board["pools"]()), board["models"]())
    assert made == (ROOT / "docs" / "results" / "regret.md").read_text(encoding="utf-8")
    assert "/root/" not in made
    assert "/tmp/" not in made


def test_regret_is_the_distance_to_the_best_mean_over_seeds_in_common(board: dict[str, Any]) -> None:
    curves = {"a": {"0": [0.5, 0.7], "1": [0.5, 0.9]}, "b": {"0": [0.5, 0.5]}}
    pool = board["Pool"]("digits", [10, 20], curves)
    areas = board["areas_in_common"](pool)
    assert {name: each.tolist() for name, each in areas.items()} == {"a": [60.0], "b": [50.0]}


def test_the_labels_needed_are_those_at_which_the_last_accuracy_of_random_is_reached(board: dict[str, Any]) -> None:
    auto, random = "doubt-coverage:strength=3", "random"
    curves = {auto: {"0": [0.5, 0.7, 0.9], "1": [0.5, 0.7, 0.7]}, random: {"0": [0.5, 0.5, 0.6], "1": [0.5, 0.6, 0.6]}}
    pool = board["Pool"]("digits", [10, 20, 40], curves)
    assert board["labels_needed"](pool) == pytest.approx(15 / 40)
    assert (
        board["labels_needed"](board["Pool"]("digits", [10, 20], {auto: {"0": [0.5, 0.6]}, random: {"0": [0.5, 0.7]}}))
        == np.inf
    )


def test_models_are_compared_over_tables_and_pools_beyond_chance_are_named(board: dict[str, Any]) -> None:
    random, auto, cosine = ({str(seed): [0.5, last + seed / 1000] for seed in range(3)} for last in (0.5, 0.6, 0.7))
    made = {"random": random, "auto": auto, "auto:metric=cosine": cosine}
    swapped = {"random": auto, "auto": random, "auto:metric=cosine": auto}
    linear = {"random": random, "doubt-coverage:strength=3": auto, board["DIRECTIONS"]: auto}
    pool = board["Pool"]
    forest = [pool("ring-10", [0, 10], made), pool("ring-50", [0, 10], swapped), pool("vowel-10", [0, 10], made)]
    models = {"forest": [*forest, pool("ring-raw-10", [0, 10], swapped)], "mlp": [pool("vowel-10", [0, 10], made)]}
    lines = list(board["models_section"](board["groups_of"](models, [pool("ring-10", [0, 10], linear)])))
    rows = {line.split(" | ")[0][2:]: line.split(" | ")[1:] for line in lines if line.startswith("| ")}
    assert rows["logistic regression"][:5] == ["1", "3", "+5.00 ± nan", "1", "none"]
    # The two sizes of ring cancel out; the other table gains 5 points.
    assert rows["random forest"][:5] == ["3", "3", "+2.50 ± 31.77", "2", "ring-50 -5.00 ± 0.00"]
    assert rows["random forest"][6] == "+5.00 ± 0.00"
    assert rows["random forest, table as published"][:5] == ["1", "3", "-5.00 ± nan", "0", "ring-raw-10 -5.00 ± 0.00"]
    # Regret of `auto` is to the best of all that ran, itself included.
    assert rows["`auto`"][1:3] == ["5.00 ± 0.00", "5.00 ± 0.00 (ring-10)"]


def test_gains_of_changes_are_over_auto_and_regrets_need_the_recorded_features(board: dict[str, Any]) -> None:
    auto, cosine, chosen = (board[name] for name in ("SHARPENED", "DIRECTIONS", "CHOSEN"))
    recorded = {auto: np.array([60.0, 62.0]), "margin": np.array([66.0, 66.0]), "oracle": np.array([90.0, 90.0])}
    tried = {
        pool: {auto: np.array([60.0, 62.0]), cosine: np.array([59.0, 59.0]), chosen: np.array([63.0, 65.0])}
        for pool in ("letter-10", "vowel-10", "new-10")
    }
    tried["vowel-10"] = {name: areas + 1.0 for name, areas in tried["vowel-10"].items()}
    lines = list(board["tries_section"]({"letter-10": recorded, "vowel-10": recorded}, tried))
    rows = [line.split(" | ")[1:5] for line in lines if line.startswith("| `spread=0.9,few=5` | ")]
    assert rows[1] == ["+3.00 ± nan", "+3.00 ± 0.00 (letter-10)", "2.00", "2.00 (letter-10)"]
    (other,) = (line.split(" | ")[5:9] for line in lines if line.startswith("| `metric=cosine` |") and "vowel" in line)
    assert other == ["-2.00 ± nan", "-2.00 ± 12.71 (vowel-10)", "", ""]


def test_a_run_of_a_forest_is_kept_apart(board: dict[str, Any], tmp_path: Path) -> None:
    arms, data = (parse_strategy("random"),), Data(builtin="digits", rows=60)
    plan = Experiment("digits-5", arms, data, Schedule(20, 5, 2), Forest(trees=2), seeds=(0,))
    run_experiment(plan, tmp_path / "run")
    board["keep"].__globals__["KEPT"] = tmp_path / "kept"
    board["keep"](tmp_path / "run")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["forest"]
    assert list(board["pools"]()) == []
    (found,) = board["models"]()["forest"]
    assert found.labels == [20, 25, 30]
    assert found.curves["random"].keys() == {"0"}


def test_the_oracle_is_what_gains_are_shares_of_and_not_the_best_strategy(board: dict[str, Any]) -> None:
    areas = {
        "random": np.array([50.0, 52.0]), "margin": np.array([53.0, 55.0]),
        "doubt-coverage:strength=3": np.array([52.0, 54.0]), "oracle:batches=9": np.array([60.0, 62.0]),
    }  # fmt: skip
    assert board["regrets_of"](areas)["margin"].tolist() == [0.0, 0.0]
    assert board["share"]({"magic-10": areas}, ["magic-10"], "margin") == "30%"
    lines = list(board["batches_section"]({"magic-10": areas}, {"magic-10": {"margin": 0.25}}))
    assert "| `margin` | 0.00 ± 0.00 (magic-10) | 0.00 | 0.00 | 0.00 | 30% | 0.25 | 1 |" in lines
    assert next(line for line in lines if line.startswith("| `auto`")).split(" | ")[5] == "20%"
