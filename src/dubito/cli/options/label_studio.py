"""Options of ``dubito label-studio``."""

from typing import Annotated

import typer

from dubito.cli.options.files import FILES
from dubito.cli.options.method import METHOD

SERVER = "Server"

StudioUrl = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="LABEL_STUDIO_URL",
        show_envvar=False,
        show_default=False,
        rich_help_panel=SERVER,
        help="Where Label Studio runs, such as http://localhost:8080; or in the variable LABEL_STUDIO_URL.",
    ),
]
StudioProjectName = Annotated[
    str,
    typer.Option(
        "--project",
        metavar="NAME",
        show_default=False,
        rich_help_panel=SERVER,
        help="The project's title, or its number.",
    ),
]
TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        rich_help_panel=SERVER,
        help="A file that holds the token, if not in the variable LABEL_STUDIO_API_KEY.",
    ),
]
Timeout = Annotated[
    str,
    typer.Option("--timeout", metavar="SECONDS", rich_help_panel=SERVER, help="How long to wait for one answer."),
]
Offered = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="NAMES",
        rich_help_panel=FILES,
        help="The classes people choose from, with commas between: a project that is not there yet is made with them.",
    ),
]
Known = Annotated[
    str | None,
    typer.Option(
        "--classes",
        metavar="NAMES",
        rich_help_panel=FILES,
        help="The classes there are, with commas between: any other is refused by its name.",
    ),
]
Shown = Annotated[
    str | None,
    typer.Option(
        "--show",
        metavar="COLUMN",
        rich_help_panel=FILES,
        help="What people look at; the column of text or of paths if not given.",
    ),
]
Prefix = Annotated[
    str,
    typer.Option(
        "--prefix",
        metavar="URL",
        rich_help_panel=FILES,
        help="What stands before a picture's path, such as https://example.org/photos/.",
    ),
]
LocalFiles = Annotated[
    str | None,
    typer.Option(
        "--local-files",
        metavar="FOLDER",
        rich_help_panel=FILES,
        help="Where the pictures are on the server's own disk, instead of --prefix. The folder's parent, or "
        "--document-root, is what it was started with.",
    ),
]
DocumentRoot = Annotated[
    str | None,
    typer.Option(
        "--document-root",
        metavar="FOLDER",
        rich_help_panel=FILES,
        help="LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT of the server, where it is not the parent of --local-files.",
    ),
]
JumpAhead = Annotated[
    bool,
    typer.Option(
        "--jump-ahead",
        metavar="",
        rich_help_panel=METHOD,
        help="Show these before what is left of earlier rounds: the project gets uncertainty sampling, with ranks as "
        "scores. With several members in the project, Label Studio then goes by chance.",
    ),
]
WithGuesses = Annotated[
    bool,
    typer.Option(
        "--guesses/--no-guesses", metavar="", rich_help_panel=METHOD, help="Send what the model takes each item for."
    ),
]
GuessPool = Annotated[
    str | None,
    typer.Option(
        "--pool",
        metavar="POOL",
        rich_help_panel=FILES,
        help="The pool that the picks came from: with --labelled, a model guesses what each is.",
    ),
]
Skipped = Annotated[
    str | None,
    typer.Option(
        "--skipped",
        metavar="FILE",
        rich_help_panel=FILES,
        help="A table of items that were skipped, or on which people are tied, too.",
    ),
]
LabelsOut = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", show_default=False, help="The table of labels: .csv, .jsonl or .parquet."
    ),
]
RoundsToGo = Annotated[
    str | None,
    typer.Option(
        "--rounds", metavar="N", rich_help_panel=METHOD, help="Stop once the project has N rounds, all answered."
    ),
]
LeftOpen = Annotated[
    str,
    typer.Option(
        "--ahead",
        metavar="N",
        rich_help_panel=METHOD,
        help="Send the next batch once N items or fewer are left to answer.",
    ),
]
Every = Annotated[
    str, typer.Option("--every", metavar="SECONDS", rich_help_panel=SERVER, help="How often to look for answers.")
]
