"""``dubito demo``: a rehearsal on real digits, its pictures, and next steps that work as printed."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from dubito.cli.demo import WRITTEN, program_name, report
from dubito.rehearsal import Curve, Plan, Rehearsal

from .conftest import Program

QUICK = ("demo", "--seeds", "2", "--rounds", "2")


def test_the_demo_takes_less_than_a_minute_and_every_next_step_works(run_process: Program, tmp_path: Path) -> None:
    started = time.perf_counter()
    ran = run_process("demo")
    assert time.perf_counter() - started < 60
    assert ran.code == 0
    assert sorted(os.listdir(tmp_path / "dubito-demo")) == sorted(WRITTEN)
    assert "doubt-coreset" in ran.out
    assert "±" in ran.out
    steps = [line.strip() for line in ran.out.splitlines() if " -m dubito " in line or line.startswith("  dubito ")]
    assert len(steps) == 3
    for step in steps:
        done = subprocess.run(step, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "dubito-demo" / "picks.csv").read_text().count("\n") == 21
    assert (tmp_path / "dubito-demo" / "diagnosis.png").exists()


def test_the_demo_tells_its_numbers_as_json(run: Program) -> None:
    ran = run(*QUICK, "--json", "-q", "--strategy", "entropy")
    told = json.loads(ran.out)
    assert ran.err == ""
    assert told["labels"] == [20, 40, 60]
    curves = {curve["strategy"]: curve for curve in told["curves"]}
    assert list(curves) == ["random", "least-confidence", "margin", "coreset", "doubt-coreset", "entropy"]
    assert np.shape(curves["entropy"]["accuracy"]) == (2, 3)
    assert len({tuple(row[0] for row in curve["accuracy"]) for curve in curves.values()}) == 1
    for path in told["files"]:
        assert Path(path).stat().st_size > 1000


def test_the_same_demo_gives_the_same_files(run: Program) -> None:
    run(*QUICK, "-o", "one")
    run(*QUICK, "-o", "two")
    for name in ("curves.png", "picked.png"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()
    one, two = np.load("one/digits.npz"), np.load("two/digits.npz")
    assert all(np.array_equal(one[name], two[name]) for name in one.files)


def test_the_pool_has_a_column_for_each_digit_also_for_those_not_labelled_yet(run: Program) -> None:
    run(*QUICK)
    pool = np.load("dubito-demo/digits.npz")
    assert (pool["probabilities"].shape, pool["head"].shape) == ((1797, 10), (10, 64))
    classes = load_digits().target
    unseen = np.setdiff1d(np.arange(10), classes[pool["labelled"]])
    assert len(unseen)
    assert not pool["probabilities"][:, unseen].any()
    assert pool["probabilities"].sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert (pool["probabilities"].argmax(axis=1) == classes)[pool["labelled"]].all()
    assert json.loads(run("diagnose", "dubito-demo/digits.npz", "--json").out)["lambda_c_head"] > 0


def test_the_pictures_are_pictures(run: Program) -> None:
    run(*QUICK)
    for name in ("curves.png", "picked.png"):
        with Image.open(Path("dubito-demo", name)) as picture:
            assert picture.size[0] > 1000
            assert len(picture.convert("L").getcolors() or ()) > 20


def test_a_second_demo_replaces_the_first_and_names_every_file(run: Program) -> None:
    assert run(*QUICK).code == 0
    Path("dubito-demo/curves.svg").unlink()
    ran = run(*QUICK)
    assert ran.code == 0
    for name in os.listdir("dubito-demo"):
        assert f"  dubito-demo/{name}\n" in ran.out
    assert sorted(os.listdir("dubito-demo")) == ["curves.png", "curves.svg", "digits.npz", "picked.png"]
    Path("file").write_text("")
    assert "file is a file" in run(*QUICK, "-o", "file").complaint


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--seeds", "0"), "--seeds 0 is too small"),
        (("--rounds", "some"), "--rounds some is not a whole number"),
        (("--rounds", "99"), "pass --rounds <= 58"),
        (("--strategy", "corset"), "did you mean 'coreset'?"),
    ],
)
def test_a_demo_that_cannot_be_is_one_line(run: Program, option: tuple[str, str], said: str) -> None:
    ran = run("demo", *option)
    assert (ran.code, said in ran.complaint) == (2, True), ran.err
    assert os.listdir() == []


def test_ctrl_c_stops_the_demo_with_130_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dubito", "demo", "--seeds", "500"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "dubito: error: interrupted.\n")
    assert os.listdir(tmp_path) == []


def test_nothing_is_claimed_where_nothing_was_gained() -> None:
    labels = np.array([20, 40])
    flat = Curve("random", labels, np.array([[0.5, 0.9], [0.5, 0.9]]))
    worse = Curve("doubt-coreset", labels, np.array([[0.5, 0.8], [0.5, 0.9]]))
    text = "\n".join(report(Rehearsal(Plan(rounds=1, seeds=2), (flat, worse), ()), "folder"))
    assert "nothing beat random here" in text
    assert "-5.0 points at 40 labels, ahead of random in 0 of 2 seeds; no labels saved" in text
    assert "At 40 labels doubt-coreset is within one standard deviation of random: no sure difference." in text


def test_less_than_a_whole_label_is_none_saved() -> None:
    labels = np.array([20, 40])
    slow = Curve("random", labels, np.array([[0.5, 0.9]]))
    close = Curve("coreset", labels, np.array([[0.5, 0.901]]))
    assert "no labels saved" in "\n".join(report(Rehearsal(Plan(rounds=1, seeds=1), (slow, close), ()), "folder"))


def test_one_seed_has_no_spread_and_the_next_steps_say_to_label(run: Program) -> None:
    ran = run("demo", "--seeds", "1", "--rounds", "1")
    assert "±" not in ran.out
    steps = ran.out.splitlines()
    at = steps.index("  (fill in a column label first)")
    assert "-o dubito-demo/picks.csv" in steps[at - 1]
    assert "--labelled dubito-demo/picks.csv" in steps[at + 1]


def test_the_program_goes_by_a_name_the_shell_can_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert program_name() == "dubito"
    monkeypatch.setenv("PATH", str(tmp_path))
    words = shlex.split(program_name())
    assert words[1:] == ["-m", "dubito"]
    assert Path(words[0]).samefile(sys.executable)
