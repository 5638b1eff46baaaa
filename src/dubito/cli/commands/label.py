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
        "the folder to create.",
    ),
]
ClassNames = Annotated[
    str | None,
    typer.Option("--classes", metavar="NAMES", rich_help_panel=FILES, help="Classes, separated by commas."),
]
SourceLabels = Annotated[
    bool | None,
    typer.Option(
        "--labels/--no-labels",
        metavar="",
        rich_help_panel=FILES,
        help="Whether the labels of the source count: its label column, or folders named by class. Default: a label "
        "column counts; folders count if --classes names them, or if you confirm it.",
    ),
]
LabelBatch = Annotated[
    str | None,
    typer.Option("--batch", metavar="N", rich_help_panel=METHOD, help="Labels between two rounds. Default: 20."),
]
Overlap = Annotated[
    str | None,
    typer.Option(
        "--overlap", metavar="N", rich_help_panel=METHOD, help="How many annotators answer each item. Default: 1."
    ),
]
Audit = Annotated[
    str | None,
    typer.Option(
        "--audit",
        metavar="SHARE",
        rich_help_panel=METHOD,
        help="The share of items to draw at random, such as 5%: only they give an unbiased estimate of accuracy.",
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
    typer.Option("--port", metavar="N", rich_help_panel=SERVER, help="Port to listen on; 0 for any free port."),
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        rich_help_panel=SERVER,
        help="Address to listen on; others than localhost need --token.",
    ),
]
Public = Annotated[
    str | None,
    typer.Option(
        "--public",
        metavar="URL",
        rich_help_panel=SERVER,
        help="Public URL of the page behind a server with TLS, such as https://labels.example.org.",
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
        help="Token to sign in with; safer in the variable DUBITO_TOKEN. Default: a random one.",
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
    text: embedding.TextColumn = None,
    image: embedding.ImageColumn = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    labels: SourceLabels = None,
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

    Open a page to label the items that dubito picks, with keyboard shortcuts. A
    model is trained in the background, and the next picks come from the whole pool.

    Everything is stored in a folder next to the source (photos.dubito), and the same
    command continues where it was. No data at hand? [bold]dubito label --demo[/bold]
    """
    from dubito.cli.jobs import label as job

    job.require_extra()
    asked = job.read_asked(host, port, token, public, batch, overlap, audit)
    columns = job.read_columns(text, image, id_column, label_column, labels)
    project, contents = job.open_source(source, demo, classes, embedder, columns, store, asked, quiet=quiet)
    job.run(project, contents, asked, browser=browser, quiet=quiet)
