"""From a source to a project: its folder, its pool, its classes, and the labels that it has already."""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection

from dubito.errors import DubitoError, InvalidArgument, MissingFile
from dubito.io.durable import explain_write_errors, sync_folder
from dubito.io.opening import open_source
from dubito.io.roles import read_pool
from dubito.labeling.contents import Contents, identities_of, read_contents
from dubito.labeling.database import open_engine
from dubito.labeling.events import Event, check_name
from dubito.labeling.items import ITEMS, has_items, save_items
from dubito.labeling.project import Project, ProjectLock, Settings, is_project, keep_ident, read_ident, read_project
from dubito.labeling.project_checks import changed_source
from dubito.labeling.state import State
from dubito.labeling.store import Writer, add_event, check_store

POOL = "pool.parquet"
SOURCE = "source"
"""Who gave the labels that a source had already."""

Tell = Callable[[str], None]
EmbedProgress = Callable[[int, int, None, float], None]


def project_folder(source: str) -> str:
    """The folder of the project beside a source.

    Examples
    --------
    >>> project_folder("data/photos/"), project_folder("texts.csv"), project_folder("photos.dubito")
    ('data/photos.dubito', 'texts.dubito', 'photos.dubito')
    """
    plain = source.rstrip("/") or source
    if plain.endswith(".dubito") or is_project(plain):
        return plain
    stem = plain if os.path.isdir(plain) else os.path.splitext(plain.removesuffix(".gz"))[0]
    return f"{stem}.dubito"


def open_project(
    source: str,
    *,
    classes: Sequence[str] | None = None,
    settings: Settings | None = None,
    store: str | None = None,
    embedder: str = "auto",
    progress: EmbedProgress | None = None,
    tell: Tell = lambda line: None,
) -> tuple[Project, Contents]:
    """The project of a source, made where there is none yet."""
    folder = project_folder(source)
    if is_project(folder):
        project = _reopened(folder, source, store)
        _refuse_other(project, embedder)
        contents = read_contents(project)
        if not has_items(project):
            save_items(project, identities_of(project, contents))
        if contents.n_left_out:
            tell(f"{contents.n_left_out:,} rows of {project.pool_path} are new, and not part of the project.")
        for note in changed_source(project, contents):
            tell(note)
        more = [name for name in classes or () if check_name("classes", name) not in project.classes]
        project = _with_classes(project, more)
        if more:
            tell(f"added to the classes: {', '.join(more)}.")
        return project, contents
    return _made(folder, source, classes, settings or Settings(), store, embedder, progress, tell)


def _reopened(folder: str, source: str, store: str | None) -> Project:
    project = read_project(folder)
    if not is_project(source.rstrip("/")) and os.path.realpath(project.source_path) != os.path.realpath(source):
        problem = f"{folder} is the project of {project.source_path}"
        raise InvalidArgument(problem, hint=f"rename one of the two, or open it with dubito label {folder}.")
    if store is not None and store != project.store:
        raise InvalidArgument(f"{folder} keeps its labels elsewhere", argument="store", hint="leave it out.")
    return project


def _refuse_other(project: Project, embedder: str) -> None:
    """An embedder is chosen when a project is made: distances of two do not go together."""
    theirs = open_source(project.pool_path).embedder.partition(" (version")[0]
    is_same = embedder in ("auto", theirs) or (embedder.startswith("onnx:") and theirs.startswith("onnx:"))
    if not is_same:
        problem = f"is not what {project.folder} was made with ({theirs or 'features of your own'})"
        hint = "leave it out, or rename that folder and begin anew."
        raise InvalidArgument(problem, argument="embedder", value=embedder, hint=hint)


def _with_classes(project: Project, classes: Sequence[str]) -> Project:
    for name in classes:
        if check_name("classes", name) not in project.classes:
            project = project.with_class(name)
    if classes:
        save_unopened(project)
    return project


def _made(
    folder: str,
    source: str,
    classes: Sequence[str] | None,
    settings: Settings,
    store: str | None,
    embedder: str,
    progress: EmbedProgress | None,
    tell: Tell,
) -> tuple[Project, Contents]:
    if not os.path.exists(source):
        raise MissingFile(f"{source} does not exist", hint="check the path, or try dubito label --demo.")
    for name in classes or ():
        check_name("classes", name)
    if store is not None:
        check_store(store, read_ident(folder))
    is_new = not os.path.exists(folder)
    with explain_write_errors(folder):
        os.makedirs(folder, 0o700, exist_ok=True)
    # A power cut may take a new folder with all that is in it, however well that is synced.
    sync_folder(os.path.dirname(os.path.abspath(folder)))
    try:
        return _filled(folder, source, classes, settings, store, embedder, progress, tell)
    except BaseException as error:
        with suppress(OSError):
            # What was embedded before a kill or a full disk is gone on with; what was refused is not.
            if is_new and isinstance(error, DubitoError) and error.exit_code > 1:
                shutil.rmtree(folder)
            elif is_new:
                os.rmdir(folder)
        raise


def _filled(
    folder: str,
    source: str,
    classes: Sequence[str] | None,
    settings: Settings,
    store: str | None,
    embedder: str,
    progress: EmbedProgress | None,
    tell: Tell,
) -> tuple[Project, Contents]:
    near = os.path.relpath(source, folder)
    pool = near if is_pool(source) else _embedded(folder, source, embedder, progress, tell)
    if store is None and not os.path.exists(os.path.join(folder, "labels.sqlite")):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, ITEMS))  # Of a try that was interrupted; the source may be another since.
    project = Project(folder, keep_ident(folder), near, pool, (), "", settings, store)
    contents = read_contents(project)
    found = sorted({label for label in contents.labels if label is not None})
    for name in dict.fromkeys(check_name("classes", each) for each in (*(classes or ()), *found)):
        project = project.with_class(name)
    save_items(project, identities_of(project, contents))
    _import(project, contents, tell)
    project.save()
    return project, contents


def is_pool(source: str) -> bool:
    """Whether a file has features already: a pool file, arrays, or a table of numbers alone."""
    if os.path.isdir(source):
        return False
    opened = open_source(source)
    if opened.embedder or not opened.is_table:
        return True
    from dubito.embedding.opening import open_supply

    try:
        open_supply(source)
    except DubitoError as no_items:
        try:
            read_pool(source)
        except DubitoError as no_features:
            # Of a table of texts whose ids repeat it is no help to hear that texts are no numbers.
            raise (no_items if " id " in str(no_items) else no_features) from None
        return True
    return False


def _embedded(folder: str, source: str, embedder: str, progress: EmbedProgress | None, tell: Tell) -> str:
    from dubito.embedding import embed

    found = embed(source, embedder, os.path.join(folder, POOL), progress=progress)
    os.chmod(os.path.join(folder, POOL), 0o600)
    for note in found.notes:
        if "--" not in note:
            tell(note)
    for each in found.left_out[:10]:
        tell(f"left out: {each}")
    if len(found.left_out) > 10:
        tell(f"left out: {len(found.left_out) - 10} more")
    return POOL


def _import(project: Project, contents: Contents, tell: Tell) -> None:
    """Labels that the source has become the first labels, unless all items have one: nothing would be left to ask."""
    labelled = [(item, label) for item, label in enumerate(contents.labels) if label is not None]
    if not labelled:
        return
    if len(labelled) == len(contents):
        tell("every item of the source has a label: its classes are taken, its labels are not.")
        return
    state = State(project, contents)
    writer = Writer(open_engine(project.folder, project.store), project.ident, state)

    def add(connection: Connection) -> None:
        for number, (item, label) in enumerate(labelled, start=state.book.last + 1):
            if f"source-{item}" not in state.book.keys:
                add_event(
                    connection,
                    Event(number, f"source-{item}", "label", SOURCE, item, label, 0, None, time.time(), why="source"),
                )

    try:
        writer.run(add)
    finally:
        writer.close()
    tell(f"{len(labelled)} of {len(contents)} items have labels in the source, which are taken as first labels.")


def save_unopened(project: Project) -> None:
    """Save a change, unless a server has the project open."""
    lock = ProjectLock(project)
    try:
        project.save()
    finally:
        lock.close()


def with_settings(project: Project, given: Mapping[str, Any], tell: Tell = lambda line: None) -> Project:
    """The same with the settings that a person gave; says which of them are others now."""
    before = project.settings
    changed = replace(project, settings=replace(before, **given))
    others = [
        f"{name} {getattr(before, name)} to {value}" for name, value in given.items() if getattr(before, name) != value
    ]
    if others:
        save_unopened(changed)
        tell(f"changed in the project: {', '.join(others)}.")
    return changed


# A project to try: scikit-learn's real handwritten digits as pictures, offline.

SIDE = 64
"""Pixels across of a picture: digits of eight, enlarged for people."""
CLASSES = tuple("0123456789")
GUIDELINES = "Which digit is it? Skip what you cannot read."


def demo_source(folder: str | None = None) -> str:
    """The folder of pictures, made where it is not there."""
    place = Path(folder or default_folder()) / "digits"
    if not (place / "digit-1796.png").exists():
        with explain_write_errors(str(place)):
            place.mkdir(parents=True, exist_ok=True)
            write_digits(place)
    return str(place)


def default_folder() -> str:
    """Where a user's programs keep what they can make again."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "dubito", "label-demo")


def write_digits(folder: Path, n_most: int | None = None) -> dict[str, str]:
    """Pictures whose names tell nothing, and what each of them shows."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits, classes = load_digits(return_X_y=True)
    answers = {}
    for number, (digit, shown) in enumerate(zip(digits[:n_most], classes.tolist(), strict=False)):
        pixels = (255 - digit.reshape(8, 8) * 15.9).astype(np.uint8)
        name = f"digit-{number:04d}.png"
        Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(folder / name)
        answers[name] = str(shown)
    return answers
