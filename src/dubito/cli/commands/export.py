"""``dubito export``: picks for a labeling tool."""

from typing import Annotated, get_args

from dubito.cli import options
from dubito.cli.inputs import reading_files, split_names
from dubito.cli.options import argument, option
from dubito.cli.output import one_of, say
from dubito.errors import InvalidArgument
from dubito.integrations.exchange import export_picks, read_items
from dubito.integrations.exchange.boxes import box_config, read_pictures
from dubito.integrations.exchange.formats import WRITERS, ProjectFormat, labeling_config
from dubito.io import write_atomically
from dubito.labeling.project import is_project
from dubito.registry import require
from dubito.request.arrays import check_choice

Classes = Annotated[str | None, option("--classes NAMES", "The classes to choose from, separated by commas.")]


def export(
    picks: Annotated[str, argument("PICKS", "A table that dubito select wrote; or a project, to export its labels.")],
    to: Annotated[
        str,
        option(
            "--to TOOL",
            f"For picks: {one_of(WRITERS)}. For a project: {one_of(get_args(ProjectFormat))}.",
            show_default=False,
        ),
    ],
    output: Annotated[str, option("--output -o FILE", "The file, or folder, to write.", show_default=False)],
    classes: Classes = None,
    show: Annotated[str | None, option("--show COLUMN", "The column to show. Default: text or path.")] = None,
    prefix: Annotated[str, option("--prefix TEXT", "URL prefix of the paths of pictures.")] = "",
    pictures: Annotated[str, option("--pictures FOLDER", "The folder of the pictures, for --to folders.")] = ".",
    force: options.Force = False,
    input_limit: options.InputLimit = None,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito export batch.csv --to label-studio --classes cat,dog -o tasks.json[/bold]

    Write picks for a labeling tool. Each pick has its id, so that
    [bold]dubito import[/bold] can match the labels with the rows.
    """
    if is_project(picks):
        export_project(picks, to, output, force=force, quiet=quiet)
        return
    known = split_names(classes)
    with reading_files(input_limit, None, quiet=quiet):
        n = export_picks(picks, output, to, classes=known, show=show, prefix=prefix, pictures=pictures, force=force)
        if to == "label-studio" and known and n:
            say(f"labeling config: {labeling_config(read_items(picks, show)[0].kind, known)}", quiet=quiet)
        if to == "label-studio-boxes":
            say(f"labeling config: {box_config(read_pictures(picks), known)}", quiet=quiet)
    say(f"{n} items written to {output} for {to}.", quiet=quiet)


def export_project(folder: str, to: str, output: str, *, force: bool, quiet: bool) -> None:
    """Write the labels of a project for another tool."""
    require("sqlalchemy", extra="label")
    from dubito.labeling.export import FORMATS, export_labels
    from dubito.labeling.project_export import read_state

    if to == "folders":
        problem = f"--to folders is for picks that people sort into classes, and {folder} has labels already"
        raise InvalidArgument(problem, hint="pass --to csv: it has the path of each picture, and its label.")
    state = read_state(folder)
    found = export_labels(state, check_choice("to", to, tuple(FORMATS)), safe=True)
    write_atomically(output, found.data, new=not force)
    say(f"{len(state.label_table.labels)} labels written to {output} for {to}.", quiet=quiet)
