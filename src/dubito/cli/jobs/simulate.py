"""What ``dubito simulate`` does once its options are read."""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dubito.cli.commands.report import ABOUT, save_about, schedule_described
from dubito.cli.output import Board, Stopped, say
from dubito.errors import InvalidArgument, InvalidData, MissingFile, OutputExists, in_library, named
from dubito.experiments.data import Dataset
from dubito.experiments.data_sources import DataSource
from dubito.experiments.models.base import Model
from dubito.experiments.models.kinds import model_from_table
from dubito.experiments.plan import Arm, Data, Experiment, Schedule, parse_strategy
from dubito.experiments.rounds import training_rows
from dubito.experiments.runner import check_folder, run_experiment
from dubito.io import Columns, open_source, split_spec
from dubito.request.arrays import check_integer, check_real, read_number

STRATEGIES = ("random", "auto", "margin", "least-confidence", "coreset", "doubt-coreset", "doubt-coreset:strength=0.5")
"""Compared where none is named."""
ROUNDS, MOST_BUDGET, MOST_WORKERS = 10, 1000, 8
WORTH_SHARING = 1_000_000
"""Numbers of features from which on several processes are started unasked: each takes a second or two to come up."""
BUDGET_SHARE = 0.02
"""Of the training rows, asked for in a round: ten rounds label about a fifth."""
OWN_FILES = ("experiment.toml", "journal.jsonl", "data.npz", ABOUT, "report.html", "results.json")
PICTURES = ("curves.svg", "curves.png")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How labels are asked for; None stands for what the data suggests."""

    initial: int | None
    budget: int | None
    rounds: int | None

    def schedule(self, n_train: int, n_classes: int, n_clean: int | None = None) -> Schedule:
        """As asked, and for the rest what fits so many training rows and classes.

        Rows that a pool adds (``n_train`` beyond ``n_clean``) are no reason to ask for more at once.
        """
        rows = n_train if n_clean is None else min(n_train, n_clean)
        budget = self.budget or min(MOST_BUDGET, _one_digit(BUDGET_SHARE * rows))
        initial = self.initial or min(max(budget, 2 * n_classes), max(1, n_train - budget))
        rounds = self.rounds or max(1, min(ROUNDS, (n_train - initial) // budget))
        schedule = Schedule(initial, budget, rounds)
        schedule.check_size(n_train)
        return schedule


def read_sizes(initial: str | None, budget: str | None, rounds: str | None) -> Sizes:
    """Whole numbers where there are any."""
    given = {"initial": initial, "budget": budget, "rounds": rounds}
    read = {
        name: None if text is None else check_integer(name, read_number(text), least=1) for name, text in given.items()
    }
    return Sizes(read["initial"], read["budget"], read["rounds"])


def _one_digit(value: float) -> int:
    """A whole number with one digit that counts.

    Examples
    --------
    >>> [_one_digit(value) for value in (0.3, 29.0, 860.0)]
    [1, 30, 900]
    """
    return int(float(f"{max(value, 1.0):.0e}"))


def read_arms(given: Sequence[str] | None) -> tuple[Arm, ...]:
    """The strategies named, or the usual ones; random comes first and is always there."""
    arms = [parse_strategy(text) for text in given or STRATEGIES]
    named = [arm for arm in arms if arm.name != "random"]
    return (Arm("random"), *named)


def read_model(text: str) -> Model:
    """A model out of text such as ``linear:c=10``.

    Examples
    --------
    >>> read_model("linear:c=10").c
    10
    """
    kind, _, rest = text.partition(":")
    table: dict[str, object] = {"kind": kind.strip()}
    for part in rest.split(",") if rest.strip() else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not name or not equals or not value:
            problem = f"has the setting {part.strip()!r}"
            raise InvalidArgument(problem, argument="model", value=text, hint="write kind:name=value,name=value.")
        table[name.replace("-", "_")] = read_number(value)
    try:
        return model_from_table(table)
    except (InvalidArgument, InvalidData) as error:
        raise error.reworded(in_library, f"{named('model', text)}: ", InvalidArgument) from error


def check_committee(arms: Sequence[Arm], model: Model, text: str) -> None:
    """Raise if a strategy needs a committee and the model has none, with an error message for the command line."""
    asking = [arm.name for arm in arms if arm.needs_samples]
    if asking and not model.samples:
        join = "," if ":" in text else ":"
        raise InvalidArgument(
            f"needs a committee, and {named('model', text)} has none",
            argument="strategy",
            value=asking[0],
            hint=f"pass {named('model', f'{text}{join}samples=10')}.",
        )


def read_workers(text: str | None, cells: int, numbers: int) -> int:
    """How many processes: as asked, or one a core where the data is large enough to be worth starting them."""
    if text is not None:
        return check_integer("workers", read_number(text), least=1)
    return min(os.cpu_count() or 1, MOST_WORKERS, cells) if numbers >= WORTH_SHARING else 1


def name_of(spec: str) -> str:
    """A name for an experiment on that file, which can be a folder's.

    Examples
    --------
    >>> name_of("my data/pool.v2.npz::embeddings"), name_of("_.csv")
    ('pool.v2', 'data')
    """
    stem = Path(split_spec(spec)[0].rstrip("/")).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "data"


def read_settings(data: str, test: str | None, test_share: str | None, columns: Columns) -> Data:
    """Where the data is, so that it means the same from anywhere."""
    return Data(
        path=os.path.abspath(data),
        test=None if test is None else os.path.abspath(test),
        test_share=None if test_share is None else check_real("test_share", read_number(test_share), least=0.0),
        id_column=columns.id,
        label_column=columns.label,
        feature_columns=tuple(columns.features),
        ignore_columns=tuple(columns.ignore),
        no_label=tuple(columns.no_label),
    )


def prepared(draft: Experiment, standardize: bool, missing: str | None) -> Experiment:
    """The experiment with features standardized or not, and missing ones filled in or left out."""
    return replace(draft, data=replace(draft.data, standardize=standardize, missing=missing))


def read_data(draft: Experiment, data: str, test: str | None = None, missing: str | None = None) -> DataSource:
    """The data to play on, read now by the names given: what is wrong is said before anything is made."""
    source = DataSource(replace(draft, data=replace(draft.data, path=data, test=test, missing=missing)))
    for path in [split_spec(each)[0] for each in (data, test) if each is not None]:
        opened = open_source(path)
        if not any(entry.ndim == 1 for entry in opened.entries.values()):
            raise MissingFile(
                f"{path} holds no labels, only {opened.listing()}", hint="add an array labels, one class a row."
            )
    source.whole()
    return source


def scheduled(draft: Experiment, data: Dataset, sizes: Sizes) -> Experiment:
    """The experiment with a schedule that fits the rows there are to ask for."""
    n_train, n_clean = (training_rows(each, data, each.seeds[0]) for each in (draft, replace(draft, pool="clean")))
    for arm in draft.strategies:
        most = getattr(arm.build(), "max_pool", n_train)
        if n_train > most:
            raise InvalidArgument(
                f"takes at most {most:,} points, and the training part has {n_train:,}",
                argument="strategy",
                value=arm.name,
                hint="leave it out, or take coreset.",
            )
    return replace(draft, schedule=sizes.schedule(n_train, len(data.classes), n_clean))


def open_run(experiment: Experiment, folder: Path, force: bool) -> None:
    """Refuse a folder that holds something else, or clear it of an earlier run if that is wanted."""
    if folder.is_file():
        raise OutputExists(f"{folder} is a file", hint="pass -o with another folder.")
    if force:
        clear_run(folder)
    elif (folder / "experiment.toml").exists():
        try:
            check_folder(experiment, folder)
        except InvalidArgument:
            raise OutputExists(
                f"{folder} holds a run with other settings",
                hint="pass --force to begin anew, or -o with another folder.",
            ) from None
    elif folder.is_dir() and any(folder.iterdir()):
        raise OutputExists(
            f"{folder} holds other files", hint="pass -o with another folder, or --force to write into it."
        )


def clear_run(folder: Path) -> None:
    """Remove what a run leaves in its folder, and nothing else."""
    for name in (*OWN_FILES, *PICTURES):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def run(
    experiment: Experiment, folder: Path, source: DataSource, command: str, workers: str | None, *, quiet: bool
) -> None:
    """Play the experiment in its folder, which also keeps what its report says of the data."""
    data = source.whole()
    cells = len(experiment.strategies) * len(experiment.seeds)
    processes = read_workers(workers, cells, data.features.size)
    say(f"{experiment.name}: {schedule_described(experiment)}; {cells} runs into {folder}", quiet=quiet)
    folder.mkdir(parents=True, exist_ok=True)
    save_about(folder, data, command)
    play(experiment, folder, processes, source, quiet)


def play(experiment: Experiment, folder: Path, workers: int, source: DataSource, quiet: bool) -> None:
    """Run what is left with a live display; after Ctrl-C say how to go on."""
    with Board(quiet=quiet) as board:
        try:
            run_experiment(experiment, folder, workers=workers, progress=board, source=source)
        except KeyboardInterrupt:
            done = f"{board.last.done} of {board.last.total} trainings" if board.last else "no training"
            raise Stopped(f"interrupted after {done}; run the same command again to go on.") from None
    if board.last is not None:
        trained, resumed = board.last.done - board.last.resumed, board.last.resumed
        before = f" ({resumed} were there already)" if resumed else ""
        say(f"trained {trained} models in {board.last.seconds:.0f} s{before}", quiet=quiet)
