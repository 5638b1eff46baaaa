"""The log of label events and what goes with it, in a database with one writer.

Everything that changes the store is an *operation*, run by one thread on one connection. Operations that wait are
committed together, and nobody is answered before the commit: an answer means that the disk has it.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, bindparam, delete, func, insert, select

from dubito.errors import DubitoError, InvalidArgument
from dubito.labeling import database as schema
from dubito.labeling.database import (
    Place,
    StoreFailed,
    StoreUnavailable,
    answered_in_time,
    naming_store,
    open_engine,
    take_lock,
)
from dubito.labeling.events import Event

Result = TypeVar("Result")
Operation = Callable[[Connection], Result]

ADD_EVENT, ADD_LEASE = insert(schema.events), insert(schema.leases)
DROP_LEASE = delete(schema.leases).where(
    schema.leases.c.item == bindparam("one"), schema.leases.c.annotator == bindparam("who")
)
TOGETHER = 256
"""Operations that are committed together at most."""
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0
"""Seconds before a lost connection is made again; doubled after each failure."""


@dataclass(frozen=True, slots=True)
class Pick:
    """An item that a round asks for."""

    round: int
    rank: int
    item: int
    why: str


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """What a round came to."""

    round: int
    at: float
    labels: int
    n_right: int | None
    n_tested: int | None
    covered: float | None
    audited_right: int | None
    audited: int | None
    stop: bool
    advice: str
    message: str
    seconds: float


class Memory(Protocol):
    """What a server holds in memory of the store: operations change it, and a failure takes it back."""

    lock: Any
    """Held while operations run, and not while they are committed."""

    def reload(self, connection: Connection) -> None:
        """Read everything again."""

    def mark(self) -> Any:
        """Where it is now."""

    def go_back(self, mark: Any) -> None:
        """Forget what was changed since."""

    def last_event(self) -> Event | None:
        """The last event of the log."""


class TooEarly(Exception):
    """A lost connection is not to be made again yet."""


class _Task:
    """An operation and the future of whoever waits for it."""

    def __init__(self, operation: Operation[Any]) -> None:
        self.operation = operation
        self.future: Future[Any] = Future()
        self.result: Any = None
        self.error: Exception | None = None

    def finish(self) -> None:
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Writer:
    """The one thread that writes.

    An operation that fails is rolled back and its error is the future's; memory goes back to what is known to be
    stored, and is read again from the store as soon as that is possible. While the database cannot be reached,
    operations fail with `StoreUnavailable`. After a failure the thread connects again, or writes something of its own,
    waiting longer after each try, up to `LONGEST_WAIT` seconds, until that succeeds. No error ends the thread.

    A store that has lost an event which was acknowledged, as one has that was restored from an older copy, is refused
    until it has that event again, or the server is started again.

    Parameters
    ----------
    engine : Engine
        Its only connection is this thread's.
    project : str
        The id of the project that the store must belong to.
    memory : Memory
        What operations change beside the store.
    """

    def __init__(self, engine: Engine, project: str, memory: Memory) -> None:
        self._engine, self._project, self._memory, self._lock = engine, project, memory, memory.lock
        self._acknowledged: Event | None = None
        """The last event that is known to be stored."""
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._submitting, self._is_closed = threading.Lock(), False
        self._wait, self._retry_at = FIRST_WAIT, 0.0
        self._error: Exception | None = None
        self.failure: str | None = None
        """Why the last write failed; None once one has succeeded since."""
        path = engine.url.database if engine.dialect.name == "sqlite" else None
        with naming_store("the labels cannot be opened", path):
            self._connection: Connection | None = self._connect(is_first=True)
        self._place = Place(engine)
        self._thread = threading.Thread(target=self._run, name="dubito-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[Result]) -> "Future[Result]":
        """Have it run; the future is done once it is committed."""
        task = _Task(operation)
        with self._submitting:
            if self._is_closed:
                task.future.set_exception(StoreFailed("it could not be saved: the project is closed"))
            else:
                self._tasks.put(task)
        return task.future

    def run(self, operation: Operation[Result]) -> Result:
        """The same, waited for."""
        return self.submit(operation).result()

    def close(self) -> None:
        """Finish what waits, and leave the store behind in one file."""
        with self._submitting:
            self._is_closed = True
            self._tasks.put(None)
        self._thread.join()
        self._disconnect()

    def _connect(self, *, is_first: bool = False) -> Connection:
        """A connection that holds the lock of the database, with memory as the store has it."""
        connection = self._engine.connect()
        try:
            with answered_in_time(connection):
                take_lock(connection)
            with answered_in_time(connection), connection.begin(), self._lock:
                schema.prepare(connection, self._project, is_new_allowed=is_first)
                self._read_again(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _read_again(self, connection: Connection) -> None:
        self._check_acknowledged(connection)
        self._memory.reload(connection)
        self._acknowledged = self._memory.last_event()

    def _check_acknowledged(self, connection: Connection) -> None:
        """Refuse a store without the last event that it was known to have."""
        last = self._acknowledged
        if last is None:
            return
        key = connection.execute(select(schema.events.c.key).where(schema.events.c.number == last.number)).scalar()
        if key != last.key:
            raise StoreFailed(
                f"it could not be saved: the store lacks event {last.number}, which this server has saved in it; it "
                "was perhaps restored from an older copy. Stop the server and put the newest copy back, or start it "
                "again to go on with the labels that the store has now."
            )

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _run(self) -> None:
        while True:
            batch = self._next_batch()
            tasks = [task for task in batch if task is not None and task.future.set_running_or_notify_cancel()]
            try:
                if tasks or None not in batch:
                    self._commit(tasks)
            except Exception as error:  # Not expected, and no reason to leave anybody waiting.
                for task in tasks:
                    if not task.future.done():
                        task.future.set_exception(_worded(error))
            if None in batch:
                return

    def _next_batch(self) -> list[_Task | None]:
        """Operations that wait; nothing where it is time to connect again. None stands for the end."""
        try:
            pause = None if self.failure is None else max(self._retry_at - time.monotonic(), 0.0)
            batch = [self._tasks.get(timeout=pause)]
        except queue.Empty:
            return []
        while len(batch) < TOGETHER and batch[-1] is not None and not self._tasks.empty():
            batch.append(self._tasks.get())
        return batch

    def _commit(self, tasks: Sequence[_Task]) -> None:
        """Commit operations together; where that fails, each alone, so that one does not spoil it for the others."""
        mark = self._memory.mark()
        try:
            if self._connection is None:
                self._reconnect()
                mark = self._memory.mark()
            self._commit_together(tasks or [_Task(_try_to_write)])
        except TooEarly:
            for task in tasks:
                task.error = self._error
        except Exception as error:
            self._memory.go_back(mark)
            self._recover(error)
            if len(tasks) > 1 and self._connection is not None:
                for task in tasks:
                    self._commit([task])
                return
            for task in tasks:
                task.error = _worded(error)
        for task in tasks:
            task.finish()

    def _reconnect(self) -> None:
        """Make a lost connection again, unless the last try was a moment ago."""
        if time.monotonic() < self._retry_at:
            raise TooEarly
        self._place.renewed(self._engine)
        with naming_store("it could not be saved"):
            try:
                connection = self._connect()
            except InvalidArgument as taken:  # By another server, which may end.
                raise StoreUnavailable(str(taken)) from taken
        try:
            self._place = self._place.renewed(self._engine)
        except StoreFailed:
            connection.close()
            raise
        self._connection = connection

    def _commit_together(self, tasks: Sequence[_Task]) -> None:
        connection = self._connection
        assert connection is not None
        with naming_store("it could not be saved"), answered_in_time(connection):
            self._place.check_contents()
            transaction = connection.begin()
            try:
                self._check_acknowledged(connection)
                with self._lock:
                    for task in tasks:
                        task.error = None
                        try:
                            task.result = task.operation(connection)
                        except DubitoError as error:  # Refused before anything was changed.
                            task.error = error
                transaction.commit()
            except BaseException:
                transaction.close()
                raise
            finally:
                self._place.settle()
            self._place.check()
        self._acknowledged, self._wait, self.failure = self._memory.last_event(), FIRST_WAIT, None

    def _recover(self, error: Exception) -> None:
        """Read memory again from the store; where that fails too, drop the connection and try later."""
        self._error = _worded(error)
        self.failure = str(self._error)
        self._retry_at = time.monotonic() + self._wait
        self._wait = min(2.0 * self._wait, LONGEST_WAIT)
        connection = self._connection
        if connection is not None and not connection.invalidated and not connection.closed:
            try:
                self._place.check_contents()
            except StoreFailed:
                return  # Refused as it is: what this connection reads, or writes when it closes, is not to be trusted.
            with suppress(Exception):
                with answered_in_time(connection), connection.begin(), self._lock:
                    self._read_again(connection)
                return
        self._disconnect()


def _try_to_write(connection: Connection) -> None:
    """Write a few pages and remove them again, to see whether the store can be written."""
    put_fact(connection, "tried", "." * 16_384)
    put_fact(connection, "tried", None)


def _worded(error: Exception) -> Exception:
    return error if isinstance(error, DubitoError) else StoreFailed(f"it could not be saved: {error}")


def read_events(connection: Connection, after: int = 0) -> list[Event]:
    """The log, or the rest of it."""
    table = schema.events
    found = connection.execute(select(table).where(table.c.number > after).order_by(table.c.number))
    return [Event(**row) for row in map(dict, found.mappings())]


def add_event(connection: Connection, event: Event) -> None:
    """One more line."""
    connection.execute(ADD_EVENT, asdict(event))


def read_rounds(connection: Connection) -> list[RoundRecord]:
    """All rounds in order."""
    found = connection.execute(select(schema.rounds).order_by(schema.rounds.c.round))
    return [RoundRecord(**row) for row in map(dict, found.mappings())]


def read_picks(connection: Connection) -> list[Pick]:
    """The picks of all rounds in order."""
    table = schema.picks
    whole = table.c.round.in_(select(schema.rounds.c.round))
    found = connection.execute(select(table).where(whole).order_by(table.c.round, table.c.rank))
    return [Pick(**row) for row in map(dict, found.mappings())]


def add_round(connection: Connection, record: RoundRecord) -> None:
    """A round; its picks are there already."""
    connection.execute(insert(schema.rounds), asdict(record))


def add_picks(connection: Connection, picks: Sequence[Pick]) -> None:
    """Some picks of a round."""
    rows = [{"round": pick.round, "rank": pick.rank, "item": pick.item, "why": pick.why} for pick in picks]
    if rows:
        connection.execute(insert(schema.picks), rows)


def drop_picks(connection: Connection, round: int) -> None:
    """Those of a round that was never finished."""
    connection.execute(delete(schema.picks).where(schema.picks.c.round == round))


def read_leases(connection: Connection) -> list[tuple[int, str, float]]:
    """Who holds what until when."""
    table = schema.leases
    found = connection.execute(select(table.c.item, table.c.annotator, table.c.until))
    return [(int(item), str(who), float(until)) for item, who, until in found]


def put_leases(connection: Connection, annotator: str, items: Sequence[int], until: float) -> None:
    """These are the annotator's until then."""
    drop_leases(connection, annotator, items)
    if items:
        connection.execute(ADD_LEASE, [{"item": item, "annotator": annotator, "until": until} for item in items])


def drop_leases(connection: Connection, annotator: str, items: Sequence[int]) -> None:
    """These are no longer."""
    if items:
        connection.execute(DROP_LEASE, [{"one": item, "who": annotator} for item in items])


def read_fact(connection: Connection, name: str) -> str | None:
    """What is written under a name."""
    return connection.execute(select(schema.facts.c.value).where(schema.facts.c.name == name)).scalar()


def put_fact(connection: Connection, name: str, value: str | None) -> None:
    """Write it; None removes it."""
    connection.execute(delete(schema.facts).where(schema.facts.c.name == name))
    if value is not None:
        connection.execute(insert(schema.facts), {"name": name, "value": value})


def check_store(url: str, ident: str | None) -> None:
    """Refuse an address that does not answer, or a database of another project; nothing is written."""
    with naming_store("the store cannot be opened"), open_engine("", url).connect() as connection:
        take_lock(connection)
        schema.refuse_taken(connection, ident)


def count_events(connection: Connection) -> int:
    """How many lines the log has."""
    return connection.execute(select(func.count()).select_from(schema.events)).scalar() or 0
