"""``dubito label-studio push | pull | watch``: picks to a server of Label Studio, and labels back."""

from typing import Annotated

import typer

from dubito.cli import options
from dubito.cli.options import FILES, METHOD

# Options of ``dubito label-studio``.

SERVER = "Server"

StudioUrl = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="LABEL_STUDIO_URL",
        show_envvar=False,
        show_default=False,
        rich_help_panel=SERVER,
        help="Where Label Studio runs, such as http://localhost:8080; or in the variable LABEL_STUDIO_URL.",
    ),
]
StudioProjectName = Annotated[
    str,
    typer.Option(
        "--project",
        metavar="NAME",
        show_default=False,
        rich_help_panel=SERVER,
        help="The project's title, or its number.",
    ),
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        rich_help_panel=SERVER,
        help="A file that holds the token, if not in the variable LABEL_STUDIO_API_KEY.",
    ),
]
Timeout = Annotated[
    str,
    typer.Option("--timeout", metavar="SECONDS", rich_help_panel=SERVER, help="How long to wait for one answer."),
]
Offered = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="NAMES",
        rich_help_panel=FILES,
        help="The classes that annotators choose from, separated by commas. A new project is created with them.",
    ),
]
Known = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="NAMES",
        rich_help_panel=FILES,
        help="All classes, separated by commas; a label of another class is an error.",
    ),
]
Shown = Annotated[
    str | None,
    typer.Option(
        "--show",
        metavar="COLUMN",
        rich_help_panel=FILES,
        help="The column to show to annotators. Default: the column of text or of paths.",
    ),
]
Prefix = Annotated[
    str,
    typer.Option(
        "--prefix",
        metavar="URL",
        rich_help_panel=FILES,
        help="URL prefix of the paths of pictures, such as https://example.org/photos/.",
    ),
]
LocalFiles = Annotated[
    str | None,
    typer.Option(
        "--local-files",
        metavar="FOLDER",
        rich_help_panel=FILES,
        help="The folder of the pictures on the server's own disk, instead of --prefix. Its parent, or "
        "--document-root, must be the document root that the server was started with.",
    ),
]
DocumentRoot = Annotated[
    str | None,
    typer.Option(
        "--document-root",
        metavar="FOLDER",
        rich_help_panel=FILES,
        help="LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT of the server, if it is not the parent of --local-files.",
    ),
]
JumpAhead = Annotated[
    bool,
    typer.Option(
        "--jump-ahead",
        metavar="",
        rich_help_panel=METHOD,
        help="Show these items before those left from earlier rounds. This sets the project to uncertainty sampling, "
        "with ranks as scores. If a project has several members, Label Studio then shows items in random order.",
    ),
]
WithGuesses = Annotated[
    bool,
    typer.Option(
        "--guesses/--no-guesses", metavar="", rich_help_panel=METHOD, help="Send the model's prediction for each item."
    ),
]
GuessPool = Annotated[
    str | None,
    typer.Option(
        "--pool",
        metavar="POOL",
        rich_help_panel=FILES,
        help="The pool that the picks come from: with --labeled, a model predicts the class of each pick.",
    ),
]
Skipped = Annotated[
    str | None,
    typer.Option(
        "--skipped",
        metavar="FILE",
        rich_help_panel=FILES,
        help="Also write a table of the items that were skipped, or whose answers are tied.",
    ),
]
LabelsOut = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", show_default=False, help="The table of labels: .csv, .jsonl or .parquet."
    ),
]
RoundsToGo = Annotated[
    str | None,
    typer.Option(
        "--rounds", metavar="N", rich_help_panel=METHOD, help="Stop once the project has N rounds, all answered."
    ),
]
LeftOpen = Annotated[
    str,
    typer.Option(
        "--ahead",
        metavar="N",
        rich_help_panel=METHOD,
        help="Send the next batch once N items or fewer are left to answer.",
    ),
]
Every = Annotated[
    str, typer.Option("--every", metavar="SECONDS", rich_help_panel=SERVER, help="How often to look for answers.")
]

label_studio = typer.Typer(rich_markup_mode="rich", no_args_is_help=True)


@label_studio.command(short_help="Send picks to a project, in their order, each once.")
def push(
    picks: Annotated[
        str, typer.Argument(metavar="PICKS", show_default=False, help="A table that dubito select wrote.")
    ],
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
    from dubito.cli.inputs.pool import read_columns, reading_files
    from dubito.cli.jobs import label_studio as job

    server = job.connect(url, token_file, timeout, quiet=quiet)
    display = job.DisplayOptions(show, prefix, local_files, document_root)
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns)
    with reading_files(input_limit, None, quiet=quiet):
        suggested = job.read_suggestions(picks, display, pool, labeled or [], columns, model)
    job.push_picks(server, project, suggested, job.split_names(classes), display, jump_ahead=jump_ahead, quiet=quiet)


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
    from dubito.cli.jobs import label_studio as job

    files = job.LabelFiles(output, skipped, force=force, classes=job.split_names(classes))
    job.pull_labels(job.connect(url, token_file, timeout, quiet=quiet), project, files, quiet=quiet)


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
    input_limit: options.InputLimit = None,
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
    from dubito.cli.inputs.pool import read_columns, reading_files
    from dubito.cli.jobs import label_studio as job
    from dubito.cli.jobs.select import read_options

    plan = job.read_plan(budget, rounds, ahead, every, jump_ahead=jump_ahead)
    files = job.LabelFiles(output, skipped, force=force, classes=job.split_names(classes))
    server = job.connect(url, token_file, timeout, quiet=quiet)
    display = job.DisplayOptions(show, prefix, local_files, document_root)
    options = read_options(None, strategy, metric, engine, memory_limit, seed, model)
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns)
    with reading_files(input_limit, memory_limit, quiet=quiet):
        picker = job.read_picker(pool, display, labeled or [], columns, options, standardize, guesses=guesses)
    job.watch_project(server, project, picker, plan, files, display, quiet=quiet)
