"""``dubito demo``: a simulation on real digits, its report and pictures, and next steps that work as printed."""

import json
import os
import shlex
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_digits

from dubito.cli import main
from dubito.cli.commands.demo import digits_bytes, plan
from dubito.cli.output import program_name
from dubito.experiments import Arm, Data, Experiment
from dubito.experiments.runner import read_folder, read_rounds

from .conftest import Program

QUICK = ("demo", "--seeds", "2", "--rounds", "1")
SHOWN = ("digits.npz", "picked.png", "results.json", "report.html", "curves.png")


@dataclass(frozen=True)
class Played:
    """What a demo said, first as JSON and then, of the same run again, in words; and what it wrote each time."""

    folder: Path
    described: dict[str, Any]
    words: str
    written: tuple[dict[str, bytes], dict[str, bytes]]


def output_of(*arguments: str) -> str:
    """What a command that succeeds and has nothing to complain of prints."""
    with redirect_stdout(TextIOWrapper(BytesIO(), "utf-8")) as out, redirect_stderr(StringIO()) as err:
        assert main(arguments) == 0, err.getvalue()
        out.flush()
    assert err.getvalue() == ""
    assert isinstance(out.buffer, BytesIO)
    return out.buffer.getvalue().decode()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """A demo where an earlier one has been, played twice."""
    place = tmp_path_factory.mktemp("demo")
    folder = place / "dubito-demo"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    command = (*QUICK, "-q", "--strategy", "entropy")
    written = []
    with chdir(place):
        earlier = plan(["coreset"], seeds=1, rounds=2, folder=Path("dubito-demo"))
        (folder / "experiment.toml").write_text(earlier.to_toml())
        (folder / "journal.jsonl").write_text("something\nold\n")
        described = json.loads(output_of(*command, "--json"))
        written.append({name: (folder / name).read_bytes() for name in (*SHOWN, "journal.jsonl")})
        words = output_of(*command)
        written.append({name: (folder / name).read_bytes() for name in (*SHOWN, "journal.jsonl")})
    return Played(folder, described, words, (written[0], written[1]))


@pytest.mark.slow
def test_the_demo_trains_few_models_and_tells_its_numbers_as_json(played: Played) -> None:
    assert len(read_rounds(played.folder)) == 2 * 2 * 7, "one model for each seed, strategy and number of labels"
    assert played.described["labels"] == [20, 40]
    names = [each["strategy"] for each in played.described["strategies"]]
    assert names == ["random", "least-confidence", "margin", "coreset", "doubt-coreset", "auto", "entropy"]
    assert len({tuple(row[0] for row in each["accuracy"]) for each in played.described["strategies"]}) == 1
    for path in played.described["files"]:
        assert (played.folder.parent / path).stat().st_size > 1000


@pytest.mark.slow
def test_the_same_demo_again_trains_nothing_and_writes_the_same(played: Played) -> None:
    first, again = played.written
    assert again == first
    for name in ("curves.png", "picked.png"):
        with Image.open(BytesIO(first[name])) as picture:
            assert picture.size[0] > 1000
            assert len(picture.convert("L").getcolors() or ()) > 20


@pytest.mark.slow
def test_a_demo_with_other_settings_replaces_an_earlier_one_and_leaves_foreign_files_alone(played: Played) -> None:
    assert (played.folder / "mine.txt").read_text() == "mine"
    assert read_folder(played.folder).seeds == (0, 1)
    assert b"old\n" not in played.written[0]["journal.jsonl"]


@pytest.mark.parametrize("data", [Data(builtin="digits"), Data(path="/data/digits.npz", test_share=0.5)])
def test_a_demo_leaves_the_folder_of_another_run_alone(run: Program, data: Data) -> None:
    Path("mine").mkdir()
    files = {name: f"my {name}" for name in ("journal.jsonl", "data.npz", "report.html")}
    files["experiment.toml"] = Experiment("digits", (Arm("random"),), data).to_toml()
    for name, text in files.items():
        Path("mine", name).write_text(text)
    ran = run(*QUICK, "-o", "mine")
    assert ran.code == 2
    assert "mine holds the run digits-" in ran.complaint
    assert "pass -o with another folder" in ran.complaint
    assert {path.name: path.read_text() for path in Path("mine").iterdir()} == files


@pytest.mark.slow
def test_the_demo_says_what_it_found_and_every_next_step_works(
    played: Played, run: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "beat random" in played.words
    assert "±" in played.words
    assert all(f"  dubito-demo/{name}\n" in played.words for name in SHOWN)
    assert played.words.endswith("  dubito-demo/report.html\n  dubito-demo/curves.png\n")
    lines = played.words.splitlines()
    at = lines.index("  (first add a column named 'label' to that file, and fill it in)")
    assert "-o dubito-demo/picks.csv" in lines[at - 1]
    assert "--labeled dubito-demo/picks.csv" in lines[at + 1]
    steps = [shlex.split(line) for line in lines if line.startswith(f"  {program_name()} ")]
    commands = [step[step.index("dubito") + 1 if "dubito" in step else 1 :] for step in steps]
    assert [command[0] for command in commands] == ["select", "select", "diagnose", "simulate"]
    commands[3] += ["--rounds", "1", "--seeds", "1", "-s", "margin"]
    monkeypatch.chdir(played.folder.parent)
    for command in commands[:3]:
        done = run(*command)
        assert done.code == 0, done.err
    monkeypatch.setattr(Figure, "draw", lambda figure, renderer: None)
    done = run(*commands[3])
    assert done.code == 0, done.err
    assert "±" not in done.out
    assert "One seed cannot tell a gain from chance" in done.out
    assert (played.folder / "picks.csv").read_text().count("\n") == 21
    assert (played.folder / "diagnosis.png").exists()
    assert "redundant:5" in (played.folder / "redundant" / "report.html").read_text()


def test_the_pool_has_a_column_for_each_digit_also_for_those_not_labeled_yet(run: Program) -> None:
    Path("digits.npz").write_bytes(digits_bytes())
    pool = np.load("digits.npz")
    assert (pool["probabilities"].shape, pool["head"].shape) == ((1797, 10), (10, 64))
    classes = load_digits().target
    assert (pool["labels"] == classes).all()
    unseen = np.setdiff1d(np.arange(10), classes[pool["labeled"]])
    assert not pool["probabilities"][:, unseen].any()
    assert pool["probabilities"].sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert (pool["probabilities"].argmax(axis=1) == classes)[pool["labeled"]].all()
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


@pytest.mark.parametrize("own_process", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_round_trip_types_what_a_user_would(
    own_process: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fewer digits than the demo has; what it types is run here where it need not be a process of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dubito.cli.commands.demo.N_PICTURES", 200)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # Threads of several processes wait for each other.
        monkeypatch.setenv(name, "1")
    if not own_process:

        def run_here(words: list[str], check: bool) -> subprocess.CompletedProcess[str]:
            assert words[:3] == [sys.executable, "-m", "dubito"]
            return subprocess.CompletedProcess(words, main(words[3:]))

        monkeypatch.setattr(subprocess, "run", run_here)
    (tmp_path / "there" / "pictures").mkdir(parents=True)
    (tmp_path / "there" / "batch-1.csv").write_text("of an earlier round trip")
    code = main(["demo", "--round-trip", "-o", "there"])
    ran = capfd.readouterr()
    assert code == 0, ran.err
    typed = [line.split("dubito ")[-1].split()[0] for line in ran.out.splitlines() if line.startswith("$ ")]
    assert typed == ["embed", "select", "select", "status"]
    assert "100 of 200 rows" in ran.out
    assert "covered " in ran.out
    lines = (tmp_path / "there" / "batch-2.csv").read_text().splitlines()
    answers = load_digits().target
    assert len(lines) == 51
    for line in lines[1:]:
        cells = dict(zip(lines[0].split(","), line.split(","), strict=True))
        assert int(cells["label"]) == answers[int(cells["id"][6:10])]


def test_a_round_trip_ends_where_a_command_fails(run: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dubito.cli.commands.demo.N_PICTURES", 4)
    monkeypatch.setattr(subprocess, "run", lambda words, check: subprocess.CompletedProcess(words, 1))
    ran = run("demo", "--round-trip", "-o", "there")
    assert ran.code == 1
    assert ran.err == "dubito: error: dubito embed failed; see its error above.\n"


@pytest.mark.parametrize("name", ["pictures/holiday.png", "pool.parquet", "batch-1.csv"])
def test_a_round_trip_leaves_the_files_of_others_alone(run: Program, name: str) -> None:
    path = Path("there", name)
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    ran = run("demo", "--round-trip", "-o", "there")
    assert ran.code == 2
    assert path.name in ran.complaint
    assert [each.read_text() for each in Path("there").rglob("*.*")] == ["mine"]
