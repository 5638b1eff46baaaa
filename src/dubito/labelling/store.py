"""The log of label events and what goes with it, in a database with one writer.

Everything that changes the store is an *operation*, run by one thread on one connection. Operations that wait are
committed together, and nobody is answered before the commit: an answer means that the disk has it.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, bindparam, delete, func, insert, select

from dubito.errors import DubitoError
from dubito.labelling import schema
from dubito.labelling.database import Place, StoreFailed, naming_store, open_engine, take_lock
from dubito.labelling.events import Event

Result = TypeVar("Result")
Operation = Callable[[Connection], Result]

ADD_EVENT, ADD_LEASE = insert(schema.events), insert(schema.leases)
DROP_LEASE = delete(schema.leases).where(
    schema.leases.c.item == bindparam("one"), schema.leases.c.annotator == bindparam("who")
)
TOGETHER = 256
"""Operations that are committed together at most."""


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


class _Task:
    """An operation and whoever waits for it."""

    def __init__(self, operation: Operation[Any]) -> None:
        self.operation = operation
        self.future: Future[Any] = Future()
        self.result: Any = None
        self.error: Exception | None = None


class Writer:
    """The one thread that writes.

    Parameters
    ----------
    engine : Engine
        Its only connection is this thread's.
    project : str
        Whose store it must be.
    lock : lock
        Held while operations run, and not while they are committed: they may change what is in memory.
    reload : callable
        Called, with the lock held, after a commit failed: memory is then to be read again.
    """

    def __init__(
        self, engine: Engine, project: str, lock: "threading.RLock", reload: Callable[[Connection], None]
    ) -> None:
        self._lock, self._reload = lock, reload
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        path = engine.url.database if engine.dialect.name == "sqlite" else None
        with naming_store("the labels cannot be opened", path):
            self._connection = engine.connect()
            try:
                take_lock(self._connection)
                with self._connection.begin():
                    schema.prepare(self._connection, project)
                    reload(self._connection)
            except BaseException:
                self._connection.close()
                raise
        self._place = Place(engine)
        self._thread = threading.Thread(target=self._run, name="dubito-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[Result]) -> "Future[Result]":
        """Have it run; the future is done once it is committed."""
        task = _Task(operation)
        self._tasks.put(task)
        return task.future

    def run(self, operation: Operation[Result]) -> Result:
        """The same, waited for."""
        return self.submit(operation).result()

    def close(self) -> None:
        """Finish what waits, and leave the store behind in one file."""
        self._tasks.put(None)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while (first := self._tasks.get()) is not None:
            tasks = [first]
            stop = False
            while len(tasks) < TOGETHER and not self._tasks.empty():
                task = self._tasks.get()
                if task is None:
                    stop = True
                    break
                tasks.append(task)
            self._commit(tasks)
            if stop:
                return

    def _commit(self, tasks: Sequence[_Task]) -> None:
        try:
            self._together(tasks)
        except Exception as error:
            self._again()
            if len(tasks) > 1:
                # One of them spoilt it for the others: each alone, then.
                for task in tasks:
                    self._commit([task])
                return
            tasks[0].error = _worded(error)
        for task in tasks:
            if task.error is not None:
                task.future.set_exception(task.error)
            else:
                task.future.set_result(task.result)

    def _together(self, tasks: Sequence[_Task]) -> None:
        with naming_store("it could not be saved"):
            self._place.check()
            transaction = self._connection.begin()
            try:
                with self._lock:
                    for task in tasks:
                        task.error = None
                        try:
                            task.result = task.operation(self._connection)
                        except DubitoError as error:  # Refused before anything was changed.
                            task.error = error
                transaction.commit()
            except BaseException:
                transaction.close()
                raise
            self._place.check()

    def _again(self) -> None:
        """Memory as the store has it; a connection that is lost is made again."""
        try:
            if self._connection.invalidated or self._connection.closed:
                self._connection.close()
                self._connection = self._connection.engine.connect()
                take_lock(self._connection)
            with self._connection.begin(), self._lock:
                self._reload(self._connection)
        except Exception:
            # The next operation fails in the same way, and says so.
            self._connection.invalidate()


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


def check_store(url: str) -> None:
    """Refuse an address that does not answer, or a database that somebody has; nothing is written."""
    with naming_store("the store cannot be opened"), open_engine("", url).connect() as connection:
        take_lock(connection)
        schema.refuse_taken(connection)


def count_events(connection: Connection) -> int:
    """How many lines the log has."""
    return connection.execute(select(func.count()).select_from(schema.events)).scalar() or 0
