"""The server's in-memory state: the contents of the store and the model of the last round."""

import json
import os
import threading
import time
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from dubito.errors import DubitoError
from dubito.io.durable import load_with_checksum
from dubito.labeling.contents import Contents, merge_columns, read_contents
from dubito.labeling.database import open_engine, store_errors
from dubito.labeling.events import Event, LabelTable
from dubito.labeling.project import LAYOUT, Project, model_file, read_project
from dubito.labeling.queue import LEASE, PickQueue
from dubito.labeling.store import Pick, RoundRecord, read_events, read_fact, read_leases, read_picks, read_rounds
from dubito.matrix import AnyArray, BoolArray

RESTRICTED, TRAINED_EVENT = "restricted", "learned"
"""Names of facts in the store: the restriction of the queried items, and the last event used in the last training."""


@dataclass(frozen=True, slots=True, eq=False)
class RoundModel:
    """Predictions of a round's model."""

    round: int
    probabilities: AnyArray | None
    """(n, c)."""
    classes: tuple[str, ...]
    held_rows: AnyArray
    """(m,) labeled items with held-out predictions."""
    held_out: AnyArray
    """(m, c) the held-out probabilities of these items."""
    held_classes: tuple[str, ...]
    covered: AnyArray
    """(1 + b,) the coverage before the picks and after each of them."""
    n_known: int | None = None
    """Number of items that had features when the model was trained; the others have equal probabilities."""

    def extended(self, n_items: int) -> "RoundModel":
        """The model for a pool that has grown to `n_items` items."""
        known = self.probabilities
        if known is None or len(known) >= n_items:
            return self
        rest = np.full((n_items - len(known), known.shape[1]), 1.0 / known.shape[1], dtype=known.dtype)
        return replace(self, probabilities=np.concatenate([known, rest]), n_known=len(known))

    def guess(self, item: int) -> tuple[str, float] | None:
        """The most probable class of an item, and its probability; None for an item that is newer than the model."""
        if self.probabilities is None or (self.n_known is not None and item >= self.n_known):
            return None
        best = int(self.probabilities[item].argmax())
        return self.classes[best], float(self.probabilities[item, best])

    def with_names(self, names: Mapping[str, str | None]) -> "RoundModel":
        """The model with other names of its classes: probabilities of merged classes add up; None removes a class."""
        if names.keys().isdisjoint((*self.classes, *self.held_classes)):
            return self
        classes, probabilities = merge_columns(self.classes, self.probabilities, names)
        held_classes, held_out = merge_columns(self.held_classes, self.held_out, names)
        if held_out is None:
            empty = np.empty(0)
            return replace(self, classes=classes, probabilities=probabilities, held_rows=empty, held_out=empty)
        return replace(self, classes=classes, probabilities=probabilities, held_classes=held_classes, held_out=held_out)


def read_model(project: Project, round: int, n_rows: int) -> RoundModel | None:
    """Read the model of a round, whose pool may have grown since; None if its file is missing or damaged."""
    try:
        stored = load_with_checksum(project.path(model_file(round)))
        probabilities = stored.get("probabilities")
        if probabilities is not None and len(probabilities) > n_rows:
            return None
        empty = np.empty(0)
        return RoundModel(
            round,
            probabilities,
            tuple(stored.get("classes", empty).tolist()),
            stored.get("held_rows", empty),
            stored.get("held_out", empty),
            tuple(stored.get("held_classes", empty).tolist()),
            stored["covered"],
        )
    except (DubitoError, KeyError):
        return None


class Snapshot(NamedTuple):
    """What `State.rollback` needs to undo later changes."""

    last: int
    n_rounds: int
    n_picks: int
    trained: RoundModel | None
    trained_event: int | None
    project: Project
    restriction: str | None


class State:
    """The state shared by all threads; hold `lock` to read or change it."""

    def __init__(self, project: Project, contents: Contents, *, lease: float = LEASE) -> None:
        self.lock, self.lease = threading.RLock(), lease
        self.project, self.contents = project, contents
        self.label_table = LabelTable()
        self.queue = PickQueue(self.label_table, project.settings.overlap)
        self.rounds: list[RoundRecord] = []
        self.picks: list[Pick] = []
        self.trained: RoundModel | None = None
        """The model of the last round, with the names that classes had when it was trained."""
        self.model: RoundModel | None = None
        """The same model with the current names."""
        self.trained_event: int | None = None
        """Number of the last event that the last round was trained on, if known."""
        self.layout: AnyArray | None = None
        """(n, 2) coordinates of the items on the map, if they were computed."""
        self.is_open: BoolArray | None = None
        """(n,) mask of the items that may be queried; None for all."""
        self.mode = ""
        """The mode of the restriction of the items: ``only``, ``exclude`` or empty."""
        self.restriction: str | None = None
        """The restriction as stored: JSON with ``mode`` and ``rows``, or None."""
        self.version = 0
        """Increases with every change; the page uses it as a cache tag."""

    def reload(self, connection: Connection) -> None:
        """Read everything from the store; if that fails, nothing is changed."""
        events, rounds, picks = read_events(connection), read_rounds(connection), read_picks(connection)
        leases, restriction = read_leases(connection), read_fact(connection, RESTRICTED)
        last_training = json.loads(read_fact(connection, TRAINED_EVENT) or "{}")
        with self.lock:
            overlap = self.project.settings.overlap
            label_table, round = LabelTable(events, overlap, self.shared_copies()), rounds[-1].round if rounds else 0
            queue = PickQueue(label_table, overlap)
            queue.is_open = self.may_ask
            queue.random_order = np.random.default_rng(17).permutation(len(self.contents)).tolist()
            queue.replace([pick for pick in picks if pick.round == round])
            queue.restore(leases, time.time(), time.monotonic(), self.lease)
            trained = self.trained
            if trained is None or trained.round != round:
                trained = read_model(self.project, round, len(self.contents)) if round else None
            self.restrict(restriction)
            self.label_table, self.rounds, self.picks, self.queue = label_table, rounds, picks, queue
            self.trained_event = last_training.get("event") if last_training.get("round") == round else None
            self.project = self.with_logged_changes(self.project)
            self.use_model(trained)
            self.version += 1

    def with_logged_changes(self, project: Project) -> Project:
        """The project with all class changes of the log applied, since ``project.toml`` is written after the log."""
        events = self.label_table.events
        for change in self.label_table.class_changes:
            if change.number > project.class_event:
                undone = None if change.target is None else events[change.target]
                project = project.with_change(events[change.number], undone)
        return project

    def use_model(self, trained: RoundModel | None) -> None:
        """Use the model of the last round, with the current names of its classes."""
        self.trained = trained
        named = trained and trained.with_names(self.label_table.names_since(self.trained_event or 0))
        self.model = named and named.extended(len(self.contents))

    def replace_contents(self, contents: Contents) -> None:
        """Replace the contents after the pool has changed; items keep their numbers, and new ones come last."""
        with self.lock:
            n_before, self.contents = len(self.contents), contents
            self.label_table.set_copies(self.shared_copies())
            new = np.random.default_rng([17, n_before]).permutation(np.arange(n_before, len(contents)))
            self.queue.random_order += new.tolist()
            self.queue.rescan()
            self.restrict(self.restriction)
            self.use_model(self.trained)
            self.layout = None
            self.version += 1

    def snapshot(self) -> Snapshot:
        """Capture the state before operations run, for `rollback`."""
        with self.lock:
            counts = self.label_table.last, len(self.rounds), len(self.picks)
            return Snapshot(*counts, self.trained, self.trained_event, self.project, self.restriction)

    def rollback(self, snapshot: Snapshot) -> None:
        """Undo the changes since a snapshot, which may not be stored.

        Leases stay: they are reloaded with everything else once the store can be read.
        """
        with self.lock:
            if self.label_table.last > snapshot.last:
                events = [event for event in self.label_table.events.values() if event.number <= snapshot.last]
                self.label_table = self.queue.table = LabelTable(
                    events, self.project.settings.overlap, self.shared_copies()
                )
                self.queue.rescan()
            if len(self.rounds) > snapshot.n_rounds:
                del self.rounds[snapshot.n_rounds :], self.picks[snapshot.n_picks :]
                self.queue.replace([pick for pick in self.picks if pick.round == self.round])
            if self.project.class_event != snapshot.project.class_event:
                self.project = snapshot.project
            self.trained_event = snapshot.trained_event
            self.use_model(snapshot.trained)
            self.restrict(snapshot.restriction)
            self.version += 1

    def last_event(self) -> Event | None:
        with self.lock:
            return self.label_table.events.get(self.label_table.last)

    def blind_hits(self) -> dict[int, tuple[int, int]]:
        """By round, how many labels its model guessed correctly, and the total; only guesses that nobody saw count."""
        found: dict[int, tuple[int, int]] = {}
        for item, label in self.label_table.labels.items():
            for event in self.label_table.current_answers(item).values():
                if event.guess is not None and not event.guess_seen and event.label is not None:
                    right, total = found.get(event.round, (0, 0))
                    found[event.round] = right + (event.guess == label), total + 1
        return found

    def changes_since_round(self) -> int:
        """Number of items whose label has changed since the last round was trained."""
        if self.trained_event is None and self.rounds:  # Written by an older version, which did not record it.
            return abs(len(self.label_table.labels) - self.rounds[-1].labels)
        table = self.label_table
        before: dict[int, str | None] = {}
        for change in table.changed[bisect_right(table.changed, self.trained_event or 0, key=itemgetter(0)) :]:
            before.setdefault(change.item, change.before)
        return sum(table.labels.get(item) != label for item, label in before.items())

    @property
    def n_items(self) -> int:
        """Number of items that are not gone."""
        return len(self.contents) - len(self.contents.gone)

    @property
    def n_labeled(self) -> int:
        """Number of labeled items that are not gone."""
        return self._count_present(self.label_table.labels)

    @property
    def n_skipped(self) -> int:
        return self._count_present(self.label_table.skipped)

    def _count_present(self, items: Collection[int]) -> int:
        return len(items) - sum(item in items for item in self.contents.gone)

    def read_layout(self) -> None:
        """Load the map, if it was computed."""
        with suppress(DubitoError, KeyError):
            layout = load_with_checksum(self.project.path(LAYOUT))["places"]
            with self.lock:
                self.layout = layout if len(layout) == len(self.contents) else None
                self.version += 1

    @property
    def round(self) -> int:
        """Number of the last round; 0 before the first."""
        return self.rounds[-1].round if self.rounds else 0

    def restrict(self, stored: str | None) -> None:
        """Apply a restriction as stored."""
        self.restriction = stored
        found = {} if stored is None else json.loads(stored)
        self.mode = found.get("mode", "")
        self.is_open = None
        if self.mode:
            self.is_open = np.full(len(self.contents), self.mode == "exclude")
            self.is_open[np.array(found["rows"], dtype=np.int64)] = self.mode == "only"

    def shared_copies(self) -> Mapping[int, tuple[int, ...]]:
        """By item, the items that share a label with it."""
        return self.contents.copies if self.project.settings.copies == "share" else {}

    def may_ask(self, item: int) -> bool:
        """Whether an item may be queried. Of copies that share a label, only one may be."""
        table = self.label_table
        if not self._is_open(item) or item in table.shared:
            return False
        return item not in table.copies or table.n_answers(item) > 0 or item == self._first_copy(item)

    def _is_open(self, item: int) -> bool:
        return item not in self.contents.gone and (self.is_open is None or bool(self.is_open[item]))

    def _first_copy(self, item: int) -> int | None:
        return next(filter(self._is_open, self.label_table.copies[item]), None)

    def open_items(self) -> BoolArray:
        """(n,) mask of the items for which `may_ask` is true."""
        is_open = np.ones(len(self.contents), dtype=np.bool_) if self.is_open is None else self.is_open.copy()
        is_open[list(self.contents.gone)] = False
        for item in self.label_table.copies:
            is_open[item] = self.may_ask(item)
        return is_open

    def restricted_to(self) -> int | None:
        """Number of items that the user restricted the queries to; None without such a restriction."""
        return int(self.is_open.sum()) if self.is_open is not None and self.mode == "only" else None

    def n_open(self) -> int:
        """Number of items that may be queried, including answered ones."""
        return int(self.open_items().sum())

    def excluded(self) -> Sequence[int]:
        """Items that may not be queried."""
        return [] if self.is_open is None else np.flatnonzero(~self.is_open).tolist()

    def audited(self) -> list[int]:
        """Labeled items that a round drew for the audit and that were answered as part of it, ascending."""
        drawn = {pick.item for pick in self.picks if pick.why == "audit"} & self.label_table.labels.keys()
        return sorted(item for item in drawn if self.label_table.is_audited(item))


def read_state(folder: str) -> State:
    """Read the current state of a project, even while a server has it open; changes nothing."""
    project = read_project(folder)
    state = State(project, read_contents(project))
    if project.store is None and not os.path.exists(project.path("labels.sqlite")):
        return state
    with store_errors(f"the labels of {folder} cannot be read", project.path("labels.sqlite")):
        engine = open_engine(project.folder, project.store, read_only=True)
        with engine.connect() as connection:
            state.reload(connection)
    return state
