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
        help="The classes people choose from, with commas between: a project that is not there yet is made with them.",
    ),
]
Known = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="NAMES",
        rich_help_panel=FILES,
        help="The classes there are, with commas between: any other is refused by its name.",
    ),
]
Shown = Annotated[
    str | None,
    typer.Option(
        "--show",
        metavar="COLUMN",
        rich_help_panel=FILES,
        help="What people look at; the column of text or of paths if not given.",
    ),
]
Prefix = Annotated[
    str,
    typer.Option(
        "--prefix",
        metavar="URL",
        rich_help_panel=FILES,
        help="What stands before a picture's path, such as https://example.org/photos/.",
    ),
]
LocalFiles = Annotated[
    str | None,
    typer.Option(
        "--local-files",
        metavar="FOLDER",
        rich_help_panel=FILES,
        help="Where the pictures are on the server's own disk, instead of --prefix. The folder's parent, or "
        "--document-root, is what it was started with.",
    ),
]
DocumentRoot = Annotated[
    str | None,
    typer.Option(
        "--document-root",
        metavar="FOLDER",
        rich_help_panel=FILES,
        help="LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT of the server, where it is not the parent of --local-files.",
    ),
]
JumpAhead = Annotated[
    bool,
    typer.Option(
        "--jump-ahead",
        metavar="",
        rich_help_panel=METHOD,
        help="Show these before what is left of earlier rounds: the project gets uncertainty sampling, with ranks as "
        "scores. With several members in the project, Label Studio then goes by chance.",
    ),
]
WithGuesses = Annotated[
    bool,
    typer.Option(
        "--guesses/--no-guesses", metavar="", rich_help_panel=METHOD, help="Send what the model takes each item for."
    ),
]
GuessPool = Annotated[
    str | None,
    typer.Option(
        "--pool",
        metavar="POOL",
        rich_help_panel=FILES,
        help="The pool that the picks came from: with --labeled, a model guesses what each is.",
    ),
]
Skipped = Annotated[
    str | None,
    typer.Option(
        "--skipped",
        metavar="FILE",
        rich_help_panel=FILES,
        help="A table of items that were skipped, or on which people are tied, too.",
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

    Send picks to a project of Label Studio, in their order. What it has already
    is not sent again, so that the command may be repeated whenever it was cut off.
    A project that is not there is made with the classes.
    """
    from dubito.cli.inputs.pool import read_columns, reading_files
    from dubito.cli.jobs import label_studio as job

    server = job.connect(url, token_file, timeout, quiet=quiet)
    shown = job.Showing(show, prefix, local_files, document_root)
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns)
    with reading_files(input_limit, None, quiet=quiet):
        suggested = job.read_suggestions(picks, shown, pool, labeled or [], columns, model)
    job.push_picks(server, project, suggested, job.names_in(classes), shown, jump_ahead=jump_ahead, quiet=quiet)


@label_studio.command(short_help="Bring a project's labels into a table.")
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

    Bring the labels of a project into a table of id, label, annotators and
    agreement, for [bold]dubito select --labeled labels.csv[/bold]. Skipped items are no
    labels, several people's become that of most of them, and a tie is none.
    """
    from dubito.cli.jobs import label_studio as job

    keeper = job.Keeper(output, skipped, force=force, classes=job.names_in(classes))
    job.pull_labels(job.connect(url, token_file, timeout, quiet=quiet), project, keeper, quiet=quiet)


@label_studio.command(short_help="Go round: labels back, a model, the next batch.")
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

    Send a batch; once people have answered it, write their labels, fit a model on
    them, pick the next batch by it, and send that, until Ctrl-C. It waits while
    the server is away, and started again it goes on where it was.
    """
    from dubito.cli.inputs.pool import read_columns, reading_files
    from dubito.cli.jobs import label_studio as job
    from dubito.cli.jobs.select import read_options

    plan = job.read_plan(budget, rounds, ahead, every, jump_ahead=jump_ahead)
    keeper = job.Keeper(output, skipped, force=force, classes=job.names_in(classes))
    server = job.connect(url, token_file, timeout, quiet=quiet)
    shown = job.Showing(show, prefix, local_files, document_root)
    options = read_options(None, strategy, metric, engine, memory_limit, seed, model)
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns)
    with reading_files(input_limit, memory_limit, quiet=quiet):
        picker = job.read_picker(pool, shown, labeled or [], columns, options, standardize, guesses=guesses)
    job.watch_project(server, project, picker, plan, keeper, shown, quiet=quiet)
