"""``dubito report``: the report of a run, made again."""

from typing import Annotated

import typer

from dubito.cli import options
from dubito.cli.commands.simulate import Targets


def report(
    folder: Annotated[
        str | None,
        typer.Argument(
            metavar="FOLDER",
            show_default=False,
            help="The folder of a run, finished or not; the last worked on in ./dubito-runs, if not given.",
        ),
    ] = None,
    target: Targets = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            rich_help_panel=options.OUTPUT,
            help="Where the report goes; into the run's own folder if not given.",
        ),
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito report dubito-runs/digits-1a2b3c4d[/bold]

    Make the report of a run again: a page to open in a browser, pictures, and
    the numbers as JSON. A run that is not finished, or still going, is shown as
    far as all its strategies are, and the report says so.
    """
    from pathlib import Path

    from dubito.cli.jobs import report as job
    from dubito.cli.jobs.run import latest, warn_of_old_lines
    from dubito.cli.output import say
    from dubito.errors import MissingFile

    played = latest(Path("dubito-runs")) if folder is None else Path(folder)
    if not played.is_dir():
        raise MissingFile(f"{folder} is no folder", hint="pass that of a run.")
    if folder is None:
        say(f"the run worked on last is {played}", quiet=quiet)
    warn_of_old_lines(played, quiet)
    where = played if output is None else Path(output)
    targets = job.read_targets(target)
    job.tell(job.make_report(played, where, targets, force or output is None), as_json, asked=targets)
