"""Running an experiment, here or in several processes, and going on where it stopped.

A run's folder holds ``experiment.toml``, ``journal.jsonl`` and ``checkpoints/``, and ``data.npz`` where Python handed
the data in. Every process that works on it claims cells one by one; none is done twice.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dubito.checks import check_integer
from dubito.errors import InvalidArgument, InvalidData, MemoryLimit, MissingExtra, MissingFile
from dubito.experiments.cells.claims import CHECKPOINTS, cells_of
from dubito.experiments.cells.journal import NAME as JOURNAL
from dubito.experiments.cells.journal import Record
from dubito.experiments.cells.kept import DATA, save_dataset
from dubito.experiments.cells.ledger import Ledger
from dubito.experiments.cells.sources import DataSource, fingerprint
from dubito.experiments.cells.stage import prepare, training_rows
from dubito.experiments.datasets.dataset import Dataset
from dubito.experiments.plans.experiment import Experiment, read_experiment
from dubito.experiments.records import Round
from dubito.experiments.runs.processes import run_workers
from dubito.experiments.runs.work import unfinished, work
from dubito.files import write_atomically
from dubito.files.disk import room_for, sync_folder
from dubito.files.replacing import sweep

EXPERIMENT = "experiment.toml"
REFUSALS = InvalidArgument, InvalidData, MemoryLimit, MissingExtra, MissingFile
"""Errors whose mend is another file or another experiment: the same run would only meet them again."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far an experiment is."""

    done: int
    """Trainings in the journal, whoever made them."""
    total: int
    """Strategies x seeds x (rounds + 1)."""
    resumed: int
    """Trainings that were in the journal when this run began."""
    seconds: float
    """Since this run began."""
    by_strategy: dict[str, int]
    """Trainings done of each strategy, by its name."""


RunProgress = Callable[[Standing], None]


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    dataset: Dataset | None = None,
    workers: int = 1,
    progress: RunProgress | None = None,
    source: DataSource | None = None,
) -> list[Round]:
    """Play what is left of an experiment, and return all its rounds.

    Interrupted anywhere and run again, it gives the same results, bit for bit on a CPU, times aside. Several processes
    may run one experiment in one folder at the same time: they share the cells.

    Parameters
    ----------
    experiment : Experiment
        What to do.
    folder : Path
        Where its journal is, or will be; it may hold no other experiment.
    dataset : Dataset, optional
        Data for an experiment whose ``data`` names none; a copy stays in the folder.
    workers : int
        Processes to share the work; with 1 it is done in this one. Each has one thread of linear algebra.
    progress : callable, optional
        Called with a `Standing` after each round, and while waiting for other processes.
    source : DataSource, optional
        Where the experiment's data comes from, for who has read it before.

    Returns
    -------
    list of Round
        Seed by seed, in each the strategies in the experiment's order, turn by turn.

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
    ledger = Ledger(folder, experiment)
    left = unfinished(ledger, experiment)
    if left:
        source = source or DataSource(experiment, folder, dataset)
        first = check_rows(experiment, source)
        with leaving_nothing_refused(folder, ledger):
            open_folder(experiment, folder, dataset)
            ledger.write_header(experiment, fingerprint(first), first.classes)
            tell = teller(experiment, ledger, progress)
            if min(count, len(left)) == 1:
                work(experiment, folder, source, ledger, tell)
            else:
                run_workers(folder, min(count, len(left)), tell)
        ledger.refresh()
    return ledger.rounds(cells_of(experiment))


def check_rows(experiment: Experiment, source: DataSource) -> Dataset:
    """Refuse a schedule that wants more than there is, under any seed; the data of the first seed.

    Data that is drawn anew is looked at for the first seed alone: the others would be drawn twice.
    """
    first, *others = experiment.seeds
    data = source(first)
    for seed in (first, *(others if source.is_shared else ())):
        experiment.schedule.check_size(training_rows(experiment, data, seed))
    return data


def resume_experiment(folder: Path, *, workers: int = 1, progress: RunProgress | None = None) -> list[Round]:
    """Go on with the experiment of a folder; the data must be where it was."""
    return run_experiment(read_folder(folder), folder, workers=workers, progress=progress)


def read_folder(folder: Path) -> Experiment:
    """The experiment whose journal a folder holds."""
    if not (folder / EXPERIMENT).is_file():
        raise MissingFile(f"{folder} holds no {EXPERIMENT}", mend="pass the folder of a run.")
    return read_experiment(str(folder / EXPERIMENT))


def read_rounds(folder: Path) -> list[Round]:
    """Rounds recorded so far, in the order of `run_experiment`; the experiment may still be running."""
    experiment = read_folder(folder)
    ledger = Ledger(folder, experiment)
    ledger.refresh()
    return ledger.rounds(cells_of(experiment))


def is_finished(folder: Path) -> bool:
    """Whether nothing of the experiment of a folder is left to do."""
    experiment = read_folder(folder)
    return not unfinished(Ledger(folder, experiment), experiment)


def read_headers(folder: Path) -> list[Record]:
    """Who worked on an experiment, with which versions and on which host: a record for each run, the first first."""
    ledger = Ledger(folder)
    ledger.refresh()
    return ledger.headers


def lines_unchecked(folder: Path) -> int:
    """How many lines of a journal have no checksum, as the first versions wrote them."""
    ledger = Ledger(folder)
    ledger.refresh()
    return ledger.reader.unsealed


def dataset_for(experiment: Experiment, seed: int, *, dataset: Dataset | None = None) -> Dataset:
    """What the strategies of one seed see: the test set apart, and a training part whose rows `Round.picked` names."""
    return prepare(experiment, DataSource(experiment, None, dataset)(seed), seed)


def check_folder(experiment: Experiment, folder: Path) -> None:
    """Refuse a folder in which another experiment was begun."""
    if not (folder / EXPERIMENT).exists():
        return
    there = read_folder(folder)
    if there.hash8 != experiment.hash8:
        raise InvalidArgument(
            f"{folder} holds the experiment {there.folder_name} and this is {experiment.folder_name}",
            mend="choose another folder.",
        )


def open_folder(experiment: Experiment, folder: Path, dataset: Dataset | None) -> None:
    """Make the folder and what it begins with."""
    (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    for name in (DATA, EXPERIMENT):  # Written once: what a kill left of them no later write would meet.
        sweep(str(folder), name)
    if dataset is not None and not (folder / DATA).exists():
        save_dataset(dataset, folder / DATA)
    if not (folder / EXPERIMENT).exists():
        with room_for(folder / EXPERIMENT):
            write_atomically(str(folder / EXPERIMENT), experiment.to_toml().encode())
        sync_folder(folder)


@contextmanager
def leaving_nothing_refused(folder: Path, ledger: Ledger) -> Iterator[None]:
    """Remove what the block made where it is refused before its first round: there is nothing to resume.

    What was there, or came from others, stays; so does a run that another process began to work in, or that has
    trained weights.
    """
    was_there = folder.exists()
    is_new = not was_there or (folder.is_dir() and not any(folder.iterdir()))
    try:
        yield
    except REFUSALS:
        if is_new and folder.exists():
            ledger.refresh()
            is_others = bool(ledger.turns) or len(ledger.headers) > 1
            if not is_others and not any((folder / CHECKPOINTS).glob("*.npz")):
                remove_own(folder)
                if was_there:
                    folder.mkdir(exist_ok=True)
        raise


def remove_own(folder: Path) -> None:
    """Remove the files of a run that has no rounds, and its folders where nothing else is in them."""
    for path in (folder / EXPERIMENT, folder / JOURNAL, folder / DATA, *(folder / CHECKPOINTS).glob("*.lock")):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # Somebody else's files stay, and so does the folder they are in.
        (folder / CHECKPOINTS).rmdir()
        folder.rmdir()


def teller(experiment: Experiment, ledger: Ledger, progress: RunProgress | None) -> Callable[[], None]:
    """Tells ``progress`` what the journal says, each time it is called."""
    started = time.perf_counter()
    names = [arm.name for arm in experiment.strategies]
    total = len(cells_of(experiment)) * (experiment.schedule.rounds + 1)
    resumed = len(ledger.rounds(cells_of(experiment)))

    def tell() -> None:
        if progress is None:
            return
        ledger.refresh()
        by_strategy = dict.fromkeys(names, 0)
        for (name, _), turns in ledger.turns.items():
            if name in by_strategy:
                by_strategy[name] += len(turns)
        done = sum(by_strategy.values())
        progress(Standing(done, total, resumed, time.perf_counter() - started, by_strategy))

    return tell
