"""What a person should know of a project that is opened again: labels that are gone, a source that is not as it was."""

import os
import re

from dubito.labeling.contents import Contents
from dubito.labeling.project import NAME, Project

LEFT_BEHIND = re.compile(r"round-\d+\.npz|labels-\d+\.csv|labelled\.npz")
"""Files that are there only where the store has been."""


def lost_labels(project: Project) -> str | None:
    """That the file of labels is missing, though there was one."""
    path = project.path("labels.sqlite")
    if project.store is not None or (os.path.exists(path) and os.path.getsize(path)):
        return None
    beside = next(filter(LEFT_BEHIND.fullmatch, sorted(os.listdir(project.folder))), None)
    if beside is None:
        return None
    return (
        f"{path} is missing or empty, though {beside} beside it shows that there were labels: the project begins "
        "without any. If you have a copy, stop, put it back and start again."
    )


def changed_source(project: Project, contents: Contents) -> list[str]:
    """That the source was moved away, or that pictures came or went since."""
    source = project.source_path
    if not os.path.exists(source):
        lost = "its pictures cannot be shown" if contents.what == "pictures" else "the project goes on without it"
        return [f"{source} is not there any more: {lost}. Put it back, or fix source in {project.path(NAME)}."]
    names = [each for each in contents.shown or () if isinstance(each, str)]
    if contents.what != "pictures" or not names or not os.path.isdir(source):
        return []
    from dubito.embedding.folder import find_pictures

    there, known = set(find_pictures(source)), set(names)
    made = os.stat(project.pool_path).st_mtime
    more = sum(_since(os.path.join(source, name), made) for name in there - known)
    notes = []
    if more:
        notes.append(f"{source} has {more:,} more pictures than the project, which does not take them in.")
    if known - there:
        notes.append(f"{source} has lost {len(known - there):,} pictures of the project, which cannot be shown.")
    return notes


def _since(path: str, made: float) -> bool:
    """Whether a file came after the pool was made; an older one was left out of it."""
    try:
        return os.stat(path).st_ctime > made
    except OSError:
        return False
