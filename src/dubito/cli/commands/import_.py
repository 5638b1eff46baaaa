"""``dubito import``: read labels from a labeling tool."""

from typing import Annotated

from dubito.cli import options
from dubito.cli.commands.export import Classes
from dubito.cli.inputs import reading_files, split_names
from dubito.cli.options import argument, option
from dubito.cli.output import one_of, print_note, set_quiet
from dubito.integrations.exchange import TOOLS, import_labels
from dubito.integrations.exchange.items import Gathered
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
    set_quiet(quiet)
    format = output_format(output)
    with reading_files(input_limit):
        answers = import_labels(labels, source, classes=split_names(classes))
    write_atomically(output, render_columns(answers.columns(), format, safe_csv=True), new=not force)
    print_note(describe_labels(answers, output))


def describe_labels(answers: Gathered, path: str) -> str:
    """Counts of the labels in a file, and of the items without one."""
    n_split = sum(share < 1.0 for share in answers.agreements)
    return (
        f"{len(answers.names)} labels of {len(set(answers.labels))} classes in {path}; {len(answers.skipped)} skipped, "
        f"{len(answers.tied)} tied, {n_split} by a majority without full agreement."
    )
