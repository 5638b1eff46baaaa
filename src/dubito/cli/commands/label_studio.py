"""``dubito label-studio push | pull | watch``: send picks to a Label Studio server, and get labels back."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from dubito.arguments import check_settings
from dubito.cli import options
from dubito.cli.commands.import_ import describe_labels
from dubito.cli.commands.select import read_numbers
from dubito.cli.inputs import read_columns, read_integer, read_standardize, reading_files, split_names
from dubito.cli.options import FILES, METHOD, argument, option
from dubito.cli.output import print_note, set_quiet
from dubito.errors import InvalidArgument, InvalidData, OutputExists
from dubito.integrations.exchange.items import LOCAL_FILES, Answer, Gathered, Item, check_classes, items_of, read_items
from dubito.integrations.label_studio.client import RetryPolicy, Server, read_token
from dubito.integrations.label_studio.picking import PoolPicker, Suggestion
from dubito.integrations.label_studio.projects import LabelStudioProject, find_project
from dubito.integrations.label_studio.projects import pull as pull_answers
from dubito.integrations.label_studio.pushing import check_sampling, check_storage
from dubito.integrations.label_studio.pushing import push as push_items
from dubito.integrations.label_studio.watching import WatchPlan, wait_for_server
from dubito.integrations.label_studio.watching import watch as watch_rounds
from dubito.io import Columns, open_source, output_format, write_atomically
from dubito.io.column_notes import should_standardize
from dubito.io.durable import file_lock
from dubito.io.inputs import Inputs, read_inputs, with_labels
from dubito.io.name_tables import read_carried
from dubito.io.picks import render_columns
from dubito.matrix import AnyArray, len_of
from dubito.request.arrays import check_integer, read_number
from dubito.request.columns import ROW
from dubito.request.labels import label_keys
from dubito.strategies import build_strategy

# Options of ``dubito label-studio``.

SERVER = "Server"

StudioUrl = Annotated[
    str,
    option(
        "--url URL",
        "Where Label Studio runs, such as http://localhost:8080; or in the variable LABEL_STUDIO_URL.",
        SERVER,
        envvar="LABEL_STUDIO_URL",
        show_envvar=False,
        show_default=False,
    ),
]
StudioProjectName = Annotated[
    str, option("--project NAME", "The project's title, or its number.", SERVER, show_default=False)
]
TokenFile = Annotated[
    str | None,
    option("--token-file FILE", "A file that holds the token, if not in the variable LABEL_STUDIO_API_KEY.", SERVER),
]
Timeout = Annotated[str, option("--timeout SECONDS", "How long to wait for one answer.", SERVER)]
Offered = Annotated[
    str | None,
    option(
        "--classes NAMES",
        "The classes that annotators choose from, separated by commas. A new project is created with them.",
        FILES,
    ),
]
Known = Annotated[
    str | None,
    option("--classes NAMES", "All classes, separated by commas; a label of another class is an error.", FILES),
]
Shown = Annotated[
    str | None,
    option("--show COLUMN", "The column to show to annotators. Default: the column of text or of paths.", FILES),
]
Prefix = Annotated[
    str, option("--prefix URL", "URL prefix of the paths of pictures, such as https://example.org/photos/.", FILES)
]
LocalFiles = Annotated[
    str | None,
    option(
        "--local-files FOLDER",
        "The folder of the pictures on the server's own disk, instead of --prefix. Its parent, or "
        "--document-root, must be the document root that the server was started with.",
        FILES,
    ),
]
DocumentRoot = Annotated[
    str | None,
    option(
        "--document-root FOLDER",
        "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT of the server, if it is not the parent of --local-files.",
        FILES,
    ),
]
JumpAhead = Annotated[
    bool,
    option(
        "--jump-ahead",
        "Show these items before those left from earlier rounds. This sets the project to uncertainty sampling, "
        "with ranks as scores. If a project has several members, Label Studio then shows items in random order.",
        METHOD,
    ),
]
WithGuesses = Annotated[bool, option("--guesses/--no-guesses", "Send the model's prediction for each item.", METHOD)]
GuessPool = Annotated[
    str | None,
    option(
        "--pool POOL",
        "The pool that the picks come from: with --labeled, a model predicts the class of each pick.",
        FILES,
    ),
]
Skipped = Annotated[
    str | None,
    option("--skipped FILE", "Also write a table of the items that were skipped, or whose answers are tied.", FILES),
]
LabelsOut = Annotated[
    str, option("--output -o FILE", "The table of labels: .csv, .jsonl or .parquet.", show_default=False)
]
RoundsToGo = Annotated[str | None, option("--rounds N", "Stop once the project has N rounds, all answered.", METHOD)]
LeftOpen = Annotated[str, option("--ahead N", "Send the next batch once N items or fewer are left to answer.", METHOD)]
Every = Annotated[str, option("--every SECONDS", "How often to look for answers.", SERVER)]

label_studio = typer.Typer(rich_markup_mode="rich", no_args_is_help=True)


@label_studio.command(short_help="Send picks to a project, in their order, each once.")
def push(
    picks: Annotated[str, argument("PICKS", "A table that dubito select wrote.")],
    project: StudioProjectName,
    url: StudioUrl,
    token_file: TokenFile = None,
    classes: Offered = None,
    show: Shown = None,
    prefix: Prefix = "",
    local_files: LocalFiles = None,
    document_root: DocumentRoot = None,
    pool: GuessPool = None,
    labeled: options.Labeled = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    feature_columns: options.FeatureColumns = None,
    ignore_columns: options.IgnoreColumns = None,
    model: options.Model = "linear",
    jump_ahead: JumpAhead = False,
    timeout: Timeout = "60",
    input_limit: options.InputLimit = None,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito label-studio push batch.csv --url http://localhost:8080 --project cats --classes cat,dog[/bold]

    Send picks to a project of Label Studio, in their order. Items that it already
    has are not sent again, so the command can be repeated after an interruption.
    A project that does not exist is created with the classes.
    """
    set_quiet(quiet)
    server = connect(url, token_file, timeout)
    display = DisplayOptions(show, prefix, local_files, document_root)
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns)
    with reading_files(input_limit):
        suggested = read_suggestions(picks, display, pool, labeled or [], columns, model)
    push_picks(server, project, suggested, split_names(classes), display, jump_ahead=jump_ahead)


@label_studio.command(short_help="Write a project's labels to a table.")
def pull(
    project: StudioProjectName,
    url: StudioUrl,
    output: LabelsOut,
    token_file: TokenFile = None,
    classes: Known = None,
    skipped: Skipped = None,
    timeout: Timeout = "60",
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito label-studio pull --url http://localhost:8080 --project cats -o labels.csv[/bold]

    Write the labels of a project to a table of id, label, annotators and
    agreement, for [bold]dubito select --labeled labels.csv[/bold]. With several
    annotators, the majority decides. Skipped items and ties have no label.
    """
    set_quiet(quiet)
    files = LabelFiles(output, skipped, force=force, classes=split_names(classes))
    found = pull_answers(find_project(connect(url, token_file, timeout), project))
    files.write(found)
    print_note(describe_labels(found, output))


@label_studio.command(short_help="Repeat: write labels, fit a model, send the next batch.")
def watch(
    pool: options.Pool,
    project: StudioProjectName,
    url: StudioUrl,
    output: LabelsOut,
    budget: options.Budget,
    token_file: TokenFile = None,
    classes: Offered = None,
    skipped: Skipped = None,
    show: Shown = None,
    prefix: Prefix = "",
    local_files: LocalFiles = None,
    document_root: DocumentRoot = None,
    labeled: options.Labeled = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    feature_columns: options.FeatureColumns = None,
    ignore_columns: options.IgnoreColumns = None,
    strategy: options.Strategy = "auto",
    model: options.Model = "linear",
    metric: options.Metric = "euclidean",
    standardize: options.Standardize = "auto",
    engine: options.Engine = "auto",
    memory_limit: options.MemoryLimit = None,
    seed: options.Seed = "0",
    guesses: WithGuesses = True,
    jump_ahead: JumpAhead = False,
    ahead: LeftOpen = "0",
    rounds: RoundsToGo = None,
    every: Every = "10",
    timeout: Timeout = "60",
    input_limit: options.InputLimitBesideMemoryLimit = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito label-studio watch pool.parquet -b 50 --url http://localhost:8080 --project cats --classes cat,dog
    -o labels.csv[/bold]

    Send a batch. Once it has been answered, write the labels, fit a model on
    them, and pick and send the next batch, until Ctrl-C. The command waits while
    the server is unavailable, and continues where it was when it is run again.
    """
    set_quiet(quiet)
    plan = read_plan(budget, rounds, ahead, every, jump_ahead=jump_ahead)
    files = LabelFiles(output, skipped, force=force, classes=split_names(classes))
    server = connect(url, token_file, timeout)
    display = DisplayOptions(show, prefix, local_files, document_root)
    numbers = read_numbers({"memory_limit": memory_limit, "seed": seed})
    settings = check_settings({**numbers, "metric": metric, "model": model})
    settings |= {"strategy": build_strategy(strategy, {}), "engine": engine}
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns)
    with reading_files(input_limit, memory_limit):
        picker = read_picker(pool, display, labeled or [], columns, settings, standardize, guesses=guesses)
    watch_project(server, project, picker, plan, files, display)


@dataclass(frozen=True, slots=True)
class DisplayOptions:
    """The column that is shown to annotators, and where the server finds the files that it names."""

    column: str | None
    prefix: str
    local_files: str | None
    document_root: str | None

    def url_prefix(self) -> str:
        """The text that turns the path of a picture into a URL if it is put before it."""
        if self.local_files is None:
            return self.prefix
        folder = os.path.normpath(self.local_files)
        root = os.path.normpath(self.document_root or os.path.dirname(folder))
        if self.prefix or not os.path.isabs(folder) or os.path.commonpath([folder, root]) != root or folder == root:
            hint = f"pass the absolute path of a folder below {root}, and no --prefix."
            raise InvalidArgument("cannot be served", argument="local_files", value=self.local_files, hint=hint)
        return f"{LOCAL_FILES}{os.path.relpath(folder, root)}/"

    def allow_in(self, project: LabelStudioProject) -> None:
        """Let the server show the local files in the project."""
        if self.local_files is not None:
            check_storage(project, os.path.normpath(self.local_files))


class LabelFiles:
    """Writes the tables of labels and of skipped items."""

    def __init__(self, output: str, skipped: str | None, *, force: bool, classes: Sequence[str]) -> None:
        self.output, self.skipped, self.classes, self.force = output, skipped, classes, force
        output_format(output)
        for path in (output, skipped):
            if path is not None and not force and os.path.exists(path):
                _check_is_label_table(path)

    def write(self, found: Gathered) -> None:
        """Replace the tables by the current answers. Raises if a label is not one of the classes."""
        check_classes("Label Studio", (Answer(found.key, found.key, label) for label in found.labels), self.classes)
        if not self.force and os.path.exists(self.output) and os.path.getsize(self.output):
            _check_same_project(self.output, found)
        _write(self.output, found.columns())
        if self.skipped is not None:
            unlabeled = [(name, "skipped") for name in found.skipped] + [(name, "tied") for name in found.tied]
            _write(self.skipped, {found.key: [name for name, _ in unlabeled], "why": [why for _, why in unlabeled]})


def _write(path: str, columns: dict[str, Sequence[object]]) -> None:
    write_atomically(path, render_columns(columns, output_format(path), safe_csv=True))


def _check_is_label_table(path: str) -> None:
    """Raise if this command did not write the table. Its own tables can be replaced: the server has their content."""
    names = set(open_source(path).names) if os.path.getsize(path) else set[str]()
    if names and not {"annotators", "agreement"} <= names and "why" not in names:
        raise OutputExists(f"{path} exists, and this command did not write it", hint="pass --force to replace it.")


def _check_same_project(path: str, found: Gathered) -> None:
    """Raise if the table has items, but none of this project."""
    entry = open_source(path).entries.get(found.key)
    in_file = set() if entry is None else set(label_keys(entry.values()))
    in_project = {*found.names, *found.skipped, *found.tied}
    if in_file and in_project and not in_file & in_project:
        problem = f"{path} has labels of other items, such as {min(in_file)!r}, probably of another project"
        raise OutputExists(problem, hint="pass another file with -o, or --force to replace it.")


def connect(url: str, token_file: str | None, timeout: str) -> Server:
    """The server with its token. Sends no request yet."""
    server = Server(url, read_token(token_file), RetryPolicy(_seconds("timeout", timeout)))
    if server.is_unencrypted:
        print_note(f"the token is sent to {server.url} without encryption; use https:// to protect it.")
    return server


def _seconds(name: str, text: str) -> float:
    value = read_number(text)
    if not isinstance(value, int | float) or not 0.0 < value <= 3600.0:
        raise InvalidArgument("is not allowed", argument=name, value=text, hint="pass seconds, above 0 and up to 3600.")
    return float(value)


def read_plan(budget: str, rounds: str | None, ahead: str, every: str, *, jump_ahead: bool) -> WatchPlan:
    """Check the options of ``watch``."""
    n_rounds = read_integer("rounds", rounds)
    batch = check_integer("budget", read_number(budget), least=1)
    n_open = check_integer("ahead", read_number(ahead), least=0)
    return WatchPlan(batch, n_rounds, n_open, jump_ahead, _seconds("every", every))


def read_suggestions(
    picks: str, display: DisplayOptions, pool: str | None, labeled: Sequence[str], columns: Columns, model: str
) -> list[Suggestion]:
    """The picks, with the predictions of a model if a pool and labels are given."""
    items = read_items(picks, display.column, display.url_prefix(), must_show=True)
    if not items:
        raise InvalidData(f"{picks} holds no picks", hint="pass a file that dubito select wrote.")
    if pool is None:
        if labeled:
            raise InvalidArgument("--labeled needs --pool here", hint="pass --pool as well, to fit a model on both.")
        return [Suggestion(item) for item in items]
    found, table = _read_pool(pool, labeled, columns)
    rows = [Item(name, items[0].key, items[0].kind, "", {}) for name in label_keys(next(iter(table.values())))]
    known = {rows[row].name: label for row, label in found.labels.items()}
    return PoolPicker(found.pool.features, rows, known, model=model).guessed({}, items)


def _read_pool(pool: str, labeled: Sequence[str], columns: Columns) -> tuple[Inputs, dict[str, AnyArray]]:
    """The pool with the labels of its rows, and a column with their ids or row numbers."""
    found = with_labels(read_inputs(pool, labeled, {}, columns), labeled)
    ids = found.pool.ids
    return found, {ROW: np.arange(len_of(found.pool.features))} if ids is None else {"id": ids}


def read_picker(
    pool: str,
    display: DisplayOptions,
    labeled: Sequence[str],
    columns: Columns,
    options: Mapping[str, Any],
    standardize: str,
    *,
    guesses: bool,
) -> PoolPicker:
    found, table = _read_pool(pool, labeled, columns)
    table |= read_carried(pool, None, found.pool, columns)
    items = items_of(pool, table, display.column, display.url_prefix(), must_show=True)
    return PoolPicker(
        found.pool.features,
        items,
        {items[row].name: label for row, label in found.labels.items()},
        found.labeled.rows.tolist(),
        guess=guesses,
        standardize=should_standardize(read_standardize(standardize), found.pool.feature_names),
        **options,
    )


def push_picks(
    server: Server,
    title: str,
    picks: Sequence[Suggestion],
    classes: Sequence[str],
    display: DisplayOptions,
    *,
    jump_ahead: bool,
) -> None:
    """Find or create the project, and send the picks that it does not have yet."""
    project = find_project(server, title, classes=classes, kind=picks[0].item.kind)
    _note_sampling(project, jump_ahead)
    display.allow_in(project)
    pushed = push_items(project, picks, jump_ahead=jump_ahead)
    copies = f", {pushed.removed} duplicates removed" if pushed.removed else ""
    print_note(
        f"{pushed.added} items sent to {project.title!r} ({server.url}/projects/{project.id}), {pushed.there} already "
        f"there{copies}."
    )


def watch_project(
    server: Server, title: str, picker: PoolPicker, plan: WatchPlan, files: LabelFiles, display: DisplayOptions
) -> None:
    """Repeat rounds until Ctrl-C, or until there is nothing left to do."""

    def open_project() -> LabelStudioProject:
        found = find_project(server, title, classes=files.classes, kind=picker.items[0].kind)
        _note_sampling(found, plan.jump_ahead)
        display.allow_in(found)
        return found

    def keep(found: Gathered) -> None:
        files.write(found)
        print_note(describe_labels(found, files.output))

    with file_lock(files.output), suppress(KeyboardInterrupt):
        project = wait_for_server(open_project, plan, print_note)
        print_note(f"watching {project.title!r} ({server.url}/projects/{project.id}); Ctrl-C stops.")
        watch_rounds(project, picker, plan, keep=keep, tell=print_note)
        print_note("done.")
        return
    print_note("stopped; run the same command again to continue.")


def _note_sampling(project: LabelStudioProject, jump_ahead: bool) -> None:
    note = check_sampling(project, jump_ahead=jump_ahead)
    if note is not None:
        print_note(note)
