"""What ``dubito run`` and ``dubito resume`` share: playing an experiment in its folder, and telling what came out."""

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dubito.cli.output import Board, Stopped, plain_cells, program_name, put, say, show
from dubito.errors import InvalidData, MissingFile
from dubito.experiments.data import Dataset
from dubito.experiments.data_sources import DataSource
from dubito.experiments.downloads import DATA_VARIABLE
from dubito.experiments.images import COLLECTIONS
from dubito.experiments.journal import NAME as JOURNAL
from dubito.experiments.journal import DamagedLine, Record, sealed, unsealed
from dubito.experiments.models.base import StartsFromWeights
from dubito.experiments.models.networks.network import Slow
from dubito.experiments.plan import Experiment
from dubito.experiments.records import Round, curves
from dubito.experiments.runner import EXPERIMENT, is_finished, lines_unchecked, read_rounds, run_experiment
from dubito.experiments.side_by_side import rows_trained
from dubito.io import write_atomically
from dubito.request.arrays import check_integer, read_number

MOST_WORKERS = 8


def finish(
    experiment: Experiment, folder: Path, workers: int, source: DataSource, *, as_json: bool, quiet: bool
) -> None:
    """Play what is left, and print what came out."""
    turns = experiment.schedule.rounds + 1
    say(
        f"{experiment.name}: {len(experiment.strategies)} strategies x {len(experiment.seeds)} seeds x {turns} "
        f"trainings in {folder}",
        quiet=quiet,
    )
    warn_of_cost(experiment, quiet)
    warn_of_old_lines(folder, quiet)
    rounds = play(experiment, folder, workers, source, quiet)
    if as_json:
        print(json.dumps(as_record(experiment, folder, rounds), indent=2))
    else:
        show_results(experiment, rounds)
        put(["", f"{folder / 'journal.jsonl'} holds every round. Next:", f"  {command('report', folder)}"])


def warn_of_cost(experiment: Experiment, quiet: bool) -> None:
    """Say how long a slow network takes without a GPU: nobody waits for days unwarned."""
    model = experiment.model
    if not isinstance(model, Slow) or model.training.device != "cpu":
        return
    n_cells = len(experiment.strategies) * len(experiment.seeds)
    seconds = n_cells * rows_trained(experiment, model) / model.rows_a_second
    why = "torch finds no GPU" if model.device == "auto" else f"device = {model.device!r}"
    say(
        f"{why}: training {experiment.name} takes about {core_time(seconds)} of a core, and predictions over pool and "
        "test set come on top. A training that is stopped is lost, those before it are kept",
        quiet=quiet,
    )


def warn_of_old_lines(folder: Path, quiet: bool) -> None:
    """Say where a journal could be damaged unnoticed."""
    count = lines_unchecked(folder)
    if count:
        say(
            f"{count} lines of {folder / JOURNAL} have no checksum, as older versions wrote them: damage there is "
            "noticed only where it makes no sense",
            quiet=quiet,
        )


def core_time(seconds: float) -> str:
    """A long time in words: minutes below two hours, hours above.

    Examples
    --------
    >>> core_time(20), core_time(5_400), core_time(7_200), core_time(792_000)
    ('1 minute', '90 minutes', '2 hours', '220 hours')
    """
    if seconds >= 7_200:
        return f"{seconds / 3_600:,.0f} hours"
    minutes = max(round(seconds / 60), 1)
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


def data_option(experiment: Experiment) -> str:
    """What a command must repeat to find published data again."""
    folder = os.environ.get(DATA_VARIABLE)
    needs = experiment.data.images in COLLECTIONS or isinstance(experiment.model, StartsFromWeights)
    return f" --data-dir {shlex.quote(folder)}" if folder and needs else ""


def read_workers(text: str | None, experiment: Experiment) -> int:
    """How many processes: as asked, or one a core; on a GPU, where they would only take turns, one."""
    if text is not None:
        return check_integer("workers", read_number(text), least=1)
    return 1 if experiment.model.on_gpu else min(os.cpu_count() or 1, MOST_WORKERS)


def play(experiment: Experiment, folder: Path, workers: int, source: DataSource, quiet: bool) -> list[Round]:
    """Run with a live display; after Ctrl-C say how to go on."""
    with Board(quiet=quiet) as board:
        try:
            rounds = run_experiment(experiment, folder, workers=workers, progress=board, source=source)
        except KeyboardInterrupt:
            if not (folder / EXPERIMENT).is_file():
                raise Stopped("interrupted before the first training; nothing was written.") from None
            kept, way = len(read_rounds(folder)), command("resume", folder) + data_option(experiment)
            raise Stopped(f"interrupted; {kept} trainings are kept. Go on with: {way}") from None
    if board.last is None:
        say("everything was done already", quiet=quiet)
    else:
        trained = board.last.done - board.last.resumed
        say(f"trained {trained} models in {board.last.seconds:.0f} s", quiet=quiet)
    return rounds


def command(name: str, folder: Path) -> str:
    """A command to copy."""
    return f"{program_name()} {name} {shlex.quote(str(folder))}"


def show_results(experiment: Experiment, rounds: Sequence[Round]) -> None:
    """Test accuracy in percent at the first and last number of labels, mean and standard deviation over seeds."""
    from rich import box
    from rich.table import Table

    found = curves(rounds)
    labels = found[0].labels
    table = Table(box=box.SIMPLE_HEAD, title="test accuracy, %", title_style="bold", title_justify="left")
    table.add_column("strategy")
    places = sorted({0, len(labels) // 2, len(labels) - 1})
    for place in places:
        table.add_column(f"{labels[place]} labels", justify="right", no_wrap=True)
    for curve in found:
        cells = [f"{100 * curve.mean[place]:.1f} ± {100 * curve.spread[place]:.1f}" for place in places]
        shown = cells if len(experiment.seeds) > 1 else [cell.split(" ")[0] for cell in cells]
        table.add_row(*plain_cells(curve.name, *shown))
    show(table)


def as_record(experiment: Experiment, folder: Path, rounds: Sequence[Round]) -> dict[str, object]:
    """The results as JSON holds them."""
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
    """The run in that folder that was worked on last and is not done."""
    found = by_recency(runs)
    for folder in found:
        if not is_finished(folder):
            return folder
    there = f"every run in {runs} is done" if found else f"{runs} holds no run"
    raise MissingFile(f"{there}: there is nothing to resume", hint="begin one with dubito run FILE.toml.")


def latest(runs: Path) -> Path:
    """The run in that folder that was worked on last, done or not."""
    found = by_recency(runs)
    if not found:
        raise MissingFile(
            f"{runs} holds no run", hint="pass the folder of one, or begin one with dubito run FILE.toml."
        )
    return found[0]


def by_recency(runs: Path) -> list[Path]:
    """The runs in a folder, the one worked on last first."""
    return sorted((path.parent for path in runs.glob(f"*/{EXPERIMENT}")), key=last_worked_on, reverse=True)


def last_worked_on(folder: Path) -> float:
    """When a run's journal was last written to."""
    journal = folder / "journal.jsonl"
    return (journal if journal.exists() else folder / EXPERIMENT).stat().st_mtime


# ``about.json`` in a run's folder: the command, and what was read from the data, for when the report is made again.

ABOUT = "about.json"


@dataclass(frozen=True, slots=True)
class AboutRun:
    """What a report says besides what the records hold; None where nothing was kept."""

    command: str | None = None
    shape: str | None = None
    classes: tuple[str, ...] = ()


def save_about(folder: Path, data: Dataset, command: str) -> None:
    """Keep what the report says of the data and the command."""
    shape = f"{len(data.labels):,} rows of {data.features[0].size:,} features in {len(data.classes)} classes"
    test = f", and {len(data.test_labels):,} rows to test on" if data.has_test else ""
    record = {"schema": 1, "checks": True, "command": command, "shape": shape + test, "classes": list(data.classes)}
    write_atomically(str(folder / ABOUT), sealed(record))


def read_about(folder: Path) -> AboutRun:
    """What was kept; a file that was damaged is refused by its name."""
    path = folder / ABOUT
    if not path.exists():
        return AboutRun()
    try:
        record, _ = unsealed(path.read_bytes())
    except DamagedLine as error:
        raise _damaged(path, f"it {error}") from None
    classes = record.get("classes", [])
    if not isinstance(classes, list) or not all(isinstance(each, str) for each in classes):
        raise _damaged(path, "its 'classes' are no names")
    return AboutRun(_text(path, record, "command"), _text(path, record, "shape"), tuple(classes))


def _text(path: Path, record: Record, name: str) -> str | None:
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        raise _damaged(path, f"its {name!r} is no text")
    return value


def _damaged(path: Path, what: str) -> InvalidData:
    return InvalidData(
        f"{path} was changed or damaged: {what}", hint="delete it, and the report does without the command it tells."
    )
