"""``dubito run`` and ``dubito resume``: experiments out of a file, stopped and gone on with."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dubito.cli.commands.run import data_option, read_workers, warn_of_cost
from dubito.cli.output import RunProgress, pace, set_quiet
from dubito.experiments.journal import ExperimentJournal
from dubito.experiments.plan import read_experiment
from dubito.experiments.records import Round
from dubito.experiments.runner import RunStatus, read_rounds

from .conftest import Program, read_terminal

PLAN = """
schema = 1
name = "small"
seeds = 2
strategies = ["random", "coreset"]

[data]
path = "data.npz"

[schedule]
initial = 6
budget = 3
rounds = 2
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """An experiment's file, and its data beside it."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    np.savez(tmp_path / "data.npz", features=rng.normal(size=(60, 2)) + 2 * labels[:, None], labels=labels)
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def only_run(folder: Path) -> Path:
    found = list((folder / "dubito-runs").iterdir())
    assert len(found) == 1
    return found[0]


def test_a_table_s_features_are_named_before_it_runs(run: Program, tmp_path: Path) -> None:
    rows = "".join(f"{1000 + row},{row % 2 + row / 100},{row % 2}\n" for row in range(60))
    (tmp_path / "data.csv").write_text("patient,x,label\n" + rows)
    (tmp_path / "plan.toml").write_text(PLAN.replace("data.npz", "data.csv") + "\n")
    ran = run("run", "plan.toml", "--workers", "1")
    assert "2 features: patient, x\n" in ran.err
    assert "patient looks like an id: pass --id-column patient" in ran.err
    assert run("run", "plan.toml", "--workers", "1", "-q").err == ""


def test_a_run_prints_its_results_and_what_to_do_next(run: Program, plan: Path, tmp_path: Path) -> None:
    ran = run("run", "plan.toml", "--workers", "1")
    assert ran.code == 0
    folder = only_run(tmp_path)
    assert folder.name.startswith("small-")
    assert "test accuracy, %" in ran.out
    assert "coreset" in ran.out
    assert " ± " in ran.out
    assert f"report dubito-runs/{folder.name}" in ran.out
    assert "small: 2 strategies x 2 seeds x 3 trainings" in ran.err
    assert "trained 12 models" in ran.err
    assert len(read_rounds(folder)) == 12


def test_a_run_again_has_nothing_to_do(run: Program, plan: Path) -> None:
    first = run("run", "plan.toml", "--workers", "1", "--quiet")
    again = run("run", "plan.toml", "--workers", "1")
    assert again.out == first.out
    assert "everything was done already" in again.err
    assert run("resume").complaint == (
        "every run in dubito-runs is finished: there is nothing to resume; start one with dubito run FILE.toml."
    )


def test_json_holds_the_curves_and_stderr_nothing_where_quiet(run: Program, plan: Path, tmp_path: Path) -> None:
    ran = run("run", "plan.toml", "--workers", "1", "--json", "--quiet", "--runs-dir", "elsewhere")
    assert ran.err == ""
    described = json.loads(ran.out)
    assert described["labels"] == [6, 9, 12]
    assert [each["strategy"] for each in described["strategies"]] == ["random", "coreset"]
    assert os.path.isfile(tmp_path / described["folder"] / "journal.jsonl")
    assert described["folder"].startswith("elsewhere/small-")


def test_one_seed_has_no_deviation(run: Program, plan: Path) -> None:
    plan.write_text(PLAN.replace("seeds = 2", "seeds = [4]"))
    assert " ± " not in run("run", "plan.toml", "--workers", "1").out


def test_resume_takes_the_last_run_that_is_not_done(run: Program, plan: Path, tmp_path: Path) -> None:
    whole = run("run", "plan.toml", "--workers", "1", "--json", "--quiet")
    journal = only_run(tmp_path) / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:6]) + lines[6][:20])
    ran = run("resume", "--workers", "1", "--json")
    assert ran.out == whole.out
    assert "trained 7 models" in ran.err
    assert run("resume", str(only_run(tmp_path))).code == 0


CTRL_C = """
import signal
from sklearn.naive_bayes import GaussianNB

class Stopped(GaussianNB):
    fits = 0

    def fit(self, X, y):
        Stopped.fits += 1
        if Stopped.fits > 4:
            signal.raise_signal(signal.SIGINT)
        return super().fit(X, y)
"""


def test_ctrl_c_in_this_process_says_how_to_go_on(
    run: Program, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stopping_models.py").write_text(CTRL_C)
    monkeypatch.delitem(sys.modules, "stopping_models", raising=False)
    plan.write_text(PLAN + '\n[model]\nkind = "sklearn"\nestimator = "stopping_models.Stopped"\n')
    ran = run("run", "plan.toml", "--workers", "1", "-q")
    assert ran.code == 130, ran.err
    kept = len(read_rounds(only_run(tmp_path)))
    assert 0 < kept < 12
    assert f"interrupted; {kept} trainings are kept. Continue with: " in ran.complaint
    assert ran.complaint.endswith(f"resume dubito-runs/{only_run(tmp_path).name}")


def test_the_folder_of_published_data_is_repeated_where_it_is_needed(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = read_experiment(str(plan))
    plan.write_text(PLAN.replace('path = "data.npz"', 'images = "cifar10"'))
    published = read_experiment(str(plan))
    monkeypatch.delenv("DUBITO_DATA", raising=False)
    assert data_option(published) == ""
    monkeypatch.setenv("DUBITO_DATA", "my data")
    assert (data_option(plain), data_option(published)) == ("", " --data-dir 'my data'")


@pytest.mark.parametrize(
    ("old", "new", "words", "code"),
    [
        (
            "budget = 3",
            "buget = 3",
            "[schedule]: it has the key 'buget', which is not known; did you mean 'budget'?",
            3,
        ),
        ("rounds = 2", "rounds = 99", "need 303 labels, and the training part has 48 rows; set rounds <= 14.", 3),
        (
            "initial = 6",
            "initial = 600",
            "initial = 600 exceeds the 48 rows of the training part; set initial <= 48.",
            3,
        ),
        ("data.npz", "none.npz", "none.npz does not exist; check the path.", 2),
        ("budget = 3", "budget 3", "is not valid TOML", 3),
        ("seeds = 2", "seeds = 1.5", "seeds = 1.5 is not a whole number", 3),
    ],
)
def test_what_is_wrong_with_the_file_is_one_line(
    run: Program, plan: Path, tmp_path: Path, old: str, new: str, words: str, code: int
) -> None:
    plan.write_text(PLAN.replace(old, new))
    ran = run("run", "plan.toml", "--workers", "1", "--quiet")
    assert ran.code == code
    assert ran.complaint.startswith("plan.toml: ") or "plan.toml is not valid TOML" in ran.complaint
    assert words in ran.complaint
    assert not (tmp_path / "dubito-runs").exists()


def test_bad_commands_are_one_line(run: Program, plan: Path) -> None:
    assert "none.toml does not exist" in run("run", "none.toml").complaint
    assert run("run", "plan.toml", "--workers", "0").complaint == "--workers 0 is too small; pass --workers >= 1."
    assert "dubito-runs holds no run" in run("resume").complaint
    assert "nowhere has no experiment.toml" in run("resume", "nowhere").complaint


def test_without_a_number_there_is_a_worker_a_core(plan: Path) -> None:
    assert read_workers(None, read_experiment(str(plan))) == min(os.cpu_count() or 1, 8)
    assert read_workers("3", read_experiment(str(plan))) == 3


WITHOUT_TORCH = """
import sys


class Blind:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name == "torch" else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)


# None in sys.modules would make scipy stumble, which looks for tensors there.
sys.meta_path[:] = [Blind(finder) for finder in sys.meta_path]

from dubito.cli import main

sys.exit(main(["run", "plan.toml", "--json"]))
"""
"""The program where torch cannot be found."""


@pytest.mark.slow
def test_a_model_without_a_device_needs_no_torch(plan: Path, tmp_path: Path) -> None:
    linear = PLAN + '\n[model]\nkind = "linear"\n'
    # One cell, so that everything happens in the process that has no torch.
    linear = linear.replace('["random", "coreset"]', '["random"]').replace("seeds = 2", "seeds = 1")
    plan.write_text(linear)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["labels"] == [6, 9, 12]


VGG16 = """
[model]
kind = "vgg16"
device = "cpu"
weights = "none"
epochs = {epochs}
"""


@pytest.mark.parametrize(("epochs", "time"), [(1, "2 minutes"), (2000, "3 hours")])
def test_the_cost_of_networks_on_a_cpu_is_reported_in_minutes_or_hours(
    plan: Path, capsys: pytest.CaptureFixture[str], epochs: int, time: str
) -> None:
    plan.write_text(PLAN.replace("initial = 6", "initial = 48") + VGG16.format(epochs=epochs))
    warn_of_cost(read_experiment(str(plan)), plan.parent / "new")
    (line,) = capsys.readouterr().err.splitlines()
    assert f"device = 'cpu': training small takes about {time} on one core, plus the predictions for pool and" in line


def test_the_cost_of_a_resumed_run_is_that_of_the_trainings_left(
    plan: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan.write_text(PLAN.replace("initial = 6", "initial = 48") + VGG16.format(epochs=2000))
    experiment = read_experiment(str(plan))
    (tmp_path / "experiment.toml").write_text(experiment.to_toml())
    journal = ExperimentJournal(tmp_path, experiment)
    turns = ((0, 48, (0, 1, 2)), (1, 51, (3, 4, 5)), (2, 54, ()))
    rounds = [
        Round(arm.name, seed, turn, labels, 0.5, 0.5, (0.5, 0.5), 1.0, None, None, None, picked, 1.0, 1.0)
        for arm in experiment.strategies
        for seed in experiment.seeds
        for turn, labels, picked in turns
    ]
    for each in rounds[:9]:
        journal.write_round(each)
    warn_of_cost(experiment, tmp_path)
    (line,) = capsys.readouterr().err.splitlines()
    assert "device = 'cpu': training the rest of small takes about 45 minutes on one core" in line
    for each in rounds[9:]:
        journal.write_round(each)
    warn_of_cost(experiment, tmp_path)
    assert capsys.readouterr().err == ""


def standing(done: int, seconds: float, resumed: int = 0) -> RunStatus:
    return RunStatus(done, 40, resumed, seconds, {"random": done // 2, "coreset": done - done // 2})


def test_the_board_tells_pace_and_time_left() -> None:
    assert pace(standing(20, 10.0)) == "2/s, 0:10 left"
    assert pace(standing(20, 10.0, resumed=10)) == "1/s, 0:20 left"
    assert pace(standing(20, 10.0, resumed=20)) == ""


def test_the_board_is_drawn_on_a_terminal_only(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunProgress() as board:
        board(standing(10, 5.0))
    assert capfd.readouterr().err == ""
    for name, value in {"TERM": "xterm", "COLUMNS": "100", "LINES": "20"}.items():
        monkeypatch.setenv(name, value)
    near, far = pty.openpty()
    with os.fdopen(far, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with RunProgress() as board:
            board(standing(0, 0.4))
            assert board.drawn is None, "half a second passes first"
            board(standing(10, 5.0))
            board(standing(20, 10.0))
        set_quiet(True)
        with RunProgress() as board:
            board(standing(10, 5.0))
            assert board.drawn is None
        set_quiet(False)
    shown = read_terminal(near)
    os.close(near)
    for word in ("random", "coreset", "trainings in all", "20/40", "0:10 left"):
        assert word in shown
