"""The strategies by name on the command line, and errors if their input is missing."""

import csv
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from dubito.cli import main

SELECT = ("select", "pool.npy", "--budget", "4", "--quiet")


@pytest.fixture(autouse=True)
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("pool.npy", rng.standard_normal((30, 3)).astype(np.float16))
    np.save("plain.npy", rng.dirichlet(np.ones(3), 30))
    np.save("logits.npy", rng.normal(size=(30, 3)))
    np.save("posterior.npy", rng.dirichlet(np.ones(3), (30, 5)))
    np.save("turned.npy", np.full((5, 30, 3), 1 / 3))
    np.save("wide.npy", np.full((30, 1, 1, 2), 0.5))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--strategy", "badge", "--probabilities", "plain.npy"),
        ("--strategy", "badge", "--probabilities", "posterior.npy"),
        ("--strategy", "bald", "--probabilities", "posterior.npy"),
        ("--strategy", "doubt-coreset:doubt=margin", "--probabilities", "plain.npy"),
        ("--strategy", "batchbald", "--probabilities", "posterior.npy", "--seed", "3"),
        ("--strategy", "probabilistic-coreset"),
    ],
    ids=lambda arguments: " ".join(arguments[1::2]),
)
def test_a_strategy_picks_by_its_name(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SELECT, *arguments, "--dry-run"]) == 0
    assert f"strategy    {arguments[1].partition(':')[0]}" in capsys.readouterr().out
    assert main([*SELECT, *arguments]) == 0
    picks = list(csv.DictReader(StringIO(capsys.readouterr().out)))
    assert len({pick["index"] for pick in picks}) == 4
    assert all(float(pick["priority"]) >= 0 for pick in picks)


@pytest.mark.parametrize(
    ("arguments", "code", "described"),
    [
        (("-s", "badge"), 2, "--strategy badge needs class probabilities; pass --probabilities or --logits."),
        (("-s", "bald"), 2, "--strategy bald needs class probabilities of k >= 2 posterior samples"),
        (("-s", "batchbald", "--probabilities", "plain.npy"), 2, "and got shape (30, 3); pass --probabilities with"),
        (("-s", "batchbald", "--logits", "logits.npy"), 2, "and got shape (30, 3); pass --probabilities with"),
        (("-s", "bald", "--probabilities", "wide.npy"), 3, "wide.npy"),
        (
            ("-s", "bald", "--probabilities", "turned.npy"),
            2,
            "probabilities (turned.npy) has shape (5, 30, 3); pass one row of at least two classes for each of the 30 "
            "pool rows, shape (30, classes), or (30, k, classes) of k posterior samples.",
        ),
        (("-s", "bald", "--strength", "2"), 2, "--strength 2 is not supported by --strategy bald; leave it out."),
        (("-s", "batch-bald"), 2, "did you mean 'batchbald'?"),
    ],
)
def test_what_is_missing_or_of_the_wrong_shape_is_reported_in_one_line(
    arguments: tuple[str, ...], code: int, described: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SELECT, *arguments]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert described in said.err
