"""Options that say what comes out, and where it goes."""

from typing import Annotated

import typer

OUTPUT = "Output"

Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", rich_help_panel=OUTPUT, help="Where the result goes; - is stdout."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        rich_help_panel=OUTPUT,
        help="csv, json, jsonl, parquet or npy. Without it the file's suffix tells; stdout gets csv.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", metavar="", rich_help_panel=OUTPUT, help="The result as JSON.")]
Append = Annotated[
    bool,
    typer.Option(
        "--append",
        metavar="",
        rich_help_panel=OUTPUT,
        help="Add to FILE; the picks it holds count as labelled from now on.",
    ),
]
SafeCsv = Annotated[
    bool | None,
    typer.Option(
        "--safe-csv/--no-safe-csv",
        metavar="",
        rich_help_panel=OUTPUT,
        help="An apostrophe before text that begins like a formula, taken off when read; in CSV files unless refused.",
    ),
]
Force = Annotated[bool, typer.Option("--force", metavar="", rich_help_panel=OUTPUT, help="Replace what exists.")]
Keep = Annotated[
    str | None,
    typer.Option(
        "--keep",
        metavar="NAMES",
        rich_help_panel=OUTPUT,
        help="Columns of POOL that go along with the picks, with commas between; every column of text if not given. "
        "none for none.",
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(
        "--sheet",
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="A page of the picks to label from, too: pictures that a column names, or texts, in order. Ends in .html.",
    ),
]
Pictures = Annotated[
    str | None,
    typer.Option(
        "--pictures",
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
        help="Where the pictures of --sheet are, if not beside POOL; their names are in a column, or are the ids.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", metavar="", rich_help_panel=OUTPUT, help="Check everything, tell the sizes, pick nothing."
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", metavar="", rich_help_panel=OUTPUT, help="No notes and no progress on stderr.")
]
Plot = Annotated[
    str | None,
    typer.Option("--plot", metavar="FILE", rich_help_panel=OUTPUT, help="Draw it, too: a .png or a .svg."),
]
