"""`LabelingService` assigns items to annotators and stores their answers. A confirmed change is durable."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from dubito.embedding.source import Changes
from dubito.errors import DubitoError, InvalidArgument, MissingFile
from dubito.io.source import did_you_mean
from dubito.labeling.contents import Contents, describe_changes, update_items
from dubito.labeling.database import StoreFailed, open_engine
from dubito.labeling.events import Event, check_name
from dubito.labeling.learner import LearningLoop
from dubito.labeling.project import MAX_CLASSES, Project, ProjectLock, Settings
from dubito.labeling.queue import LEASE
from dubito.labeling.state import RESTRICTED, State
from dubito.labeling.store import Pick, Statements, Writer, add_event, drop_leases, put_fact, put_leases
from dubito.labeling.watching import PoolWatcher


class Conflict(InvalidArgument):
    """The request contradicts the stored state, for example by reusing a key."""


@dataclass(frozen=True, slots=True)
class AnswerIn:
    """An annotator's answer on an item."""

    key: str
    annotator: str
    item: int
    label: str | None
    guess_seen: bool = False
    seconds: float | None = None
    is_review: bool = False
    """Whether the annotator has decided a label that the model doubted."""
    class_event: int | None = None
    """Number of the last class change that the client knew; later renames and merges of the label are followed."""


@dataclass(frozen=True, slots=True)
class ClassChangeIn:
    """A change of a class by an annotator."""

    key: str
    annotator: str
    kind: Literal["rename", "merge", "remove", "undo"]
    label: str | None = None
    new_label: str | None = None
    """The new name for a rename, the other class for a merge."""
    number: int | None = None
    """For an undo, the number of the event to undo, which must be the last change of a class."""


@dataclass(frozen=True, slots=True)
class Committed:
    """An event that is stored."""

    event: Event
    is_new: bool
    labeled: int


T = TypeVar("T")
Result = TypeVar("Result")


def items_by_guess(state: State, annotator: str, now: float) -> dict[str, list[int]]:
    """By predicted class, the unanswered items that this annotator may be shown, most confident first."""
    model = state.model
    if model is None or model.probabilities is None:
        return {}
    is_available = state.open_items()
    if state.label_table.current:
        is_available[[item for item, answers in state.label_table.current.items() if answers]] = False
    for item in state.queue.held(now):
        is_available[item] &= state.queue.has_capacity(item, annotator, now)
    rows = np.flatnonzero(is_available)
    predicted, confidence = model.probabilities[rows].argmax(axis=1), model.probabilities[rows].max(axis=1)
    order = np.argsort(-confidence, kind="stable")
    return {
        name: rows[order[predicted[order] == column]].tolist()
        for column, name in enumerate(model.classes)
        if (predicted == column).any()
    }


def map_future(future: "Future[T]", convert: Callable[[T], Result]) -> "Future[Result]":
    """A future of `convert` applied to the result of `future`."""
    converted: Future[Result] = Future()

    def resolve(done: "Future[T]") -> None:
        if not converted.set_running_or_notify_cancel():
            return
        try:
            converted.set_result(convert(done.result()))
        except (Exception, CancelledError) as error:
            converted.set_exception(error)

    future.add_done_callback(resolve)
    return converted


class GuessedItems(NamedTuple):
    """Items with the same predicted class."""

    label: str | None
    picks: list[Pick]
    groups: list[tuple[str, int]]
    """Every predicted class with the number of its items."""


Listener = Callable[[str, dict[str, Any]], None]


def succeeded(future: "Future[Any]") -> bool:
    return not future.cancelled() and future.exception() is None


class LabelingService:
    """A project that is open for labeling. Futures complete once the change is stored.

    ``report`` is called with messages about items that are new, changed, gone or left out; listeners get them, too.
    """

    def __init__(
        self,
        project: Project,
        contents: Contents,
        *,
        lease: float = LEASE,
        watch: bool = False,
        report: Callable[[str], None] = lambda note: None,
    ) -> None:
        self._report = report
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
        self._project_executor = ThreadPoolExecutor(1, thread_name_prefix="dubito-changes")
        self.state.read_layout()
        self.loop = LearningLoop(self.state, self._writer, self.announce)
        self.watcher = PoolWatcher(project, self.add_new_items, self._report_notes, watch=watch)

    def start(self) -> None:
        """Start training, selecting, and watching the pool in the background."""
        self.loop.start()
        self.watcher.start()

    def close(self) -> None:
        """Stop after pending changes are stored."""
        self.watcher.close()
        self.loop.close()
        self._project_executor.shutdown()
        self._writer.close()
        self.lock.close()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every change, from any thread; returns a function that unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def announce(self, kind: str, facts: dict[str, Any]) -> None:
        for listener in list(self._listeners):
            listener(kind, facts)

    def failures(self) -> dict[str, str]:
        """The error message of each part of the service that does not work; empty if everything works."""
        found = {
            "store": self._writer.failure,
            "project": self._project_failure,
            "learning": self.loop.failure,
            "new items": self.watcher.failure,
        }
        return {part: failure for part, failure in found.items() if failure is not None}

    def add_new_items(self) -> Changes:
        """Add new rows of the pool file as items; existing items keep their numbers and labels."""
        state = self.state
        contents, changes, n_changed_ids = update_items(state.project)
        with state.lock:
            if changes == Changes() and len(contents) == len(state.contents):
                return changes
            is_urgent = 20 * len(changes.added) > len(state.contents) or not state.queue.has_unanswered()
            state.replace_contents(contents)
            self.loop.reload_pool(is_urgent=is_urgent)
        self._report_notes(describe_changes(contents, changes, n_changed_ids), changes)
        return changes

    def _report_notes(self, notes: Sequence[str], changes: Changes | None = None) -> None:
        for note in notes:
            self._report(note)
        counts = {name: len(ids) for name, ids in (changes or Changes())._asdict().items()}
        self.announce("items", {"items": self.state.n_items, **counts, "notes": list(notes)})

    def check_item(self, item: int) -> int:
        """Return the item, or raise `MissingFile` if the pool has no such row."""
        if not 0 <= item < len(self.state.contents):
            raise MissingFile(f"there is no item {item}", hint=f"items are 0 to {len(self.state.contents) - 1}.")
        return item

    def ask(self, annotator: str, count: int) -> "Future[list[Pick]]":
        """Items to show next, leased to the annotator."""

        def choose(who: str, now: float) -> GuessedItems:
            return GuessedItems(None, self.state.queue.ask(who, count, now), [])

        return map_future(self._lease_items(annotator, choose), lambda chosen: chosen.picks)

    def ask_guessed(self, annotator: str, label: str | None, count: int) -> "Future[GuessedItems]":
        """Items predicted as a class (by default the most frequent), most confident first, leased to the annotator."""

        def choose(who: str, now: float) -> GuessedItems:
            by_class = items_by_guess(self.state, who, now)
            if not by_class:
                return GuessedItems(None, [], [])
            groups = [(name, len(items)) for name, items in by_class.items()]
            chosen = label or max(by_class, key=lambda name: len(by_class[name]))
            items = by_class.get(chosen, [])[:count]
            picks = [self.state.queue.pick_of(item) or Pick(self.state.round, 0, item, "") for item in items]
            return GuessedItems(chosen, picks, groups)

        return self._lease_items(annotator, choose)

    def _lease_items(self, annotator: str, choose: Callable[[str, float], GuessedItems]) -> "Future[GuessedItems]":
        """Lease the items that `choose` returns for an annotator at a time, unless they are leased for long enough."""
        who, now = check_name("annotator", annotator), time.monotonic()
        state = self.state
        with state.lock:
            chosen = choose(who, now)
            held = state.queue.held_by(who)
            if all(held.get(pick.item, 0.0) > now + state.lease / 2 for pick in chosen.picks):
                done: Future[GuessedItems] = Future()
                done.set_result(chosen)
                return done

        def lease(statements: Statements) -> GuessedItems:
            # Choose again: another annotator may have leased some of the items in the meantime.
            chosen = choose(who, now)
            items = [pick.item for pick in chosen.picks]
            put_leases(statements, who, items, time.time() + state.lease)
            state.queue.hold(who, items, now + state.lease)
            return chosen

        return self._writer.submit(lease)

    def answer(self, answers: Sequence[AnswerIn]) -> "Future[list[Committed]]":
        """Store answers, all or none; a key that was sent before stores nothing new."""
        checked = [self._check_answer(each) for each in answers]

        def store(statements: Statements) -> list[Committed]:
            # A class may have changed since the check above.
            named = [replace(each, label=self._current_class(each)) for each in checked]
            self._check_keys(checked, named)
            return [self._store_answer(statements, each) for each in named]

        future = self._writer.submit(store)
        future.add_done_callback(self._announce_labels)
        return future

    def _check_answer(self, answer: AnswerIn) -> AnswerIn:
        key, who = check_name("key", answer.key), check_name("annotator", answer.annotator)
        self.check_item(answer.item)
        label = None if answer.label is None else check_name("class", answer.label)
        checked = replace(answer, key=key, annotator=who, label=label)
        with self.state.lock:
            self._current_class(checked)
        return checked

    def _current_class(self, answer: AnswerIn) -> str | None:
        """The current name of an answer's class; raises `InvalidArgument` if there is no such class."""
        table, known, given = self.state.label_table, self.state.project.classes, answer.label
        if given is None or answer.key in table.keys:
            return given
        if answer.class_event is not None:
            label = table.names_since(answer.class_event).get(given, given)
        else:
            label = given if given in known else table.current_name(given)
        if label is None:
            raise InvalidArgument(f"the class {given[:100]!r} was removed", hint="choose another.")
        if label not in known:
            shown = f"classes are {', '.join(known[:20])}" if known else "there are no classes yet"
            hint = f"{shown};{did_you_mean(label, known)} choose one, or add it first."
            raise InvalidArgument(f"there is no class {label[:100]!r}", hint=hint)
        return label

    def _check_keys(self, answers: Sequence[AnswerIn], named: Sequence[AnswerIn]) -> None:
        """Raise `Conflict` for a key that was sent before with other contents; `named` has the current classes."""
        table = self.state.label_table
        seen: set[str] = set()
        for each, now in zip(answers, named, strict=True):
            earlier = table.events[table.keys[each.key]] if each.key in table.keys else None
            is_reused = earlier is not None and (
                (earlier.annotator, earlier.item) != (each.annotator, each.item)
                or earlier.kind not in ("label", "skip")
                or not {each.label, now.label} & {earlier.label, table.named[earlier.number].label}
            )
            if is_reused or each.key in seen:
                raise Conflict(f"the key {each.key[:60]!r} was sent with another label", hint="send a new key.")
            seen.add(each.key)

    def _store_answer(self, statements: Statements, answer: AnswerIn) -> Committed:
        state, table = self.state, self.state.label_table
        if answer.key in table.keys:
            return Committed(table.events[table.keys[answer.key]], False, self.state.n_labeled)
        event = self._make_event(answer)
        add_event(statements, event)
        drop_leases(statements, answer.annotator, [answer.item])
        table.add(event)
        state.queue.release(answer.annotator, [answer.item])
        state.version += 1
        return Committed(event, True, self.state.n_labeled)

    def _make_event(self, answer: AnswerIn) -> Event:
        """Build the event, with the current model's prediction if the item has no answer yet."""
        state, table = self.state, self.state.label_table
        is_first = table.n_answers(answer.item) == 0
        guess = state.model.guess(answer.item) if is_first and state.model is not None else None
        predicted, probability = guess or (None, None)
        return Event(
            number=table.last + 1,
            key=answer.key,
            kind="skip" if answer.label is None else "label",
            annotator=answer.annotator,
            item=answer.item,
            label=answer.label,
            round=state.round,
            target=None,
            at=time.time(),
            guess=predicted,
            sure=probability,
            guess_seen=answer.guess_seen,
            why=self._reason(answer),
            seconds=answer.seconds,
        )

    def _reason(self, answer: AnswerIn) -> str:
        """Why the item was queried.

        An answer counts for the audit only if it is the first on its item, comes from the annotator it was assigned to
        without seeing the prediction, and the pool is not restricted: other answers are not a uniform sample.
        """
        state = self.state
        pick = state.queue.pick_of(answer.item)
        if answer.is_review or pick is None:
            return "review" if answer.is_review else ""
        is_uniform = (
            answer.item in state.queue.held_by(answer.annotator)
            and state.is_open is None
            and not answer.guess_seen
            and state.label_table.n_answers(answer.item) == 0
        )
        return "random" if pick.why == "audit" and not is_uniform else pick.why

    def undo(self, key: str, annotator: str) -> "Future[Committed]":
        """Undo the annotator's last answer."""
        return map_future(self.undo_answers(key, annotator), lambda undone: undone[0])

    def undo_answers(self, key: str, annotator: str, numbers: Sequence[int] | None = None) -> "Future[list[Committed]]":
        """Undo the answers with these event numbers, all or none; by default the annotator's last answer."""
        key, who = check_name("key", key), check_name("annotator", annotator)
        # Every event needs a key of its own.
        keys = [key, *(check_name("key", f"{key} {index}") for index in range(1, len(set(numbers or ()))))]

        def apply(statements: Statements) -> list[Committed]:
            state, table = self.state, self.state.label_table
            if any(each in table.keys for each in keys):
                return self._repeated_undo(keys, who, numbers)
            answers = self._answers_to_undo(who, numbers)
            items = list(dict.fromkeys(answer.item for answer in answers))
            events, now = [], time.time()
            for each, answer in zip(keys, answers, strict=True):
                event = Event(table.last + 1, each, "undo", who, answer.item, None, state.round, answer.number, now)
                add_event(statements, event)
                table.add(event)
                events.append(event)
            state.queue.rescan()
            put_leases(statements, who, items, now + state.lease)
            state.queue.hold(who, items, time.monotonic() + state.lease)
            state.version += 1
            return [Committed(event, True, state.n_labeled) for event in events]

        future = self._writer.submit(apply)
        future.add_done_callback(self._announce_labels)
        return future

    def _answers_to_undo(self, annotator: str, numbers: Sequence[int] | None) -> list[Event]:
        """The answers, the latest first; raises `Conflict` if one is not the annotator's or is undone already."""
        table = self.state.label_table
        if numbers is None:
            last = table.last_of(annotator)
            if last is None:
                raise Conflict(f"there is no answer of {annotator} to undo", hint="label something first.")
            return [last]
        others = set(numbers) - set(table.active.get(annotator, ()))
        if others:
            problem = f"event {min(others)} is not an answer of {annotator} that can be undone"
            raise Conflict(problem, hint="undo only the annotator's answers that are not undone yet.")
        return [table.events[number] for number in sorted(set(numbers), reverse=True)]

    def _repeated_undo(self, keys: Sequence[str], annotator: str, numbers: Sequence[int] | None) -> list[Committed]:
        """The events of an earlier request with these keys; raises `Conflict` if it was a different request."""
        table = self.state.label_table
        done = [table.events[table.keys[key]] for key in keys if key in table.keys]
        is_same = len(done) == len(keys) and (numbers is None or {event.target for event in done} == set(numbers))
        if not is_same or any(
            event.kind != "undo" or event.annotator != annotator or event.number not in table.named for event in done
        ):
            raise Conflict(f"the key {keys[0][:60]!r} was sent with another request", hint="send a new key.")
        return [Committed(event, False, self.state.n_labeled) for event in done]

    def _announce_labels(self, future: "Future[Any]") -> None:
        if succeeded(future):
            with self.state.lock:
                facts = {"labeled": self.state.n_labeled, "skipped": self.state.n_skipped}
            self.announce("labels", facts)
            self.loop.wake_if_due()

    def release(self, annotator: str) -> "Future[int]":
        """End all leases of the annotator; returns how many there were."""
        who = check_name("annotator", annotator)

        def drop(statements: Statements) -> int:
            items = self.state.queue.release(who)
            drop_leases(statements, who, items)
            return len(items)

        return self._writer.submit(drop)

    def add_class(self, name: str, key: str | None = None) -> "Future[bool]":
        """Add a class; the result is False if a request with this key has added it before."""
        clean = check_name("class", name)
        checked_key = None if key is None else check_name("key", key)

        def with_class(project: Project) -> Project:
            before = next((each for each, used in project.class_keys.items() if used == checked_key), None)
            if before is not None and before != clean:
                raise Conflict(f"the key {key!r:.60} was sent with the class {before!r}", hint="send a new key.")
            return project if before == clean else project.with_class(clean, checked_key)

        return self._update_project(with_class)

    def change_class(self, change: ClassChangeIn) -> "Future[bool]":
        """Rename, merge or remove a class, or undo the last such change; the labels follow.

        The result is False if a request with this key has made the change before.
        """
        key, who = check_name("key", change.key), check_name("annotator", change.annotator)
        label = None if change.label is None else check_name("class", change.label)
        new_label = None if change.new_label is None else check_name("class", change.new_label)
        given = replace(change, key=key, annotator=who, label=label, new_label=new_label)

        def apply(statements: Statements) -> bool:
            state, table = self.state, self.state.label_table
            if key in table.keys:
                earlier = table.events[table.keys[key]]
                if earlier.number in table.named:
                    raise Conflict(f"the key {key[:60]!r} was sent with a label", hint="send a new key.")
                return False
            event = self._class_event(given)
            undone = None if event.target is None else table.events[event.target]
            project = state.project.with_change(event, undone)
            add_event(statements, event)
            table.add(event)
            state.project = project
            state.use_model(state.trained)
            state.queue.rescan()
            state.version += 1
            return True

        def write() -> bool:
            is_new = self._writer.run(apply)
            if is_new:  # The change is stored; if this fails, the next start repeats it from the log.
                with suppress(StoreFailed):
                    self._save_project(self.state.project)
            return is_new

        return self._submit_change(write)

    def _class_event(self, change: ClassChangeIn) -> Event:
        """Build the event of a change; raises `Conflict` if the classes are not what the client assumes."""
        state, table, classes = self.state, self.state.label_table, self.state.project.classes
        kind, label, new_label, target, position = change.kind, change.label, change.new_label, None, 0
        if kind == "undo":
            last = table.undoable_change()
            if last is None or (change.number is not None and change.number != last.number):
                raise Conflict("there is no such change to undo", hint="load the classes again.")
            target, position = last.number, last.item
            if last.kind == "rename":
                kind, label, new_label = "rename", last.new_label, last.label
        if kind != "undo":
            if label not in classes:
                now = None if label is None else table.current_name(label)
                hint = f"it is called {now!r} now." if now in classes else f"classes are {', '.join(classes[:20])}."
                raise Conflict(f"there is no class {label!r}", hint=hint)
            if kind == "rename" and (new_label is None or new_label in classes):
                hint = "merge the two, or choose another name."
                raise Conflict(f"there is a class {new_label!r} already", hint=hint)
            if kind == "merge" and (new_label not in classes or new_label == label):
                raise Conflict(f"{new_label!r} is not another class", hint=f"classes are {', '.join(classes[:20])}.")
            position = classes.index(str(label))
        elif len(classes) >= MAX_CLASSES:
            raise Conflict(f"there are {MAX_CLASSES} classes", hint="remove one first.")
        return Event(
            number=table.last + 1,
            key=change.key,
            kind=kind,
            annotator=change.annotator,
            item=position,
            label=label,
            round=state.round,
            target=target,
            at=time.time(),
            new_label=new_label if kind in ("rename", "merge") else None,
        )

    def change(
        self,
        guidelines: str | None,
        settings: Mapping[str, Any],
        classes: Sequence[str] | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> "Future[bool]":
        """Change the guidelines, settings, the order of the classes or their keys; False if nothing changed."""

        def with_changes(project: Project) -> Project:
            current = {each.name: getattr(project.settings, each.name) for each in fields(Settings)}
            project = replace(project, settings=Settings(**{**current, **settings}))
            if classes is not None or keys is not None:
                project = project.with_order(classes, keys)
            return project if guidelines is None else project.with_guidelines(guidelines)

        return self._update_project(with_changes)

    def _update_project(self, update: Callable[[Project], Project]) -> "Future[bool]":
        """Rewrite ``project.toml``, which is not part of the store; the result is whether it changed."""

        def write() -> bool:
            state = self.state
            # Only this thread changes the project, so the write needs no lock.
            project = update(state.project)
            if project == state.project:
                return False
            self._save_project(project)
            with state.lock:
                state.project = project = state.with_logged_changes(project)
                if state.queue.overlap != project.settings.overlap:
                    state.queue.overlap = project.settings.overlap
                    state.label_table.set_overlap(project.settings.overlap)
                state.version += 1
            return True

        return self._submit_change(write)

    def _save_project(self, project: Project) -> None:
        try:
            project.save()
        except (DubitoError, OSError) as error:
            failed = StoreFailed(f"it could not be saved: {error}")
            self._project_failure = str(failed)
            raise failed from error
        self._project_failure = None

    def _submit_change(self, write: Callable[[], bool]) -> "Future[bool]":
        """Run a change of the project in its thread, and announce it."""
        try:
            future = self._project_executor.submit(write)
        except RuntimeError as closed:
            raise StoreFailed("it could not be saved: the project is closed") from closed
        future.add_done_callback(self._announce_project)
        return future

    def _announce_project(self, future: "Future[Any]") -> None:
        if succeeded(future):
            self.announce("project", {})
            self.loop.wake_if_due()

    def restrict(self, mode: str, rows: Sequence[int]) -> "Future[int]":
        """Query only these items, exclude them, or clear the restriction; the result is the number of open items."""
        for row in rows:
            self.check_item(row)

        def write(statements: Statements) -> int:
            state = self.state
            new_mode, listed = mode, set(rows)
            if mode == "exclude" and state.mode == "exclude":
                listed |= set(state.excluded())
            elif mode == "exclude" and state.is_open is not None:
                new_mode, listed = "only", set(np.flatnonzero(state.is_open).tolist()) - listed
            restriction = None if mode == "clear" else json.dumps({"mode": new_mode, "rows": sorted(listed)})
            put_fact(statements, RESTRICTED, restriction)
            state.restrict(restriction)
            state.version += 1
            return state.n_open()

        future = self._writer.submit(write)
        future.add_done_callback(lambda done: self.announce("project", {}) if succeeded(done) else None)
        return future
