"""``dubito export``: picks for a labeling tool."""

import os
from typing import Annotated, get_args

from dubito.cli import options
from dubito.cli.inputs import reading_files, split_names
from dubito.cli.options import argument, option
from dubito.cli.output import one_of, print_note, set_quiet
from dubito.errors import InvalidArgument
from dubito.integrations.exchange import export_picks, read_items
from dubito.integrations.exchange.boxes import box_config, read_pictures
from dubito.integrations.exchange.formats import WRITERS, ProjectFormat, labeling_config
from dubito.io import write_atomically
from dubito.labeling.project import is_project
from dubito.registry import require
from dubito.request.arrays import check_choice, check_real, read_number

Classes = Annotated[str | None, option("--classes NAMES", "The classes to choose from, separated by commas.")]

TestShare = Annotated[
    str | None,
    option(
        "--test-share X",
        "For a project: the share of each class to hold out for testing, such as 0.2; csv, jsonl and parquet have a "
        "column split, folders have train and test inside.",
    ),
]


def export(
    picks: Annotated[str, argument("PICKS", "A table that dubito select wrote; or a project, to export its labels.")],
    to: Annotated[
        str,
        option(
            "--to TOOL",
            f"For picks: {one_of(WRITERS)}. For a project: {one_of((*get_args(ProjectFormat), 'folders'))}.",
            show_default=False,
        ),
    ],
    output: Annotated[str, option("--output -o FILE", "The file, or folder, to write.", show_default=False)],
    classes: Classes = None,
    show: Annotated[str | None, option("--show COLUMN", "The column to show. Default: text or path.")] = None,
    prefix: Annotated[str, option("--prefix TEXT", "URL prefix of the paths of pictures.")] = "",
    pictures: Annotated[str, option("--pictures FOLDER", "The folder of the pictures, for --to folders.")] = ".",
    test_share: TestShare = None,
    force: options.Force = False,
    input_limit: options.InputLimit = None,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito export batch.csv --to label-studio --classes cat,dog -o tasks.json[/bold]

    Write picks for a labeling tool. Each pick has its id, so that
    [bold]dubito import[/bold] can match the labels with the rows.

    [bold]dubito export photos.dubito --to folders --test-share 0.2 -o labeled/[/bold]

    Write the labels of a project, here as class folders inside train and test.
    """
    set_quiet(quiet)
    share = None if test_share is None else check_real("test_share", read_number(test_share), least=0.0)
    if is_project(picks):
        export_project(picks, to, output, share, force=force)
        return
    if share is not None:
        hint = "leave it out: picks have no labels yet."
        raise InvalidArgument("is for the labels of a project", argument="test_share", value=share, hint=hint)
    class_names = split_names(classes)
    with reading_files(input_limit):
        n = export_picks(
            picks, output, to, classes=class_names, show=show, prefix=prefix, pictures=pictures, force=force
        )
        if to == "label-studio" and class_names and n:
            print_note(f"labeling config: {labeling_config(read_items(picks, show)[0].kind, class_names)}")
        if to == "label-studio-boxes":
            print_note(f"labeling config: {box_config(read_pictures(picks), class_names)}")
    print_note(f"{n} items written to {output} for {to}.")


def export_project(folder: str, to: str, output: str, test_share: float | None, *, force: bool) -> None:
    """Write the labels of a project for another tool, or as class folders."""
    require("sqlalchemy", extra="label")
    from dubito.labeling.export import FORMATS, export_folders, export_labels
    from dubito.labeling.state import read_state

    if test_share is not None and not 0.0 < test_share < 1.0:
        raise InvalidArgument("must be between 0 and 1, such as 0.2.", argument="test_share", value=test_share)
    state = read_state(folder)
    check_choice("to", to, (*FORMATS, "folders"))
    if to == "folders":
        n_files = export_folders(state, output, test_share)
        print_note(f"{n_files} labeled items written to {output}; {os.path.join(output, 'labels.csv')} lists them.")
        return
    exported = export_labels(state, check_choice("to", to, tuple(FORMATS)), safe=True, test_share=test_share)
    write_atomically(output, exported.data, new=not force)
    print_note(f"{len(state.label_table.labels)} labels written to {output} for {to}.")
