"""``dubito update``: change the classes of a labeling project, or use your own model's probabilities in it."""

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
    rename: Annotated[
        list[str] | None,
        typer.Option("--rename", metavar="OLD=NEW", help="Rename a class; its labels follow. May be repeated."),
    ] = None,
    merge: Annotated[
        list[str] | None,
        typer.Option("--merge", metavar="CLASS=INTO", help="Make all labels of a class those of another."),
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="CLASS", help="Remove a class with its labels.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", metavar="", help="Undo the last change of a class.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito update photos.dubito --rename cat=tabby[/bold]

    Change the classes of a project. Labels follow, and --undo takes the last change
    back. While a server has the project open, change classes on its page.

    [bold]dubito update photos.dubito --probabilities mine.npz[/bold]

    Use your own model's probabilities instead of dubito's in the next rounds. A
    running server uses them from its next round on.
    """
    from dubito.cli.jobs.label import change_classes, read_class_changes, require_extra, update_project

    require_extra()
    changes = read_class_changes(rename, merge, remove, undo)
    if changes and not none and probabilities is None:
        change_classes(project, changes, quiet=quiet)
    else:
        update_project(project, probabilities, none=none, is_more=bool(changes), quiet=quiet)
