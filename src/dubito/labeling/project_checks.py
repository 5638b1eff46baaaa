"""Warnings about a project that is opened again: lost labels, or a changed source."""

import os
import re

from dubito.labeling.contents import Contents
from dubito.labeling.project import NAME, Project

LEFT_BEHIND = re.compile(r"round-\d+\.npz|labels-\d+\.csv|labell?ed\.npz")
"""Files that exist only if there were labels."""


def lost_labels(project: Project) -> str | None:
    """A warning if the label database is missing or empty although there were labels; otherwise None."""
    path = project.path("labels.sqlite")
    if project.store is not None or (os.path.exists(path) and os.path.getsize(path)):
        return None
    evidence = next(filter(LEFT_BEHIND.fullmatch, sorted(os.listdir(project.folder))), None)
    if evidence is None:
        return None
    return (
        f"{path} is missing or empty, though {evidence} beside it shows that there were labels: the project begins "
        "without any. If you have a copy, stop, put it back and start again."
    )


def changed_source(project: Project, contents: Contents) -> list[str]:
    """Warnings if the source is missing, or if pictures were added or removed."""
    source = project.source_path
    if not os.path.exists(source):
        lost = "its pictures cannot be shown" if contents.what == "pictures" else "the project goes on without it"
        return [f"{source} is not there any more: {lost}. Put it back, or fix source in {project.path(NAME)}."]
    names = [each for each in contents.shown or () if isinstance(each, str)]
    if contents.what != "pictures" or not names or not os.path.isdir(source):
        return []
    from dubito.embedding.folder import find_pictures

    present, known = set(find_pictures(source)), set(names)
    created = os.stat(project.pool_path).st_mtime
    more = sum(_is_newer(os.path.join(source, name), created) for name in present - known)
    notes = []
    if more:
        notes.append(f"{source} has {more:,} more pictures than the project, which does not take them in.")
    if known - present:
        notes.append(f"{source} has lost {len(known - present):,} pictures of the project, which cannot be shown.")
    return notes


def _is_newer(path: str, created: float) -> bool:
    """Whether a file was added after the pool was created; an older file was left out deliberately."""
    try:
        return os.stat(path).st_ctime > created
    except OSError:
        return False
