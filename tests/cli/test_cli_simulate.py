"""``dubito simulate``: a user's own data, and an honest answer."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from dubito.cli.commands import run as run_command
from dubito.cli.commands.run import read_workers
from dubito.cli.commands.simulate import Sizes
from dubito.experiments.data_sources import DataSource
from dubito.experiments.plan import Arm, Data, Experiment

from .conftest import PATIENCE, Program, Wait

pytestmark = pytest.mark.usefixtures("blank_figures")
SMALL = ("--initial", "8", "--budget", "6", "--rounds", "2", "--seeds", "2", "--workers", "1")


@pytest.fixture
def blobs(tmp_path: Path) -> Path:
    """150 points in three classes, as an archive and as a table."""
    rng = np.random.default_rng(3)
    labels = np.arange(150) % 3
    features = rng.normal(size=(150, 4)) + 2.0 * np.eye(4)[labels]
    names = np.array(["ant", "bee", "cat"])[labels]
    np.savez(tmp_path / "data.npz", features=features, labels=names)
    rows = [",".join(["x0,x1,x2,x3,kind"])]
    rows += [",".join([*(f"{value:.6f}" for value in row), name]) for row, name in zip(features, names, strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


@pytest.mark.usefixtures("blobs")
def test_an_archive_becomes_a_report_a_table_and_a_sentence(run: Program) -> None:
    ran = run("simulate", "data.npz", *SMALL, "-s", "coreset", "-s", "doubt-coreset:strength=0.5", "-o", "out")
    assert ran.code == 0, ran.err
    assert {"report.html", "results.json", "curves.png", "curves.svg", "journal.jsonl", "experiment.toml"} <= set(
        os.listdir("out")
    )
    assert "beat random" in ran.out
    assert ran.out.endswith("  out/report.html\n  out/curves.png\n")
    assert "doubt-coreset:strength=0.5" in ran.out
    assert "8 labels at random, then 2 rounds of 6, to 20" in ran.err
    page = Path("out/report.html").read_text()
    for fact in ("150 rows of 4 features in 3 classes", "<td>bee</td>", "linear", "numpy", "clean"):
        assert fact in page


@pytest.mark.usefixtures("blobs")
def test_a_table_is_read_by_its_columns_and_reported_as_json(run: Program) -> None:
    given = ("--label-column", "kind", "--feature-columns", "x*", *SMALL, "-s", "coreset", "--json", "-q")
    table = run("simulate", "data.csv", *given, "-o", "out")
    described = json.loads(table.out)
    assert table.err == ""
    assert [each["strategy"] for each in described["strategies"]] == ["random", "coreset"]
    assert described["labels"] == [8, 14, 20]
    assert np.shape(described["strategies"][0]["accuracy"]) == (2, 3)
    assert described["about"]["classes"] == ["ant", "bee", "cat"]
    assert all(Path(path).exists() for path in described["files"])


def test_features_are_named_and_an_id_and_unequal_scales_are_pointed_out(run: Program, blobs: Path) -> None:
    rows = (blobs / "data.csv").read_text().splitlines()
    wide = [f"{100_000 + place},{900 * (place % 7)},{row}" for place, row in enumerate(rows[1:])]
    (blobs / "wide.csv").write_text("\n".join([f"patient,area,{rows[0]}", *wide]) + "\n")
    given = ("--label-column", "kind", *SMALL, "-s", "margin", "--force")
    ran = run("simulate", "wide.csv", *given, "-o", "out")
    assert "6 features: patient, area, x0, x1, x2, ...\ndubito: patient looks like an id: pass --id-column" in ran.err
    assert ran.err.count("--standardize") == 1
    plain_axes = run("simulate", "wide.csv", "--id-column", "patient", "--standardize", *given, "-o", "out")
    assert "5 features: area, x0, x1, x2, x3" in plain_axes.err
    assert [word for word in ("looks like an id", "--standardize") if word in plain_axes.err] == []
    assert "--standardize" not in run("simulate", "data.npz", *SMALL, "-s", "margin", "-o", "archive").err


def test_vectors_have_no_columns_to_name_but_a_scale_and_images_have_neither(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 1.0, 1000.0]
    table = pyarrow.table({"features": rows.tolist(), "label": [row % 2 for row in range(30)]})
    pyarrow.parquet.write_table(table, tmp_path / "data.parquet")
    settings = Data(path=str(tmp_path / "data.parquet"))
    source = DataSource(Experiment("vectors", (Arm("random"),), settings))
    (said,) = run_command.notes_on_data(settings, source)
    assert said.startswith("the widest feature has over 100 times the spread of at least a quarter of the others")
    assert said.endswith("if their units differ, set standardize = true in [data]")
    (said,) = run_command.notes_on_data(settings, source, "no")
    assert said.endswith("if their units differ, pass --standardize yes")
    assert list(run_command.notes_on_data(replace(settings, standardize=True), source)) == []
    assert not run_command.has_dominant_feature(rows.reshape(10, 3, 3))


@pytest.mark.usefixtures("blobs")
def test_a_target_is_answered_on_the_terminal(run: Program) -> None:
    ran = run("simulate", "data.npz", *SMALL, "-s", "margin", "--target", "0.01", "--target", "100%", "-o", "out")
    assert "- Labels for 1.0% accuracy: random 8, margin 8." in ran.out
    assert "- Labels for 100.0% accuracy: random not reached, margin not reached." in ran.out


@pytest.mark.usefixtures("blobs")
def test_the_same_command_again_trains_nothing_and_tells_the_same(run: Program) -> None:
    command = ("simulate", "data.npz", *SMALL, "-s", "margin", "--json")
    first, again = run(*command), run(*command)
    assert "trained 12 models" in first.err
    assert "trained" not in again.err
    assert first.out == again.out
    assert [path.name.startswith("data-") for path in Path("dubito-runs").iterdir()] == [True]


@pytest.mark.usefixtures("blobs")
def test_a_test_file_a_pool_and_targets_are_taken(run: Program) -> None:
    spoilt = ("--pool", "redundant:2+mislabelled:0.1", "--test", "data.npz", "--target", "90%", "--target", "0.8")
    ran = run("simulate", "data.npz", *SMALL, *spoilt, "-s", "coreset", "--json", "-o", "out", "--standardize")
    described = json.loads(ran.out)
    assert described["targets"] == [0.9, 0.8]
    assert described["about"]["facts"]["pool"] == "redundant:2+mislabelled:0.1"
    assert "150 rows to test on" in described["about"]["facts"]["data"]
    assert "standardise = true" in described["about"]["settings"]
    records = [json.loads(line) for line in Path("out/journal.jsonl").read_text().splitlines()]
    assert max(row for record in records for row in record.get("picked", ())) >= 150


@pytest.mark.usefixtures("blobs")
def test_another_run_in_the_same_folder_needs_force_and_leaves_foreign_files_alone(run: Program) -> None:
    Path("out").mkdir()
    Path("out/mine.txt").write_text("mine")
    Path("out/experiment.toml").write_text(Experiment("earlier", (Arm("random"),)).to_toml())
    other = ("simulate", "data.npz", *SMALL, "-s", "margin", "-o", "out")
    assert "out holds a run with other settings; pass --force to start over" in run(*other).complaint
    assert run(*other, "--force").code == 0
    assert Path("out/mine.txt").read_text() == "mine"
    assert "margin" in next(Path().rglob("experiment.toml")).read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("simulate", "none.npz"), 2, "none.npz does not exist"),
        (("simulate", "data.npz", "--strategy", "corset"), 2, "did you mean 'coreset'?"),
        (("simulate", "data.npz", "--strategy", "doubt-coreset:strenght=1"), 2, "did you mean 'strength'?"),
        (("simulate", "data.npz", "--strategy", "doubt-coreset:strength"), 2, "write name:option=value"),
        (("simulate", "data.npz", "--pool", "redundat"), 2, "did you mean 'redundant'?"),
        (("simulate", "data.npz", "--model", "linaer"), 2, "did you mean 'linear'?"),
        (("simulate", "data.npz", "--model", "linear:c"), 2, "write kind:name=value"),
        (("simulate", "data.npz", "--model", "linear:d=3"), 2, "--model linear:d=3: "),
        (("simulate", "data.npz", "-s", "batchbald"), 2, "has none; pass --model linear:samples=10."),
        (("simulate", "data.npz", "-s", "bald", "--model", "linear:c=9"), 2, "pass --model linear:c=9,samples=10."),
        (("simulate", "data.npz", "-s", "optimal-coreset:max_pool=99"), 2, "takes at most 99 points, and the training"),
        (("simulate", "data.npz", "--rounds", "0"), 2, "0 is too small"),
        (("simulate", "data.npz", "--budget", "500"), 2, "500"),
        (("simulate", "data.npz", "--rounds", "50", "--budget", "10"), 2, "the training part has 120 rows"),
        (("simulate", "data.npz", "--seeds", "many"), 2, "many is not a whole number"),
        (("simulate", "data.npz", "--test-share", "1.5"), 2, "1.5 is not allowed"),
        (("simulate", "data.npz", "--test-share", "0.2", "--test", "data.npz"), 2, "pass only one of them"),
        (("simulate", "data.npz", "--target", "150%"), 2, "--target 150% is not an accuracy"),
        (("simulate", "data.npz", "--target", "high"), 2, "--target high is not allowed"),
        (("simulate", "data.npz", "-s", "coreset", "-s", "coreset"), 2, "holds 'coreset' twice"),
        (("simulate", "data.npz", "-o", "data.csv"), 2, "data.csv is a file; pass -o with another folder"),
        (("simulate", "data.npz", "-o", "."), 2, ". holds other files"),
        (("simulate", "data.csv"), 3, "column 'kind' of data.csv holds text such as 'ant'"),
        (("simulate", "bare.npz"), 2, "bare.npz holds no labels, only features (30, 2) float64; add an array labels"),
        (("simulate", "one.npz"), 3, "only one class"),
        (("simulate", "flat.npz"), 3, "the same in every row"),
        (("simulate", "nan.npz"), 3, "nan at row 4, column 1"),
        (("simulate", "rare.npz"), 3, "has one row"),
        (("simulate", "short.npz"), 3, "one per row"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_nothing(
    run: Program, blobs: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    features, labels = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2
    np.savez("bare.npz", features=features)
    np.savez("one.npz", features=features, labels=labels * 0)
    np.savez("flat.npz", features=features * 0, labels=labels)
    np.savez("nan.npz", features=np.where(np.arange(60).reshape(30, 2) == 9, np.nan, features), labels=labels)
    np.savez("rare.npz", features=features, labels=np.where(np.arange(30) == 5, 9, labels))
    np.savez("short.npz", features=features, labels=labels[:20])
    before = sorted(os.listdir(blobs))
    ran = run(*arguments, "--workers", "1")
    assert (ran.code, said in ran.complaint) == (code, True), ran.err
    assert sorted(os.listdir(blobs)) == before


def test_rows_without_a_label_take_no_part_in_a_simulation(run: Program, blobs: Path) -> None:
    lines = (blobs / "data.csv").read_text().splitlines()
    lines[7] = lines[7].rpartition(",")[0] + ","
    (blobs / "holes.csv").write_text("\n".join(lines) + "\n")
    ran = run("simulate", "holes.csv", "--label-column", "kind", *SMALL, "-s", "margin")
    assert ran.code == 0, ran.err
    assert "dubito: holes.csv: 149 of 150 rows have a kind; the others are ignored.\n" in ran.err


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_done_and_says_how_to_go_on(blobs: Path, wait_until: Wait) -> None:
    rng = np.random.default_rng(0)
    np.savez(blobs / "big.npz", features=rng.normal(size=(1500, 20)), labels=np.arange(1500) % 5)
    command = [sys.executable, "-m", "dubito", "simulate", "big.npz", "--seeds", "40", "--workers", "1", "-o", "out"]
    process = subprocess.Popen(command, cwd=blobs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    journal = blobs / "out" / "journal.jsonl"
    wait_until(lambda: (journal.exists() and journal.read_bytes().count(b"\n") > 3) or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, "")
    assert "trainings are kept. Continue with: the same command" in err
    assert journal.read_bytes().count(b"\n") > 3


def test_sizes_fit_the_data_where_none_are_given() -> None:
    nothing = Sizes(None, None, None)
    assert nothing.schedule(1438, 10).labels.tolist() == list(range(30, 331, 30))
    assert nothing.schedule(50_000, 10).labels.tolist() == list(range(1000, 11_001, 1000))
    assert nothing.schedule(40, 2).labels.tolist() == list(range(4, 15))
    assert nothing.schedule(6 * 1438, 10, 1438) == nothing.schedule(1438, 10)
    assert nothing.schedule(500, 10, 1438) == nothing.schedule(500, 10)
    assert nothing.schedule(5, 2).labels.tolist() == [4, 5]
    assert Sizes(7, None, 2).schedule(1438, 10).labels.tolist() == [7, 37, 67]


def test_processes_are_started_where_the_data_is_large() -> None:
    one, many = (Experiment("digits", (Arm("random"),), seeds=tuple(range(n_seeds))) for n_seeds in (1, 60))
    assert read_workers(None, many, 1000) == 1
    assert read_workers(None, many, 10**9) == min(os.cpu_count() or 1, 8)
    assert read_workers(None, one, 10**9) == 1
    assert read_workers("3", many, 1000) == 3


def test_help_begins_with_an_example(run: Program) -> None:
    assert "dubito simulate data.npz" in run("simulate", "--help").out
    assert "dubito report dubito-runs/" in run("report", "--help").out


@pytest.mark.usefixtures("blobs")
def test_a_forest_has_a_short_name_and_is_not_said_to_go_on(run: Program) -> None:
    ran = run("simulate", "data.npz", *SMALL, "-s", "margin", "--model", "forest:trees=5", "-o", "out")
    assert ran.code == 0, ran.err
    assert "to 20; trained from scratch each round; 4 runs" in ran.err
    assert "kind = forest, trees = 5" in Path("out/report.html").read_text()
    assert "goes on from round to round" not in ran.err + Path("out/report.html").read_text()


@pytest.mark.usefixtures("blobs")
def test_labels_may_be_in_other_files(run: Program) -> None:
    with np.load("data.npz") as data:
        features, labels = data["features"], data["labels"]
    np.savez("pool.npz", features=features, ids=[f"id-{row}" for row in range(150)])
    rows = np.random.default_rng(0).permutation(150)[:90]
    for name, part in (("one.csv", rows[:50]), ("two.csv", rows[50:])):
        Path(name).write_text("id,label\n" + "".join(f"id-{row},{labels[row]}\n" for row in part))
    given = ("--labeled", "one.csv", "--labeled", "two.csv")
    ran = run("simulate", "pool.npz", *given, *SMALL, "-s", "coreset", "--json", "-q", "-o", "out")
    assert ran.code == 0, ran.err
    taken = np.sort(rows)
    np.savez("same.npz", features=features[taken], labels=labels[taken])
    other = run("simulate", "same.npz", *SMALL, "-s", "coreset", "--json", "-q", "-o", "other")
    found, expected = (json.loads(each.out) for each in (ran, other))
    assert found["about"]["facts"]["data"].count("90 rows of 4 features in 3 classes") == 1
    accuracies = [[each["accuracy"] for each in ran["strategies"]] for ran in (found, expected)]
    assert accuracies[0] == accuracies[1]
    Path("one.csv").write_text("id\nid-1\n")
    ran = run("simulate", "pool.npz", "--labeled", "one.csv", *SMALL, "-o", "third")
    assert ran.code != 0
    assert "one.csv hold no label of a row of pool.npz" in ran.err


@pytest.mark.usefixtures("blobs")
def test_an_experiment_may_name_files_of_labels_beside_it(run: Program) -> None:
    with np.load("data.npz") as data:
        features, labels = data["features"], data["labels"]
    np.savez("pool.npz", features=features)
    Path("labels.csv").write_text("index,label\n" + "".join(f"{row},{labels[row]}\n" for row in range(60)))
    Path("plan.toml").write_text(
        'schema = 1\nname = "elsewhere"\nseeds = [0]\n[data]\npath = "pool.npz"\nlabeled = ["labels.csv"]\n'
        '[schedule]\ninitial = 8\nbudget = 6\nrounds = 1\n[[strategies]]\nstrategy = "random"\n'
    )
    ran = run("run", "plan.toml", "--workers", "1")
    assert ran.code == 0, ran.err
    assert str(Path("labels.csv").absolute()) in next(Path().rglob("experiment.toml")).read_text()
