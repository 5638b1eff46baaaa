"""The store: the event log, rounds, picks and leases in a database with a single writer.

Every change is an *operation*: it changes memory, and returns after adding its statements to a list, which one thread
executes on one connection. Pending operations are committed together, and a client gets its response after the commit:
a confirmed label is durable.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine, Executable, bindparam, delete, insert, inspect, select

from dubito.errors import DubitoError, InvalidArgument
from dubito.labeling import database as schema
from dubito.labeling.database import (
    StoreFailed,
    StoreFiles,
    StoreUnavailable,
    open_engine,
    response_timeout,
    store_errors,
    take_lock,
)
from dubito.labeling.events import Event

Result = TypeVar("Result")


class Statements:
    """The statements of operations, executed in order after all of them have changed memory.

    Threads that only use the state in memory therefore never wait for the database.
    """

    def __init__(self) -> None:
        self._added: list[tuple[Executable, Any]] = []

    def execute(self, statement: Executable, parameters: Any = None) -> None:
        """Add a statement, which is executed later; its result is not available."""
        self._added.append((statement, parameters))

    def run(self, connection: Connection) -> None:
        for statement, parameters in self._added:
            connection.execute(statement, parameters)


Operation = Callable[[Statements], Result]

ADD_EVENT, ADD_LEASE = insert(schema.events), insert(schema.leases)
DROP_LEASE = delete(schema.leases).where(
    schema.leases.c.item == bindparam("one"), schema.leases.c.annotator == bindparam("who")
)
MAX_BATCH = 256
"""Maximum number of operations per commit."""
FIRST_RETRY, MAX_RETRY = 0.05, 2.0
"""Seconds before reconnecting: the first delay, doubled after each failure up to the second value."""
SLOW_SECONDS = 5.0
"""A commit that takes longer is reported as a failure while it lasts."""


@dataclass(frozen=True, slots=True)
class Pick:
    """An item that a round selected for labeling."""

    round: int
    rank: int
    item: int
    why: str


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """The stored results of a round."""

    round: int
    at: float
    labels: int
    n_right: int | None
    n_tested: int | None
    covered: float | None
    audited_right: int | None
    audited: int | None
    estimated: float | None
    """Estimated accuracy on the unlabeled items, from the audit; see `dubito.models.accuracy`."""
    estimated_low: float | None
    estimated_high: float | None
    stop: bool
    advice: str
    message: str
    seconds: float


class Memory(Protocol):
    """The state in memory, which operations change together with the store; it is rolled back on failure."""

    lock: Any
    """Held while operations change memory, but not while the database is read or written."""

    def reload(self, connection: Connection) -> None:
        """Read everything from the store."""

    def snapshot(self) -> Any:
        """Capture the current state."""

    def rollback(self, snapshot: Any) -> None:
        """Undo the changes since a snapshot."""

    def last_event(self) -> Event | None:
        """The last event of the log, if any."""


class RetryTooEarly(Exception):
    """The delay before the next attempt to connect has not passed."""


class _Task:
    """An operation and the future of its caller."""

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
    """The thread that runs all writes.

    A failed operation is rolled back and its future gets the error; memory is rolled back as well, and reloaded from
    the store as soon as possible. While the database is unreachable, operations fail with `StoreUnavailable`. After a
    failure the thread reconnects, or attempts a test write, with exponential backoff up to `MAX_RETRY` seconds, until
    that succeeds. No error ends the thread.

    If the store has lost an acknowledged event, for example because an older backup was restored, all writes are
    refused until the event is back or the server is restarted.

    Parameters
    ----------
    engine : Engine
        Only this thread connects with it.
    project : str
        Id of the project that the store must belong to.
    memory : Memory
        The state that operations change in addition to the store.
    """

    def __init__(self, engine: Engine, project: str, memory: Memory) -> None:
        self._engine, self._project, self._memory, self._lock = engine, project, memory, memory.lock
        self._acknowledged: Event | None = None
        """Last event that is known to be stored."""
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._submitting, self._is_closed = threading.Lock(), False
        self._retry_delay, self._retry_at = FIRST_RETRY, 0.0
        self._error: Exception | None = None
        self._failure: str | None = None
        """Why the last write failed; None after a success."""
        self._commit_started: float | None = None
        """Start of the current commit, by the monotonic clock."""
        path = engine.url.database if engine.dialect.name == "sqlite" else None
        with store_errors("the labels cannot be opened", path):
            self._connection: Connection | None = self._connect(is_first=True)
        self._files = StoreFiles(engine)
        self._thread = threading.Thread(target=self._run, name="dubito-writer", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str | None:
        """Why writes fail or take long; None if they do not."""
        started = self._commit_started
        seconds = 0.0 if started is None else time.monotonic() - started
        if self._failure is None and seconds > SLOW_SECONDS:
            return f"the database has not answered for {seconds:.0f} s"
        return self._failure

    def submit(self, operation: Operation[Result]) -> "Future[Result]":
        """Enqueue an operation; its future completes after the commit."""
        task = _Task(operation)
        with self._submitting:
            if self._is_closed:
                task.future.set_exception(StoreFailed("it could not be saved: the project is closed"))
            else:
                self._tasks.put(task)
        return task.future

    def run(self, operation: Operation[Result]) -> Result:
        """Run an operation and wait for its commit."""
        return self.submit(operation).result()

    def close(self) -> None:
        """Finish pending operations and disconnect; SQLite then merges its write-ahead log into the database."""
        with self._submitting:
            self._is_closed = True
            self._tasks.put(None)
        self._thread.join()
        self._disconnect()

    def _connect(self, *, is_first: bool = False) -> Connection:
        """Connect, lock the database, and load memory from the store."""
        connection = self._engine.connect()
        try:
            with response_timeout(connection):
                take_lock(connection)
            with response_timeout(connection), connection.begin():
                schema.prepare(connection, self._project, is_new_allowed=is_first)
                self._reload(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _reload(self, connection: Connection) -> None:
        self._check_acknowledged(connection)
        self._memory.reload(connection)
        self._acknowledged = self._memory.last_event()

    def _check_acknowledged(self, connection: Connection) -> None:
        """Raise `StoreFailed` if the store lacks the last acknowledged event."""
        last = self._acknowledged
        if last is None:
            return
        key = connection.execute(select(schema.events.c.key).where(schema.events.c.number == last.number)).scalar()
        if key != last.key:
            raise StoreFailed(
                f"it could not be saved: event {last.number}, which this server has saved, is missing in the store; "
                "perhaps an older copy was restored. Stop the server and restore the newest copy, or restart it to "
                "continue with the labels that the store has now."
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
            self._commit_started = time.monotonic()
            try:
                if tasks or None not in batch:
                    self._commit(tasks)
            except Exception as error:  # Unexpected, but callers must not wait forever.
                for task in tasks:
                    if not task.future.done():
                        task.future.set_exception(_as_store_error(error))
            finally:
                self._commit_started = None
            if None in batch:
                return

    def _next_batch(self) -> list[_Task | None]:
        """Wait for operations; empty if it is time to reconnect. A final None means that the writer is closing."""
        try:
            timeout = None if self._failure is None else max(self._retry_at - time.monotonic(), 0.0)
            batch = [self._tasks.get(timeout=timeout)]
        except queue.Empty:
            return []
        while len(batch) < MAX_BATCH and batch[-1] is not None and not self._tasks.empty():
            batch.append(self._tasks.get())
        return batch

    def _commit(self, tasks: Sequence[_Task]) -> None:
        """Commit operations together; if that fails, one by one, so that one failure does not affect the others."""
        snapshot = self._memory.snapshot()
        try:
            if self._connection is None:
                self._reconnect()
                snapshot = self._memory.snapshot()
            self._commit_together(tasks or [_Task(_test_write)])
        except RetryTooEarly:
            for task in tasks:
                task.error = self._error
        except Exception as error:
            self._memory.rollback(snapshot)
            self._recover(error)
            if len(tasks) > 1 and self._connection is not None:
                for task in tasks:
                    self._commit([task])
                return
            for task in tasks:
                task.error = _as_store_error(error)
        for task in tasks:
            task.finish()

    def _reconnect(self) -> None:
        """Reconnect; raise `RetryTooEarly` if the last attempt was too recent."""
        if time.monotonic() < self._retry_at:
            raise RetryTooEarly
        self._files.reopened(self._engine)
        with store_errors("it could not be saved"):
            try:
                connection = self._connect()
            except InvalidArgument as error:  # Another server holds the lock; it may stop.
                raise StoreUnavailable(str(error)) from error
        try:
            self._files = self._files.reopened(self._engine)
        except StoreFailed:
            connection.close()
            raise
        self._connection = connection

    def _commit_together(self, tasks: Sequence[_Task]) -> None:
        connection = self._connection
        assert connection is not None
        with store_errors("it could not be saved"), response_timeout(connection):
            self._files.check_contents()
            transaction = connection.begin()
            try:
                self._check_acknowledged(connection)
                statements = Statements()
                with self._lock:
                    for task in tasks:
                        task.error = None
                        try:
                            task.result = task.operation(statements)
                        except DubitoError as error:  # Raised before the operation changed anything.
                            task.error = error
                statements.run(connection)
                transaction.commit()
            except BaseException:
                transaction.close()
                raise
            finally:
                self._files.record_version()
            self._files.check()
        self._acknowledged, self._retry_delay, self._failure = self._memory.last_event(), FIRST_RETRY, None

    def _recover(self, error: Exception) -> None:
        """Reload memory from the store; if that fails too, disconnect and retry later."""
        self._error = _as_store_error(error)
        self._failure = str(self._error)
        self._retry_at = time.monotonic() + self._retry_delay
        self._retry_delay = min(2.0 * self._retry_delay, MAX_RETRY)
        connection = self._connection
        if connection is not None and not connection.invalidated and not connection.closed:
            try:
                self._files.check_contents()
            except StoreFailed:
                return  # Keep the connection: reading from it, or closing it, could damage the replaced file.
            with suppress(Exception):
                with response_timeout(connection), connection.begin():
                    self._reload(connection)
                return
        self._disconnect()


def _test_write(statements: Statements) -> None:
    """Write a few pages and remove them, to check that the store is writable."""
    put_fact(statements, "tried", "." * 16_384)
    put_fact(statements, "tried", None)


def _as_store_error(error: Exception) -> Exception:
    return error if isinstance(error, DubitoError) else StoreFailed(f"it could not be saved: {error}")


def read_events(connection: Connection, after: int = 0) -> list[Event]:
    """Events with a number greater than `after`, in order."""
    table = schema.events
    # A reader does not migrate the store of an older dubito, whose events lack some columns.
    present = {column["name"] for column in inspect(connection).get_columns(table.name)}
    columns = [column for column in table.c if column.name in present]
    rows = connection.execute(select(*columns).where(table.c.number > after).order_by(table.c.number))
    return [Event(**row) for row in map(dict, rows.mappings())]


def add_event(statements: Statements, event: Event) -> None:
    statements.execute(ADD_EVENT, asdict(event))


def read_rounds(connection: Connection) -> list[RoundRecord]:
    rows = connection.execute(select(schema.rounds).order_by(schema.rounds.c.round))
    return [RoundRecord(**row) for row in map(dict, rows.mappings())]


def read_picks(connection: Connection) -> list[Pick]:
    """Picks of all finished rounds, in order."""
    table = schema.picks
    is_finished = table.c.round.in_(select(schema.rounds.c.round))
    rows = connection.execute(select(table).where(is_finished).order_by(table.c.round, table.c.rank))
    return [Pick(**row) for row in map(dict, rows.mappings())]


def add_round(statements: Statements, record: RoundRecord) -> None:
    """Store a round, after its picks."""
    statements.execute(insert(schema.rounds), asdict(record))


def add_picks(statements: Statements, picks: Sequence[Pick]) -> None:
    if picks:
        statements.execute(insert(schema.picks), [asdict(pick) for pick in picks])


def drop_picks(statements: Statements, round: int) -> None:
    """Remove the picks of a round that was not finished."""
    statements.execute(delete(schema.picks).where(schema.picks.c.round == round))


def read_leases(connection: Connection) -> list[tuple[int, str, float]]:
    """Leases as (item, annotator, Unix time of expiry)."""
    table = schema.leases
    rows = connection.execute(select(table.c.item, table.c.annotator, table.c.until))
    return [(int(item), str(who), float(until)) for item, who, until in rows]


def put_leases(statements: Statements, annotator: str, items: Sequence[int], until: float) -> None:
    drop_leases(statements, annotator, items)
    if items:
        statements.execute(ADD_LEASE, [{"item": item, "annotator": annotator, "until": until} for item in items])


def drop_leases(statements: Statements, annotator: str, items: Sequence[int]) -> None:
    if items:
        statements.execute(DROP_LEASE, [{"one": item, "who": annotator} for item in items])


def read_fact(connection: Connection, name: str) -> str | None:
    return connection.execute(select(schema.facts.c.value).where(schema.facts.c.name == name)).scalar()


def put_fact(statements: Statements, name: str, value: str | None) -> None:
    """Store a value under a name; None removes it."""
    statements.execute(delete(schema.facts).where(schema.facts.c.name == name))
    if value is not None:
        statements.execute(insert(schema.facts), {"name": name, "value": value})


def check_store(url: str, ident: str | None) -> None:
    """Raise if the database is unreachable or belongs to another project; writes nothing."""
    with store_errors("the store cannot be opened"), open_engine("", url).connect() as connection:
        take_lock(connection)
        schema.check_owner(connection, ident)
