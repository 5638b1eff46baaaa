"""``dubito demo``: a simulation on real digits, its report and pictures, and next steps that work as printed."""

import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from dubito.cli.commands.demo import STRATEGIES, digits_bytes, plan
from dubito.cli.printing.messages import program_name
from dubito.experiments.runs.run import read_rounds

from .conftest import Program

QUICK = ("demo", "--seeds", "2", "--rounds", "1")
SHOWN = ("digits.npz", "picked.png", "results.json", "report.html", "curves.png")


def test_the_demo_trains_few_models_and_every_next_step_works(run: Program, tmp_path: Path) -> None:
    ran = run(*QUICK)
    assert ran.code == 0, ran.err
    rounds = read_rounds(tmp_path / "dubito-demo")
    assert len(rounds) == 2 * 2 * len(STRATEGIES), "one model for each seed, strategy and number of labels"
    assert ran.out.endswith("  dubito-demo/report.html\n  dubito-demo/curves.png\n")
    assert "beat random" in ran.out
    assert "±" in ran.out
    steps = [shlex.split(line) for line in ran.out.splitlines() if line.startswith(f"  {program_name()} ")]
    commands = [step[step.index("dubito") + 1 if "dubito" in step else 1 :] for step in steps]
    assert [command[0] for command in commands] == ["select", "select", "diagnose", "simulate"]
    commands[3] += ["--rounds", "1", "--seeds", "1", "-s", "coreset"]
    for command in commands:
        done = run(*command)
        assert done.code == 0, done.err
    assert (tmp_path / "dubito-demo" / "picks.csv").read_text().count("\n") == 21
    assert (tmp_path / "dubito-demo" / "diagnosis.png").exists()
    assert "redundant:5" in (tmp_path / "dubito-demo" / "redundant" / "report.html").read_text()


def test_the_demo_tells_its_numbers_as_json_and_the_same_ones_again(run: Program) -> None:
    command = (*QUICK, "--json", "-q", "--strategy", "entropy")
    ran = run(*command)
    told = json.loads(ran.out)
    assert ran.err == ""
    assert told["labels"] == [20, 40]
    names = [each["strategy"] for each in told["strategies"]]
    assert names == ["random", "least-confidence", "margin", "coreset", "doubt-coreset", "auto", "entropy"]
    assert len({tuple(row[0] for row in each["accuracy"]) for each in told["strategies"]}) == 1
    for path in told["files"]:
        assert Path(path).stat().st_size > 1000
    page = Path("dubito-demo/report.html").read_bytes()
    assert json.loads(run(*command).out) == told
    assert Path("dubito-demo/report.html").read_bytes() == page
    for name in ("curves.png", "picked.png"):
        with Image.open(Path("dubito-demo", name)) as picture:
            assert picture.size[0] > 1000
            assert len(picture.convert("L").getcolors() or ()) > 20


def test_a_second_demo_with_other_settings_replaces_the_first(run: Program) -> None:
    Path("dubito-demo").mkdir()
    Path("dubito-demo/mine.txt").write_text("mine")
    earlier = replace(plan(["coreset"], seeds=1, rounds=1, folder=Path("dubito-demo")), name="earlier")
    Path("dubito-demo/experiment.toml").write_text(earlier.to_toml())
    Path("dubito-demo/journal.jsonl").write_text("something\nold\n")
    ran = run("demo", "--seeds", "1", "--rounds", "1")
    assert ran.code == 0, ran.err
    assert "±" not in ran.out
    assert "One seed cannot tell a gain from chance" in ran.out
    assert all(f"  dubito-demo/{name}\n" in ran.out for name in SHOWN)
    assert Path("dubito-demo/mine.txt").exists()
    steps = ran.out.splitlines()
    at = steps.index("  (fill in a column label first)")
    assert "-o dubito-demo/picks.csv" in steps[at - 1]
    assert "--labelled dubito-demo/picks.csv" in steps[at + 1]


def test_the_pool_has_a_column_for_each_digit_also_for_those_not_labelled_yet(run: Program) -> None:
    Path("digits.npz").write_bytes(digits_bytes())
    pool = np.load("digits.npz")
    assert (pool["probabilities"].shape, pool["head"].shape) == ((1797, 10), (10, 64))
    classes = load_digits().target
    assert (pool["labels"] == classes).all()
    unseen = np.setdiff1d(np.arange(10), classes[pool["labelled"]])
    assert not pool["probabilities"][:, unseen].any()
    assert pool["probabilities"].sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert (pool["probabilities"].argmax(axis=1) == classes)[pool["labelled"]].all()
    assert json.loads(run("diagnose", "digits.npz", "--json").out)["lambda_c_head"] > 0


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--seeds", "0"), "--seeds 0 is too small"),
        (("--rounds", "some"), "--rounds some is not a whole number"),
        (("--rounds", "99"), "pass --rounds <= 58"),
        (("--strategy", "corset"), "did you mean 'coreset'?"),
        (("--strategy", "margin"), "holds 'margin' twice"),
    ],
)
def test_a_demo_that_cannot_be_is_one_line(run: Program, option: tuple[str, str], said: str) -> None:
    ran = run("demo", *option)
    assert (ran.code, said in ran.complaint) == (2, True), ran.err
    assert os.listdir() == []
    Path("file").write_text("")
    assert "file is a file" in run(*QUICK, "-o", "file").complaint


def test_the_program_goes_by_a_name_the_shell_can_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert program_name() == "dubito"
    monkeypatch.setenv("PATH", str(tmp_path))
    words = shlex.split(program_name())
    assert words[1:] == ["-m", "dubito"]
    assert Path(words[0]).samefile(sys.executable)


def test_the_round_trip_types_what_a_user_would(run_process: Program, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "batch-1.csv").write_text("of an earlier round trip")
    ran = run_process("demo", "--round-trip", "-o", "there")
    assert ran.code == 0, ran.err
    typed = [line.split("dubito ")[-1].split()[0] for line in ran.out.splitlines() if line.startswith("$ ")]
    assert typed == ["embed", "select", "select", "status"]
    assert "100 of 1000 rows" in ran.out
    assert "covered " in ran.out
    lines = (tmp_path / "there" / "batch-2.csv").read_text().splitlines()
    answers = load_digits().target
    assert len(lines) == 51
    for line in lines[1:]:
        cells = dict(zip(lines[0].split(","), line.split(","), strict=True))
        assert int(cells["label"]) == answers[int(cells["id"][6:10])]
