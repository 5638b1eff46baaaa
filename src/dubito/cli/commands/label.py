"""``dubito label``: the labeling page."""

from typing import Annotated

import typer

from dubito.cli import options
from dubito.cli.commands import embed as embedding
from dubito.cli.options import FILES, METHOD

# Options of ``dubito label``.

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


def label(
    source: LabelSource = None,
    demo: Annotated[bool, typer.Option("--demo", metavar="", help="Real handwritten digits, offline.")] = False,
    classes: ClassNames = None,
    embedder: embedding.EmbedderName = "auto",
    store: LabelStore = None,
    batch: LabelBatch = None,
    overlap: Overlap = None,
    audit: Audit = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    public: Public = None,
    token: Token = None,
    browser: Browser = True,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito label photos/ --classes cat,dog[/bold]

    Open a page where people label what dubito picks, key by key, while a model
    learns in the background and the next picks come from the whole pool.

    Everything is in a folder beside the source (photos.dubito); the same
    command goes on where it was. No data at hand? [bold]dubito label --demo[/bold]
    """
    from dubito.cli.jobs import label as job

    job.require_extra()
    asked = job.read_asked(host, port, token, public, batch, overlap, audit)
    project, contents = job.open_source(source, demo, classes, embedder, store, asked, quiet=quiet)
    job.run(project, contents, asked, browser=browser, quiet=quiet)
