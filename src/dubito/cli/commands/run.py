"""``dubito run`` and ``dubito resume``: run experiments from TOML files."""

import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import numpy as np

from dubito.cli import options
from dubito.cli.inputs import bounded_inputs, environment_variable, reading_files
from dubito.cli.options import argument, option
from dubito.cli.output import (
    RunProgress,
    Stopped,
    escaped_cells,
    is_quiet,
    print_lines,
    print_note,
    print_table,
    program_name,
    progress_bars,
    set_quiet,
)
from dubito.errors import DubitoError, MissingFile, Span
from dubito.experiments.data_sources import DataSource
from dubito.experiments.images import COLLECTIONS, DATA_VARIABLE, DownloadProgress
from dubito.experiments.images import data_folder as find_data_folder
from dubito.experiments.journal import NAME as JOURNAL
from dubito.experiments.models.base import NeedsFiles
from dubito.experiments.models.networks.network import Slow
from dubito.experiments.models.networks.training import rows_trained
from dubito.experiments.plan import Data, Experiment, find_experiment, shipped_experiments
from dubito.experiments.records import Round, curves
from dubito.experiments.runner import (
    EXPERIMENT,
    count_unchecked_lines,
    is_finished,
    read_folder,
    read_rounds,
    run_experiment,
)
from dubito.experiments.toml import prefix_errors
from dubito.io.column_notes import StandardizeMode, describe_features, describe_scale
from dubito.matrix import AnyArray
from dubito.request.arrays import check_integer, read_number

MOST_WORKERS = 8
MIN_VALUES_FOR_WORKERS = 1_000_000
"""With fewer feature values, one process is the default, because each takes a second or two to start."""


def experiment_names(incomplete: str) -> list[str]:
    """Shell completions of ``FILE``: the experiments that come with dubito, in addition to files."""
    return [name for name in shipped_experiments() if name.startswith(incomplete)]


ExperimentFile = Annotated[
    str,
    argument(
        "FILE",
        "The TOML file of an experiment, or the name of an experiment that comes with dubito, such as strength or "
        "cifar10-main.",
        autocompletion=experiment_names,
    ),
]
RunsDir = Annotated[
    str, option("--runs-dir FOLDER", "The folder of all runs, with one subfolder each.", options.OUTPUT)
]
Workers = Annotated[
    str | None,
    option("--workers N", "Number of processes. Default: one per core, at most 8; on a GPU 1.", options.METHOD),
]
DataDir = Annotated[
    str | None,
    option(
        "--data-dir FOLDER",
        "The folder of published images and weights, such as CIFAR-10. Default: $DUBITO_DATA if set, else "
        "~/.cache/dubito.",
        options.FILES,
    ),
]
Download = Annotated[bool, option("--download", "Download missing files from their official addresses.", options.FILES)]


def run(
    file: ExperimentFile,
    workers: Workers = None,
    data_dir: DataDir = None,
    download: Download = False,
    input_limit: options.InputLimit = None,
    runs_dir: RunsDir = "dubito-runs",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito run experiment.toml[/bold]

    Run an experiment: one TOML file defines data, model, strategies, seeds and
    schedule. After an interruption, the same command continues where it stopped;
    several processes running it at the same time share the work.
    """
    set_quiet(quiet)
    experiment = find_experiment(file)
    folder = Path(runs_dir) / experiment.folder_name
    source = DataSource(experiment, folder)
    count = read_workers(workers, experiment)
    # Errors in the data are raised again by the run, if it needs the data at all.
    with suppress(DubitoError, OSError), bounded_inputs(input_limit), reading_files():
        if not is_done(folder):
            describe_data(experiment.data, source)
    with bounded_inputs(input_limit), data_folder(data_dir, download), prefix_errors(file):
        fetch_files(experiment, folder, source, download)
        finish(experiment, folder, count, source, as_json=as_json)


RunFolder = Annotated[str | None, argument("FOLDER", "The folder of a run. Default: the most recent unfinished run.")]


def resume(
    folder: RunFolder = None,
    workers: Workers = None,
    data_dir: DataDir = None,
    download: Download = False,
    input_limit: options.InputLimit = None,
    runs_dir: RunsDir = "dubito-runs",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito resume[/bold]

    Continue an interrupted run. Its completed work is kept, and the results are
    the same as without the interruption.
    """
    set_quiet(quiet)
    chosen = latest_unfinished(Path(runs_dir)) if folder is None else Path(folder)
    experiment = read_folder(chosen)
    count = read_workers(workers, experiment)
    with bounded_inputs(input_limit), data_folder(data_dir, download), prefix_errors(str(chosen / EXPERIMENT)):
        source = DataSource(experiment, chosen)
        fetch_files(experiment, chosen, source, download)
        finish(experiment, chosen, count, source, as_json=as_json)


def finish(experiment: Experiment, folder: Path, workers: int, source: DataSource, *, as_json: bool) -> None:
    """Run what is missing, and print the results."""
    turns = experiment.schedule.rounds + 1
    print_note(
        f"{experiment.name}: {len(experiment.strategies)} strategies x {len(experiment.seeds)} seeds x {turns} "
        f"trainings in {folder}"
    )
    warn_of_cost(experiment, folder)
    warn_of_old_lines(folder)
    continuation = command("resume", folder) + data_option(experiment)
    rounds = run_with_progress(experiment, folder, workers, source, continuation)
    if as_json:
        print(json.dumps(as_record(experiment, folder, rounds), indent=2))
    else:
        show_results(experiment, rounds)
        print_lines(["", f"{folder / JOURNAL} holds every round. Next:", f"  {command('report', folder)}"])


def warn_of_cost(experiment: Experiment, folder: Path) -> None:
    """Warn if what is left of an experiment would take very long without a GPU."""
    model = experiment.model
    if not isinstance(model, Slow) or model.training.device != "cpu":
        return
    n_runs = len(experiment.strategies) * len(experiment.seeds)
    done = read_rounds(folder) if (folder / EXPERIMENT).is_file() else []
    n_done = Counter((each.strategy, each.seed) for each in done)
    schedule, training = experiment.schedule, model.training

    def rows_of(n_turns: int) -> int:
        return rows_trained(schedule.labels[:n_turns], training, from_scratch=schedule.from_scratch)

    rows = n_runs * rows_of(schedule.rounds + 1) - sum(map(rows_of, n_done.values()))
    if not rows:
        return
    duration = describe_duration(rows / model.rows_per_second)
    what = f"the rest of {experiment.name}" if done else experiment.name
    why = "torch finds no GPU" if model.device == "auto" else f"device = {model.device!r}"
    print_note(
        f"{why}: training {what} takes about {duration} on one core, plus the predictions for pool and test set. An "
        "interrupted training is lost; those completed before it are kept"
    )


def warn_of_old_lines(folder: Path) -> None:
    """Warn if the journal has lines without checksums, in which damage could go unnoticed."""
    count = count_unchecked_lines(folder)
    if count:
        print_note(
            f"{count} lines of {folder / JOURNAL} have no checksum, as older versions wrote them: damage in "
            "them is noticed only if a line can no longer be read"
        )


def describe_duration(seconds: float) -> str:
    """A duration as text: in minutes below two hours, else in hours.

    Examples
    --------
    >>> describe_duration(20), describe_duration(5_400), describe_duration(7_200), describe_duration(792_000)
    ('1 minute', '90 minutes', '2 hours', '220 hours')
    """
    if seconds >= 7_200:
        return f"{seconds / 3_600:,.0f} hours"
    minutes = max(round(seconds / 60), 1)
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


def data_option(experiment: Experiment) -> str:
    """The options that a command must repeat to find published data again."""
    folder = os.environ.get(DATA_VARIABLE)
    needs = experiment.data.images in COLLECTIONS.names() or isinstance(experiment.model, NeedsFiles)
    return f" --data-dir {shlex.quote(folder)}" if folder and needs else ""


def read_workers(text: str | None, experiment: Experiment, n_values: int = MIN_VALUES_FOR_WORKERS) -> int:
    """The number of processes: as given, else one on a GPU or for little data, else one per core and at most 8."""
    if text is not None:
        return check_integer("workers", read_number(text), least=1)
    if experiment.model.on_gpu or n_values < MIN_VALUES_FOR_WORKERS:
        return 1
    return min(os.cpu_count() or 1, MOST_WORKERS, len(experiment.strategies) * len(experiment.seeds))


def run_with_progress(
    experiment: Experiment, folder: Path, workers: int, source: DataSource, continuation: str
) -> list[Round]:
    """Run with a live display; after Ctrl-C, print `continuation`, the command that continues."""
    with RunProgress() as board:
        try:
            rounds = run_experiment(experiment, folder, workers=workers, progress=board, source=source)
        except KeyboardInterrupt:
            if not (folder / EXPERIMENT).is_file():
                raise Stopped("interrupted before the first training; nothing was written.") from None
            raise Stopped(
                f"interrupted; {len(read_rounds(folder))} trainings are kept. Continue with: {continuation}"
            ) from None
    if board.last is None:
        print_note("everything was done already")
    else:
        trained, resumed = board.last.done - board.last.resumed, board.last.resumed
        before = f" ({resumed} more had been trained before)" if resumed else ""
        print_note(f"trained {trained} models in {board.last.seconds:.0f} s{before}")
    return rounds


def command(name: str, folder: Path) -> str:
    """A command that the user can copy."""
    return f"{program_name()} {name} {shlex.quote(str(folder))}"


def show_results(experiment: Experiment, rounds: Sequence[Round]) -> None:
    """Test accuracy in percent at the first, middle and last number of labels: mean and deviation over seeds."""
    from rich import box
    from rich.table import Table

    found = curves(rounds)
    labels = found[0].labels
    table = Table(box=box.SIMPLE_HEAD, title="test accuracy, %", title_style="bold", title_justify="left")
    table.add_column("strategy")
    positions = sorted({0, len(labels) // 2, len(labels) - 1})
    for position in positions:
        table.add_column(f"{labels[position]} labels", justify="right", no_wrap=True)
    for curve in found:
        cells = [f"{100 * curve.mean[position]:.1f} ± {100 * curve.spread[position]:.1f}" for position in positions]
        shown = cells if len(experiment.seeds) > 1 else [cell.split(" ")[0] for cell in cells]
        table.add_row(*escaped_cells(curve.name, *shown))
    print_table(table)


def as_record(experiment: Experiment, folder: Path, rounds: Sequence[Round]) -> dict[str, object]:
    found = curves(rounds)
    return {
        "schema": 1,
        "name": experiment.name,
        "experiment": experiment.hash8,
        "folder": str(folder),
        "seeds": list(experiment.seeds),
        "labels": found[0].labels.tolist(),
        "strategies": [
            {"strategy": curve.name, "mean": curve.mean.tolist(), "standard_deviation": curve.spread.tolist()}
            for curve in found
        ],
    }


def latest_unfinished(runs: Path) -> Path:
    """The most recent unfinished run in a folder."""
    found = by_recency(runs)
    for folder in found:
        if not is_finished(folder):
            return folder
    reason = f"every run in {runs} is finished" if found else f"{runs} holds no run"
    raise MissingFile(f"{reason}: there is nothing to resume", hint="start one with dubito run FILE.toml.")


def latest(runs: Path) -> Path:
    """The most recent run in a folder, finished or not."""
    found = by_recency(runs)
    if not found:
        hint = "pass the folder of one, or start one with dubito run FILE.toml."
        raise MissingFile(f"{runs} holds no run", hint=hint)
    return found[0]


def by_recency(runs: Path) -> list[Path]:
    """The runs in a folder, the most recent first."""
    return sorted((path.parent for path in runs.glob(f"*/{EXPERIMENT}")), key=last_worked_on, reverse=True)


def last_worked_on(folder: Path) -> float:
    """When a run's journal was last written to."""
    journal = folder / JOURNAL
    return (journal if journal.exists() else folder / EXPERIMENT).stat().st_mtime


# Published data that an experiment needs: its folder, and downloads with a progress bar.


@contextmanager
def data_folder(folder: str | None, download: bool) -> Iterator[None]:
    """Set the folder of published files for this process and its children while the block runs."""
    if folder is None:
        yield
        return
    with environment_variable(DATA_VARIABLE, str(find_data_folder(folder, download).absolute())):
        yield


def is_done(folder: Path) -> bool:
    return (folder / EXPERIMENT).is_file() and is_finished(folder)


def fetch_files(experiment: Experiment, folder: Path, source: DataSource, download: bool) -> None:
    """Download missing files if allowed, else raise an error that lists all of them. A finished run needs none."""
    if is_done(folder):
        return
    missing: list[str] = []
    with download_bar() as progress:
        try:
            if source.is_published:
                source.shared(download=download, progress=progress)
        except MissingFile as error:
            missing.append(error.render(Span.marked))
        try:
            if isinstance(experiment.model, NeedsFiles):
                experiment.model.fetch(download=download, progress=progress)
        except MissingFile as error:
            missing.append(error.render(Span.marked))
    if missing:
        raise MissingFile(" Also, ".join(missing))


@contextmanager
def download_bar() -> Iterator[DownloadProgress]:
    """The progress of downloads: a bar for each on a terminal, else a line for each."""
    if sys.stderr.isatty() and not is_quiet():
        with _bars() as progress:
            yield progress
        return
    started: set[str] = set()

    def note_start(name: str, done: int, total: int, /) -> None:
        if name not in started:
            print_note(f"downloading {name}, {total / 1e6:,.0f} MB")
            started.add(name)

    yield note_start


@contextmanager
def _bars() -> Iterator[DownloadProgress]:
    from rich.progress import DownloadColumn, TaskID, TimeRemainingColumn, TransferSpeedColumn

    with progress_bars(DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()) as bars:
        tasks: dict[str, TaskID] = {}

        def draw(name: str, done: int, total: int, /) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done)

        yield draw


# Notes on the data of an experiment.

DOMINANCE = 100.0
"""If the spread of a feature exceeds that of many others by this factor, a note says that it dominates distances."""
SAMPLED_ROWS = 10_000


def describe_data(settings: Data, source: DataSource, standardize: StandardizeMode | None = None) -> None:
    """Print notes on the features of a file: which columns they are, and whether their scales differ.

    ``standardize`` is the option of that name; None for a command that lacks it.
    """
    for note in () if is_quiet() else notes_on_data(settings, source, standardize):
        print_note(note)


def notes_on_data(settings: Data, source: DataSource, standardize: StandardizeMode | None = None) -> Iterator[str]:
    if source.file is None:
        return
    pool, features = source.file.pool, source.file.dataset.features
    if pool.source.is_table:
        if pool.feature_names:
            yield from describe_features(pool, settings.columns)
        advice = describe_scale(standardize or "no", pool.feature_names, features)
        if advice is not None:
            yield advice
    if not settings.standardize and has_dominant_feature(features):
        fix = "set standardize = true in [data]" if standardize is None else "pass --standardize yes"
        yield (
            f"the widest feature has over {DOMINANCE:.0f} times the spread of at least a quarter of the others, and "
            f"dominates the distances; if their units differ, {fix}"
        )


def has_dominant_feature(features: AnyArray) -> bool:
    """Whether the widest column has over 100 times the spread of a quarter of the columns that are not constant.

    Only the first rows are inspected.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = rng.normal(size=(50, 3))
    >>> has_dominant_feature(table), has_dominant_feature(table * [1.0, 1.0, 1000.0])
    (False, True)
    """
    if features.ndim != 2:
        return False
    spreads = np.asarray(features[:SAMPLED_ROWS], dtype=np.float64).std(axis=0)
    spreads = spreads[spreads > 0]
    return bool(len(spreads) and spreads.max() > DOMINANCE * np.quantile(spreads, 0.25, method="lower"))
