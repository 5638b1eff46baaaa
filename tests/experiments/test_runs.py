"""Whole experiments: killed, torn, shared between processes, and always the same results."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dubito.errors import DubitoError, InvalidArgument, InvalidData, MissingFile
from dubito.experiments.data import Dataset, make_dataset
from dubito.experiments.data_sources import DATA
from dubito.experiments.journal import (
    CHECKPOINTS,
    NAME,
    ExperimentJournal,
    Journal,
    Run,
    claim,
    encode_line,
    version_of,
)
from dubito.experiments.models.linear import Sklearn
from dubito.experiments.plan import Arm, Data, Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.runner import (
    EXPERIMENT,
    RunStatus,
    dataset_for,
    is_finished,
    read_folder,
    read_headers,
    read_rounds,
    remove_new_folder_on_error,
    resume_experiment,
    run_experiment,
    run_workers,
    start_workers,
)

KILLS = int(os.environ.get("DUBITO_KILLS", "2"))
"""How many times the killed process is killed; 30 by hand."""
PATIENCE = 600.0
"""Seconds that a test waits for a process, on a machine that may be busy with other work."""
Wait = Callable[[Callable[[], bool]], None]
ARMS = Arm("random"), Arm("doubt-coreset", {"strength": 0.5})
SCHEDULE = Schedule(initial=9, budget=4, rounds=3)
CENTROIDS = """
import numpy as np


class Centroids:
    '''As sure of a class as its mean is near.'''

    def fit(self, features, labels):
        self.classes_ = np.unique(labels)
        self.means = np.array([features[labels == each].mean(axis=0) for each in self.classes_])
        return self

    def predict_proba(self, features):
        nearness = np.exp(-((features[:, None] - self.means) ** 2).sum(axis=2))
        return nearness / nearness.sum(axis=1, keepdims=True)

"""
"""A model that costs a new process nothing to import."""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Experiment]:
    folder = tmp_path_factory.mktemp("models")
    (folder / "centroids.py").write_text(CENTROIDS)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        patched.setenv("PYTHONPATH", str(folder))
        yield Experiment("plan", ARMS, schedule=SCHEDULE, model=Sklearn("centroids.Centroids"), seeds=(0, 1))


@pytest.fixture(scope="module")
def data() -> Dataset:
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 3
    centers = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    return make_dataset("three", centers[labels] + rng.normal(size=(120, 2)), labels)


def without_times(rounds: list[Round]) -> list[Round]:
    return [replace(each, train_seconds=0.0, select_seconds=0.0) for each in rounds]


@pytest.fixture(scope="module")
def undisturbed(plan: Experiment, data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed") / "whole"
    run_experiment(plan, folder, dataset=data)
    return folder


@pytest.fixture
def whole(undisturbed: Path, tmp_path: Path) -> list[Round]:
    """The rounds of that run, and a copy of its folder to disturb."""
    shutil.copytree(undisturbed, tmp_path / "whole")
    return without_times(read_rounds(tmp_path / "whole"))


def test_a_run_leaves_all_its_rounds_and_who_made_them(plan: Experiment, whole: list[Round], tmp_path: Path) -> None:
    folder = tmp_path / "whole"
    assert [(each.seed, each.strategy, each.turn) for each in whole] == [
        (seed, arm.name, turn) for seed in plan.seeds for arm in plan.strategies for turn in range(4)
    ]
    assert without_times(read_rounds(folder)) == whole
    assert read_folder(folder) == plan
    assert is_finished(folder)
    header = read_headers(folder)[0]
    assert header["experiment"] == plan.hash8
    assert header["blas_threads"] == 1
    assert list((folder / "checkpoints").iterdir()) == []


def test_a_journal_cut_at_any_line_is_filled_up_to_the_same_rounds(
    whole: list[Round], data: Dataset, tmp_path: Path
) -> None:
    folder = tmp_path / "whole"
    content = (folder / NAME).read_bytes()
    ends = [place + 1 for place, byte in enumerate(content) if byte == ord("\n")]
    for end in [0, ends[0], ends[0] + 40, ends[3] + 7, ends[6], ends[-2] + 1]:
        (folder / NAME).write_bytes(content[:end])
        assert without_times(resume_experiment(folder)) == whole


def test_a_line_taken_out_of_the_middle_is_done_again(whole: list[Round], tmp_path: Path) -> None:
    folder = tmp_path / "whole"
    lines = (folder / NAME).read_bytes().splitlines(keepends=True)
    (folder / NAME).write_bytes(b"".join(lines[:3] + lines[4:]))
    assert not is_finished(folder)
    assert len(read_rounds(folder)) == len(whole) - 2
    assert without_times(resume_experiment(folder)) == whole


def test_a_finished_run_is_only_read(whole: list[Round], tmp_path: Path) -> None:
    folder = tmp_path / "whole"
    (folder / DATA).unlink()
    before = (folder / NAME).read_bytes()
    assert without_times(resume_experiment(folder)) == whole
    assert (folder / NAME).read_bytes() == before


def test_workers_find_the_same_rounds_and_share_the_cells(
    plan: Experiment, whole: list[Round], data: Dataset, tmp_path: Path
) -> None:
    seen: list[RunStatus] = []
    folder = tmp_path / "shared"
    assert without_times(run_experiment(plan, folder, dataset=data, workers=2, progress=seen.append)) == whole
    records = [record for record in Journal(folder / NAME).read() if record["kind"] == "round"]
    assert len(records) == len(whole), "a round was done twice"
    assert (seen[-1].done, seen[-1].total, seen[-1].resumed) == (16, 16, 0)
    assert seen[-1].by_strategy == {"random": 8, "doubt-coreset:strength=0.5": 8}


def start(folder: Path) -> subprocess.Popen[bytes]:
    """A process that works on a run."""
    command = "from dubito.experiments.runner import *; import sys; resume_experiment(Path(sys.argv[1]))"
    return subprocess.Popen([sys.executable, "-c", command, str(folder)])


def fresh_copy(folder: Path, target: Path) -> Path:
    """A run of the same experiment that is not begun."""
    shutil.copytree(folder, target)
    (target / NAME).unlink()
    return target


def lines_in(folder: Path) -> int:
    path = folder / NAME
    return path.read_bytes().count(b"\n") if path.exists() else 0


def is_over_or_at(goal: int, process: subprocess.Popen[bytes], folder: Path) -> bool:
    return process.poll() is not None or lines_in(folder) >= goal


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_with_the_same_rounds(
    data: Dataset, tmp_path: Path, wait_until: Wait
) -> None:
    warm = Experiment("warm", ARMS, schedule=Schedule(9, 4, 9), seeds=tuple(range(KILLS)))
    whole = without_times(run_experiment(warm, tmp_path / "whole", dataset=data))
    folder = fresh_copy(tmp_path / "whole", tmp_path / "killed")
    chance = random.Random(KILLS)
    killed = 0
    for _ in range(20 * KILLS):
        if killed == KILLS:
            break
        if is_finished(folder):
            (folder / NAME).unlink()
        process = start(folder)
        goal = lines_in(folder) + chance.randint(1, 9)
        wait_until(partial(is_over_or_at, goal, process, folder))
        time.sleep(chance.random() * 0.01)
        process.kill()
        killed += process.wait(PATIENCE) == -signal.SIGKILL
    assert killed == KILLS, "the run was over too soon, again and again"
    assert without_times(resume_experiment(folder)) == whole


def test_two_runs_at_once_never_do_a_cell_twice(whole: list[Round], tmp_path: Path) -> None:
    folder = fresh_copy(tmp_path / "whole", tmp_path / "twice")
    processes = [start(folder), start(folder)]
    assert [process.wait(PATIENCE) for process in processes] == [0, 0]
    assert without_times(read_rounds(folder)) == whole
    records = [record for record in Journal(folder / NAME).read() if record["kind"] == "round"]
    assert len(records) == len(whole), "a round was done twice"


def test_workers_end_with_the_process_that_started_them(
    plan: Experiment, whole: list[Round], tmp_path: Path, wait_until: Wait
) -> None:
    folder = fresh_copy(tmp_path / "whole", tmp_path / "orphans")
    command = "import sys; from dubito.experiments.runner import *; run_workers(Path(sys.argv[1]), 1, print)"
    parent = subprocess.Popen([sys.executable, "-c", command, str(folder)])
    wait_until(lambda: (folder / NAME).exists() or parent.poll() is not None)
    parent.kill()
    parent.wait(PATIENCE)

    def is_free() -> bool:
        with claim(Run(plan.strategies[0], 0), folder) as ours:
            return ours

    wait_until(is_free)
    assert without_times(resume_experiment(folder)) == whole


def test_a_cell_held_by_another_is_waited_for_and_taken_over(
    plan: Experiment, whole: list[Round], tmp_path: Path, wait_until: Wait
) -> None:
    folder = fresh_copy(tmp_path / "whole", tmp_path / "held")
    with claim(Run(plan.strategies[0], 0), folder) as ours:
        assert ours
        with claim(Run(plan.strategies[0], 0), folder) as theirs:
            assert not theirs
        process = start(folder)
        wait_until(lambda: len(read_rounds(folder)) >= 12 or process.poll() is not None)
        assert process.poll() is None
        assert {(each.strategy, each.seed) for each in read_rounds(folder)} == {
            (each.strategy, each.seed) for each in whole
        } - {("random", 0)}
    assert process.wait(PATIENCE) == 0
    assert without_times(read_rounds(folder)) == whole


def test_a_lock_that_was_removed_is_no_claim(tmp_path: Path) -> None:
    run = Run(Arm("random"), 0)
    with claim(run, tmp_path) as ours:
        assert ours
        lock = next((tmp_path / "checkpoints").iterdir())
        lock.unlink()
        with claim(run, tmp_path) as again:
            assert again, "the file of the folder is another one now"


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert version_of("numpy") == np.__version__
    assert version_of("no-such-package") is None


def test_a_folder_holds_one_experiment(plan: Experiment, whole: list[Round], data: Dataset, tmp_path: Path) -> None:
    other = replace(plan, seeds=(7,))
    with pytest.raises(InvalidArgument, match=f"holds the experiment {plan.folder_name} and this is"):
        run_experiment(other, tmp_path / "whole", dataset=data)
    (tmp_path / "whole" / EXPERIMENT).write_text(other.to_toml())
    with pytest.raises(InvalidData, match="belongs to experiment"):
        resume_experiment(tmp_path / "whole")


def test_data_that_changed_since_is_refused(
    plan: Experiment, whole: list[Round], data: Dataset, tmp_path: Path
) -> None:
    folder = tmp_path / "whole"
    lines = (folder / NAME).read_bytes().splitlines(keepends=True)
    (folder / NAME).write_bytes(b"".join(lines[:5]))
    with pytest.raises(InvalidData, match="the data has changed since"):
        run_experiment(plan, folder, dataset=replace(data, features=data.features + 1))
    assert without_times(resume_experiment(folder)) == whole


def test_a_journal_of_another_version_is_refused(whole: list[Round], tmp_path: Path) -> None:
    path = tmp_path / "whole" / NAME
    path.write_bytes(encode_line({**Journal(path).read()[0], "schema": 2}))
    with pytest.raises(InvalidData, match="has schema 2 and this version of dubito reads 1"):
        read_rounds(tmp_path / "whole")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"has no experiment\.toml"):
        read_rounds(tmp_path)


def test_what_cannot_be_done_is_refused_before_anything_is_written(
    plan: Experiment, data: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match="has no data"):
        run_experiment(plan, tmp_path / "new")
    with pytest.raises(InvalidArgument, match="pass rounds <= 21"):
        run_experiment(replace(plan, schedule=Schedule(9, 4, 99)), tmp_path / "new", dataset=data)
    with pytest.raises(InvalidArgument, match="workers=0 is too small"):
        run_experiment(plan, tmp_path / "new", dataset=data, workers=0)
    assert not (tmp_path / "new").exists()


def test_what_goes_wrong_in_a_worker_is_raised_here_as_what_it_is(
    plan: Experiment, data: Dataset, tmp_path: Path
) -> None:
    plan = replace(plan, strategies=(Arm("optimal-coreset", {"max_pool": 5}),))
    messages = []
    for workers in (1, 2):
        with pytest.raises(DubitoError, match="strategy 'optimal-coreset:max_pool=5', seed") as caught:
            run_experiment(plan, tmp_path / f"{workers}", dataset=data, workers=workers)
        messages.append((type(caught.value), str(caught.value).replace("seed 1", "seed 0")))
        assert not (tmp_path / f"{workers}").exists(), "there is nothing in it to resume"
    assert messages[0] == messages[1]


def test_a_refused_run_leaves_what_it_did_not_make_alone(plan: Experiment, data: Dataset, tmp_path: Path) -> None:
    refused = replace(plan, strategies=(Arm("optimal-coreset", {"max_pool": 5}),))
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "notes.md").touch()
    with pytest.raises(DubitoError, match="optimal-coreset"):
        run_experiment(refused, tmp_path / "there", dataset=data)
    assert read_rounds(tmp_path / "there") == []
    assert (tmp_path / "there" / "notes.md").exists()
    later = replace(plan, strategies=(ARMS[0], Arm("optimal-coreset", {"max_pool": 5})))
    with pytest.raises(DubitoError, match="optimal-coreset"):
        run_experiment(later, tmp_path / "begun", dataset=data)
    assert len(read_rounds(tmp_path / "begun")) == 4, "what was trained before the refusal is kept"


@pytest.mark.parametrize("left", ["another's header", "trained weights"])
def test_a_refused_run_leaves_a_folder_that_holds_more_than_its_own_header(tmp_path: Path, left: str) -> None:
    folder = tmp_path / "run"

    def refused() -> None:
        with remove_new_folder_on_error(folder, ExperimentJournal(folder)):
            (folder / CHECKPOINTS).mkdir(parents=True)
            for _ in range(2 if left == "another's header" else 1):
                Journal(folder / NAME).append({"kind": "header", "schema": 1})
            if left == "trained weights":
                (folder / CHECKPOINTS / "random-0.0.npz").write_bytes(b"weights")
            raise InvalidArgument("refused")

    with pytest.raises(InvalidArgument):
        refused()
    assert folder.exists()


def test_a_worker_that_is_killed_or_breaks_is_said_to(whole: list[Round], tmp_path: Path) -> None:
    folder = fresh_copy(tmp_path / "whole", tmp_path / "broken")
    with start_workers(folder, 1) as workers:
        workers[0].process.send_signal(signal.SIGKILL)
        workers[0].process.wait(PATIENCE)
        assert "a worker was ended by SIGKILL, as happens when memory runs out" in str(workers[0].error())
    (folder / NAME).mkdir()
    with pytest.raises(DubitoError, match=r"a worker failed: .*finished rounds are kept: resume with workers=1"):
        run_workers(folder, 1, lambda: None)


def test_the_error_of_a_worker_comes_back_with_its_fields(whole: list[Round], tmp_path: Path) -> None:
    folder = fresh_copy(tmp_path / "whole", tmp_path / "wrong")
    text = (folder / EXPERIMENT).read_text()
    (folder / EXPERIMENT).write_text(text.replace("rounds = 3", "rounds = 0"))
    with pytest.raises(InvalidData, match=r"\[schedule\]: rounds = 0 is too small; set rounds >= 1\.") as caught:
        run_workers(folder, 1, lambda: None)
    assert (caught.value.argument, caught.value.value, caught.value.hint) == ("rounds", 0, "set rounds >= 1.")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no archive": lambda path: path.write_bytes(b"no data"),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "other arrays": lambda path: np.savez(path, features=np.zeros((3, 2))),
    "codes of no class": lambda path: resaved(path, labels=np.full(120, 9)),
    "labels of another length": lambda path: resaved(path, labels=np.zeros(5, dtype=np.int64)),
    "labels that are text": lambda path: resaved(path, labels=np.array(["a"] * 120)),
    "flat features": lambda path: resaved(path, features=np.zeros(120)),
    "features that are text": lambda path: resaved(path, features=np.full((120, 2), "a")),
    "classes in a table": lambda path: resaved(path, classes=np.array([["a", "b", "c"]])),
}


def resaved(path: Path, **changes: Any) -> None:
    """The data as the first versions kept it, without a checksum, and with some arrays changed."""
    with np.load(path) as archive:
        arrays: dict[str, Any] = {name: archive[name] for name in archive if name != "checksum"}
    np.savez(path, **{**arrays, **changes})


@pytest.mark.parametrize("damage", DAMAGE)
def test_data_of_a_run_that_was_damaged_is_refused_by_name(damage: str, whole: list[Round], tmp_path: Path) -> None:
    folder = fresh_copy(tmp_path / "whole", tmp_path / "damaged")
    DAMAGE[damage](folder / DATA)
    with pytest.raises(InvalidData, match=r"data\.npz (cannot be read as \.npz|is damaged)"):
        resume_experiment(folder)


def test_what_a_kill_left_half_written_goes_with_the_next_run(whole: list[Round], tmp_path: Path) -> None:
    folder = fresh_copy(tmp_path / "whole", tmp_path / "left")
    for name in (f".{DATA}.0123abcd.tmp", f".{EXPERIMENT}.0123abcd.tmp"):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (0, 0))
    assert without_times(resume_experiment(folder)) == whole
    assert sorted(os.listdir(folder)) == [CHECKPOINTS, DATA, EXPERIMENT, NAME]


def test_data_that_was_kept_without_a_checksum_is_read(whole: list[Round], tmp_path: Path) -> None:
    folder = fresh_copy(tmp_path / "whole", tmp_path / "old")
    resaved(folder / DATA)
    assert without_times(resume_experiment(folder)) == whole


def test_the_data_of_a_seed_is_what_picks_refer_to(plan: Experiment, whole: list[Round], data: Dataset) -> None:
    seen = dataset_for(plan, 1, dataset=data)
    assert len(seen.labels) == 96
    assert all(max(each.picked, default=0) < 96 for each in whole)
    toy = Experiment("toy", (Arm("random"),), Data(builtin="quadrants"))
    assert not np.array_equal(dataset_for(toy, 0).features, dataset_for(toy, 1).features)


def test_a_run_reads_its_file_again_when_resumed(plan: Experiment, data: Dataset, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", features=data.features, labels=data.labels)
    plan = replace(plan, data=Data(path=str(tmp_path / "data.npz")), seeds=(0,))
    rounds = run_experiment(plan, tmp_path / "run")
    assert without_times(resume_experiment(tmp_path / "run")) == without_times(rounds)
    assert not (tmp_path / "run" / DATA).exists()
