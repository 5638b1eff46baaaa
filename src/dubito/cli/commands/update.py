"""``dubito update``: use your own model's probabilities in a labeling project."""

from typing import Annotated

import typer

from dubito.cli import options


def update(
    project: Annotated[
        str, typer.Argument(metavar="PROJECT", show_default=False, help="The folder of a project, or its source.")
    ],
    probabilities: Annotated[
        str | None,
        typer.Option(
            "--probabilities",
            metavar="FILE",
            help="One row per item and one column per class (.npz, .parquet, .csv), with ids; the classes are an array "
            "classes or the names of the columns.",
        ),
    ] = None,
    none: Annotated[bool, typer.Option("--none", metavar="", help="Go back to dubito's own model.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito update photos.dubito --probabilities mine.npz[/bold]

    Use your own model's probabilities instead of dubito's in the next rounds. A
    running server uses them from its next round on.
    """
    from dubito.cli.jobs.label import require_extra, update_project

    require_extra()
    update_project(project, probabilities, none=none, quiet=quiet)
