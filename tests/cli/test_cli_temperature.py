"""A temperature on the command line, given or fitted on the labels that files hold; and posterior samples in files."""

import csv
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import dubito
from dubito.cli import main
from dubito.doubt import fit_temperature

N = 60
RNG = np.random.default_rng(0)
FEATURES, LOGITS = RNG.standard_normal((N, 3)), RNG.standard_normal((N, 3)) * 5.0
LABELS = np.where(RNG.random(N) < 0.6, LOGITS.argmax(axis=1), RNG.integers(3, size=N))
POSTERIOR = RNG.dirichlet(np.ones(3), (N, 5))
ROWS = np.sort(RNG.permutation(N)[:25])


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("pool.npz", features=FEATURES, logits=LOGITS)
    labels = [f"{row},{LABELS[row]}" for row in ROWS[::-1].tolist()]
    Path("picks.csv").write_text("\n".join(["index,label", *labels, "59,"]) + "\n")
    Path("named.csv").write_text("index,label\n0,cat\n1,dog\n")
    Path("one.csv").write_text("index,label\n0,1\n1,1\n")
    Path("bare.csv").write_text("index\n0\n1\n")
    np.savez("posterior.npz", features=FEATURES, probabilities=POSTERIOR)
    np.save("samples.npy", POSTERIOR.astype(np.float32))
    np.save("single.npy", POSTERIOR[:, :1])
    own = np.full(N, "", dtype=object)
    own[ROWS] = LABELS[ROWS].astype(str)
    lines = [",".join([*map(repr, map(float, FEATURES[row])), own[row]]) for row in range(N)]
    Path("own.csv").write_text("\n".join(["a,b,c,label", *lines]) + "\n")
    np.save("logits.npy", LOGITS)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[int], str]:
    assert main(["select", *arguments, "--budget", "6", "--standardize", "no"]) == 0
    said = capsys.readouterr()
    return [int(pick["index"]) for pick in csv.DictReader(StringIO(said.out))], said.err


def test_a_temperature_is_fitted_on_labels_beside_rows_or_in_the_pool(capsys: pytest.CaptureFixture[str]) -> None:
    fitted = fit_temperature(LOGITS[ROWS], LABELS[ROWS]).value
    expected = dubito.select(FEATURES, 6, labeled=ROWS, logits=LOGITS, temperature=fitted).indices.tolist()
    plain = dubito.select(FEATURES, 6, labeled=ROWS, logits=LOGITS).indices.tolist()
    assert expected != plain
    picks, said = run(capsys, "pool.npz", "--labeled", "picks.csv", "--temperature", "fit")
    assert picks == expected
    assert f"temperature {fitted:.4g}, fitted on 25 labeled rows" in said
    picks, said = run(capsys, "own.csv", "--logits", "logits.npy", "--temperature", "fit")
    assert picks == expected
    assert said.count("have a label") == 1
    picks, _ = run(capsys, "pool.npz", "--labeled", "picks.csv", "--temperature", f"{fitted!r}")
    assert picks == expected
    picks, _ = run(capsys, "pool.npz", "--labeled", "picks.csv")
    assert picks == plain


def test_a_dry_run_fits_a_temperature_too(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["select", "pool.npz", "--budget", "6", "--labeled", "picks.csv", "--temperature", "fit", "--dry-run"]
    assert main(arguments) == 0
    assert "temperature" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "described"),
    [
        (
            ("pool.npz", "--temperature", "0"),
            2,
            "--temperature 0 is not allowed; pass a number from 1e-06 to 1e+06, or 'fit'.",
        ),
        (("pool.npz", "--temperature", "warm"), 2, "--temperature warm is not allowed"),
        (("pool.npz", "--temperature", "fit"), 2, "--temperature fit needs the classes of labeled rows of the pool;"),
        (
            ("pool.npz", "--temperature", "fit", "--labeled", "bare.csv"),
            2,
            "fill in a column label, in the pool or in",
        ),
        (("pool.npz", "--temperature", "fit", "--labeled", "named.csv"), 3, "labels holds 'cat'; pass class numbers"),
        (("pool.npz", "--temperature", "fit", "--labeled", "one.csv"), 3, "labels hold only one class in 2 rows"),
        (("posterior.npz", "--temperature", "fit"), 2, "--temperature fit needs logits; pass --logits instead of"),
        (("posterior.npz", "--temperature", "2"), 2, "--temperature 2 needs logits; pass --logits instead of"),
    ],
)
def test_what_cannot_be_fitted_is_reported_in_one_line(
    arguments: tuple[str, ...], code: int, described: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["select", *arguments, "--budget", "6", "--quiet"]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert described in said.err


@pytest.mark.parametrize("strategy", ["doubt-coreset:doubt=learnable", "doubt-coverage:doubt=learnable"])
def test_posterior_samples_come_from_files(strategy: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = dubito.select(FEATURES, 6, probabilities=POSTERIOR, strategy=strategy).indices.tolist()
    assert run(capsys, "posterior.npz", "--strategy", strategy)[0] == expected
    assert run(capsys, "pool.npz::features", "--probabilities", "samples.npy", "--strategy", strategy)[0] == expected
    assert main(["select", "pool.npz", "--probabilities", "single.npy", "-s", strategy, "-b", "6", "-q"]) == 2
    said = capsys.readouterr().err
    assert "needs class probabilities of k >= 2 posterior samples" in said
    assert f"or --strategy {strategy.replace('learnable', 'margin')}, which needs one model." in said
