"""``dubito diagnose``: advice first, numbers after, a picture where asked for."""

import json
from pathlib import Path

import numpy as np
import pytest

import dubito

from .conftest import Pool, Program


def test_a_process_prints_the_advice_first(pool: Pool, run_process: Program) -> None:
    ran = run_process("diagnose", "pool.npz")
    described = dubito.diagnose(pool.features, labeled=np.array(pool.labeled), probabilities=pool.probabilities)
    assert ran.code == 0
    assert ran.out.splitlines()[0] == described.advice
    assert all(f"- {note}" in ran.out for note in described.notes)
    assert ran.err == ""


def test_json_holds_what_the_library_tells(pool: Pool, run: Program) -> None:
    ran = run("diagnose", "pool.npz", "--json")
    described = dubito.diagnose(pool.features, labeled=np.array(pool.labeled), probabilities=pool.probabilities)
    assert json.loads(ran.out) == {"schema": 1, **described.to_dict()}


def wide_pool(n: int = 200) -> list[bool]:
    """A pool of one feature whose model is wrong on every fifth point; outcomes for all but the labeled first."""
    features = np.arange(n, dtype=np.float64).reshape(-1, 1) / n
    ids = np.array([f"p{row}" for row in range(n)])
    np.savez("wide.npz", features=features, doubt=0.4 * features[:, 0], ids=ids, labeled=np.array([0]))
    np.save("head.npy", np.array([[0.0], [1.7]]))
    return [row % 5 == 0 for row in range(1, n)]


@pytest.mark.parametrize("by", ["id", "index"])
def test_a_head_and_checked_outcomes_bring_the_whole_theory(run: Program, by: str) -> None:
    wrong = wide_pool()
    names = [f"p{row}" if by == "id" else str(row) for row in range(1, 200)]
    rows = list(zip(names, wrong, strict=True))[::-1]
    Path("checked.csv").write_text(f"{by},wrong\n" + "".join(f"{name},{int(bad)}\n" for name, bad in rows))
    ran = run("diagnose", "wide.npz", "--head", "head.npy", "--checked", "checked.csv", "--json")
    pool = np.load("wide.npz")
    described = dubito.diagnose(
        pool["features"],
        labeled=[0],
        doubt=pool["doubt"],
        head=np.load("head.npy"),
        checked=np.arange(1, 200),
        wrong=wrong,
    )
    assert json.loads(ran.out) == {"schema": 1, **described.to_dict()}
    text = run("diagnose", "wide.npz", "--head", "head.npy", "--checked", "checked.csv").out
    for name in ("δ/δ*", "δ*", "β", "checked points", "by the head"):
        assert name in text


def test_a_head_in_the_pools_own_file_is_used(run: Program) -> None:
    wide_pool()
    np.savez("own.npz", **np.load("wide.npz"), head=np.load("head.npy"))
    named = run("diagnose", "wide.npz", "--head", "head.npy", "--json").out
    assert json.loads(named)["lambda_c_head"] == pytest.approx(1.7 / 4)
    for own in (("own.npz",), ("own.npz", "--doubt", "own.npz::doubt"), ("wide.npz", "--head", "own.npz")):
        assert run("diagnose", *own, "--json").out == named


def test_a_head_of_perhaps_another_model_or_metric_is_left_alone(run: Program) -> None:
    wide_pool()
    pool = dict(np.load("wide.npz"))
    np.savez("own.npz", **pool, head=np.load("head.npy"))
    np.save("newer.npy", pool["doubt"] / 2)
    np.savez("away.npz", **{**pool, "features": pool["features"] + 1}, head=np.load("head.npy"))
    Path("shards").mkdir()
    Path("shards/0.npz").write_bytes(Path("own.npz").read_bytes())
    for arguments in (("own.npz", "--doubt", "newer.npy"), ("away.npz", "--metric", "cosine"), ("shards",)):
        ran = run("diagnose", *arguments, "--json")
        assert (ran.code, json.loads(ran.out)["lambda_c_head"]) == (0, None), ran.err


def test_a_head_that_does_not_fit_is_named_with_its_file(run: Program) -> None:
    wide_pool()
    np.savez("own.npz", **np.load("wide.npz"), head=np.zeros((2, 5)))
    assert "head (own.npz) has shape (2, 5); pass one row" in run("diagnose", "own.npz").complaint


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_is_drawn_and_not_overwritten(pool: Pool, run: Program, suffix: str) -> None:
    path = f"diagnosis.{suffix}"
    ran = run("diagnose", "pool.npz", "--plot", path)
    assert ran.code == 0
    assert ran.err == f"dubito: picture written to {path}.\n"
    assert Path(path).read_bytes()[:5] in (b"\x89PNG\r", b"<?xml")
    assert "--force" in run("diagnose", "pool.npz", "--plot", path).complaint
    assert run("diagnose", "pool.npz", "--plot", path, "--force", "-q").err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("diagnose", "pool.npz", "--plot", "picture.gif"), 2, "neither a .png nor a .svg"),
        (("diagnose", "features.npy", "--labeled", "pool.npz::labeled"), 2, "no doubt was given"),
        (("diagnose", "features.npy", "--probabilities", "probabilities.npy"), 2, "labeled"),
        (("diagnose", "pool.npz", "--metric", "manhattan"), 2, "--metric manhattan is not known"),
        (("diagnose", "pool.npz", "--head", "probabilities.npy"), 2, "head (probabilities.npy) has shape"),
        (("diagnose", "pool.npz", "--checked", "features.npy"), 2, "features.npy has no column wrong"),
        (("diagnose", "pool.npz", "--checked", "no-wrong.csv"), 2, "no-wrong.csv has no column wrong"),
        (("diagnose", "pool.npz", "--checked", "no-rows.csv"), 2, "no-rows.csv has no column that names rows"),
        (("diagnose", "pool.npz", "--checked", "maybe.csv"), 3, "maybe.csv holds 'maybe' in wrong"),
        (("diagnose", "pool.npz", "--checked", "few.csv"), 2, "too few to estimate"),
        (("diagnose", "pool.npz", "--plot", "away/picture.png"), 2, "away"),
    ],
)
def test_what_cannot_be_diagnosed_is_one_line(
    pool: Pool, run: Program, arguments: tuple[str, ...], code: int, said: str
) -> None:
    Path("no-wrong.csv").write_text("index\n1\n")
    Path("no-rows.csv").write_text("wrong\n1\n")
    Path("maybe.csv").write_text("index,wrong\n1,maybe\n")
    Path("few.csv").write_text("index,wrong\n1,true\n")
    ran = run(*arguments)
    assert (ran.code, said in ran.complaint) == (code, True), ran.err
