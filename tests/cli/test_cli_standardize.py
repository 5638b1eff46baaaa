"""Columns of a table are standardized, embeddings never are, and either is reported and can be changed."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dubito
from dubito.cli.options import fill_in_values
from dubito.matrix import FloatArray

from .conftest import Program

RNG = np.random.default_rng(12)
FEATURES: FloatArray = RNG.normal(size=(60, 4)) * [1.0, 5000.0, 0.2, 40.0] + 7.0
DOUBT = RNG.random(60)
NAMES = ("age", "income", "rate", "weight")
NOTE = "dubito: columns are standardized (unscaled, income makes over 99.9% of the squared distances); "


def write_table(path: Path, features: FloatArray = FEATURES, doubt: bool = True) -> None:
    rows = [
        [*map(repr, map(float, row)), *([repr(float(value))] if doubt else [])]
        for row, value in zip(features, DOUBT, strict=False)
    ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[*NAMES, *(["doubt"] if doubt else [])], *rows])


def by_hand(values: FloatArray) -> FloatArray:
    scaled: FloatArray = (values - FEATURES.mean(axis=0)) / FEATURES.std(axis=0)
    return scaled


def indices(text: str) -> list[int]:
    return [int(row["index"]) for row in csv.DictReader(io.StringIO(text))]


def picks(features: FloatArray, labeled: FloatArray | None = None) -> list[int]:
    chosen: list[int] = dubito.select(features, 8, doubt=DOUBT, labeled=labeled).indices.tolist()
    return chosen


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_table(tmp_path / "pool.csv")
    return tmp_path


@pytest.mark.usefixtures("table")
def test_a_table_is_standardized_unless_reported_otherwise_and_the_note_names_what_dominated(run: Program) -> None:
    auto = run("select", "pool.csv", "-b", "8")
    assert indices(auto.out) == picks(by_hand(FEATURES))
    assert NOTE + "--standardize no leaves them unscaled" in auto.err
    for asked in (("--standardize", "yes"), ("--standardize",), ("--standardise",)):
        ran = run("select", "pool.csv", "-b", "8", *asked)
        assert indices(ran.out) == picks(by_hand(FEATURES))
        assert "standardized" not in ran.err
    plain = run("select", "pool.csv", "-b", "8", "--standardize", "no")
    assert indices(plain.out) == picks(FEATURES) != picks(by_hand(FEATURES))
    assert "standardize" not in plain.err


def test_columns_of_like_scales_are_standardized_with_a_shorter_note(run: Program, tmp_path: Path) -> None:
    write_table(tmp_path / "pool.csv", by_hand(FEATURES))
    ran = run("select", "pool.csv", "-b", "8")
    assert "dubito: columns are standardized (mean 0 and standard deviation 1 each); --standardize no" in ran.err


def test_embeddings_are_never_standardized_unasked(run: Program, tmp_path: Path) -> None:
    np.savez(tmp_path / "pool.npz", features=FEATURES, doubt=DOUBT)
    pq.write_table(pa.table({"embedding": FEATURES.tolist(), "doubt": DOUBT}), tmp_path / "pool.parquet")
    write_table(tmp_path / "one.csv", FEATURES[:, :1])
    for path in ("pool.npz", "pool.parquet"):
        ran = run("select", path, "-b", "8")
        assert indices(ran.out) == picks(FEATURES)
        assert "standardize" not in ran.err
        asked = run("select", path, "-b", "8", "--standardize", "yes")
        assert indices(asked.out) == picks(by_hand(FEATURES))
    pq.write_table(
        pa.table({name: FEATURES[:, place] for place, name in enumerate(NAMES)} | {"doubt": DOUBT}), "wide.parquet"
    )
    assert indices(run("select", "wide.parquet", "-b", "8").out) == picks(by_hand(FEATURES))


@pytest.mark.usefixtures("table")
def test_labeled_features_go_by_the_pool_s_scale(run: Program, tmp_path: Path) -> None:
    seen = FEATURES[[3, 30]] + [0.1, 100.0, 0.01, 1.0]
    write_table(tmp_path / "seen.csv", seen, doubt=False)
    ran = run("select", "pool.csv", "-b", "8", "--labeled", "seen.csv")
    assert indices(ran.out) == picks(by_hand(FEATURES), labeled=by_hand(seen))


@pytest.mark.usefixtures("table")
def test_a_dry_run_and_json_tell_it_too(run: Program) -> None:
    assert NOTE in run("select", "pool.csv", "-b", "8", "--dry-run").err
    assert json.loads(run("select", "pool.csv", "-b", "8", "--json", "-q").out)["standardized"] is True


@pytest.mark.usefixtures("table")
def test_a_diagnosis_is_of_what_select_sees(run: Program) -> None:
    np.save("labeled.npy", np.array([0, 1]))
    ran = run("diagnose", "pool.csv", "--labeled", "labeled.npy", "--json")
    described = dubito.diagnose(by_hand(FEATURES), labeled=[0, 1], doubt=DOUBT)
    assert json.loads(ran.out)["delta"] == pytest.approx(described.delta)
    assert NOTE in ran.err
    plain = run("diagnose", "pool.csv", "--labeled", "labeled.npy", "--json", "--standardize", "no")
    assert json.loads(plain.out)["delta"] == dubito.diagnose(FEATURES, labeled=[0, 1], doubt=DOUBT).delta


@pytest.mark.slow
@pytest.mark.usefixtures("blank_figures")
def test_simulate_standardizes_tables_too_and_its_file_says_so(run: Program, tmp_path: Path) -> None:
    labels = (FEATURES[:, 0] > 7).astype(int)
    rows = [[*map(repr, map(float, row)), label] for row, label in zip(FEATURES, labels, strict=True)]
    with (tmp_path / "data.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[*NAMES, "label"], *rows])
    np.savez(tmp_path / "data.npz", features=FEATURES, labels=labels)
    small = ("--initial", "8", "--budget", "4", "--rounds", "1", "--seeds", "1", "-s", "coreset", "--workers", "1")
    said = {
        ("data.csv",): True,
        ("data.csv", "--standardize", "no"): False,
        ("data.csv", "--standardize"): True,
        ("data.npz",): False,
        ("data.npz", "--standardize", "yes"): True,
    }
    for place, (given, expected) in enumerate(said.items()):
        ran = run("simulate", *given, *small, "-o", f"out{place}")
        assert ran.code == 0, ran.err
        assert ("standardise = true" in Path(f"out{place}/experiment.toml").read_text()) is expected
        assert (NOTE in ran.err) is (given == ("data.csv",))


@pytest.mark.usefixtures("table")
def test_another_word_is_refused(run: Program) -> None:
    ran = run("select", "pool.csv", "-b", "8", "--standardize", "maybe")
    assert (ran.code, ran.complaint) == (2, "--standardize maybe is not known; choose from auto, no, yes.")


def test_only_an_option_that_stands_alone_is_spelled_out() -> None:
    assert fill_in_values(["--standardize"]) == ["--standardize", "yes"]
    assert fill_in_values(["--standardize=no", "-b", "3"]) == ["--standardize=no", "-b", "3"]
    assert fill_in_values(["a.csv", "--seed", "3"]) == ["a.csv", "--seed", "3"]
