"""``dubito label``: the labeling page."""

import os
import shlex
import sys
import threading
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dubito.cli import options
from dubito.cli.commands import embed as embedding
from dubito.cli.inputs import read_integer, split_names
from dubito.cli.options import FILES, METHOD, argument, option
from dubito.cli.output import ProgressBar, print_lines, print_note, print_warning, program_name, set_quiet
from dubito.errors import InvalidArgument
from dubito.labeling.project import Project, Settings, is_project, lost_labels, read_token
from dubito.registry import require

if TYPE_CHECKING:
    from dubito.labeling.contents import Contents

# Options of ``dubito label``.

SERVER = "Server"

LabelSource = Annotated[
    str | None,
    argument(
        "SOURCE",
        "A folder of pictures, a table of texts or pictures, a pool, or the folder of a project. With --demo, "
        "the folder to create.",
    ),
]
ClassNames = Annotated[
    str | None,
    option("--classes NAMES", "Classes, separated by commas; for an existing project, classes to add.", FILES),
]
SourceLabels = Annotated[
    bool | None,
    option(
        "--labels/--no-labels",
        "Whether the labels of the source count: its label column, or folders named by class. Default: a label "
        "column counts; folders count if --classes names them, or if you confirm it.",
        FILES,
    ),
]
LabelBatch = Annotated[str | None, option("--batch N", "Labels between two rounds. Default: 20.", METHOD)]
Overlap = Annotated[str | None, option("--overlap N", "How many annotators answer each item. Default: 1.", METHOD)]
Audit = Annotated[
    str | None,
    option(
        "--audit SHARE",
        "The share of items to draw at random, from which the accuracy on the others is estimated, such as 5%; 0 for "
        "none. Default: 10%.",
        METHOD,
    ),
]
Copies = Annotated[
    str | None,
    option("--copies HOW", "share: exact copies of an item get its label (default). separate: label each.", METHOD),
]
LabelStore = Annotated[
    str | None,
    option("--store URL", "postgresql+psycopg://user@host/database instead of a file in the project.", FILES),
]
Port = Annotated[str | None, option("--port N", "Port to listen on; 0 for any free port.", SERVER)]
Host = Annotated[str, option("--host ADDRESS", "Address to listen on; others than localhost need --token.", SERVER)]
Public = Annotated[
    str | None,
    option(
        "--public URL", "Public URL of the page behind a server with TLS, such as https://labels.example.org.", SERVER
    ),
]
Token = Annotated[
    str | None,
    option(
        "--token TEXT",
        "Token to sign in with; safer in the variable DUBITO_TOKEN. Default: a random one.",
        SERVER,
        envvar="DUBITO_TOKEN",
        show_envvar=False,
    ),
]
Watch = Annotated[bool, option("--watch", "Add new items of the source while people label.", FILES)]
Browser = Annotated[bool, option("--browser/--no-browser", "Open the page in a browser.", SERVER)]


def label(
    source: LabelSource = None,
    demo: Annotated[bool, option("--demo", "Real handwritten digits, offline.")] = False,
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
    copies: Copies = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    public: Public = None,
    token: Token = None,
    watch: Watch = False,
    browser: Browser = True,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito label photos/ --classes cat,dog[/bold]

    Open a page to label the items that dubito picks, with keyboard shortcuts.
    A model is trained in the background, and the next picks come from the
    whole pool.

    Everything is stored in a folder next to the source (photos.dubito), and
    the same command continues where it was. No data at hand?
    [bold]dubito label --demo[/bold]
    """
    set_quiet(quiet)
    require_extra()
    check_token(token, host)
    settings = read_settings(batch, overlap, audit, copies)
    from dubito.labeling.web.serving import read_public

    port_number = read_integer("port", port, least=0)
    if port_number is not None and port_number > 65535:
        raise InvalidArgument("is not a port", argument="port", value=port_number, hint="choose one below 65536.")
    url = None if public is None else read_public(public)
    columns = read_columns(text, image, id_column, label_column, labels)
    project, contents = open_source(source, demo, classes, embedder, columns, store, settings)
    serve_page(project, contents, host, port_number, token, url, watch=watch, browser=browser)


SHORTEST_TOKEN, FEWEST_LETTERS = 16, 8


def require_extra() -> None:
    """Raise an error that says how to install the packages of the server if one is missing."""
    for package in ("fastapi", "uvicorn", "sqlalchemy"):
        require(package, extra="label")
    require("pyarrow", extra="files")


def check_token(token: str | None, host: str) -> None:
    from dubito.labeling.web.serving import is_local

    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        hint = f"choose {SHORTEST_TOKEN} letters or more, without spaces."
        raise InvalidArgument("--token is too short, or has letters beyond ASCII", hint=hint)
    if token is not None and len(set(token)) < FEWEST_LETTERS:
        hint = 'choose one at random: python -c "import secrets; print(secrets.token_urlsafe())"'
        raise InvalidArgument(f"--token has fewer than {FEWEST_LETTERS} different letters", hint=hint)
    if not is_local(host) and token is None:
        problem = f"--host {host} lets others reach this page, and no token was chosen"
        raise InvalidArgument(problem, hint="set one in the variable DUBITO_TOKEN, and give it to those who label.")


def read_settings(
    batch: str | None, overlap: str | None, audit: str | None, copies: str | None = None
) -> dict[str, Any]:
    given = {
        "batch": read_integer("batch", batch),
        "overlap": read_integer("overlap", overlap),
        "audit": None if audit is None else read_share(audit),
        "copies": copies,
    }
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    replace(Settings(), **settings)  # Raises if a setting is out of range.
    return settings


def read_share(text: str) -> float:
    """``5%`` or ``0.05``.

    Examples
    --------
    >>> read_share("5%"), read_share("0.1")
    (0.05, 0.1)
    """
    try:
        value = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise InvalidArgument("is not a share", argument="audit", value=text, hint="write 5%, or 0 for none.")
    return value


def read_columns(
    text: str | None, image: str | None, id_column: str | None, label_column: str | None, labels: bool | None
) -> dict[str, str]:
    """The given options about columns and labels of the source, as `Project.columns`."""
    if label_column is not None and labels is False:
        raise InvalidArgument("--label-column and --no-labels are both given", hint="pass one of them.")
    given = {"text": text, "image": image, "id_column": id_column, "label_column": label_column}
    columns = {name: value for name, value in given.items() if value is not None}
    return columns if labels is None else {**columns, "labels": "yes" if labels else "no"}


def confirm_folders(source: str, names: Sequence[str]) -> bool:
    """Ask on a terminal whether the folders of a source are named by class."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return typer.confirm(f"{source} has {len(names)} folders ({shown}). Are these the classes?", err=True)


def open_source(
    source: str | None,
    demo: bool,
    classes: str | None,
    embedder: str,
    columns: dict[str, str],
    store: str | None,
    settings: dict[str, Any],
) -> "tuple[Project, Contents]":
    if source is None and not demo:
        raise InvalidArgument("SOURCE is missing", hint="name a folder or a table, or try dubito label --demo.")
    if demo or (source is not None and os.path.exists(source)):  # Imports and embedding can take ten seconds.
        print_note("opening the handwritten digits..." if demo else f"opening {source}...")
    from dubito.labeling import creation

    names = split_names(classes)
    path = creation.demo_source(source) if demo or source is None else source
    if demo and not names and not is_project(creation.project_folder(path)):
        names = list(creation.CLASSES)
    with ProgressBar("embedding") as bar:
        project, contents = creation.open_project(
            path,
            classes=names or None,
            settings=replace(Settings(), **settings),
            store=store,
            embedder="pixels" if demo and embedder == "auto" else embedder,
            columns=columns,
            progress=bar,
            report=print_note,
            confirm=confirm_folders,
        )
    if demo and not project.guidelines:
        project = project.with_guidelines(creation.GUIDELINES)
        project.save()
    if not project.classes:
        print_note("no classes yet: add them on the page, or pass --classes.")
    return creation.with_settings(project, settings, print_note), contents


def serve_page(
    project: Project,
    contents: "Contents",
    host: str,
    port: int | None,
    given_token: str | None,
    public: str | None,
    *,
    watch: bool,
    browser: bool,
) -> None:
    """Print the address and serve until Ctrl-C."""
    from dubito.labeling.service import LabelingService
    from dubito.labeling.web.serving import address_of, open_socket, serve

    lost = lost_labels(project)
    if lost is not None:
        print_warning(f"warning: {lost}")
    service = LabelingService(project, contents, watch=watch, report=print_note)
    try:
        token = given_token or read_token(project)[0]
        opened = open_socket(host, port)
    except BaseException:
        service.close()
        raise
    address = address_of(opened, host)
    if public is not None:
        print_note(f"listening on {address}, for the server at {public}")
        address = f"{public}/"
    service.lock.write_address(address)
    state = service.state
    print_note(f"{state.n_items:,} items, {state.n_labeled:,} labeled, in {project.folder}")
    print_lines([address if given_token else f"{address}?token={token}"])
    print_note("label there; Ctrl-C stops, and the same command continues.")

    def open_browser() -> None:
        if browser and sys.stderr.isatty():
            threading.Thread(target=webbrowser.open, args=(f"{address}?token={token}",), daemon=True).start()

    with suppress(KeyboardInterrupt):  # Ctrl-C is the normal way to stop; everything is closed by then.
        serve(service, token, opened, host, open_browser, public)
    folder = os.path.relpath(project.folder)
    folder = os.path.abspath(folder) if folder.startswith(os.pardir) else folder
    print_note(f"stopped; {program_name()} label {shlex.quote(folder)} continues.")
