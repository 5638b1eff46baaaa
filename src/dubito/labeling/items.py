"""Match the items of a project to the rows of its pool file, even after the file was written again.

Labels refer to items by number. When a project is made, the id of every item and a digest of its text, its picture's
path or bytes, or (without ids) its features are kept in its folder. When it is opened, they are compared with the pool:
rows that moved are found again, and a pool in which an item is missing or has another content is refused. Of pictures
in files only the paths are compared, not what the files hold.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from dubito.errors import InvalidData
from dubito.io.durable import load_sealed, save_sealed
from dubito.labeling.project import Project
from dubito.matrix import AnyArray, IntArray

ITEMS = "items.npz"
MOST_NAMED = 3
"""Items that a message names."""


@dataclass(frozen=True, slots=True, eq=False)
class Identities:
    """The id and the digest of every row, or item."""

    ids: Sequence[str]
    digests: AnyArray
    """(n,) of contents; 0 if rows are identified by their ids alone."""
    kind: str
    """Of what: ``shown``, ``features`` or ``ids``."""

    def __len__(self) -> int:
        return len(self.ids)

    def without_contents(self) -> "Identities":
        """Known by ids alone."""
        return Identities(self.ids, np.zeros(len(self.ids), dtype=np.uint64), "ids")


def digest_of(content: object) -> int:
    """Eight bytes of a hash of a text, a path or bytes."""
    data = content if isinstance(content, bytes) else str(content).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def has_items(project: Project) -> bool:
    """Whether the items of a project are written down."""
    return os.path.exists(project.path(ITEMS))


def save_items(project: Project, found: Identities) -> None:
    """Write down which items a project has."""
    arrays = {"ids": np.array(found.ids, dtype=np.str_), "digests": found.digests, "kind": np.array(found.kind)}
    save_sealed(project.path(ITEMS), arrays, private=True)


def match_items(project: Project, found: Identities) -> tuple[IntArray | None, int]:
    """The row of every item, or None if item i is row i for all; and the number of rows that are new.

    Raises `InvalidData` if an item of the project is not in the pool, or is something else there.
    """
    kept = load_sealed(project.path(ITEMS), needed=True)
    known = Identities(kept["ids"].tolist(), kept["digests"], str(kept["kind"]))
    if known.kind != found.kind and known.kind != "features":
        # A column of texts came or went, say: contents cannot be compared, ids can.
        known, found = known.without_contents(), found.without_contents()
    if known.ids == list(found.ids) and np.array_equal(known.digests, found.digests):
        return None, 0
    rows = _rows_by_id(known, found)
    _match_by_content(rows, known, found)
    lost = np.flatnonzero(rows < 0)
    if len(lost):
        names = ", ".join(repr(known.ids[item]) for item in lost[:MOST_NAMED].tolist())
        problem = (
            f"{project.pool_path} was replaced: {len(lost):,} of the {len(known):,} items of {project.folder} are "
            f"missing there or have another content ({names}{', ...' if len(lost) > MOST_NAMED else ''})"
        )
        raise InvalidData(problem, hint="put the file back that the project was made with, or begin a new project.")
    return rows, len(found) - len(known)


def _rows_by_id(known: Identities, found: Identities) -> IntArray:
    """(n,) the row that has an item's id and content; -1 where there is none."""
    place = {name: row for row, name in enumerate(found.ids)}
    rows = np.array([place.get(name, -1) for name in known.ids], dtype=np.int64)
    is_there = rows >= 0
    is_there[is_there] = found.digests[rows[is_there]] == known.digests[is_there]
    rows[~is_there] = -1
    return rows


def _match_by_content(rows: IntArray, known: Identities, found: Identities) -> None:
    """Find items whose ids changed by their contents, in place; of equal contents the order tells which is which."""
    is_free = np.ones(len(found), dtype=np.bool_)
    is_free[rows[rows >= 0]] = False
    places: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(is_free & (found.digests != 0)).tolist():
        places[int(found.digests[row])].append(row)
    items: dict[int, list[int]] = defaultdict(list)
    for item in np.flatnonzero(rows < 0).tolist():
        items[int(known.digests[item])].append(item)
    for digest, wanted in items.items():
        if len(wanted) <= len(places[digest]):
            rows[wanted] = places[digest][: len(wanted)]
