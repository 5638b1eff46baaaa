"""``dubito import``: read labels from a labeling tool."""

from typing import Annotated

from dubito.cli import options
from dubito.cli.commands.export import Classes
from dubito.cli.inputs import reading_files, split_names
from dubito.cli.options import argument, option
from dubito.cli.output import one_of, print_note
from dubito.integrations.exchange import TOOLS, import_labels
from dubito.io import output_format, write_atomically
from dubito.io.picks import render_columns


def import_(
    labels: Annotated[str, argument("LABELS", "The file or folder that the tool exported.")],
    source: Annotated[str, option("--from TOOL", f"The tool or format: {one_of(TOOLS)}.", show_default=False)],
    output: Annotated[str, option("--output -o FILE", "A .csv, .jsonl or .parquet.", show_default=False)],
    classes: Classes = None,
    force: options.Force = False,
    input_limit: options.InputLimit = None,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito import export.json --from label-studio -o labels.csv[/bold]

    Write labels to a table of id, label, annotators and agreement, for
    [bold]dubito select --labeled labels.csv[/bold]. With several annotators, the
    majority decides. Skipped items and ties have no label.
    """
    known = split_names(classes)
    format = output_format(output)
    with reading_files(input_limit, None, quiet=quiet):
        found = import_labels(labels, source, classes=known)
    write_atomically(output, render_columns(found.columns(), format, safe_csv=True), new=not force)
    split = sum(share < 1.0 for share in found.agreements)
    print_note(
        f"{len(found.names)} labels of {len(set(found.labels))} classes written to {output}; {len(found.skipped)} "
        f"skipped, {len(found.tied)} tied, {split} by a majority without full agreement.",
        quiet=quiet,
    )
