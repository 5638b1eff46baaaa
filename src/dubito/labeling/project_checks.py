"""A warning about a project that is opened again and has lost its labels."""

import os
import re

from dubito.labeling.project import Project

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
