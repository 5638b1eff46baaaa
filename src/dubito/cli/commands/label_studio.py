"""``dubito label-studio push | pull | watch``: picks to a server of Label Studio, and labels back."""

from typing import Annotated

import typer

from dubito.cli import options
from dubito.cli.options import label_studio as studio

label_studio = typer.Typer(rich_markup_mode="rich", no_args_is_help=True)


@label_studio.command(short_help="Send picks to a project, in their order, each once.")
def push(
    picks: Annotated[
        str, typer.Argument(metavar="PICKS", show_default=False, help="A table that dubito select wrote.")
    ],
    project: studio.StudioProjectName,
    url: studio.StudioUrl,
    token_file: studio.TokenFile = None,
    classes: studio.Offered = None,
    show: studio.Shown = None,
    prefix: studio.Prefix = "",
    local_files: studio.LocalFiles = None,
    document_root: studio.DocumentRoot = None,
    pool: studio.GuessPool = None,
    labelled: options.Labelled = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    feature_columns: options.FeatureColumns = None,
    ignore_columns: options.IgnoreColumns = None,
    model: options.Model = "linear",
    jump_ahead: studio.JumpAhead = False,
    timeout: studio.Timeout = "60",
    input_limit: options.InputLimit = None,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito label-studio push batch.csv --url http://localhost:8080 --project cats --classes cat,dog[/bold]

    Send picks to a project of Label Studio, in their order. What it has already
    is not sent again, so that the command may be repeated whenever it was cut off.
    A project that is not there is made with the classes.
    """
    from dubito.cli.inputs.files import read_columns
    from dubito.cli.inputs.session import reading_files
    from dubito.cli.jobs import label_studio as job

    server = job.connect(url, token_file, timeout, quiet=quiet)
    shown = job.Showing(show, prefix, local_files, document_root)
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns)
    with reading_files(input_limit, None, quiet=quiet):
        suggested = job.read_suggestions(picks, shown, pool, labelled or [], columns, model)
    job.push_picks(server, project, suggested, job.names_in(classes), shown, jump_ahead=jump_ahead, quiet=quiet)


@label_studio.command(short_help="Bring a project's labels into a table.")
def pull(
    project: studio.StudioProjectName,
    url: studio.StudioUrl,
    output: studio.LabelsOut,
    token_file: studio.TokenFile = None,
    classes: studio.Known = None,
    skipped: studio.Skipped = None,
    timeout: studio.Timeout = "60",
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito label-studio pull --url http://localhost:8080 --project cats -o labels.csv[/bold]

    Bring the labels of a project into a table of id, label, annotators and
    agreement, for [bold]dubito select --labelled labels.csv[/bold]. Skipped items are no
    labels, several people's become that of most of them, and a tie is none.
    """
    from dubito.cli.jobs import label_studio as job

    keeper = job.Keeper(output, skipped, force=force, classes=job.names_in(classes))
    job.pull_labels(job.connect(url, token_file, timeout, quiet=quiet), project, keeper, quiet=quiet)


@label_studio.command(short_help="Go round: labels back, a model, the next batch.")
def watch(
    pool: options.Pool,
    project: studio.StudioProjectName,
    url: studio.StudioUrl,
    output: studio.LabelsOut,
    budget: options.Budget,
    token_file: studio.TokenFile = None,
    classes: studio.Offered = None,
    skipped: studio.Skipped = None,
    show: studio.Shown = None,
    prefix: studio.Prefix = "",
    local_files: studio.LocalFiles = None,
    document_root: studio.DocumentRoot = None,
    labelled: options.Labelled = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    feature_columns: options.FeatureColumns = None,
    ignore_columns: options.IgnoreColumns = None,
    strategy: options.Strategy = "auto",
    model: options.Model = "linear",
    metric: options.Metric = "euclidean",
    standardise: options.Standardise = "auto",
    engine: options.Engine = "auto",
    memory_limit: options.MemoryLimit = None,
    seed: options.Seed = "0",
    guesses: studio.WithGuesses = True,
    jump_ahead: studio.JumpAhead = False,
    ahead: studio.LeftOpen = "0",
    rounds: studio.RoundsToGo = None,
    every: studio.Every = "10",
    timeout: studio.Timeout = "60",
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
    from dubito.cli.inputs.files import read_columns
    from dubito.cli.inputs.session import reading_files
    from dubito.cli.jobs import label_studio as job
    from dubito.cli.jobs.select import read_method

    plan = job.read_plan(budget, rounds, ahead, every, jump_ahead=jump_ahead)
    keeper = job.Keeper(output, skipped, force=force, classes=job.names_in(classes))
    server = job.connect(url, token_file, timeout, quiet=quiet)
    shown = job.Showing(show, prefix, local_files, document_root)
    method = read_method(budget, strategy, {}, metric, engine, memory_limit, seed).fitting(model)
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns)
    with reading_files(input_limit, memory_limit, quiet=quiet):
        picker = job.read_picker(pool, shown, labelled or [], columns, method, standardise, guesses=guesses)
    job.watch_project(server, project, picker, plan, keeper, shown, quiet=quiet)
