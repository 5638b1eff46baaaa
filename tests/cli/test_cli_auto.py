"""The command line where no strategy is named: what is taken, and that it is reported."""

import json
from pathlib import Path

import numpy as np
import pytest

import dubito
from dubito.strategies import DoubtCoreset

from .conftest import Pool, Program


def picks(out: str) -> list[int]:
    return [pick["index"] for pick in json.loads(out)["picks"]]


def test_what_was_taken_and_why_is_reported_on_stderr_and_in_json(pool: Pool, run: Program) -> None:
    ran = run("select", "pool.npz", "-b", "4", "--json")
    wanted = dubito.select(pool.features, 4, labeled=np.array(pool.labeled), probabilities=pool.probabilities)
    described = json.loads(ran.out)
    assert picks(ran.out) == wanted.indices.tolist()
    assert described["strategy"] == "doubt-coverage"
    assert described["notes"] == list(wanted.notes)
    assert f"dubito: {wanted.notes[-1]}\n" in ran.err
    assert run("select", "pool.npz", "-b", "4", "-q").err == ""


def test_without_a_model_the_pool_is_covered(pool: Pool, run: Program) -> None:
    ran = run("select", "features.npy", "-b", "4", "--json")
    assert picks(ran.out) == dubito.select(pool.features, 4, strategy="coverage").indices.tolist()
    assert "auto chose coverage: without a model's doubt all rows have the same weight." in ran.err


@pytest.mark.parametrize("option", ["--features", "--features-are"])
@pytest.mark.parametrize(("said", "taken"), [("frozen", "doubt-coverage"), ("trained", "doubt-coreset")])
def test_whether_features_were_trained_may_be_said(
    pool: Pool, run: Program, option: str, said: str, taken: str
) -> None:
    ran = run("select", "pool.npz", "-b", "4", option, said, "--json")
    assert json.loads(ran.out)["strategy"] == taken
    assert "(as you set)" in ran.err


@pytest.mark.parametrize("strength", ["1", "0.5"])
def test_an_option_of_the_paper_s_method_means_that_method(pool: Pool, run: Program, strength: str) -> None:
    ran = run("select", "pool.npz", "-b", "4", "--strength", strength, "--json")
    method = DoubtCoreset(float(strength))
    wanted = dubito.select(
        pool.features, 4, labeled=np.array(pool.labeled), probabilities=pool.probabilities, strategy=method
    )
    assert picks(ran.out) == wanted.indices.tolist()
    assert "dubito: auto chose doubt-coreset, since you set strength.\n" in ran.err


def test_a_dry_run_says_what_would_be_taken(pool: Pool, run: Program) -> None:
    dry = run("select", "pool.npz", "-b", "4", "--dry-run")
    assert "strategy    doubt-coverage\n" in dry.out
    assert "notes" not in dry.out
    wet = run("select", "pool.npz", "-b", "4", "--json")
    assert dry.err.splitlines() == [f"dubito: {described}" for described in json.loads(wet.out)["notes"]]
    facts = json.loads(run("select", "pool.npz", "-b", "4", "--dry-run", "--json", "--features", "trained").out)
    assert (facts["strategy"], facts["engine"]) == ("doubt-coreset", "cpu")
    note = "auto chose doubt-coreset, strength 0.25: the features were trained on the labels (as you set)."
    assert facts["notes"] == [note]


def test_round_after_round_nothing_is_asked_twice(pool: Pool, run: Program) -> None:
    seen = list(pool.labeled)
    for _ in range(3):
        ran = run("select", "pool.npz", "-b", "4", "-o", "picks.csv", "--append")
        assert (ran.code, "picked by doubt-coverage" in ran.err) == (0, True)
        wanted = dubito.select(pool.features, 4, labeled=np.array(seen), probabilities=pool.probabilities)
        seen += wanted.indices.tolist()
    rows = [int(line.split(",")[1]) for line in Path("picks.csv").read_text().splitlines()[1:]]
    assert rows == seen[len(pool.labeled) :]


@pytest.mark.usefixtures("blank_figures")
def test_a_simulation_compares_it_unasked(pool: Pool, run: Program) -> None:
    classes = pool.probabilities.argmax(axis=1)
    np.savez("data.npz", features=pool.features, labels=classes)
    options = ("--seeds", "1", "--rounds", "1", "--initial", "8", "--budget", "2", "--json", "-q")
    described = json.loads(run("simulate", "data.npz", *options).out)
    assert [each["strategy"] for each in described["strategies"]][:2] == ["random", "auto"]
