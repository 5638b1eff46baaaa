"""`LabelingService`: hands out items and takes answers. Whatever it says is done is on the disk."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sqlalchemy import Connection

from dubito.errors import DubitoError, InvalidArgument, MissingFile
from dubito.io.source import nearest
from dubito.labeling.contents import Contents
from dubito.labeling.database import StoreFailed, open_engine
from dubito.labeling.events import Event, check_name
from dubito.labeling.learner import Loop
from dubito.labeling.project import Project, ProjectLock, Settings
from dubito.labeling.queue import LEASE
from dubito.labeling.state import RESTRICTED, State
from dubito.labeling.store import Pick, Writer, add_event, drop_leases, put_fact, put_leases

# What a person says of an item, what became of it, and what does not fit.


class Conflict(DubitoError):
    """What was asked does not fit what there is."""


@dataclass(frozen=True, slots=True)
class AnswerIn:
    """What a person says of an item."""

    key: str
    annotator: str
    item: int
    label: str | None
    guess_seen: bool = False
    seconds: float | None = None
    is_review: bool = False
    """Whether it settles a doubt of the model's."""


@dataclass(frozen=True, slots=True)
class Committed:
    """An event that is in the store."""

    event: Event
    is_new: bool
    labelled: int


# Items by what the model takes them for: a screen of one class, where a person marks the odd ones.

Before = TypeVar("Before")
After = TypeVar("After")


def guessed_items(state: State, annotator: str, now: float) -> dict[str, list[int]]:
    """By class, the items that nobody has answered and this person may be asked for, the surest first."""
    model = state.model
    if model is None or model.probabilities is None:
        return {}
    is_left = np.ones(len(state.contents), dtype=np.bool_) if state.is_open is None else state.is_open.copy()
    if state.book.answers:
        is_left[[item for item, said in state.book.answers.items() if said]] = False
    for item in state.waiting.held(now):
        is_left[item] &= state.waiting.may_hold(item, annotator, now)
    rows = np.flatnonzero(is_left)
    likeliest, sure = model.probabilities[rows].argmax(axis=1), model.probabilities[rows].max(axis=1)
    order = np.argsort(-sure, kind="stable")
    return {
        name: rows[order[likeliest[order] == place]].tolist()
        for place, name in enumerate(model.classes)
        if (likeliest == place).any()
    }


def then(future: "Future[Before]", change: "Callable[[Future[Before]], After]") -> "Future[After]":
    """A future of what becomes of another's result."""
    changed: Future[After] = Future()

    def settle(done: "Future[Before]") -> None:
        if not changed.set_running_or_notify_cancel():
            return
        try:
            changed.set_result(change(done))
        except (Exception, CancelledError) as error:
            changed.set_exception(error)

    future.add_done_callback(settle)
    return changed


class Guessed(NamedTuple):
    """Items that the model takes for one class."""

    label: str | None
    picks: list[Pick]
    groups: list[tuple[str, int]]
    """How many there are of each class."""


Listener = Callable[[str, dict[str, Any]], None]


def succeeded(future: "Future[Any]") -> bool:
    """Whether an operation was committed."""
    return not future.cancelled() and future.exception() is None


class LabelingService:
    """A project that is open for labelling. Futures are done once the store has it."""

    def __init__(self, project: Project, contents: Contents, *, lease: float = LEASE) -> None:
        self.lock = ProjectLock(project)
        self._listeners: list[Listener] = []
        self.state = State(project, contents, lease=lease)
        try:
            engine = open_engine(project.folder, project.store)
            self._writer = Writer(engine, project.ident, self.state)
        except BaseException:
            self.lock.close()
            raise
        self._project_failure: str | None = None
        self._changing = ThreadPoolExecutor(1, thread_name_prefix="dubito-changes")
        self.state.read_layout()
        self.loop = Loop(self.state, self._writer, self.announce)

    def start(self) -> None:
        """Begin to learn and pick in the background."""
        self.loop.start()

    def close(self) -> None:
        """Stop, with everything kept."""
        self.loop.close()
        self._changing.shutdown()
        self._writer.close()
        self.lock.close()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have it told of changes, from any thread; what is returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def announce(self, kind: str, facts: dict[str, Any]) -> None:
        """Tell all who listen."""
        for listener in list(self._listeners):
            listener(kind, facts)

    def failures(self) -> dict[str, str]:
        """By part of the service, why it does not work now; empty while all do."""
        found = {"store": self._writer.failure, "project": self._project_failure, "learning": self.loop.failure}
        return {part: failure for part, failure in found.items() if failure is not None}

    def check_item(self, item: int) -> int:
        """A row of the pool."""
        if not 0 <= item < len(self.state.contents):
            raise MissingFile(f"there is no item {item}", hint=f"items are 0 to {len(self.state.contents) - 1}.")
        return item

    def ask(self, annotator: str, count: int) -> "Future[list[Pick]]":
        """Items to show next, held for this person for a while."""
        return self._hold(annotator, lambda who, now: self.state.waiting.ask(who, count, now))

    def ask_guessed(self, annotator: str, label: str | None, count: int) -> "Future[Guessed]":
        """Items that the model takes for a class (the most frequent if none is said), surest first, held as well."""
        groups: list[tuple[str, int]] = []
        taken: list[str] = []

        def choose(who: str, now: float) -> list[Pick]:
            found = guessed_items(self.state, who, now)
            groups[:] = [(name, len(items)) for name, items in found.items()]
            taken[:] = [label or max(found, key=lambda name: len(found[name]))] if found else []
            items = found.get(taken[0], []) if taken else []
            return [self.state.waiting.pick_of(item) or Pick(self.state.round, 0, item, "") for item in items[:count]]

        def packed(done: "Future[list[Pick]]") -> Guessed:
            return Guessed(taken[0] if taken else None, done.result(), groups)

        return then(self._hold(annotator, choose), packed)

    def _hold(self, annotator: str, choose: Callable[[str, float], list[Pick]]) -> "Future[list[Pick]]":
        who, now = check_name("annotator", annotator), time.monotonic()
        state = self.state
        with state.lock:
            found = choose(who, now)
            held = state.waiting.held_by(who)
            if all(held.get(pick.item, 0.0) > now + state.lease / 2 for pick in found):
                done: Future[list[Pick]] = Future()
                done.set_result(found)
                return done

        def lease(connection: Connection) -> list[Pick]:
            # Looked up again: somebody else may have been quicker.
            picks = choose(who, now)
            items = [pick.item for pick in picks]
            put_leases(connection, who, items, time.time() + state.lease)
            state.waiting.hold(who, items, now + state.lease)
            return picks

        return self._writer.submit(lease)

    def answer(self, answers: Sequence[AnswerIn]) -> "Future[list[Committed]]":
        """Keep what a person says, all of it or nothing; the same key twice is one event."""
        checked = [self._checked(each) for each in answers]

        def keep(connection: Connection) -> list[Committed]:
            self._refuse_other_keys(checked)
            return [self._keep(connection, each) for each in checked]

        future = self._writer.submit(keep)
        future.add_done_callback(self._tell)
        return future

    def _checked(self, answer: AnswerIn) -> AnswerIn:
        key, who = check_name("key", answer.key), check_name("annotator", answer.annotator)
        self.check_item(answer.item)
        label = None if answer.label is None else check_name("class", answer.label)  # In the form that classes have.
        with self.state.lock:
            known = self.state.project.classes
        if label is not None and label not in known:
            shown = f"classes are {', '.join(known[:20])}" if known else "there are no classes yet"
            hint = f"{shown};{nearest(label, known)} choose one, or add it first."
            raise InvalidArgument(f"there is no class {label[:100]!r}", hint=hint)
        return replace(answer, key=key, annotator=who, label=label)

    def _refuse_other_keys(self, answers: Sequence[AnswerIn]) -> None:
        """A key that came with something else before is a mistake of whoever sent it."""
        book = self.state.book
        seen: dict[str, AnswerIn] = {}
        for each in answers:
            old = book.events[book.keys[each.key]] if each.key in book.keys else None
            is_other = old is not None and (
                (old.annotator, old.item, old.label) != (each.annotator, each.item, each.label) or old.kind == "undo"
            )
            if is_other or each.key in seen:
                raise Conflict(f"the key {each.key[:60]!r} was sent with another label", hint="send a new key.")
            seen[each.key] = each

    def _keep(self, connection: Connection, answer: AnswerIn) -> Committed:
        state, book = self.state, self.state.book
        if answer.key in book.keys:
            return Committed(book.events[book.keys[answer.key]], False, len(book.labels))
        event = self._event(answer)
        add_event(connection, event)
        drop_leases(connection, answer.annotator, [answer.item])
        book.add(event)
        state.waiting.let_go(answer.annotator, [answer.item])
        state.version += 1
        return Committed(event, True, len(book.labels))

    def _event(self, answer: AnswerIn) -> Event:
        """With what the model, which has not seen the label, takes the item for."""
        state, book = self.state, self.state.book
        is_fresh = book.n_answers(answer.item) == 0 and state.model is not None
        guess = state.model.guess(answer.item) if is_fresh and state.model is not None else None
        return Event(
            number=book.last + 1,
            key=answer.key,
            kind="skip" if answer.label is None else "label",
            annotator=answer.annotator,
            item=answer.item,
            label=answer.label,
            round=state.round,
            target=None,
            at=time.time(),
            guess=None if guess is None else guess[0],
            sure=None if guess is None else guess[1],
            guess_seen=answer.guess_seen,
            why=self._why(answer),
            seconds=answer.seconds,
        )

    def _why(self, answer: AnswerIn) -> str:
        """Why the item was asked for.

        Only the first answer on an item, by who was handed it and has not seen the guess, is one of the audit, and only
        while the whole pool is asked for: other answers are no uniform sample of it.
        """
        state = self.state
        pick = state.waiting.pick_of(answer.item)
        if answer.is_review or pick is None:
            return "review" if answer.is_review else ""
        is_uniform = (
            answer.item in state.waiting.held_by(answer.annotator)
            and state.is_open is None
            and not answer.guess_seen
            and state.book.n_answers(answer.item) == 0
        )
        return "random" if pick.why == "audit" and not is_uniform else pick.why

    def undo(self, key: str, annotator: str) -> "Future[Committed]":
        """Take this person's last answer back."""
        own, who = check_name("key", key), check_name("annotator", annotator)

        def take_back(connection: Connection) -> Committed:
            state, book = self.state, self.state.book
            if own in book.keys:
                old = book.events[book.keys[own]]
                if old.kind != "undo" or old.annotator != who:
                    raise Conflict(f"the key {own[:60]!r} was sent with something else", hint="send a new key.")
                return Committed(old, False, len(book.labels))
            last = book.last_of(who)
            if last is None:
                raise Conflict(f"there is nothing of {who} to undo", hint="label something first.")
            event = Event(book.last + 1, own, "undo", who, last.item, None, state.round, last.number, time.time())
            add_event(connection, event)
            book.add(event)
            state.waiting.look_again()
            put_leases(connection, who, [last.item], event.at + state.lease)
            state.waiting.hold(who, [last.item], time.monotonic() + state.lease)
            state.version += 1
            return Committed(event, True, len(book.labels))

        future = self._writer.submit(take_back)
        future.add_done_callback(self._tell)
        return future

    def _tell(self, future: "Future[Any]") -> None:
        if succeeded(future):
            with self.state.lock:
                facts = {"labelled": len(self.state.book.labels), "skipped": len(self.state.book.skipped)}
            self.announce("labels", facts)
            self.loop.nudge()

    def release(self, annotator: str) -> "Future[int]":
        """Give back whatever this person holds."""
        who = check_name("annotator", annotator)

        def drop(connection: Connection) -> int:
            items = self.state.waiting.let_go(who)
            drop_leases(connection, who, items)
            return len(items)

        return self._writer.submit(drop)

    def add_class(self, name: str, key: str | None = None) -> "Future[bool]":
        """Add a class; False where the request with this key has added it before."""
        clean = check_name("class", name)
        own = None if key is None else check_name("key", key)

        def added(project: Project) -> Project:
            before = next((each for each, theirs in project.class_keys.items() if theirs == own), None)
            if before is not None and before != clean:
                raise Conflict(f"the key {key!r:.60} was sent with the class {before!r}", hint="send a new key.")
            return project if before == clean else project.with_class(clean, own)

        return self._change(added)

    def change(self, guidelines: str | None, settings: Mapping[str, Any]) -> "Future[bool]":
        """Other guidelines or settings."""

        def changed(project: Project) -> Project:
            kept = {each.name: getattr(project.settings, each.name) for each in fields(Settings)}
            project = replace(project, settings=Settings(**{**kept, **settings}))
            return project if guidelines is None else project.with_guidelines(guidelines)

        return self._change(changed)

    def _change(self, changed: Callable[[Project], Project]) -> "Future[bool]":
        """Change ``project.toml``, which is no part of the store, and memory with it; whether it is another now."""

        def write() -> bool:
            state = self.state
            # No other thread changes the project, so that the lock is not held while the disk writes.
            project = changed(state.project)
            if project == state.project:
                return False
            try:
                project.save()
            except OSError as error:
                failed = StoreFailed(f"it could not be saved: {error}")
                self._project_failure = str(failed)
                raise failed from error
            self._project_failure = None
            with state.lock:
                state.project = project
                if state.waiting.overlap != project.settings.overlap:
                    state.waiting.overlap = project.settings.overlap
                    state.book.set_overlap(project.settings.overlap)
                state.version += 1
            return True

        try:
            future = self._changing.submit(write)
        except RuntimeError as closed:
            raise StoreFailed("it could not be saved: the project is closed") from closed
        future.add_done_callback(lambda done: self.announce("project", {}) if succeeded(done) else None)
        return future

    def restrict(self, mode: str, rows: Sequence[int]) -> "Future[int]":
        """Ask only for these, never for these, or for everything again; how many items may be asked for."""
        for row in rows:
            self.check_item(row)

        def write(connection: Connection) -> int:
            state = self.state
            out = set(state.excluded()) | set(rows) if mode == "exclude" and state.mode == "exclude" else set(rows)
            if mode == "exclude" and state.mode == "only":
                out, kept_mode = {row for row in range(len(state.contents)) if state.may_ask(row)} - set(rows), "only"
            else:
                kept_mode = mode
            kept = None if mode == "clear" else json.dumps({"mode": kept_mode, "rows": sorted(out)})
            put_fact(connection, RESTRICTED, kept)
            state.restrict(kept)
            state.version += 1
            return state.n_open()

        future = self._writer.submit(write)
        future.add_done_callback(lambda done: self.announce("project", {}) if succeeded(done) else None)
        return future
