"""``dubito export``: picks for a labeling tool."""

from typing import Annotated, get_args

import typer

from dubito.cli import options
from dubito.cli.output import one_of
from dubito.integrations.exchange.formats import WRITERS, ProjectFormat

Classes = Annotated[
    str | None,
    typer.Option("--classes", metavar="NAMES", help="The classes to choose from, separated by commas."),
]


def export(
    picks: Annotated[
        str,
        typer.Argument(
            metavar="PICKS",
            show_default=False,
            help="A table that dubito select wrote; or a project, to export its labels.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TOOL",
            show_default=False,
            help=f"For picks: {one_of(WRITERS)}. For a project: {one_of(get_args(ProjectFormat))}.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", show_default=False, help="The file, or folder, to write."),
    ],
    classes: Classes = None,
    show: Annotated[
        str | None, typer.Option("--show", metavar="COLUMN", help="The column to show. Default: text or path.")
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", metavar="TEXT", help="URL prefix of the paths of pictures.")] = "",
    pictures: Annotated[
        str, typer.Option("--pictures", metavar="FOLDER", help="The folder of the pictures, for --to folders.")
    ] = ".",
    force: options.Force = False,
    input_limit: options.InputLimit = None,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito export batch.csv --to label-studio --classes cat,dog -o tasks.json[/bold]

    Write picks for a labeling tool. Each pick has its id, so that
    [bold]dubito import[/bold] can match the labels with the rows.
    """
    from dubito.cli.inputs import reading_files, split_names
    from dubito.cli.jobs.label import export_project
    from dubito.cli.output import say
    from dubito.integrations.exchange import export_picks, read_items
    from dubito.integrations.exchange.formats import labeling_config
    from dubito.labeling.project import is_project

    if is_project(picks):
        export_project(picks, to, output, force=force, quiet=quiet)
        return
    known = split_names(classes)
    with reading_files(input_limit, None, quiet=quiet):
        n = export_picks(picks, output, to, classes=known, show=show, prefix=prefix, pictures=pictures, force=force)
        if to == "label-studio" and known and n:
            say(f"labeling config: {labeling_config(read_items(picks, show)[0].kind, known)}", quiet=quiet)
    say(f"{n} items written to {output} for {to}.", quiet=quiet)
