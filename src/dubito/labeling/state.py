"""All that a server holds in memory: what the store says, and what the last round learned."""

import json
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from dubito.errors import DubitoError
from dubito.io.durable import load_sealed
from dubito.labeling.contents import Contents
from dubito.labeling.events import Book, Event
from dubito.labeling.project import LAYOUT, OWN, Project, model_file
from dubito.labeling.queue import LEASE, WaitingList
from dubito.labeling.store import Pick, RoundRecord, read_events, read_fact, read_leases, read_picks, read_rounds
from dubito.matrix import AnyArray, BoolArray

RESTRICTED, LEARNED = "restricted", "learned"
"""Facts of the store: what may be asked for, and the last event that the last round learned from."""


@dataclass(frozen=True, slots=True, eq=False)
class RoundModel:
    """What the model of a round says."""

    round: int
    probabilities: AnyArray | None
    """(n, c)."""
    classes: tuple[str, ...]
    held_rows: AnyArray
    held_out: AnyArray
    held_classes: tuple[str, ...]
    covered: AnyArray

    def guess(self, item: int) -> tuple[str, float] | None:
        """The likeliest class of a row, and how likely it is."""
        if self.probabilities is None:
            return None
        place = int(self.probabilities[item].argmax())
        return self.classes[place], float(self.probabilities[item, place])


def read_model(project: Project, round: int, n_rows: int) -> RoundModel | None:
    """The model of a round, where its file is there and whole."""
    try:
        kept = load_sealed(project.path(model_file(round)))
        probabilities = kept.get("probabilities")
        if probabilities is not None and len(probabilities) != n_rows:
            return None
        none = np.empty(0)
        return RoundModel(
            round,
            probabilities,
            tuple(kept.get("classes", none).tolist()),
            kept.get("held_rows", none),
            kept.get("held_out", none),
            tuple(kept.get("held_classes", none).tolist()),
            kept["covered"],
        )
    except (DubitoError, KeyError):
        return None


class Mark(NamedTuple):
    """How far memory was."""

    last: int
    n_rounds: int
    n_picks: int
    model: RoundModel | None
    learned: int | None
    mode: str
    is_open: BoolArray | None


class State:
    """What the store and the last round come to. Whoever reads or changes it holds `lock`."""

    def __init__(self, project: Project, contents: Contents, *, lease: float = LEASE) -> None:
        self.lock, self.lease = threading.RLock(), lease
        self.project, self.contents = project, contents
        self.book = Book()
        self.waiting = WaitingList(self.book, project.settings.overlap)
        self.rounds: list[RoundRecord] = []
        self.picks: list[Pick] = []
        self.model: RoundModel | None = None
        self.learned: int | None = None
        """The number of the last event that the last round learned from, where it is known."""
        self.places: AnyArray | None = None
        self.is_open: BoolArray | None = None
        """(n,) what may be asked for; None for everything."""
        self.mode = ""
        self.version = 0
        """Grows with every change; a page that has this one need not be reported again."""

    def reload(self, connection: Connection) -> None:
        """Everything again, as the store has it; where it cannot be read, nothing is changed."""
        with self.lock:
            overlap = self.project.settings.overlap
            events, rounds, picks = read_events(connection), read_rounds(connection), read_picks(connection)
            leases, restriction = read_leases(connection), read_fact(connection, RESTRICTED)
            learned = json.loads(read_fact(connection, LEARNED) or "{}")
            book, round = Book(events, overlap), rounds[-1].round if rounds else 0
            waiting = WaitingList(book, overlap)
            waiting.is_open = self.may_ask
            waiting.spare = np.random.default_rng(17).permutation(len(self.contents)).tolist()
            waiting.replace([pick for pick in picks if pick.round == round])
            waiting.restore(leases, time.time(), time.monotonic(), self.lease)
            model = self.model
            if model is None or model.round != round:
                model = read_model(self.project, round, len(self.contents)) if round else None
            self.restrict(restriction)
            self.book, self.rounds, self.picks, self.waiting, self.model = book, rounds, picks, waiting, model
            self.learned = learned.get("event") if learned.get("round") == round else None
            self.version += 1

    def mark(self) -> Mark:
        """Where memory is now, for `go_back`; taken before operations run."""
        with self.lock:
            counts = self.book.last, len(self.rounds), len(self.picks)
            return Mark(*counts, self.model, self.learned, self.mode, self.is_open)

    def go_back(self, mark: Mark) -> None:
        """Forget what operations changed since a mark, as none of it is known to be stored.

        Leases may stay: they are read again with everything else once the store can be read.
        """
        with self.lock:
            if self.book.last > mark.last:
                events = [event for event in self.book.events.values() if event.number <= mark.last]
                self.book = self.waiting.book = Book(events, self.project.settings.overlap)
                self.waiting.look_again()
            if len(self.rounds) > mark.n_rounds:
                del self.rounds[mark.n_rounds :], self.picks[mark.n_picks :]
                self.waiting.replace([pick for pick in self.picks if pick.round == self.round])
            self.model, self.learned = mark.model, mark.learned
            self.mode, self.is_open = mark.mode, mark.is_open
            self.version += 1

    def last_event(self) -> Event | None:
        """The last event of the log."""
        with self.lock:
            return self.book.events.get(self.book.last)

    def guessed(self) -> dict[int, tuple[int, int]]:
        """By round, how many labels the model of it had guessed right before anyone saw the guess, and of how many."""
        found: dict[int, tuple[int, int]] = {}
        for item, label in self.book.labels.items():
            for event in self.book.said(item).values():
                if event.guess is not None and not event.guess_seen and event.label is not None:
                    right, of = found.get(event.round, (0, 0))
                    found[event.round] = right + (event.guess == label), of + 1
        return found

    def changes_since_round(self) -> int:
        """How many answers have changed a label since the last round learned from them."""
        if self.learned is None and self.rounds:  # Of an older dubito, which did not record it.
            return abs(len(self.book.labels) - self.rounds[-1].labels)
        return self.book.changes_after(self.learned or 0)

    def read_layout(self) -> None:
        """The map, where it was computed."""
        with suppress(DubitoError, KeyError):
            places = load_sealed(self.project.path(LAYOUT))["places"]
            with self.lock:
                self.places = places if len(places) == len(self.contents) else None
                self.version += 1

    @property
    def round(self) -> int:
        """The last round; 0 before the first."""
        return self.rounds[-1].round if self.rounds else 0

    def restrict(self, kept: str | None) -> None:
        """As the store has it: a mode and rows, or nothing."""
        found = {} if kept is None else json.loads(kept)
        self.mode = found.get("mode", "")
        self.is_open = None
        if self.mode:
            self.is_open = np.full(len(self.contents), self.mode == "exclude")
            self.is_open[np.array(found["rows"], dtype=np.int64)] = self.mode == "only"

    def may_ask(self, item: int) -> bool:
        """Whether an item may be asked for."""
        return self.is_open is None or bool(self.is_open[item])

    def restricted_to(self) -> int | None:
        """How many items a person restricted it to."""
        return int(self.is_open.sum()) if self.is_open is not None and self.mode == "only" else None

    def n_open(self) -> int:
        """How many items may be asked for, answered ones among them."""
        return len(self.contents) if self.is_open is None else int(self.is_open.sum())

    def excluded(self) -> Sequence[int]:
        """Items that a person ruled out."""
        return [] if self.is_open is None else np.flatnonzero(~self.is_open).tolist()

    def audited(self) -> list[int]:
        """Labeled items of the audit: drawn for it by a round, and answered as such."""
        drawn = {pick.item for pick in self.picks if pick.why == "audit"} & self.book.labels.keys()
        return sorted(item for item in drawn if self.book.is_audited(item))

    def has_own(self) -> bool:
        """Whether the user's own probabilities are there."""
        import os

        return os.path.exists(self.project.path(OWN))
