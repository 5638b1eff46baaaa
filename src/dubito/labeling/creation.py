"""Create a project from a source, or reopen it: its folder, pool, classes and existing labels."""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dubito.errors import DubitoError, InvalidArgument, InvalidIds, MissingFile, named
from dubito.io.durable import explain_write_errors, sync_folder
from dubito.io.opening import open_source
from dubito.io.roles import read_pool
from dubito.labeling.contents import (
    Contents,
    describe_changes,
    find_copies,
    identities_of,
    read_contents,
    update_items,
)
from dubito.labeling.database import has_store, open_engine, store_errors
from dubito.labeling.events import Event, LabelTable, check_name
from dubito.labeling.items import ITEMS, save_items
from dubito.labeling.project import (
    NAME,
    Project,
    ProjectLock,
    Settings,
    ensure_ident,
    is_project,
    read_ident,
    read_project,
)
from dubito.labeling.state import State
from dubito.labeling.store import Statements, Writer, add_event, check_store, read_events

POOL = "pool.parquet"
SOURCE = "source"
"""Annotator of the labels that the source had."""

Report = Callable[[str], None]
EmbedProgress = Callable[[int, int, None, float], None]
Confirm = Callable[[str, Sequence[str]], bool]
"""Asks the user whether the names of these folders are classes."""


def project_folder(source: str) -> str:
    """The folder of a source's project, next to the source.

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
    columns: Mapping[str, str] | None = None,
    progress: EmbedProgress | None = None,
    report: Report = lambda line: None,
    confirm: Confirm = lambda source, names: False,
) -> tuple[Project, Contents]:
    """Open the project of a source, or create it.

    Parameters
    ----------
    source : str
        A folder, a table, a pool or the folder of a project.
    classes : sequence of str, optional
        The classes; labels of the source with other classes are left out. Default: the classes of the source.
    settings, store, embedder : optional
        Of a new project.
    columns : mapping of str, optional
        How to read the source; see `Project.columns`.
    progress : callable, optional
        Called while items are embedded.
    report : callable, optional
        Gets one-line messages for the user.
    confirm : callable, optional
        Asked whether folder names are classes, unless `classes` or `columns` say so.
    """
    folder = project_folder(source)
    if is_project(folder):
        project = _reopen(folder, source, store)
        _check_embedder(project, embedder)
        _check_columns(project, columns or {})
        try:
            embed_source(project, embedder, progress, report)
        except DubitoError as error:
            report(f"warning: the project continues with its current items: {error}")
        contents = add_new_items(project, report)
        return _add_classes(project, classes or (), report), contents
    columns = _decide_labels(source, classes, columns or {}, report, confirm)
    return _create(folder, source, classes, settings or Settings(), store, embedder, columns, progress, report)


def embed_source(
    project: Project, embedder: str = "auto", progress: EmbedProgress | None = None, report: Report = lambda line: None
) -> bool:
    """Embed what is new or changed in the source; call `add_new_items` afterwards.

    Returns False if the project did not embed its source, but was created with features.
    """
    if project.pool != POOL:
        return False
    if not os.path.exists(project.source_path):
        problem = f"{project.source_path} does not exist any more"
        raise MissingFile(problem, hint=f"restore it, or correct source in {project.path(NAME)}.")
    name = embedder if embedder != "auto" else _embedder_of(project)
    if not name:
        return False
    _embed(project.folder, project.source_path, name, project.columns, progress, report, is_update=True)
    return True


def add_new_items(project: Project, report: Report = lambda line: None) -> Contents:
    """Add new rows of the pool as items, unless a server has the project open, and report what changed."""
    with suppress(InvalidArgument):
        lock = ProjectLock(project)
        try:
            contents, changes, n_changed_ids = update_items(project)
        finally:
            lock.close()
        for note in describe_changes(contents, changes, n_changed_ids):
            report(note)
        return contents
    return read_contents(project)


def describe_copies(contents: Contents, settings: Settings) -> str:
    """A message about the number of exact copies and how they are labeled."""
    groups = set(contents.copies.values())
    shown = ", ".join(contents.ids[item] for item in next(iter(contents.copies.values()))[:3])
    n_copies = len(contents.copies) - len(groups)
    how = "and share its label" if settings.copies == "share" else "and are labeled one by one"
    return f"{n_copies:,} of {len(contents):,} items are exact copies of another one {how} (such as {shown})."


def _check_columns(project: Project, given: Mapping[str, str]) -> None:
    """Raise `InvalidArgument` if a project was created with other columns."""
    for name, value in given.items():
        if project.columns.get(name) != value:
            if name != "labels" and os.path.isfile(project.source_path):
                open_source(project.source_path).entry(value)  # Raises if there is no such column.
            shown = f"no {named(name)}" if project.columns.get(name) is None else f"{project.columns[name]!r}"
            problem = f"differs from that of {project.folder} ({shown})"
            hint = "leave it out, or rename that folder and start over."
            raise InvalidArgument(problem, argument=name, value=value, hint=hint)


def _decide_labels(
    source: str, classes: Sequence[str] | None, columns: Mapping[str, str], report: Report, confirm: Confirm
) -> dict[str, str]:
    """The columns with ``labels``: whether to use the labels of the source. Folder names need a confirmation."""
    from dubito.embedding.folder import class_folders, find_pictures
    from dubito.embedding.table import is_saved

    if "labels" in columns or not os.path.isdir(source) or is_saved(source):
        return {"labels": "yes", **columns}
    names = list(dict.fromkeys(each for each in class_folders(find_pictures(source)) if each is not None))
    if classes:
        are_classes = bool(set(names) & {check_name("classes", each) for each in classes})
    else:
        are_classes = not names or confirm(source, names)
    if names and not are_classes:
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        report(f"the folders in {source} ({shown}) are not used as classes; pass --labels if they are classes.")
    return {"labels": "yes" if are_classes else "no", **columns}


def _reopen(folder: str, source: str, store: str | None) -> Project:
    project = read_project(folder)
    if not is_project(source.rstrip("/")) and os.path.realpath(project.source_path) != os.path.realpath(source):
        problem = f"{folder} is the project of {project.source_path}"
        raise InvalidArgument(problem, hint=f"rename one of the two, or open it with dubito label {folder}.")
    if store is not None and store != project.store:
        raise InvalidArgument(f"is not the database of {folder}", argument="store", hint="leave it out.")
    return project


def _embedder_of(project: Project) -> str:
    """The name of the embedder that created the pool; empty if its features come from elsewhere."""
    return open_source(project.pool_path).embedder.partition(" (version")[0]


def _check_embedder(project: Project, embedder: str) -> None:
    """Raise `InvalidArgument` if the project was created with another embedder: distances would not be comparable."""
    current = _embedder_of(project)
    is_same = embedder in ("auto", current) or (embedder.startswith("onnx:") and current.startswith("onnx:"))
    if not is_same:
        problem = f"differs from that of {project.folder} ({current or 'features of your own'})"
        hint = "leave it out, or rename that folder and start over."
        raise InvalidArgument(problem, argument="embedder", value=embedder, hint=hint)


def _add_classes(project: Project, classes: Sequence[str], report: Report) -> Project:
    """Add new classes, but not those that were renamed or removed, so that a repeated command changes nothing."""
    given = [check_name("classes", name) for name in classes]
    names = [name for name in given if name not in project.classes]
    others = [name for name in project.classes if name not in given]
    if not given or not (names or others):
        return project
    table = LabelTable(_read_log(project))
    changed = {change.label for change in table.class_changes}
    for name in names:
        if name in changed:
            now = table.current_name(name)
            report(f"{name!r} was removed from the classes" if now is None else f"the class {name!r} is {now!r} now")
    renamed = {table.current_name(name) for name in names if name in changed}
    kept = [name for name in others if name not in renamed]
    added = [name for name in names if name not in changed]
    for name in added:
        if name not in project.classes:
            project = project.with_class(name)
    if added:
        save_unopened(project)
        report(f"added to the classes: {', '.join(added)}.")
    if kept:
        shown = f"class{'es' * (len(kept) > 1)} {', '.join(kept)}"
        report(
            f"the project keeps its {shown}, which --classes does not name; dubito update renames or removes classes."
        )
    return project


def _read_log(project: Project) -> list[Event]:
    """The events of a project whose database exists; otherwise none."""
    if project.store is None and not os.path.exists(project.path("labels.sqlite")):
        return []
    # Not a read-only engine: after a power failure SQLite may have to roll back a journal before it can read.
    engine = open_engine(project.folder, project.store)
    with store_errors("the labels cannot be opened"), engine.begin() as connection:
        return read_events(connection) if has_store(connection) else []


def _create(
    folder: str,
    source: str,
    classes: Sequence[str] | None,
    settings: Settings,
    store: str | None,
    embedder: str,
    columns: Mapping[str, str],
    progress: EmbedProgress | None,
    report: Report,
) -> tuple[Project, Contents]:
    if not os.path.exists(source):
        raise MissingFile(f"{source} does not exist", hint="check the path, or try dubito label --demo.")
    if os.path.exists(os.path.join(source, ITEMS)):
        hint = f"restore a copy of it, or run dubito label with the source: the labels in {source} are kept."
        raise MissingFile(f"{source} was a project, but its {NAME} is gone", hint=hint)
    if classes and len({check_name("classes", name) for name in classes}) == 1:
        hint = f"pass at least two, such as {classes[0]},other."
        raise InvalidArgument("is a single class", argument="classes", value=classes[0], hint=hint)
    if store is not None:
        check_store(store, read_ident(folder))
    with _new_folder(folder):
        relative = os.path.relpath(source, folder)
        pool = relative if is_pool(source, columns) else _embed(folder, source, embedder, columns, progress, report)
        if store is None and not os.path.exists(os.path.join(folder, "labels.sqlite")):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, ITEMS))  # Left by an interrupted creation, perhaps of another source.
        project = Project(folder, ensure_ident(folder), relative, pool, (), "", settings, store, columns=columns)
        contents = read_contents(project)
        items = identities_of(project, contents)
        contents = replace(contents, copies=find_copies(contents, items))
        if classes:
            contents = _drop_other_classes(contents, classes, report)
        found = sorted({label for label in contents.labels if label is not None})
        # A project that lost its ``project.toml`` still has the annotators' labels.
        named = LabelTable(_read_log(project)).named.values()
        used = [event.label for event in named if event.label and event.annotator != SOURCE]
        for name in dict.fromkeys(check_name("classes", each) for each in (*(classes or ()), *found, *used)):
            project = project.with_class(name)
        if used:
            report(f"{folder} has labels, but no {NAME}: the labels and their classes are kept, its settings are new.")
        save_items(project, items)
        _import_labels(project, contents, report)
        if contents.copies:
            report(describe_copies(contents, settings))
        project.save()
    return project, contents


@contextmanager
def _new_folder(folder: str) -> Iterator[None]:
    """Create the folder of a project; if the block fails, remove it unless it holds embeddings for a retry."""
    is_new = not os.path.exists(folder)
    with explain_write_errors(folder):
        os.makedirs(folder, 0o700, exist_ok=True)
    # Without this, a power failure could lose the new folder even if its files are synced.
    sync_folder(os.path.dirname(os.path.abspath(folder)))
    try:
        yield
    except BaseException as error:
        with suppress(OSError):
            # Keep embeddings for a retry after an interrupt or a full disk, but not after invalid input.
            if is_new and isinstance(error, DubitoError) and error.exit_code > 1:
                shutil.rmtree(folder)
            elif is_new:
                os.rmdir(folder)
        raise


def _drop_other_classes(contents: Contents, classes: Sequence[str], report: Report) -> Contents:
    """The contents without the labels that are not among `classes`."""
    names = {check_name("classes", each) for each in classes}
    others = Counter(label for label in contents.labels if label is not None and label not in names)
    if not others:
        return contents
    shown = ", ".join(f"{name} ({n:,})" for name, n in others.most_common(5)) + (", ..." if len(others) > 5 else "")
    report(f"labels of the source that are not in --classes are left out: {shown}.")
    return replace(contents, labels=tuple(label if label in names else None for label in contents.labels))


def is_pool(source: str, columns: Mapping[str, str] | None = None) -> bool:
    """Whether a file already has features: a pool file, arrays, or a table with only numbers."""
    if os.path.isdir(source):
        return False
    given = {name: value for name, value in (columns or {}).items() if name in ("text", "image", "id_column")}
    opened = open_source(source)
    for name in given.values() if opened.is_table else ():
        opened.entry(name)  # Raises if there is no such column.
    if not opened.embedder and opened.is_table and ("text" in given or "image" in given):
        return False
    if _has_features(source, given.get("id_column")):
        for name, value in given.items():
            problem = f"is for sources that are embedded, and {source} has features"
            raise InvalidArgument(problem, argument=name, value=value, hint="leave it out.")
        return True
    return False


def _has_features(source: str, id_column: str | None) -> bool:
    opened = open_source(source)
    if opened.embedder or not opened.is_table:
        return True
    from dubito.embedding.opening import open_items

    try:
        open_items(source, id_column=id_column)
    except DubitoError as no_items:
        try:
            read_pool(source)
        except DubitoError as no_features:
            # For a table of texts with duplicate ids, the error about ids is the useful one.
            raise (no_items if isinstance(no_items, InvalidIds) else no_features) from None
        return True
    return False


def _embed(
    folder: str,
    source: str,
    embedder: str,
    columns: Mapping[str, str],
    progress: EmbedProgress | None,
    report: Report,
    *,
    is_update: bool = False,
) -> str:
    """Embed the source into the pool of a project. An update reports only new messages."""
    from dubito.embedding.api import embed
    from dubito.embedding.store import learned_path

    pool = os.path.join(folder, POOL)
    found = embed(
        source,
        embedder,
        pool,
        text=columns.get("text"),
        image=columns.get("image"),
        id_column=columns.get("id_column"),
        labels=columns.get("labels") != "no",
        progress=progress,
    )
    for path in (pool, learned_path(pool)):
        with suppress(FileNotFoundError):
            os.chmod(path, 0o600)
    if is_update and found.changes is None:
        return POOL
    for note in () if is_update else found.notes:
        if "--ignore-columns" not in note and "--no-labels" not in note:
            report(note)
    for each in found.left_out[:10]:
        report(f"left out: {each}")
    if len(found.left_out) > 10:
        report(f"left out: {len(found.left_out) - 10} more")
    return POOL


def _import_labels(project: Project, contents: Contents, report: Report) -> None:
    """Import the labels of the source, unless all items have one: then nothing would be left to query."""
    labeled = [(item, label) for item, label in enumerate(contents.labels) if label is not None]
    if not labeled:
        return
    if len(labeled) == len(contents):
        report("every item of the source has a label: its classes are imported, its labels are not.")
        return
    state = State(project, contents)
    writer = Writer(open_engine(project.folder, project.store), project.ident, state)

    def add(statements: Statements) -> None:
        for number, (item, label) in enumerate(labeled, start=state.label_table.last + 1):
            key = f"source-{item}"
            if key not in state.label_table.keys:
                event = Event(number, key, "label", SOURCE, item, label, 0, None, time.time(), why="source")
                add_event(statements, event)

    try:
        writer.run(add)
    finally:
        writer.close()
    report(f"{len(labeled)} of {len(contents)} items have labels in the source, which are imported.")


def save_unopened(project: Project) -> None:
    """Save a change; raises `InvalidArgument` if a server has the project open."""
    lock = ProjectLock(project)
    try:
        project.save()
    finally:
        lock.close()


def with_settings(project: Project, given: Mapping[str, Any], report: Report = lambda line: None) -> Project:
    """A copy with the given settings, saved and reported if they differ."""
    before = project.settings
    changed = replace(project, settings=replace(before, **given))
    differences = [
        f"{name} {getattr(before, name)} to {value}" for name, value in given.items() if getattr(before, name) != value
    ]
    if differences:
        save_unopened(changed)
        report(f"changed in the project: {', '.join(differences)}.")
    return changed


# The demo project: scikit-learn's handwritten digits as pictures.

SIDE = 64
"""Width and height of a picture in pixels; the original digits have 8."""
CLASSES = tuple("0123456789")
GUIDELINES = "Which digit is it? Skip what you cannot read."


def demo_source(folder: str | None = None) -> str:
    """The folder of the demo's pictures, created if missing."""
    target = Path(folder or default_folder()) / "digits"
    if not (target / "digit-1796.png").exists():
        with explain_write_errors(str(target)):
            target.mkdir(parents=True, exist_ok=True)
            write_digits(target)
    return str(target)


def default_folder() -> str:
    """The demo's folder in the user's cache, or in the current folder if the cache cannot be written to."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(home, "dubito", "label-demo")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return "dubito-label-demo"
    return folder if os.access(folder, os.W_OK) else "dubito-label-demo"


def write_digits(folder: Path, n_most: int | None = None) -> dict[str, str]:
    """Write pictures whose names do not reveal the class; returns the digit that each shows."""
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
