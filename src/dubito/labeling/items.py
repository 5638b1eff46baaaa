"""Match the items of a project to the rows of its pool file, even after the file was written again.

Labels refer to items by number. When a project is created, the id of every item and a digest of its text, its picture's
path or bytes, or (without ids) its features are stored in its folder. When the project is opened, they are compared
with the pool: rows that moved are matched, and a pool in which an item is missing or has other contents is rejected.
Where ids and contents contradict each other, an item is the row with its content, because that is what people saw when
they labeled it. Of picture files only the paths are compared, not the contents.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from dubito.errors import InvalidData
from dubito.io.durable import load_sealed, save_sealed
from dubito.labeling.project import Project
from dubito.matrix import AnyArray, IntArray

ITEMS = "items.npz"
MAX_NAMED = 3
"""Maximum number of items named in a message."""


@dataclass(frozen=True, slots=True, eq=False)
class Identities:
    """The id and the content digest of every item or pool row."""

    ids: Sequence[str]
    digests: AnyArray
    """(n,) content digests; 0 if rows are identified by their ids alone."""
    kind: str
    """What the digests are of: ``shown``, ``features`` or ``ids`` (no digest)."""
    has_ids: bool = True
    """False if the ids are row numbers."""

    def __len__(self) -> int:
        return len(self.ids)

    def without_contents(self) -> "Identities":
        return Identities(self.ids, np.zeros(len(self.ids), dtype=np.uint64), "ids", self.has_ids)


def digest_of(content: object) -> int:
    """64-bit hash of a text, a path or bytes."""
    data = content if isinstance(content, bytes) else str(content).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def has_items(project: Project) -> bool:
    return os.path.exists(project.path(ITEMS))


def save_items(project: Project, found: Identities) -> None:
    """Store the identities of a project's items."""
    arrays = {"ids": np.array(found.ids, dtype=np.str_), "digests": found.digests, "kind": np.array(found.kind)}
    save_sealed(project.path(ITEMS), arrays, private=True)


class Match(NamedTuple):
    """Where the items of a project are in its pool."""

    rows: IntArray | None
    """The row of every item; None if item i is row i for all."""
    n_new: int = 0
    """Number of rows that are no item."""
    n_other_ids: int = 0
    """Number of items whose content has another id than before."""


def match_items(project: Project, found: Identities) -> Match:
    """Find every item; raises `InvalidData` if one is not in the pool, or is something else there."""
    stored = load_sealed(project.path(ITEMS), needed=True)
    known = Identities(stored["ids"].tolist(), stored["digests"], str(stored["kind"]))
    rows = np.full(len(known), -1, dtype=np.int64)
    if known.kind != found.kind and known.kind != "features" and found.has_ids:
        # For example, a text column was added or removed: compare ids only.
        known, found = known.without_contents(), found.without_contents()
    if known.kind == found.kind:
        if known.ids == list(found.ids) and np.array_equal(known.digests, found.digests):
            return Match(None)
        rows = _rows_by_id(known, found)
        _match_by_content(rows, known, found)
    lost = np.flatnonzero(rows < 0)
    if len(lost):
        names = ", ".join(repr(known.ids[item]) for item in lost[:MAX_NAMED].tolist())
        problem = (
            f"{project.pool_path} was replaced: {len(lost):,} of the {len(known):,} items of {project.folder} are "
            f"missing there or have another content ({names}{', ...' if len(lost) > MAX_NAMED else ''})"
        )
        raise InvalidData(problem, hint="put the file back that the project was made with, or begin a new project.")
    n_other_ids = 0
    if known.ids != [str(item) for item in range(len(known))]:  # Numbers of rows change where rows move.
        n_other_ids = sum(known.ids[item] != found.ids[row] for item, row in enumerate(rows.tolist()))
    return Match(rows, len(found) - len(known), n_other_ids)


def _rows_by_id(known: Identities, found: Identities) -> IntArray:
    """(n,) the row with the item's id and content; -1 if there is none."""
    row_of = {name: row for row, name in enumerate(found.ids)}
    rows = np.array([row_of.get(name, -1) for name in known.ids], dtype=np.int64)
    is_match = rows >= 0
    is_match[is_match] = found.digests[rows[is_match]] == known.digests[is_match]
    rows[~is_match] = -1
    return rows


def _match_by_content(rows: IntArray, known: Identities, found: Identities) -> None:
    """Match items whose ids changed by content, updating `rows` in place; equal contents are matched in order."""
    is_free = np.ones(len(found), dtype=np.bool_)
    is_free[rows[rows >= 0]] = False
    free_rows: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(is_free & (found.digests != 0)).tolist():
        free_rows[int(found.digests[row])].append(row)
    items: dict[int, list[int]] = defaultdict(list)
    for item in np.flatnonzero(rows < 0).tolist():
        items[int(known.digests[item])].append(item)
    for digest, wanted in items.items():
        if len(wanted) <= len(free_rows[digest]):
            rows[wanted] = free_rows[digest][: len(wanted)]
