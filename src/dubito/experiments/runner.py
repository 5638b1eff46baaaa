"""Run an experiment, in one or several processes, and resume it after an interruption.

An experiment consists of runs: one strategy with one seed each. Its folder holds ``experiment.toml``,
``journal.jsonl``, ``checkpoints/``, and ``data.npz`` if the data was passed from Python. Each process claims runs one
by one, so none is done twice.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Protocol

from dubito.errors import DubitoError, InvalidArgument, InvalidData, MemoryLimit, MissingExtra, MissingFile, named
from dubito.experiments.data import Dataset
from dubito.experiments.data_sources import DATA, DataSource, fingerprint, save_dataset
from dubito.experiments.journal import (
    CHECKPOINTS,
    Checkpoints,
    ExperimentJournal,
    Record,
    Run,
    claim,
    remove_all_run_files,
    remove_run_files,
    runs_of,
)
from dubito.experiments.journal import NAME as JOURNAL
from dubito.experiments.plan import Experiment, read_experiment
from dubito.experiments.records import Round
from dubito.experiments.rounds import prepare, prepare_seed, run_rounds, training_rows
from dubito.experiments.toml import prefix_errors
from dubito.io import write_atomically
from dubito.io.durable import explain_disk_full, remove_stale_temporaries, sync_folder
from dubito.registry import Registry
from dubito.request.arrays import check_integer

# The work loop of one process.

ProgressReport = Callable[[], None]
"""Called after each round, and while waiting for other processes."""
POLL_SECONDS = 0.2
"""Time between checks on other processes."""


def work(
    experiment: Experiment, folder: Path, source: DataSource, journal: ExperimentJournal, report: ProgressReport
) -> None:
    """Work until every run is finished, by this process or by others.

    Waits for runs that another process has claimed, and takes over those of a process that dies.
    """
    run_claimed = RUNNERS.find("runner", experiment.model.runner)
    # One BLAS thread: results must not depend on the number of cores, and workers share the cores.
    with import_module("threadpoolctl").threadpool_limits(1):
        while remaining := unfinished(journal, experiment):
            if not run_claimed(remaining, experiment, folder, source, journal, report):
                report()
                time.sleep(POLL_SECONDS)
    journal.writer.close()
    remove_all_run_files(folder)
    report()


def run_one_by_one(
    remaining: Sequence[Run],
    experiment: Experiment,
    folder: Path,
    source: DataSource,
    journal: ExperimentJournal,
    report: ProgressReport,
) -> bool:
    """Claim and finish one run after another; False if other processes hold all of them."""
    seed_data, completed = None, False
    for run in remaining:
        with claim(run, folder) as is_claimed:
            if not is_claimed or has_all_rounds(journal, experiment, run):
                continue
            if seed_data is None or seed_data.seed != run.seed:
                seed_data = prepare_seed(experiment, source(run.seed), run.seed)
            checkpoints = Checkpoints(run, folder)
            with prefix_errors(f"strategy {run.arm.name!r}, seed {run.seed}"):
                for done in run_rounds(run, experiment, seed_data, journal.completed(run), checkpoints):
                    journal.write_round(done)
                    report()
            remove_run_files(run, folder)
            completed = True
    return completed


class Runner(Protocol):
    """Trains runs of an experiment; registered in the entry-point group ``dubito.runners``."""

    def __call__(
        self,
        remaining: Sequence[Run],
        experiment: Experiment,
        folder: Path,
        source: DataSource,
        journal: ExperimentJournal,
        report: ProgressReport,
        /,
    ) -> bool:
        """Claim and finish some of the remaining runs; False if other processes hold all of them."""


RUNNERS: Registry[Runner] = Registry("dubito.runners", {"one-by-one": run_one_by_one})
"""Runners by name; `Model.runner` selects one."""


def unfinished(journal: ExperimentJournal, experiment: Experiment) -> list[Run]:
    """The runs that lack rounds, according to the journal."""
    journal.refresh()
    return [run for run in runs_of(experiment) if len(journal.completed(run)) <= experiment.schedule.rounds]


def has_all_rounds(journal: ExperimentJournal, experiment: Experiment, run: Run) -> bool:
    """Whether a run is finished, perhaps by another process before this one claimed it."""
    journal.refresh()
    return len(journal.completed(run)) > experiment.schedule.rounds


# Worker processes.

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
PERMANENT_ERRORS = InvalidArgument, InvalidData, MemoryLimit, MissingExtra, MissingFile
"""Errors that resuming cannot fix, because the input must change. Those of a worker are raised with their type."""


@dataclass(frozen=True, slots=True)
class Worker:
    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def error(self) -> DubitoError:
        self.output.seek(0)
        lines = self.output.read().decode(errors="replace").strip().splitlines()
        try:
            record = json.loads(lines[-1])
            kinds: dict[str, type[DubitoError]] = {kind.__name__: kind for kind in PERMANENT_ERRORS}
            return kinds.get(record["error"], DubitoError).from_record(record)
        except (IndexError, ValueError, TypeError, KeyError):
            pass  # The worker ended without printing an error.
        kept = "finished rounds are kept: resume"
        if self.process.returncode < 0:
            name = signal.Signals(-self.process.returncode).name
            problem = f"a worker was ended by {name}, as happens when memory runs out"
            return DubitoError(problem, hint=f"{kept} with fewer workers.")
        last = lines[-1] if lines else "it printed nothing"
        return DubitoError(f"a worker failed: {last}", hint=f"{kept} with {named('workers', 1)} to see where.")


def run_workers(folder: Path, count: int, report: ProgressReport) -> None:
    """Start ``count`` workers and wait until the experiment is finished; if one fails, stop all."""
    with start_workers(folder, count) as workers:
        while True:
            codes = [worker.process.poll() for worker in workers]
            report()
            failed = next((i for i, code in enumerate(codes) if code), None)
            if failed is not None:
                raise workers[failed].error()
            if all(code == 0 for code in codes):
                return
            time.sleep(POLL_SECONDS)


@contextmanager
def start_workers(folder: Path, count: int) -> Iterator[list[Worker]]:
    """Start workers, and terminate them when the block ends."""
    workers = []
    with ExitStack() as stack:
        for _ in range(count):
            output = stack.enter_context(tempfile.TemporaryFile())
            process = subprocess.Popen(
                [sys.executable, "-m", "dubito.experiments.worker", str(folder)],
                stdin=subprocess.PIPE,  # Closed when this process ends, at which a worker stops.
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **dict.fromkeys(THREADS, "1")},
            )
            stack.enter_context(process)
            stack.callback(process.terminate)
            workers.append(Worker(process, output))
        yield workers


EXPERIMENT = "experiment.toml"


@dataclass(frozen=True, slots=True)
class RunStatus:
    """Progress of an experiment."""

    done: int
    """Trainings in the journal, by any process."""
    total: int
    """Strategies x seeds x (rounds + 1)."""
    resumed: int
    """Trainings that were in the journal at the start."""
    seconds: float
    """Time since the start."""
    by_strategy: dict[str, int]
    """Trainings done, by strategy name."""


RunProgress = Callable[[RunStatus], None]


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    dataset: Dataset | None = None,
    workers: int = 1,
    progress: RunProgress | None = None,
    source: DataSource | None = None,
) -> list[Round]:
    """Run what is left of an experiment, and return all of its rounds.

    An experiment that is interrupted and run again gives the same results, bit for bit on a CPU, except for times.
    Several processes may run one experiment in the same folder at the same time: they share the work.

    Parameters
    ----------
    experiment : Experiment
        The plan.
    folder : Path
        Folder of its journal, created if needed; it must not hold another experiment.
    dataset : Dataset, optional
        Data for an experiment whose ``data`` names none; a copy is saved in the folder.
    workers : int
        Number of processes; 1 uses the current process. Each has one BLAS thread.
    progress : callable, optional
        Called with a `RunStatus` after each round, and while waiting for other processes.
    source : DataSource, optional
        The experiment's data, if it was read before.

    Returns
    -------
    list of Round
        Sorted by seed, then by strategy in the experiment's order, then by turn.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from dubito.experiments import Arm, Schedule, make_dataset
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(60) % 2
    >>> data = make_dataset("two", rng.normal(size=(60, 2)) + 3 * labels[:, None], labels)
    >>> plan = Experiment("two", (Arm("random"),), schedule=Schedule(initial=6, budget=3, rounds=2), seeds=(0,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rounds = run_experiment(plan, Path(folder), dataset=data)
    >>> [each.labels for each in rounds]
    [6, 9, 12]
    """
    count = check_integer("workers", workers, least=1)
    check_folder(experiment, folder)
    journal = ExperimentJournal(folder, experiment)
    remaining = unfinished(journal, experiment)
    if remaining:
        source = source or DataSource(experiment, folder, dataset)
        first = check_rows(experiment, source)
        with remove_new_folder_on_error(folder, journal):
            open_folder(experiment, folder, dataset)
            journal.write_header(experiment, fingerprint(first), first.classes)
            report = progress_reporter(experiment, journal, progress)
            if min(count, len(remaining)) == 1:
                work(experiment, folder, source, journal, report)
            else:
                run_workers(folder, min(count, len(remaining)), report)
        journal.refresh()
    return journal.rounds(runs_of(experiment))


def check_rows(experiment: Experiment, source: DataSource) -> Dataset:
    """Raise if the schedule needs more rows than the data has; return the data of the first seed.

    If each seed has data of its own, only the first seed is checked: the others would be generated twice.
    """
    first, *others = experiment.seeds
    data = source(first)
    for seed in (first, *(others if source.is_shared else ())):
        experiment.schedule.check_size(training_rows(experiment, data, seed))
    return data


def resume_experiment(folder: Path, *, workers: int = 1, progress: RunProgress | None = None) -> list[Round]:
    """Resume the experiment in a folder; its data must still be at the same path."""
    return run_experiment(read_folder(folder), folder, workers=workers, progress=progress)


def read_folder(folder: Path) -> Experiment:
    if not (folder / EXPERIMENT).is_file():
        raise MissingFile(f"{folder} has no {EXPERIMENT}", hint="pass the folder of a run.")
    return read_experiment(str(folder / EXPERIMENT))


def read_rounds(folder: Path) -> list[Round]:
    """The rounds recorded so far, in the order of `run_experiment`; the experiment may still be running."""
    experiment = read_folder(folder)
    journal = ExperimentJournal(folder, experiment)
    journal.refresh()
    return journal.rounds(runs_of(experiment))


def is_finished(folder: Path) -> bool:
    experiment = read_folder(folder)
    return not unfinished(ExperimentJournal(folder, experiment), experiment)


def read_headers(folder: Path) -> list[Record]:
    """The journal's headers, oldest first: versions and host of each process that worked on the experiment."""
    journal = ExperimentJournal(folder)
    journal.refresh()
    return journal.headers


def count_unchecked_lines(folder: Path) -> int:
    """Number of journal lines without a checksum, as the first versions wrote them."""
    journal = ExperimentJournal(folder)
    journal.refresh()
    return journal.reader.n_unchecked


def dataset_for(experiment: Experiment, seed: int, *, dataset: Dataset | None = None) -> Dataset:
    """The data as strategies see it with one seed: `Round.picked` holds row numbers of its training part."""
    return prepare(experiment, DataSource(experiment, None, dataset)(seed), seed)


def check_folder(experiment: Experiment, folder: Path) -> None:
    """Raise if the folder holds another experiment."""
    if not (folder / EXPERIMENT).exists():
        return
    existing = read_folder(folder)
    if existing.hash8 != experiment.hash8:
        problem = f"{folder} holds the experiment {existing.folder_name} and this is {experiment.folder_name}"
        raise InvalidArgument(problem, hint="choose another folder.")


def open_folder(experiment: Experiment, folder: Path, dataset: Dataset | None) -> None:
    """Create the folder with its initial files."""
    (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    for name in (DATA, EXPERIMENT):  # Remove temporary files of a killed process.
        remove_stale_temporaries(str(folder), name)
    if dataset is not None and not (folder / DATA).exists():
        save_dataset(dataset, folder / DATA)
    if not (folder / EXPERIMENT).exists():
        with explain_disk_full(folder / EXPERIMENT):
            write_atomically(str(folder / EXPERIMENT), experiment.to_toml().encode())
        sync_folder(folder)


@contextmanager
def remove_new_folder_on_error(folder: Path, journal: ExperimentJournal) -> Iterator[None]:
    """Remove a new folder if the block raises one of `PERMANENT_ERRORS` before the first round.

    Then there is nothing to resume. A folder with other files or checkpoints, or that another process uses, is kept.
    """
    existed = folder.exists()
    is_new = not existed or (folder.is_dir() and not any(folder.iterdir()))
    try:
        yield
    except PERMANENT_ERRORS:
        if is_new and folder.exists():
            journal.refresh()
            is_shared = bool(journal.turns) or len(journal.headers) > 1
            if not is_shared and not any((folder / CHECKPOINTS).glob("*.npz")):
                own_files = folder / EXPERIMENT, folder / JOURNAL, folder / DATA
                for path in (*own_files, *(folder / CHECKPOINTS).glob("*.lock")):
                    path.unlink(missing_ok=True)
                with suppress(OSError):  # Folders with other files stay.
                    (folder / CHECKPOINTS).rmdir()
                    folder.rmdir()
                if existed:
                    folder.mkdir(exist_ok=True)
        raise


def progress_reporter(
    experiment: Experiment, journal: ExperimentJournal, progress: RunProgress | None
) -> ProgressReport:
    """A function that reports the state of the journal to ``progress``."""
    started_at = time.perf_counter()
    names = [arm.name for arm in experiment.strategies]
    total = len(runs_of(experiment)) * (experiment.schedule.rounds + 1)
    resumed = len(journal.rounds(runs_of(experiment)))

    def report() -> None:
        if progress is None:
            return
        journal.refresh()
        by_strategy = dict.fromkeys(names, 0)
        for (name, _), turns in journal.turns.items():
            if name in by_strategy:
                by_strategy[name] += len(turns)
        done = sum(by_strategy.values())
        progress(RunStatus(done, total, resumed, time.perf_counter() - started_at, by_strategy))

    return report
