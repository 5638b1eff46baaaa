"""Implementation of ``dubito label``."""

import os
import secrets
import sys
import threading
import webbrowser
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from dubito.cli.output import Bar, program_name, put, say
from dubito.errors import InvalidArgument
from dubito.io import write_atomically
from dubito.registry import require
from dubito.request.arrays import check_choice, check_integer, read_number

if TYPE_CHECKING:
    from dubito.labeling.contents import Contents
    from dubito.labeling.project import Project

SHORTEST_TOKEN, FEWEST_LETTERS = 16, 8


@dataclass(frozen=True, slots=True)
class LabelCall:
    """The options as the library takes them."""

    host: str
    port: int | None
    token: str | None
    public: str | None
    """The public URL, if the page is behind a server with TLS."""
    settings: dict[str, Any]
    """The project settings that were given."""


def require_extra() -> None:
    """Raise an error that says how to install the packages of the server if one is missing."""
    for package in ("fastapi", "uvicorn", "sqlalchemy"):
        require(package, extra="label")
    require("pyarrow", extra="files")


def read_asked(
    host: str,
    port: str | None,
    token: str | None,
    public: str | None,
    batch: str | None,
    overlap: str | None,
    audit: str | None,
) -> LabelCall:
    """Check the options that can be checked before the source is read."""
    from dubito.labeling.project import Settings
    from dubito.labeling.web.serving import is_local, read_public

    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        hint = f"choose {SHORTEST_TOKEN} letters or more, without spaces."
        raise InvalidArgument("--token is too short, or has letters beyond ASCII", hint=hint)
    if token is not None and len(set(token)) < FEWEST_LETTERS:
        hint = 'choose one at random: python -c "import secrets; print(secrets.token_urlsafe())"'
        raise InvalidArgument(f"--token has fewer than {FEWEST_LETTERS} different letters", hint=hint)
    if not is_local(host) and token is None:
        problem = f"--host {host} lets others reach this page, and no token was chosen"
        raise InvalidArgument(problem, hint="set one in the variable DUBITO_TOKEN, and give it to those who label.")
    settings: dict[str, Any] = {}
    if batch is not None:
        settings["batch"] = check_integer("batch", read_number(batch), least=1)
    if overlap is not None:
        settings["overlap"] = check_integer("overlap", read_number(overlap), least=1)
    if audit is not None:
        settings["audit"] = read_share(audit)
    replace(Settings(), **settings)  # Raises if a setting is out of range.
    number = None if port is None else read_port(port)
    return LabelCall(host, number, token, None if public is None else read_public(public), settings)


def read_port(text: str) -> int:
    """Check a port number."""
    port = check_integer("port", read_number(text), least=0)
    if port > 65535:
        raise InvalidArgument("is no port", argument="port", value=port, hint="choose one below 65536.")
    return port


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
        raise InvalidArgument("is no share", argument="audit", value=text, hint="write 5%, or 0 for none.")
    return value


def read_columns(
    text: str | None, image: str | None, id_column: str | None, label_column: str | None, labels: bool | None
) -> dict[str, str]:
    """The given options that say how to read the source, as `Project.columns` has them."""
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
    asked: LabelCall,
    *,
    quiet: bool,
) -> "tuple[Project, Contents]":
    """Open or create the project, with the given settings."""
    from dubito.labeling import creation as digits
    from dubito.labeling.creation import open_project, with_settings
    from dubito.labeling.project import Settings

    def tell(line: str) -> None:
        say(line, quiet=quiet)

    if source is None and not demo:
        raise InvalidArgument("SOURCE is missing", hint="name a folder or a table, or try dubito label --demo.")
    names = [name.strip() for name in (classes or "").split(",") if name.strip()]
    place = digits.demo_source(source) if demo else source
    assert place is not None
    with Bar("embedding", quiet=quiet) as bar:
        project, contents = open_project(
            place,
            classes=names or (digits.CLASSES if demo else None),
            settings=replace(Settings(), **asked.settings),
            store=store,
            embedder=embedder,
            columns=columns,
            progress=bar,
            report=tell,
            confirm=confirm_folders,
        )
    if demo and not project.guidelines:
        project = project.with_guidelines(digits.GUIDELINES)
        project.save()
    return with_settings(project, asked.settings, tell), contents


def run(project: "Project", contents: "Contents", asked: LabelCall, *, browser: bool, quiet: bool) -> None:
    """Print the address and serve until Ctrl-C."""
    from dubito.labeling.project import read_token
    from dubito.labeling.project_checks import lost_labels
    from dubito.labeling.service import LabelingService
    from dubito.labeling.web.serving import address_of, open_socket, serve

    lost = lost_labels(project)
    if lost is not None:
        say(f"warning: {lost}")
    service = LabelingService(project, contents)
    try:
        token = asked.token or read_token(project)[0]
        opened = open_socket(asked.host, asked.port)
    except BaseException:
        service.close()
        raise
    address = address_of(opened, asked.host)
    if asked.public is not None:
        say(f"listening on {address}, for the server at {asked.public}", quiet=quiet)
        address = f"{asked.public}/"
    service.lock.tell(address)
    n_labeled = len(service.state.label_table.labels)
    say(f"{len(contents):,} items, {n_labeled:,} labeled, in {project.folder}", quiet=quiet)
    put([address if asked.token else f"{address}?token={token}"])
    say("label there; Ctrl-C stops, and the same command continues.", quiet=quiet)

    def ready() -> None:
        if browser and sys.stderr.isatty():
            threading.Thread(target=webbrowser.open, args=(f"{address}?token={token}",), daemon=True).start()

    with suppress(KeyboardInterrupt):  # Ctrl-C is the normal way to stop; everything is closed by then.
        serve(service, token, opened, asked.host, ready, asked.public)
    again = program_name()
    say(f"stopped; {again} label {os.path.relpath(project.folder)} goes on.", quiet=quiet)


def read_class_changes(
    rename: Sequence[str] | None, merge: Sequence[str] | None, remove: Sequence[str] | None, undo: bool
) -> list[dict[str, str]]:
    """The changes of classes in the order rename, merge, remove, undo, as arguments of `ClassChangeIn`."""
    changes = []
    for kind, pairs in (("rename", rename), ("merge", merge)):
        for pair in pairs or ():
            label, equals, other = pair.partition("=")
            if not equals or not label.strip() or not other.strip():
                raise InvalidArgument(f"--{kind} {pair} has no two classes", hint=f"write --{kind} cat=dog.")
            changes.append({"kind": kind, "label": label, "new_label": other})
    changes += [{"kind": "remove", "label": label} for label in remove or ()]
    return [*changes, *([{"kind": "undo"}] if undo else [])]


def change_classes(path: str, changes: Sequence[dict[str, str]], *, quiet: bool) -> None:
    """Change the classes of a project that no server has open."""
    from dubito.labeling.contents import read_contents
    from dubito.labeling.creation import project_folder
    from dubito.labeling.project import read_project
    from dubito.labeling.service import ClassChangeIn, LabelingService

    project = read_project(project_folder(path))
    service = LabelingService(project, read_contents(project))
    try:
        for change in changes:
            key = f"update-{secrets.token_hex(8)}"
            service.change_class(ClassChangeIn(key, "dubito update", **change)).result()  # type: ignore[arg-type]
        counts = Counter(service.state.label_table.labels.values())
        shown = [f"{name} ({counts[name]} labels)" for name in service.state.project.classes]
    finally:
        service.close()
    say(f"the classes are now {', '.join(shown) or 'none'}.", quiet=quiet)


def update_project(path: str, probabilities: str | None, *, none: bool, is_more: bool, quiet: bool) -> None:
    """Keep the probabilities of the user's own model, or forget them."""
    from dubito.labeling.contents import read_contents
    from dubito.labeling.creation import project_folder
    from dubito.labeling.project import read_project
    from dubito.labeling.user_probabilities import remove_probabilities, save_probabilities

    project = read_project(project_folder(path))
    if none == (probabilities is not None) or is_more:
        hint = "pass --probabilities FILE, --none, or changes of classes such as --rename cat=dog."
        raise InvalidArgument("there is nothing to do, or two things", hint=hint)
    if probabilities is None:
        remove_probabilities(project)
        say("the next rounds go by dubito's own model.", quiet=quiet)
        return
    n_rows = save_probabilities(project, read_contents(project), probabilities)
    say(f"{n_rows:,} rows of {probabilities} are kept; the next rounds go by them.", quiet=quiet)


def export_project(folder: str, to: str, output: str, *, force: bool, quiet: bool) -> None:
    """Write the labels of a project for another tool."""
    require("sqlalchemy", extra="label")
    from dubito.labeling.export import FORMATS, export_labels
    from dubito.labeling.project_export import read_state

    if to == "folders":
        problem = f"--to folders is for picks that people sort into classes, and {folder} has labels already"
        raise InvalidArgument(problem, hint="pass --to csv: it has the path of each picture, and its label.")
    state = read_state(folder)
    found = export_labels(state, check_choice("to", to, tuple(FORMATS)), safe=True)
    write_atomically(output, found.data, new=not force)
    say(f"{len(state.label_table.labels)} labels written to {output} for {to}.", quiet=quiet)
