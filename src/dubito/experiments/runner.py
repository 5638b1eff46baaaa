"""Running an experiment, here or in several processes, and going on where it stopped.

A run's folder holds ``experiment.toml``, ``journal.jsonl`` and ``checkpoints/``, and ``data.npz`` where Python handed
the data in. Every process that works on it claims cells one by one; none is done twice.
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
from typing import IO

from dubito.errors import DubitoError, InvalidArgument, InvalidData, MemoryLimit, MissingExtra, MissingFile, named
from dubito.experiments.data import Dataset
from dubito.experiments.data_sources import DATA, DataSource, fingerprint, save_dataset
from dubito.experiments.journal import CHECKPOINTS, Cell, Checkpoints, Ledger, Record, cells_of, claim, clear, clear_all
from dubito.experiments.journal import NAME as JOURNAL
from dubito.experiments.plan import Experiment, read_experiment
from dubito.experiments.records import Round
from dubito.experiments.rounds import Stage, play, prepare, set_stage, training_rows
from dubito.experiments.side_by_side import Step, play_together, trains_together
from dubito.experiments.toml import naming
from dubito.io import write_atomically
from dubito.io.durable import explain_disk_full, remove_stale_temporaries, sync_folder
from dubito.request.arrays import check_integer

# What one process does for an experiment: claim a free cell, play it, and again until none is left.

PATIENCE = 0.2
"""Seconds between looks at what other processes do."""


def work(experiment: Experiment, folder: Path, source: DataSource, ledger: Ledger, step: Step) -> None:
    """Play cells until every one is done, by this process or by others; ``step`` is called after each round.

    A cell that another process holds is waited for: should that process die, it is taken over.
    """
    play_free = play_all if trains_together(experiment.model) else play_in_turn
    with one_thread():
        while left := unfinished(ledger, experiment):
            if not play_free(left, experiment, folder, source, ledger, step):
                step()
                time.sleep(PATIENCE)
    ledger.journal.close()
    clear_all(folder)
    step()


def play_in_turn(
    left: Sequence[Cell], experiment: Experiment, folder: Path, source: DataSource, ledger: Ledger, step: Step
) -> bool:
    """Claim and play one cell after another; False where others hold all of them."""
    stage, played = None, False
    for cell in left:
        with claim(cell, folder) as ours:
            if not ours or has_all_rounds(ledger, experiment, cell):
                continue
            if stage is None or stage.seed != cell.seed:
                stage = set_stage(experiment, source(cell.seed), cell.seed)
            play_cell(cell, experiment, folder, ledger, stage, step)
            played = True
    return played


def play_all(
    left: Sequence[Cell], experiment: Experiment, folder: Path, source: DataSource, ledger: Ledger, step: Step
) -> bool:
    """Claim every cell that is free and play them side by side; False where others hold all of them."""
    with ExitStack() as claims:
        held = [cell for cell in left if claims.enter_context(claim(cell, folder))]
        ours = [cell for cell in held if not has_all_rounds(ledger, experiment, cell)]
        if ours:
            play_together(ours, experiment, folder, source, ledger, step)
        return bool(ours)


def unfinished(ledger: Ledger, experiment: Experiment) -> list[Cell]:
    """Cells that lack rounds, by the journal as it is now."""
    ledger.refresh()
    return [cell for cell in cells_of(experiment) if len(ledger.played(cell)) <= experiment.schedule.rounds]


def has_all_rounds(ledger: Ledger, experiment: Experiment, cell: Cell) -> bool:
    """Whether someone finished a cell before we came to hold it."""
    ledger.refresh()
    return len(ledger.played(cell)) > experiment.schedule.rounds


def play_cell(cell: Cell, experiment: Experiment, folder: Path, ledger: Ledger, stage: Stage, step: Step) -> None:
    """Play what is left of a cell that is ours, and write down every round."""
    checkpoints = Checkpoints(cell, folder)
    with naming(f"strategy {cell.arm.name!r}, seed {cell.seed}"):
        for done in play(cell, experiment, stage, ledger.played(cell), checkpoints):
            ledger.write_round(done)
            step()
    clear(cell, folder)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of linear algebra: results do not depend on the number of cores, and workers share them."""
    with import_module("threadpoolctl").threadpool_limits(1):
        yield


# Several processes on one experiment, started and watched from here.

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
KINDS = {kind.__name__: kind for kind in (InvalidArgument, InvalidData, MemoryLimit, MissingExtra, MissingFile)}
"""Errors of a worker that are raised again here as what they were."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A process and what it prints."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def complaint(self) -> DubitoError:
        """What went wrong with it."""
        self.output.seek(0)
        lines = self.output.read().decode(errors="replace").strip().splitlines()
        try:
            record = json.loads(lines[-1])
            kind: type[DubitoError] = KINDS.get(record["error"], DubitoError)
            return kind.from_record(record)
        except (IndexError, ValueError, TypeError, KeyError):
            return self._last_words(lines)

    def _last_words(self, lines: Sequence[str]) -> DubitoError:
        kept = "what was done is kept: resume"
        if self.process.returncode < 0:
            name = signal.Signals(-self.process.returncode).name
            problem = f"a worker was ended by {name}, as happens when memory runs out"
            return DubitoError(problem, hint=f"{kept} with fewer workers.")
        last = lines[-1] if lines else "it said nothing"
        return DubitoError(f"a worker failed: {last}", hint=f"{kept} with {named('workers', 1)} to see where.")


def run_workers(folder: Path, count: int, step: Callable[[], None]) -> None:
    """Let ``count`` processes work until the experiment is done; one that fails stops all."""
    with started(folder, count) as workers:
        while True:
            codes = [worker.process.poll() for worker in workers]
            step()
            failed = next((place for place, code in enumerate(codes) if code), None)
            if failed is not None:
                raise workers[failed].complaint()
            if all(code == 0 for code in codes):
                return
            time.sleep(PATIENCE)


@contextmanager
def started(folder: Path, count: int) -> Iterator[list[Worker]]:
    """Processes that are ended with the block, however it ends."""
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        yield [start_worker(folder, output, stack) for output in outputs]


def start_worker(folder: Path, output: IO[bytes], stack: ExitStack) -> Worker:
    """One process; its standard input is held open for as long as we live."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dubito.experiments.worker", str(folder)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, **dict.fromkeys(THREADS, "1")},
    )
    stack.enter_context(process)
    stack.callback(process.terminate)
    return Worker(process, output)


EXPERIMENT = "experiment.toml"
REFUSALS = InvalidArgument, InvalidData, MemoryLimit, MissingExtra, MissingFile
"""Errors whose fix is another file or another experiment: the same run would only meet them again."""


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
        raise MissingFile(f"{folder} holds no {EXPERIMENT}", hint="pass the folder of a run.")
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
            hint="choose another folder.",
        )


def open_folder(experiment: Experiment, folder: Path, dataset: Dataset | None) -> None:
    """Make the folder and what it begins with."""
    (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    for name in (DATA, EXPERIMENT):  # Written once: what a kill left of them no later write would meet.
        remove_stale_temporaries(str(folder), name)
    if dataset is not None and not (folder / DATA).exists():
        save_dataset(dataset, folder / DATA)
    if not (folder / EXPERIMENT).exists():
        with explain_disk_full(folder / EXPERIMENT):
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
