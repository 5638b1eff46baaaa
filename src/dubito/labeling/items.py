"""Match the items of a project to the rows of its pool file, which may have been rewritten since.

Labels refer to items by number, and items are never removed. The project folder stores the id of every item and a
digest of its text, its picture or (without ids) its features. An item is matched to the row of the pool with

1. its id and its content; otherwise
2. its content under a different id, because annotators labeled the content; otherwise
3. its id with different content; its labels are kept.

Rows that match no item are new items. An item without a row is gone: its labels stay in the log, but it is not shown.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from dubito.errors import InvalidData
from dubito.io.durable import load_with_checksum, save_with_checksum
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
    """What the digests are of: ``contents`` (picture files), ``shown`` (the texts or paths that annotators see),
    ``features`` or ``ids`` (no digest)."""
    has_ids: bool = True
    """False if the pool has no ids, and ``ids`` are row numbers. Not stored."""

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


def save_items(project: Project, found: Identities, gone: AnyArray | None = None) -> None:
    """Store the identities of a project's items, and which of them are no longer in the pool."""
    arrays = {"ids": np.array(found.ids, dtype=np.str_), "digests": found.digests, "kind": np.array(found.kind)}
    if gone is not None and gone.any():
        arrays["gone"] = gone
    save_with_checksum(project.path(ITEMS), arrays, private=True)


class Match(NamedTuple):
    """The rows of a project's items in its pool."""

    known: Identities
    """The stored identities of the items."""
    rows: IntArray | None
    """The row of every item, or -1 if it is gone; None if item i is row i for every i, the pool has no further rows,
    and no item was gone before."""
    was_gone: AnyArray
    """(n,) mask of the items that were gone before."""
    changed: Sequence[int] = ()
    """Items with the same id and different content."""
    new: Sequence[int] = ()
    """Rows that are not items yet."""
    n_changed_ids: int = 0
    """Number of items whose id has changed."""


def match_items(project: Project, found: Identities) -> Match:
    """Find every item; raises `InvalidData` if more than half of them are missing."""
    stored = load_with_checksum(project.path(ITEMS), needed=True)
    known = stored_items = Identities(stored["ids"].tolist(), stored["digests"], str(stored["kind"]))
    rows = np.full(len(known), -1, dtype=np.int64)
    was_gone = stored.get("gone", np.zeros(len(known), dtype=np.bool_))
    if known.kind != found.kind and known.kind != "features" and found.has_ids:
        # For example, a text column was added or removed: compare ids only.
        known, found = known.without_contents(), found.without_contents()
    changed: list[int] = []
    if known.kind == found.kind:
        if known.ids == list(found.ids) and np.array_equal(known.digests, found.digests):
            return Match(stored_items, np.arange(len(known)) if was_gone.any() else None, was_gone)
        rows = _match_by_id_and_content(known, found)
        # Items that were gone are matched last, so that they take no row from the others.
        for items in (~was_gone, was_gone):
            _match_by_content(rows, items, known, found)
        if found.has_ids and not _are_row_numbers(found.ids):
            changed = _match_by_id(rows, known, found)
    lost, n_present = np.flatnonzero((rows < 0) & ~was_gone), int((~was_gone).sum())
    if 2 * len(lost) > n_present:
        names = ", ".join(repr(known.ids[item]) for item in lost[:MAX_NAMED].tolist())
        problem = (
            f"{project.pool_path} was replaced: {len(lost):,} of the {n_present:,} items of {project.folder} are "
            f"missing or have different content ({names}{', ...' if len(lost) > MAX_NAMED else ''})"
        )
        raise InvalidData(problem, hint="restore the original file, or create a new project.")
    n_changed_ids = 0
    if not _are_row_numbers(found.ids):
        n_changed_ids = sum(row >= 0 and known.ids[item] != found.ids[row] for item, row in enumerate(rows.tolist()))
    is_new = np.ones(len(found), dtype=np.bool_)
    is_new[rows[rows >= 0]] = False
    return Match(stored_items, rows, was_gone, changed, np.flatnonzero(is_new).tolist(), n_changed_ids)


def _are_row_numbers(ids: Sequence[str]) -> bool:
    """Whether every id is its row number; such ids do not identify items, because rows may move."""
    return all(name == str(row) for row, name in enumerate(ids))


def _match_by_id(rows: IntArray, known: Identities, found: Identities) -> list[int]:
    """Match the remaining items by id alone, updating `rows` in place; returns these items."""
    taken = set(rows[rows >= 0].tolist())
    row_of = {name: row for row, name in enumerate(found.ids) if row not in taken}
    changed = [item for item in np.flatnonzero(rows < 0).tolist() if known.ids[item] in row_of]
    rows[changed] = [row_of[known.ids[item]] for item in changed]
    return changed


def _match_by_id_and_content(known: Identities, found: Identities) -> IntArray:
    """(n,) the row with the item's id and content; -1 if there is none."""
    row_of = {name: row for row, name in enumerate(found.ids)}
    rows = np.array([row_of.get(name, -1) for name in known.ids], dtype=np.int64)
    is_match = rows >= 0
    is_match[is_match] = found.digests[rows[is_match]] == known.digests[is_match]
    rows[~is_match] = -1
    return rows


def _match_by_content(rows: IntArray, may_match: AnyArray, known: Identities, found: Identities) -> None:
    """By content, match the items of the mask ``may_match`` that have no row yet, updating `rows` in place.

    Items with the same content are matched in order, or not at all if there are fewer free rows with that content.
    """
    is_free = np.ones(len(found), dtype=np.bool_)
    is_free[rows[rows >= 0]] = False
    free_rows: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(is_free & (found.digests != 0)).tolist():
        free_rows[int(found.digests[row])].append(row)
    items: dict[int, list[int]] = defaultdict(list)
    for item in np.flatnonzero(may_match & (rows < 0)).tolist():
        items[int(known.digests[item])].append(item)
    for digest, wanted in items.items():
        if len(wanted) <= len(free_rows[digest]):
            rows[wanted] = free_rows[digest][: len(wanted)]
