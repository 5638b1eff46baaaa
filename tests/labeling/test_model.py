"""The labeling service against a model: random requests, retries, restarts and faults of the disk and the database.

After every step the log in the database, the service's answers and a plain recount of the log are compared: what was
acknowledged is in the log exactly once, nothing else is but requests whose outcome nobody was reported, and the service
shows what a recount of stored events comes to, also while the store is out of reach.
"""

import atexit
import json
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import Engine

from dubito.errors import DubitoError, InvalidArgument
from dubito.io.durable import save_with_checksum, write_atomically
from dubito.labeling.contents import Contents, read_contents
from dubito.labeling.database import StoreFailed, open_engine
from dubito.labeling.events import Event
from dubito.labeling.project import model_file, read_project
from dubito.labeling.service import AnswerIn, Conflict, LabelingService
from dubito.labeling.state import RESTRICTED
from dubito.labeling.store import Writer, read_events, read_fact, read_leases, read_picks, read_rounds
from dubito.labeling.views import annotator_facts, one_item, project_facts
from labeling.projects import make_project
from levels import examples

N_ITEMS = 6
PEOPLE = st.sampled_from(["ann", "bob", "cid"])
ITEMS = st.integers(0, N_ITEMS - 1)
LABELS = st.sampled_from(["left", "right", "left", "right", "left", None, "up"])
MOVES = st.sampled_from(["left", "right", None, "undo"])
FAILURES = ("disk I/O error", "database or disk is full", "database is locked")
DROPPED = "server closed the connection unexpectedly"


@dataclass
class Fault:
    """An I/O call that fails: the n-th at that place, and some more after it."""

    place: str
    message: str
    wait: int
    times: int


FAULTS = st.builds(
    Fault,
    place=st.sampled_from(["execute", "commit", "committed", "rollback", "connect"]),
    message=st.sampled_from([*FAILURES, DROPPED, DROPPED]),
    wait=st.integers(1, 4),
    times=st.integers(1, 3),
)
MAYBE_FAULT = st.none() | FAULTS


class Clock(SimpleNamespace):
    """The module `time`, as far as the service needs it."""

    steady, error = 1000.0, 0.0

    def time(self) -> float:
        return 1.8e9 + self.steady + self.error

    def monotonic(self) -> float:
        return self.steady

    def advance(self, seconds: float) -> None:
        self.steady += seconds


class Faults:
    """Fails the I/O calls of an engine, and of the file of a project, as planned."""

    def __init__(self) -> None:
        self.planned: list[Fault] = []
        self.n_raised = 0

    def meet(self, place: str, kind: type[Exception] = sqlite3.OperationalError) -> None:
        for fault in [each for each in self.planned if each.place == place]:
            fault.wait -= 1
            if fault.wait <= 0:
                fault.times -= 1
                if fault.times <= 0:
                    self.planned.remove(fault)
                self.n_raised += 1
                raise kind(fault.message)

    def open_engine(self, folder: str, url: str | None) -> Engine:
        engine = open_engine(folder, url)
        dialect: Any = engine.dialect
        for name in ("do_execute", "do_executemany", "do_execute_no_params"):
            setattr(dialect, name, self._around(getattr(dialect, name), "execute", None))
        dialect.do_commit = self._around(dialect.do_commit, "commit", "committed")
        dialect.do_rollback = self._around(dialect.do_rollback, "rollback", None)
        dialect.connect = self._around(dialect.connect, "connect", None)
        dialect.is_disconnect = lambda error, connection, cursor: DROPPED in str(error)
        return engine

    def _around(self, call: Callable[..., Any], before: str, after: str | None) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            self.meet(before)
            found = call(*given, **named)
            if after is not None:
                self.meet(after)
            return found

        return called

    def write_atomically(self, *given: Any, **named: Any) -> None:
        self.meet("save", OSError)
        write_atomically(*given, **named)
        self.meet("saved", OSError)


@dataclass
class Recount:
    """What a log comes to, by the most obvious means."""

    events: list[Event]
    said: dict[int, dict[str, Event]] = field(default_factory=dict)
    """By item and person, the last answer that is not taken back."""

    def __post_init__(self) -> None:
        undone: set[int | None] = set()
        for event in self.events:
            if event.kind == "undo":
                own = [each.number for each in self.events if each.annotator == event.annotator and each.kind != "undo"]
                before = [each for each in own if each < event.number and each not in undone]
                assert event.target == before[-1], "an undo takes back the last answer of that person"
                undone.add(event.target)
        for event in self.events:
            if event.kind != "undo" and event.number not in undone:
                self.said.setdefault(event.item, {})[event.annotator] = event

    def label(self, item: int) -> str | None:
        given = sorted((each for each in self.said.get(item, {}).values() if each.label), key=lambda each: each.number)
        reviews = [each.label for each in given if each.why == "review"]
        votes = Counter(each.label for each in given)
        most = [each.label for each in given if votes[each.label] == max(votes.values())]
        return (reviews or most or [None])[-1]

    def labels(self) -> dict[int, str]:
        return {item: label for item in range(N_ITEMS) if (label := self.label(item)) is not None}

    def skipped(self) -> set[int]:
        return {item for item in self.said if self.label(item) is None}

    def of(self, who: str) -> tuple[int, int]:
        """How many labels and skips a person has."""
        own = [said[who].label for said in self.said.values() if who in said]
        return sum(label is not None for label in own), sum(label is None for label in own)


@cache
def template() -> Path:
    """A project that no example changes."""
    folder = Path(mkdtemp(prefix="dubito-model-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    LabelingService(*make_project(folder, n_rows=N_ITEMS, batch=3)).close()
    return folder


GATE = threading.Event()
"""Closed while requests are gathered that are to be committed together."""
GATE.set()


def wait_for_batch(writer: Writer) -> list[Any]:
    """`Writer._next_batch` without a clock: whatever is tried again is tried by a request."""
    batch = [writer._tasks.get()]
    GATE.wait(60)
    while batch[-1] is not None and not writer._tasks.empty():
        batch.append(writer._tasks.get())
    return batch


@dataclass
class Request:
    """Something that was sent, and can be sent again with its key."""

    send: Callable[[], "Future[Any]"]
    keys: list[str]
    check: Callable[[Any], None]


class Service(RuleBasedStateMachine):
    """The service, and what is known of it from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.faults = Clock(), Faults()
        self.patch = pytest.MonkeyPatch()
        for module in ("service", "state", "store", "learner"):
            self.patch.setattr(f"dubito.labeling.{module}.time", self.clock)
        self.patch.setattr(Writer, "_next_batch", wait_for_batch)
        self.patch.setattr("dubito.labeling.service.open_engine", self.faults.open_engine)
        self.patch.setattr("dubito.labeling.project.write_atomically", self.faults.write_atomically)
        self.folder = Path(mkdtemp(prefix="dubito-model-"))
        self.service: LabelingService
        self.contents: Contents
        self.n_sent = 0
        self.requests: list[Request] = []
        self.sent: dict[str, tuple[str, str, int | None, str | None]] = {}
        """By key, what was asked for: kind, who, item, label."""
        self.acknowledged: dict[str, int] = {}
        """By key, the number of its event."""
        self.classes: list[str] = ["left", "right"]
        self.log: list[Event] = []
        self.was_clock_wrong = False
        """Since then leases in the store and in memory may differ, until all are released."""

    @initialize()
    def begin(self) -> None:
        shutil.copytree(template(), self.folder, dirs_exist_ok=True)
        self.contents = read_contents(read_project(self.project_folder))
        self.open()
        for who, item in (("ann", 0), ("ann", 1), ("bob", 0), ("ann", 2), ("bob", 3)):
            self.finish(self.labels(who, [(item, "left")], is_review=False))

    @property
    def project_folder(self) -> str:
        return str(self.folder / "rows.dubito")

    def open(self) -> None:
        """Start the service; where a fault prevents that, once more without."""
        try:
            self.service = LabelingService(read_project(self.project_folder), self.contents)
        except (DubitoError, OSError):
            self.faults.planned.clear()
            self.service = LabelingService(read_project(self.project_folder), self.contents)
        self.service.loop._send = self.run_job  # type: ignore[method-assign]

    def teardown(self) -> None:
        self.faults.planned.clear()
        if hasattr(self, "service"):
            self.service.close()
        self.patch.undo()
        shutil.rmtree(self.folder)

    def key(self) -> str:
        self.n_sent += 1
        return f"key-{self.n_sent}"

    def is_healthy(self) -> bool:
        return self.service._writer.failure is None

    def finish(self, request: Request) -> Any:
        return self.finish_all([request])[0]

    def finish_all(self, requests: list[Request]) -> list[Any]:
        """Send requests so that they are committed together, and check each answer; errors are answers, too."""
        self.clock.advance(1.0)
        was_healthy, n_raised = self.is_healthy(), self.faults.n_raised
        GATE.clear()
        futures = []
        for request in requests:
            try:
                futures.append(request.send())
            except DubitoError as error:  # Refused at once.
                refused: Future[Any] = Future()
                refused.set_exception(error)
                futures.append(refused)
        GATE.set()
        found = []
        for request, future in zip(requests, futures, strict=True):
            try:
                answer = future.result(timeout=60)
                request.check(answer)
                found.append(answer)
            except (StoreFailed, Conflict, InvalidArgument) as error:
                found.append(error)
        if was_healthy and self.faults.n_raised == n_raised:
            assert not any(isinstance(each, StoreFailed) for each in found), "nothing fails without a fault"
            assert self.is_healthy()
        return found

    # What people do.

    def labels(self, who: str, answers: list[tuple[int, str | None]], is_review: bool) -> Request:
        spoken = [AnswerIn(self.key(), who, item, label, is_review=is_review) for item, label in answers]
        for each in spoken:
            self.sent[each.key] = "skip" if each.label is None else "label", who, each.item, each.label

        def check(found: Any) -> None:
            for each, kept in zip(spoken, found, strict=True):
                self.acknowledge(each.key, kept)

        return self.remember(Request(lambda: self.service.answer(spoken), [each.key for each in spoken], check))

    def undo(self, who: str) -> Request:
        key = self.key()
        self.sent[key] = "undo", who, None, None
        return self.remember(
            Request(lambda: self.service.undo(key, who), [key], lambda kept: self.acknowledge(key, kept))
        )

    def remember(self, request: Request) -> Request:
        self.requests.append(request)
        return request

    def acknowledge(self, key: str, kept: Any) -> None:
        assert kept.event.key == key
        assert self.acknowledged.get(key, kept.event.number) == kept.event.number
        assert not (kept.is_new and key in self.acknowledged)
        self.acknowledged[key] = kept.event.number

    @rule(who=PEOPLE, item=ITEMS, label=LABELS, is_review=st.booleans(), fault=MAYBE_FAULT, n_sent=st.integers(1, 2))
    def give_label(
        self, who: str, item: int, label: str | None, is_review: bool, fault: Fault | None, n_sent: int
    ) -> None:
        self.plan(fault)
        request = self.labels(who, [(item, label)], is_review)
        for _ in range(n_sent):
            found = self.finish(request)
            if isinstance(found, InvalidArgument):
                assert label not in self.classes

    @rule(who=PEOPLE, answers=st.lists(st.tuples(ITEMS, LABELS), min_size=2, max_size=4), fault=MAYBE_FAULT)
    def give_many(self, who: str, answers: list[tuple[int, str | None]], fault: Fault | None) -> None:
        self.plan(fault)
        self.finish(self.labels(who, answers, is_review=False))

    @rule(who=PEOPLE, fault=MAYBE_FAULT, n_sent=st.integers(1, 2))
    def take_back(self, who: str, fault: Fault | None, n_sent: int) -> None:
        self.plan(fault)
        request = self.undo(who)
        for _ in range(n_sent):
            if isinstance(self.finish(request), Conflict):
                assert not any(who in said for said in Recount(self.stored()[0]).said.values())

    @rule(moves=st.lists(st.tuples(PEOPLE, ITEMS, MOVES), min_size=2, max_size=5), fault=MAYBE_FAULT)
    def act_together(self, moves: list[tuple[str, int, str | None]], fault: Fault | None) -> None:
        self.plan(fault)
        requests = [
            self.undo(who) if label == "undo" else self.labels(who, [(item, label)], is_review=False)
            for who, item, label in moves
        ]
        self.finish_all(requests)

    def plan(self, fault: Fault | None) -> None:
        if fault is not None:
            self.faults.planned.append(fault)

    @rule(data=st.data(), times=st.integers(1, 2))
    def send_again(self, data: st.DataObject, times: int) -> None:
        """The answer was lost, or came too late."""
        if self.requests:
            request = data.draw(st.sampled_from(self.requests[-8:]))
            self.finish_all([request] * times)

    @rule(who=PEOPLE, item=ITEMS)
    def reuse_a_key(self, who: str, item: int) -> None:
        if self.acknowledged:
            key = list(self.acknowledged)[-1]
            other = "right" if self.sent[key][3] == "left" else "left"
            found = self.finish(
                Request(lambda: self.service.answer([AnswerIn(key, who, item, other)]), [], lambda _: None)
            )
            assert isinstance(found, Conflict | StoreFailed)

    @rule(name=st.sampled_from(["up", "down", "left"]), is_sent_again=st.booleans())
    def add_class(self, name: str, is_sent_again: bool) -> None:
        key, was_known = self.key(), name in self.service.state.project.classes
        request = Request(lambda: self.service.add_class(name, key), [], lambda _: self.know_class(name))
        found = [self.finish(request) for _ in range(1 + is_sent_again)]
        # Refused if another request added it; never for what the same request did before.
        assert [isinstance(each, InvalidArgument) for each in found] == [was_known] * len(found)
        if not was_known:
            self.remember(request)

    def know_class(self, name: str) -> None:
        if name not in self.classes:
            self.classes.append(name)

    @rule(overlap=st.integers(1, 2))
    def change_overlap(self, overlap: int) -> None:
        self.finish(Request(lambda: self.service.change(None, {"overlap": overlap}), [], lambda _: None))

    @rule(mode=st.sampled_from(["only", "exclude", "clear"]), items=st.lists(ITEMS, max_size=4, unique=True))
    def restrict(self, mode: str, items: list[int]) -> None:
        self.finish(Request(lambda: self.service.restrict(mode, items), [], lambda _: None))

    @rule(who=PEOPLE, count=st.integers(1, N_ITEMS), fault=MAYBE_FAULT)
    def ask(self, who: str, count: int, fault: Fault | None) -> None:
        self.plan(fault)
        stored, leases, _ = self.stored()
        recount, overlap = Recount(stored), self.service.state.project.settings.overlap
        was_healthy, now = self.is_healthy(), self.clock.time() + 1.0
        found = self.finish(Request(lambda: self.service.ask(who, count), [], lambda _: None))
        if isinstance(found, Exception) or not was_healthy or self.was_clock_wrong:
            return

        def may(item: int) -> bool:
            said = recount.said.get(item, {})
            others = [each for (row, each), until in leases.items() if row == item and each != who and until > now]
            has_room = len(said) + len([each for each in others if each not in said]) < overlap
            is_held = leases.get((item, who), 0.0) > now
            return who not in said and self.service.state.may_ask(item) and (has_room or is_held)

        items = [pick.item for pick in found]
        candidates = {item for item in range(N_ITEMS) if may(item)}
        assert len(set(items)) == len(items) == min(count, len(candidates))
        assert set(items) <= candidates
        assert all(self.stored()[1][item, who] > now for item in items)

    @rule(who=PEOPLE)
    def release(self, who: str) -> None:
        found = self.finish(Request(lambda: self.service.release(who), [], lambda _: None))
        if not isinstance(found, Exception):
            leases = self.stored()[1]
            assert not [each for item, each in leases if each == who]
            self.was_clock_wrong &= bool(leases) or self.clock.error != 0.0

    # What the machine does.

    def run_job(self, job: dict[str, Any]) -> dict[str, Any]:
        """A worker that picks what is open in the order of rows."""
        free = set(range(N_ITEMS) if job["only"] is None else job["only"]) - set(job["items"]) - set(job["closed"])
        picks = np.array(sorted(free)[:3], dtype=np.int64)
        arrays = {"picks": picks, "why": np.array(["first"] * len(picks), dtype="U10"), "covered": np.zeros(4)}
        save_with_checksum(str(Path(self.project_folder) / model_file(job["round"])), arrays)
        estimate = ("estimated", "estimated_low", "estimated_high")
        numbers = dict.fromkeys(("n_right", "n_tested", "audited_right", "audited", *estimate))
        others = {"covered": 0.0, "stop": False, "advice": "go on", "message": "", "seconds": 0.0}
        return {**numbers, **others, "round": job["round"], "labels": len(job["items"])}

    @rule(fault=MAYBE_FAULT)
    def play_round(self, fault: Fault | None) -> None:
        self.plan(fault)
        self.clock.advance(1.0)
        was_healthy, before = self.is_healthy(), self.service.state.round
        try:
            self.service.loop._run_round()
        except (DubitoError, OSError):
            return
        assert self.service.state.round == before + 1
        if was_healthy:  # Otherwise events may have come to light while the round was written.
            assert self.service.state.changes_since_round() == 0

    @rule(fault=MAYBE_FAULT)
    def restart(self, fault: Fault | None) -> None:
        self.plan(fault)
        self.service.close()
        self.open()

    @rule(seconds=st.sampled_from([1.0, 200.0, 700.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(days=st.sampled_from([-400.0, 0.0, 0.0, 400.0]))
    def set_the_clock(self, days: float) -> None:
        """Wrong by so many days, or right again."""
        self.clock.error = days * 86_400.0
        self.was_clock_wrong |= days != 0.0

    @rule(place=st.sampled_from(["save", "saved"]))
    def plan_fault_of_the_file(self, place: str) -> None:
        self.faults.planned.append(Fault(place, "no space left on device", 1, 1))

    @rule()
    def recover(self) -> None:
        """Without faults everything works again, after a while, and nothing has to be restarted."""
        self.faults.planned.clear()
        self.clock.advance(10.0)
        self.finish(Request(lambda: self.service.release("nobody"), [], lambda _: None))
        assert self.is_healthy()

    # What must hold.

    def stored(self) -> tuple[list[Event], dict[tuple[int, str], float], str | None]:
        """Events, leases and the restriction, as another program reads them."""
        with open_engine(self.project_folder, None, read_only=True).connect() as connection:
            leases = {(item, who): until for item, who, until in read_leases(connection)}
            return read_events(connection), leases, read_fact(connection, RESTRICTED)

    @invariant()
    def check_log(self) -> None:
        if not hasattr(self, "service"):
            return
        events, leases, restriction = self.stored()
        assert events[: len(self.log)] == self.log, "the log only grows"
        self.log = events
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        by_key = {event.key: event for event in events}
        assert len(by_key) == len(events)
        for event in events:
            kind, who, item, label = self.sent[event.key]
            assert (event.kind, event.annotator, event.label) == (kind, who, label)
            assert item in (None, event.item)
        assert {key: by_key[key].number for key in self.acknowledged} == self.acknowledged
        self.check_atomic(by_key)
        self.check_memory(events, leases)
        self.check_classes()
        if self.is_healthy():
            self.check_open(restriction)

    def check_open(self, restriction: str | None) -> None:
        """What may be asked for is what the store says."""
        kept = {"mode": "exclude", "rows": []} if restriction is None else json.loads(restriction)
        expected = [(item in kept["rows"]) == (kept["mode"] == "only") for item in range(N_ITEMS)]
        assert [self.service.state.may_ask(item) for item in range(N_ITEMS)] == expected

    def check_atomic(self, by_key: dict[str, Event]) -> None:
        """A request is in the log wholly or not at all, and in one piece."""
        for request in self.requests:
            numbers = [by_key[key].number for key in request.keys if key in by_key]
            assert len(numbers) in (0, len(request.keys))
            assert numbers == list(range(min(numbers, default=0), min(numbers, default=0) + len(numbers)))

    def check_memory(self, events: list[Event], leases: dict[tuple[int, str], float]) -> None:
        state = self.service.state
        known = list(state.label_table.events.values())
        assert known == events[: len(known)], "what is shown is stored"
        assert len(known) >= max(self.acknowledged.values(), default=0), "what was acknowledged is shown"
        recount = Recount(known)
        facts = project_facts(self.service)
        assert state.label_table.labels == recount.labels()
        assert state.label_table.skipped == recount.skipped()
        assert (facts["labeled"], facts["skipped"]) == (len(recount.labels()), len(recount.skipped()))
        assert [one_item(self.service, item)["label"] for item in range(N_ITEMS)] == [
            recount.label(item) for item in range(N_ITEMS)
        ]
        people = {
            each["name"]: (each["labels"], each["skipped"]) for each in annotator_facts(self.service)["annotators"]
        }
        assert people == {event.annotator: recount.of(event.annotator) for event in known}
        held = {(item, who): until for who in ("ann", "bob", "cid") for item, until in state.queue.held_by(who).items()}
        assert all(until <= self.clock.steady + state.lease + 1e-6 for until in held.values())
        if self.is_healthy():
            assert known == events
            assert held.keys() == leases.keys()
            self.check_rounds()
            if not self.was_clock_wrong:
                for each, until in held.items():
                    assert abs((until - self.clock.steady) - (leases[each] - self.clock.time())) < 1e-3

    def check_rounds(self) -> None:
        state = self.service.state
        with open_engine(self.project_folder, None, read_only=True).connect() as connection:
            assert state.rounds == read_rounds(connection)
            assert state.picks == read_picks(connection)
        assert {pick.item for pick in state.queue.picks} == {p.item for p in state.picks if p.round == state.round}

    def check_classes(self) -> None:
        shown, kept = self.service.state.project.classes, read_project(self.project_folder).classes
        assert set(self.classes) <= set(shown) <= set(kept) <= {"left", "right", "up", "down"}
        assert len(set(kept)) == len(kept)
        assert list(shown[:2]) == ["left", "right"]


TestService = Service.TestCase
TestService.settings = settings(max_examples=examples(25), stateful_step_count=30)
