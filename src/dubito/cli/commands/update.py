"""``dubito update``: add new items to a labeling project, change its classes, or use your own model's probabilities."""

import secrets
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from dubito.cli import options
from dubito.cli.commands import embed as embedding
from dubito.cli.commands.label import require_extra
from dubito.cli.options import argument, option
from dubito.cli.output import ProgressBar, print_note, set_quiet
from dubito.errors import InvalidArgument
from dubito.labeling.project import ProjectLock, read_project


def update(
    project: Annotated[str, argument("PROJECT", "The folder of a project, or its source.")],
    probabilities: Annotated[
        str | None,
        option(
            "--probabilities FILE",
            "One row per item and one column per class (.npz, .parquet, .csv), with ids; the classes are an array "
            "classes or the names of the columns.",
        ),
    ] = None,
    none: Annotated[bool, option("--none", "Go back to dubito's own model.")] = False,
    rename: Annotated[
        list[str] | None, option("--rename OLD=NEW", "Rename a class; its labels follow. May be repeated.")
    ] = None,
    merge: Annotated[
        list[str] | None, option("--merge CLASS=INTO", "Make all labels of a class those of another.")
    ] = None,
    remove: Annotated[list[str] | None, option("--remove CLASS", "Remove a class with its labels.")] = None,
    undo: Annotated[bool, option("--undo", "Undo the last change of a class.")] = False,
    embedder: embedding.EmbedderName = "auto",
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito update photos.dubito[/bold]

    Add the new items of the source to a project. Only new and changed items are
    embedded; labels, ids and history are kept, and what changed or disappeared
    is listed. A running server adds the new items by itself.

    [bold]dubito update photos.dubito --rename cat=tabby[/bold]

    Change the classes of a project. Labels follow, and --undo takes the last change
    back. While a server has the project open, change classes on its page.

    [bold]dubito update photos.dubito --probabilities mine.npz[/bold]

    Use your own model's probabilities instead of dubito's in the next rounds. A
    running server uses them from its next round on.
    """
    set_quiet(quiet)
    require_extra()
    changes = read_class_changes(rename, merge, remove, undo)
    if not changes and not none and probabilities is None:
        update_items(project, embedder=embedder)
    elif changes and not none and probabilities is None:
        change_classes(project, changes)
    else:
        update_probabilities(project, probabilities, none=none, has_changes=bool(changes))


def update_items(path: str, *, embedder: str) -> None:
    """Add the new items of the source and the pool to a project; a running server adds them by itself."""
    from dubito.labeling.creation import add_new_items, embed_source, project_folder

    project = read_project(project_folder(path))
    with ProgressBar("embedding") as bar:
        embed_source(project, embedder, bar, print_note)
    try:
        ProjectLock(project).close()
    except InvalidArgument:
        print_note("the server that has this project open adds the new items within seconds.")
        return
    notes: list[str] = []
    contents = add_new_items(project, notes.append)
    for note in notes or ["nothing is new."]:
        print_note(note)
    print_note(f"{project.folder} has {len(contents):,} items.")


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


def change_classes(path: str, changes: Sequence[dict[str, str]]) -> None:
    """Change the classes of a project that no server has open."""
    from dubito.labeling.contents import read_contents
    from dubito.labeling.creation import project_folder
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
    print_note(f"the classes are now {', '.join(shown) or 'none'}.")


def update_probabilities(path: str, probabilities: str | None, *, none: bool, has_changes: bool) -> None:
    """Save the probabilities of the user's own model for the next rounds, or remove them."""
    from dubito.labeling.contents import read_contents
    from dubito.labeling.creation import project_folder
    from dubito.labeling.user_probabilities import remove_probabilities, save_probabilities

    project = read_project(project_folder(path))
    if none == (probabilities is not None) or has_changes:
        hint = "pass one of --probabilities FILE, --none, or changes of classes such as --rename cat=dog."
        raise InvalidArgument("more than one kind of update is given", hint=hint)
    if probabilities is None:
        remove_probabilities(project)
        print_note("the next rounds use dubito's own model.")
        return
    n_rows = save_probabilities(project, read_contents(project), probabilities)
    print_note(f"{n_rows:,} rows of {probabilities} are saved; the next rounds use them.")
