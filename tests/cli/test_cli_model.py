"""Labels and no probabilities: the command line fits a model, says what, and picks by its doubt."""

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import dubito

from .conftest import Program

DIGITS, ANSWERS = load_digits(return_X_y=True)
N = 300
POOL = DIGITS[:N]
IDS = [f"digit-{row}" for row in range(N)]
SOME = np.sort(np.random.default_rng(5).permutation(N)[:50])
METHOD = ("--strategy", "doubt-coverage", "--budget", "8")
FITTED = "fitted: linear model, 50 labels of 10 classes, right on "


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    np.savez(tmp_path / "pool.npz", features=POOL, ids=np.array(IDS))
    lines = [f"{IDS[row]},{ANSWERS[row]}" for row in SOME[::-1].tolist()]
    (tmp_path / "batch.csv").write_text("\n".join(["id,label", *lines, f"{IDS[0]},"]) + "\n")
    (tmp_path / "bare.csv").write_text("\n".join(["id", *(line.split(",")[0] for line in lines)]) + "\n")
    (tmp_path / "one.csv").write_text(f"id,label\n{IDS[3]},7\n")
    own = ["" if row not in set(SOME.tolist()) else f"d{ANSWERS[row]}" for row in range(N)]
    rows = [",".join([IDS[row], *map(str, POOL[row]), own[row]]) for row in range(N)]
    header = ",".join(["id", *(f"p{place}" for place in range(64)), "label"])
    (tmp_path / "own.csv").write_text("\n".join([header, *rows]) + "\n")
    np.save(tmp_path / "probabilities.npy", np.random.default_rng(0).dirichlet(np.ones(10), N))
    (tmp_path / "mine.py").write_text(
        "from sklearn.naive_bayes import GaussianNB\n"
        "from sklearn.pipeline import make_pipeline\n"
        "def model():\n    return make_pipeline(GaussianNB())\n"
    )


def picks_of(text: str) -> list[int]:
    return [int(pick["index"]) for pick in csv.DictReader(StringIO(text))]


def expected(**options: object) -> list[int]:
    given: dict[str, Any] = {"labels": ANSWERS[SOME], "labeled": SOME, "strategy": "doubt-coverage", **options}
    return list(dubito.select(POOL, 8, **given).indices)


def test_labels_that_come_back_are_learned_from_and_one_line_says_so(run: Program) -> None:
    ran = run("select", "pool.npz", "--labeled", "batch.csv", *METHOD)
    assert ran.code == 0
    assert picks_of(ran.out) == expected()
    described = [line for line in ran.err.splitlines() if FITTED in line]
    assert len(described) == 1
    accuracy = dubito.fit(POOL, ANSWERS[SOME], labeled=SOME).tested
    assert str(accuracy) in described[0]


def test_a_pool_with_its_label_column_partly_filled_does_the_same(run: Program) -> None:
    ran = run("select", "own.csv", *METHOD, "--standardize", "no")
    assert picks_of(ran.out) == expected()
    assert FITTED in ran.err


@pytest.mark.slow
def test_ways_to_say_which_model(run: Program) -> None:
    labeled = ("select", "pool.npz", "--labeled", "batch.csv", *METHOD)
    # A forest for each of few labels, and for them all: more labels would have more forests.
    few = np.array([row for digit in (3, 8) for row in np.flatnonzero(ANSWERS[:N] == digit)[:2].tolist()])
    Path("few.csv").write_text("\n".join(["id,label", *(f"{IDS[row]},{ANSWERS[row]}" for row in few)]) + "\n")
    forest = run("select", "pool.npz", "--labeled", "few.csv", *METHOD, "--model", "forest")
    theirs, linear = (expected(labels=ANSWERS[few], labeled=few, model=model) for model in ("forest", "linear"))
    assert picks_of(forest.out) == theirs != linear
    assert "fitted: forest model, 4 labels of 2 classes" in forest.err
    mine = run(*labeled, "--model", "mine.model")
    assert "fitted: mine.model model, 50 labels of 10 classes" in mine.err
    none = run("select", "pool.npz", "--labeled", "batch.csv", "-s", "auto", "-b", "8", "--model", "none")
    assert "fitted" not in none.err
    assert picks_of(none.out) == dubito.select(POOL, 8, labeled=SOME, strategy="coverage").indices.tolist()
    wrong = run(*labeled, "--model", "lineal")
    assert wrong.code == 2
    assert "--model lineal is not known; choose from linear, forest and none" in wrong.complaint


def test_probabilities_of_ones_own_count_more(run: Program) -> None:
    ran = run("select", "pool.npz", "--labeled", "batch.csv", "--probabilities", "probabilities.npy", *METHOD)
    theirs = np.load("probabilities.npy")
    plain = dubito.select(POOL, 8, labeled=SOME, probabilities=theirs, strategy="doubt-coverage")
    assert picks_of(ran.out) == plain.indices.tolist()
    assert "fitted" not in ran.err


def test_rows_without_classes_teach_nothing(run: Program) -> None:
    ran = run("select", "pool.npz", "--labeled", "bare.csv", "-s", "auto", "-b", "8")
    assert picks_of(ran.out) == dubito.select(POOL, 8, labeled=SOME, strategy="coverage").indices.tolist()
    assert "fitted:" not in ran.err
    assert "no model is fitted on this file" in ran.err


def test_one_class_alone_is_a_cold_start_that_is_reported(run: Program) -> None:
    ran = run("select", "pool.npz", "--labeled", "one.csv", "-s", "auto", "-b", "8")
    assert ran.code == 0
    assert "only one class has labels (7, 1): nothing to tell apart yet" in ran.err


def test_rows_left_out_take_their_labels_with_them(run: Program) -> None:
    features = POOL.copy()
    gone = [int(SOME[4]), int(SOME[7]), 1]
    features[gone, 0] = np.nan
    np.savez("gaps.npz", features=features, ids=np.array(IDS))
    ran = run("select", "gaps.npz", "--labeled", "batch.csv", "--missing", "drop", *METHOD)
    kept = np.setdiff1d(np.arange(N), gone)
    left = np.flatnonzero(np.isin(kept, SOME))
    plain = dubito.select(POOL[kept], 8, labels=ANSWERS[kept][left], labeled=left, strategy="doubt-coverage")
    assert picks_of(ran.out) == kept[plain.indices].tolist()
    assert "48 labels" in ran.err


def test_a_dry_run_checks_the_labels_too(run: Program) -> None:
    ran = run("select", "pool.npz", "--labeled", "batch.csv", *METHOD, "--dry-run", "--json")
    assert json.loads(ran.out)["labeled"] == 50
    assert run("select", "pool.npz", *METHOD, "--strategy", "margin", "--dry-run").code == 2
    assert run("select", "pool.npz", "--labeled", "batch.csv", *METHOD, "-s", "margin", "--dry-run").code == 0


def test_features_of_points_elsewhere_stand_beside_labels_of_the_pools_rows(run: Program) -> None:
    np.save("others.npy", DIGITS[400:410])
    ran = run("select", "pool.npz", "--labeled", "batch.csv", "--labeled", "others.npy", *METHOD)
    assert ran.code == 0
    assert FITTED in ran.err
    assert set(picks_of(ran.out)).isdisjoint(SOME.tolist())


def test_three_rounds_go_by_commands_and_labels_alone(run: Program) -> None:
    assert run("select", "pool.npz", "-s", "coverage", "-b", "20", "-o", "r0.csv").code == 0
    labeled: list[str] = []
    for number in range(3):
        path = f"r{number}.csv"
        rows = list(csv.DictReader(StringIO(Path(path).read_text())))
        text = ["id,label", *(f"{row['id']},{ANSWERS[int(row['index'])]}" for row in rows)]
        Path(path).write_text("\n".join(text) + "\n")
        labeled += ["--labeled", path]
        ran = run("select", "pool.npz", *labeled, "-s", "doubt-coverage", "-b", "20", "-o", f"r{number + 1}.csv")
        assert f"fitted: linear model, {20 * (number + 1)} labels" in ran.err
