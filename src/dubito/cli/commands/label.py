"""``dubito label``: the labelling page."""

from typing import Annotated

import typer

from dubito.cli import options
from dubito.cli.options import embedding, labelling


def label(
    source: labelling.LabelSource = None,
    demo: Annotated[bool, typer.Option("--demo", metavar="", help="Real handwritten digits, offline.")] = False,
    classes: labelling.ClassNames = None,
    embedder: embedding.EmbedderName = "auto",
    store: labelling.LabelStore = None,
    batch: labelling.LabelBatch = None,
    overlap: labelling.Overlap = None,
    audit: labelling.Audit = None,
    host: labelling.Host = "127.0.0.1",
    port: labelling.Port = None,
    public: labelling.Public = None,
    token: labelling.Token = None,
    browser: labelling.Browser = True,
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
