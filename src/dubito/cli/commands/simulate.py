"""``dubito simulate``: replay active learning on labeled data."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from dubito.cli import options
from dubito.cli.commands import report
from dubito.cli.commands.report import ABOUT, describe_schedule, save_about
from dubito.cli.commands.run import describe_data, read_workers, run_with_progress
from dubito.cli.inputs import (
    bounded_inputs,
    read_columns,
    read_integer,
    read_missing,
    read_standardize,
    reading_files,
    resolve_project,
)
from dubito.cli.options import argument, option
from dubito.cli.output import print_note, set_quiet
from dubito.errors import InvalidArgument, InvalidData, MissingFile, OutputExists, in_library, named
from dubito.experiments.data import Dataset
from dubito.experiments.data_sources import DataSource
from dubito.experiments.models.base import Model
from dubito.experiments.models.kinds import model_from_table
from dubito.experiments.plan import Arm, Data, Experiment, Schedule, parse_strategy, read_seeds
from dubito.experiments.rounds import training_rows
from dubito.experiments.runner import check_folder
from dubito.io import Columns, open_source, split_spec
from dubito.io.column_notes import read_feature_columns, should_standardize
from dubito.io.labeled import FEWEST_LABELS
from dubito.request.arrays import check_real, read_number
from dubito.request.columns import label_name

SCHEDULE = "Schedule"

DataPath = Annotated[
    str,
    argument(
        "DATA",
        "Features and labels of labeled data: .npz, CSV or Parquet. file.npz::key names the features. Or a pool whose "
        "labels are in --labeled files; or a project of dubito label.",
    ),
]
TestFile = Annotated[str | None, option("--test FILE", "A test set, in a file of the same kind.", options.FILES)]
TestShare = Annotated[
    str | None,
    option(
        "--test-share X",
        "Share of each class to hold out for testing, if there is no test set: 0.2. A test set in DATA is ignored "
        "if this is given.",
        options.FILES,
    ),
]
Strategies = Annotated[
    list[str] | None,
    option(
        "--strategy -s NAME",
        "What to compare with random, such as doubt-coreset:strength=0.5. May be repeated.",
        options.METHOD,
        autocompletion=options.strategy_names,
    ),
]
PoolKind = Annotated[
    str,
    option(
        "--pool KIND",
        "Modify the training data first: redundant:5 (adds 5 near-copies of each row), ambiguous:1, imbalanced:10, "
        "mislabelled:0.1, joined by +.",
        options.METHOD,
    ),
]
ModelKind = Annotated[
    str,
    option(
        "--model KIND",
        "The model: linear (logistic regression, linear:c=10), forest (forest:trees=300), mlp, or another kind of "
        "dubito run. linear:samples=10 adds the committee that bald and batchbald need.",
        options.METHOD,
    ),
]
Initial = Annotated[str | None, option("--initial N", "Labels drawn at random before the first round.", SCHEDULE)]
Budget = Annotated[str | None, option("--budget -b N", "Labels per round.", SCHEDULE)]
Rounds = Annotated[str | None, option("--rounds N", "Rounds.", SCHEDULE)]
Seeds = Annotated[str, option("--seeds N", "Number of repetitions, each with other initial labels.", SCHEDULE)]
Workers = Annotated[
    str | None, option("--workers N", "Number of processes. Default: one per core if the data is large.", SCHEDULE)
]
Folder = Annotated[
    str | None,
    option(
        "--output -o FOLDER",
        "The folder for the report and the records. Default: ./dubito-runs/NAME-...",
        options.OUTPUT,
    ),
]
Force = Annotated[bool, option("--force", "Start over in a folder that has a run.", options.OUTPUT)]


def simulate(
    data: DataPath,
    labeled: options.Labeled = None,
    test: TestFile = None,
    test_share: TestShare = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    feature_columns: options.FeatureColumns = None,
    ignore_columns: options.IgnoreColumns = None,
    no_label: options.NoLabel = None,
    missing: options.Missing = None,
    input_limit: options.InputLimit = None,
    standardize: options.Standardize = "auto",
    strategy: Strategies = None,
    pool: PoolKind = "clean",
    model: ModelKind = "linear",
    initial: Initial = None,
    budget: Budget = None,
    rounds: Rounds = None,
    seeds: Seeds = "10",
    workers: Workers = None,
    target: options.Targets = None,
    output: Folder = None,
    force: Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito simulate data.npz[/bold]

    Would active learning save labels on my data, and how many? It is simulated
    on data that is labeled already: every strategy starts from the same few
    labels, queries more in rounds, and is tested on held-out data.

    data.npz contains features and labels. The results are a table, a report to
    open in a browser, plots and all records. Random is always among the
    strategies, and if none is better, the report says so. After an interruption,
    the same command continues where it was.
    """
    set_quiet(quiet)
    name = name_of(data)
    data, labeled, ignore_columns, no_label = resolve_project(data, labeled, ignore_columns, no_label)
    standardize_mode, missing_mode = read_standardize(standardize), read_missing(missing)
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns, no_label=no_label)
    sizes = Sizes(read_integer("initial", initial), read_integer("budget", budget), read_integer("rounds", rounds))
    targets = report.read_targets(target)
    arms, learner = read_arms(strategy), read_model(model)
    need_samples = [arm.name for arm in arms if arm.needs_samples]
    if need_samples and not learner.samples:
        join = "," if ":" in model else ":"
        problem = f"needs a committee, and {named('model', model)} has none"
        hint = f"pass {named('model', f'{model}{join}samples=10')}."
        raise InvalidArgument(problem, argument="strategy", value=need_samples[0], hint=hint)
    draft = Experiment(
        name=name,
        strategies=arms,
        data=read_settings(data, labeled or [], test, test_share, columns),
        model=learner,
        pool=pool,
        seeds=read_seeds(read_number(seeds)),
    )
    with bounded_inputs(input_limit):
        with reading_files():
            source = read_data(draft, data, test, missing_mode)
            standardized = should_standardize(standardize_mode, read_feature_columns(data, columns))
            draft = replace(draft, data=replace(draft.data, standardize=standardized, missing=missing_mode))
        experiment = scheduled(draft, source.shared(), sizes)
        folder = Path(output) if output is not None else Path("dubito-runs") / experiment.folder_name
        open_run(experiment, folder, force)
        describe_data(draft.data, source, standardize_mode)
        command = shlex.join(["dubito", *sys.argv[1:]])
        run(experiment, folder, source, command, workers)
        report.print_report(report.make_report(folder, folder, targets, force=True), as_json, targets)


STRATEGIES = ("random", "auto", "margin", "least-confidence", "coreset", "doubt-coreset", "doubt-coreset:strength=0.5")
"""The default strategies."""
ROUNDS, MOST_BUDGET = 10, 1000
BUDGET_SHARE = 0.02
"""Default budget as a fraction of the training rows: ten rounds label about a fifth."""
OWN_FILES = ("experiment.toml", "journal.jsonl", "data.npz", ABOUT, "report.html", "results.json")
PICTURES = ("curves.svg", "curves.png")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The options of the schedule; None means a default that depends on the data."""

    initial: int | None
    budget: int | None
    rounds: int | None

    def schedule(self, n_train: int, n_classes: int, n_clean: int | None = None) -> Schedule:
        """The schedule with defaults for this number of training rows and classes.

        The default budget does not count rows that a modified pool adds (``n_train`` beyond ``n_clean``).
        """
        rows = n_train if n_clean is None else min(n_train, n_clean)
        budget = self.budget or min(MOST_BUDGET, _one_digit(BUDGET_SHARE * rows))
        initial = self.initial or min(max(budget, 2 * n_classes), max(1, n_train - budget))
        rounds = self.rounds or max(1, min(ROUNDS, (n_train - initial) // budget))
        schedule = Schedule(initial, budget, rounds)
        schedule.check_size(n_train)
        return schedule


def _one_digit(value: float) -> int:
    """The value rounded to one significant digit, at least 1.

    Examples
    --------
    >>> [_one_digit(value) for value in (0.3, 29.0, 860.0)]
    [1, 30, 900]
    """
    return int(float(f"{max(value, 1.0):.0e}"))


def read_arms(given: Sequence[str] | None) -> tuple[Arm, ...]:
    """Random, followed by the given strategies or else the default ones."""
    arms = map(parse_strategy, given or STRATEGIES)
    return (Arm("random"), *(arm for arm in arms if arm.name != "random"))


def read_model(text: str) -> Model:
    """The model for text such as ``linear:c=10``.

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


def name_of(spec: str) -> str:
    """A name for an experiment on a file, which is valid as the name of a folder.

    Examples
    --------
    >>> name_of("my data/pool.v2.npz::embeddings"), name_of("_.csv")
    ('pool.v2', 'data')
    """
    stem = Path(split_spec(spec)[0].rstrip("/")).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "data"


def read_settings(
    data: str, labeled: Sequence[str], test: str | None, test_share: str | None, columns: Columns
) -> Data:
    """The ``[data]`` settings with absolute paths."""
    return Data(
        path=os.path.abspath(data),
        labeled=tuple(map(os.path.abspath, labeled)),
        test=None if test is None else os.path.abspath(test),
        test_share=None if test_share is None else check_real("test_share", read_number(test_share), least=0.0),
        id_column=columns.id,
        label_column=columns.label,
        feature_columns=tuple(columns.features),
        ignore_columns=tuple(columns.ignore),
        no_label=tuple(columns.no_label),
    )


def read_data(draft: Experiment, data: str, test: str | None = None, missing: str | None = None) -> DataSource:
    """Read the data now, from the paths as typed, so that errors are raised before the output folder is created."""
    source = DataSource(replace(draft, data=replace(draft.data, path=data, test=test, missing=missing)))
    has_labels = [None if draft.data.labeled else data, test]
    for path in [split_spec(each)[0] for each in has_labels if each is not None]:
        opened = open_source(path)
        if not any(entry.ndim == 1 for entry in opened.entries.values()):
            hint = "add an array labels with one class per row."
            raise MissingFile(f"{path} holds no labels, only {opened.listing()}", hint=hint)
    if not draft.data.labeled:
        _check_classes(data, draft.data.label_column, source.shared())
    return source


def _check_classes(data: str, label_column: str | None, found: Dataset) -> None:
    """Raise if there are more classes than half of the rows, as if the column held ids, numbers or texts."""
    n_classes, n_rows = len(found.classes), len(found.labels)
    if n_rows < FEWEST_LABELS or 2 * n_classes <= n_rows:
        return
    opened = open_source(split_spec(data)[0])
    name = label_column or label_name([name for name in opened.names if name])
    problem = f"{opened.path} has no column of labels: the likeliest one has"
    if name is not None:
        problem = f"{opened.noun} {name!r} of {opened.path} cannot be the class of the rows: it has"
    raise InvalidData(
        f"{problem} {n_classes:,} different values in {n_rows:,} rows",
        hint=f"name another column with --label-column, or put the values into a few classes; it holds "
        f"{opened.listing()}.",
    )


def scheduled(draft: Experiment, data: Dataset, sizes: Sizes) -> Experiment:
    """The experiment with a schedule that fits the number of rows."""
    n_train, n_clean = (training_rows(each, data, each.seeds[0]) for each in (draft, replace(draft, pool="clean")))
    for arm in draft.strategies:
        most = getattr(arm.build(), "max_pool", n_train)
        if n_train > most:
            problem = f"takes at most {most:,} points, and the training part has {n_train:,}"
            raise InvalidArgument(problem, argument="strategy", value=arm.name, hint="leave it out, or use coreset.")
    return replace(draft, schedule=sizes.schedule(n_train, len(data.classes), n_clean))


def open_run(experiment: Experiment, folder: Path, force: bool) -> None:
    """Raise if the folder has other files or another run, or remove that run if ``force``."""
    if folder.is_file():
        raise OutputExists(f"{folder} is a file", hint="pass -o with another folder.")
    if force:
        clear_run(folder)
    elif (folder / "experiment.toml").exists():
        try:
            check_folder(experiment, folder)
        except InvalidArgument:
            hint = "pass --force to start over, or -o with another folder."
            raise OutputExists(f"{folder} holds a run with other settings", hint=hint) from None
    elif folder.is_dir() and any(folder.iterdir()):
        hint = "pass -o with another folder, or --force to write into it."
        raise OutputExists(f"{folder} holds other files", hint=hint)


def clear_run(folder: Path) -> None:
    for name in (*OWN_FILES, *PICTURES):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def run(experiment: Experiment, folder: Path, source: DataSource, command: str, workers: str | None) -> None:
    """Run the experiment in its folder, and save the description of the data for its report."""
    data = source.shared()
    processes = read_workers(workers, experiment, data.features.size)
    n_runs = len(experiment.strategies) * len(experiment.seeds)
    print_note(f"{experiment.name}: {describe_schedule(experiment)}; {n_runs} runs into {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    save_about(folder, data, command)
    run_with_progress(experiment, folder, processes, source, "the same command")
