"""``dubito update``: what your own model says, for a project that is being labeled."""

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
            help="A row an item and a column a class (.npz, .parquet, .csv), with ids; classes by an array classes or "
            "the names of the columns.",
        ),
    ] = None,
    none: Annotated[bool, typer.Option("--none", metavar="", help="Go back to dubito's own model.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito update photos.dubito --probabilities mine.npz[/bold]

    Let the next rounds go by your own model's probabilities in the place of
    dubito's. A server that is running takes them up with the next round.
    """
    from dubito.cli.jobs.label import require_extra, update_project

    require_extra()
    update_project(project, probabilities, none=none, quiet=quiet)
