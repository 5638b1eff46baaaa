"""Options of ``dubito label``."""

from typing import Annotated

import typer

from dubito.cli.options.files import FILES
from dubito.cli.options.method import METHOD

SERVER = "Server"

LabelSource = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        show_default=False,
        help="A folder of pictures, a table of texts or pictures, a pool, or the folder of a project. With --demo, "
        "where to put it.",
    ),
]
ClassNames = Annotated[
    str | None,
    typer.Option("--classes", metavar="NAMES", rich_help_panel=FILES, help="Classes, with commas between."),
]
LabelBatch = Annotated[
    str | None,
    typer.Option("--batch", metavar="N", rich_help_panel=METHOD, help="Labels between two rounds; 20 if not given."),
]
Overlap = Annotated[
    str | None,
    typer.Option(
        "--overlap", metavar="N", rich_help_panel=METHOD, help="How many people answer each item; 1 if not given."
    ),
]
Audit = Annotated[
    str | None,
    typer.Option(
        "--audit",
        metavar="SHARE",
        rich_help_panel=METHOD,
        help="The share of items drawn at random, such as 5%: they alone tell how right the model is on the pool.",
    ),
]
LabelStore = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        rich_help_panel=FILES,
        help="postgresql+psycopg://user@host/database instead of a file in the project.",
    ),
]
Port = Annotated[
    str | None,
    typer.Option("--port", metavar="N", rich_help_panel=SERVER, help="Where to listen; 0 for any that is free."),
]
Host = Annotated[
    str,
    typer.Option(
        "--host", metavar="ADDRESS", rich_help_panel=SERVER, help="Which address; any but this machine's needs --token."
    ),
]
Public = Annotated[
    str | None,
    typer.Option(
        "--public",
        metavar="URL",
        rich_help_panel=SERVER,
        help="Where people find the page behind a server with TLS, such as https://labels.example.org.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TEXT",
        envvar="DUBITO_TOKEN",
        show_envvar=False,
        rich_help_panel=SERVER,
        help="What people sign in with; better in the variable DUBITO_TOKEN. Made up if not given.",
    ),
]
Browser = Annotated[
    bool,
    typer.Option("--browser/--no-browser", metavar="", rich_help_panel=SERVER, help="Open the page in a browser."),
]
