"""All that a server holds in memory: what the store says, and what the last round learned."""

import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from dubito.errors import DubitoError
from dubito.files.sealed import load_sealed
from dubito.labelling.book import Book
from dubito.labelling.contents import Contents
from dubito.labelling.project import LAYOUT, OWN, Project, model_file
from dubito.labelling.store import Pick, RoundRecord, read_events, read_fact, read_leases, read_picks, read_rounds
from dubito.labelling.waiting import WaitingList
from dubito.matrix import AnyArray, BoolArray

RESTRICTED = "restricted"


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


class State:
    """What the store and the last round come to. Whoever reads or changes it holds `lock`."""

    def __init__(self, project: Project, contents: Contents) -> None:
        self.lock = threading.RLock()
        self.project, self.contents = project, contents
        self.book = Book()
        self.waiting = WaitingList(self.book, project.settings.overlap)
        self.rounds: list[RoundRecord] = []
        self.picks: list[Pick] = []
        self.model: RoundModel | None = None
        self.places: AnyArray | None = None
        self.is_open: BoolArray | None = None
        """(n,) what may be asked for; None for everything."""
        self.mode = ""
        self.version = 0
        """Grows with every change; a page that has this one need not be told again."""

    def reload(self, connection: Connection) -> None:
        """Everything again, as the store has it."""
        with self.lock:
            self.book = Book(read_events(connection), self.project.settings.overlap)
            self.rounds, self.picks = read_rounds(connection), read_picks(connection)
            self.waiting = WaitingList(self.book, self.project.settings.overlap)
            self.waiting.is_open = self.may_ask
            self.waiting.spare = np.random.default_rng(17).permutation(len(self.contents)).tolist()
            self.waiting.replace([pick for pick in self.picks if pick.round == self.round])
            self.waiting.restore(read_leases(connection))
            self.restrict(read_fact(connection, RESTRICTED))
            if self.model is None or self.model.round != self.round:
                self.model = read_model(self.project, self.round, len(self.contents)) if self.round else None
            self.version += 1

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
        """Labelled items that were drawn at random."""
        return [item for item in self.book.drawn if item in self.book.labels]

    def has_own(self) -> bool:
        """Whether the user's own probabilities are there."""
        import os

        return os.path.exists(self.project.path(OWN))
