"""The database behind a store: SQLite in the project's folder, or PostgreSQL by its address."""

import os
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.registry import require

LOCK = 4_276_125_001
"""The advisory lock of PostgreSQL that a server holds on its database."""
POSTGRES = {
    "connect_timeout": 3,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""How soon libpq gives up on a PostgreSQL that no longer answers, unless the address says otherwise, as in
``?keepalives_idle=60``: a connection whose other end is gone fails after 20 to 25 seconds instead of many minutes."""
SESSION = {
    "synchronous_commit": "on",
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
"""Settings of each session, unless the address sets them (``?options=-c statement_timeout=60s``). The keepalives are
those of the database: it ends the session of a server that is gone, and frees its lock for the next."""
LONGEST_ANSWER = 60.0
"""Seconds that a transaction in PostgreSQL may take before the connection is given up."""


class StoreFailed(DubitoError, OSError):
    """The store could not keep something; what it had is whole."""


class StoreUnavailable(StoreFailed):
    """The store cannot be reached or is locked at the moment; the same request may succeed later."""


def open_engine(folder: str, url: str | None) -> Engine:
    """An engine for one writer: SQLite's connection alone checkpoints (its WAL-reset bug needs two that do)."""
    return _sqlite(os.path.join(folder, "labels.sqlite")) if url is None else _by_url(url)


def _sqlite(path: str, *, reads: bool = False) -> Engine:
    place = f"file:{_quoted(path)}{_reading(path) if reads else ''}"

    def creator() -> Any:
        if not reads:
            _make_private(path)
        return _connect(place, reads)

    engine = create_engine(
        URL.create("sqlite+pysqlite", database=path),
        creator=creator,
        poolclass=NullPool,
    )
    if not reads:
        # Python's own transactions begin at the first change; ours begin before the first look.
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _reading(path: str) -> str:
    """SQLite makes files beside a log that it reads; where it may not, and nobody writes, it need not."""
    is_still = not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK) and not os.path.exists(f"{path}-wal")
    return "?mode=ro&immutable=1" if is_still else "?mode=ro"


def _make_private(path: str) -> None:
    """Let nobody but its owner read a database; SQLite gives the files beside it the same mode.

    A file that exists is not opened: to close it again would drop the locks that SQLite holds in this process.
    """
    with suppress(OSError):  # It is there, or cannot be: SQLite says so.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    for each in (path, f"{path}-wal", f"{path}-shm"):
        with suppress(OSError):  # It is not there, or another user's.
            os.chmod(each, 0o600)


def _connect(place: str, reads: bool) -> Any:
    connection = sqlite3.connect(place, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0)
    connection.execute(f"PRAGMA wal_autocheckpoint={0 if reads else 1000}")
    if not reads:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
    return connection


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(os.path.abspath(path))


def _by_url(url: str, *, reads: bool = False) -> Engine:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        hint = "write postgresql+psycopg://user@host/database."
        raise InvalidArgument("is no address of a database", argument="store", hint=hint) from error
    if parsed.get_backend_name() != "postgresql":
        hint = "write postgresql+psycopg://user@host/database, or leave it out for a file in the project."
        raise InvalidArgument("is no PostgreSQL", argument="store", hint=hint)
    require("psycopg", extra="postgres")
    # A standby, which can only be read, is no place to write to: of several hosts the primary is meant.
    usual = POSTGRES if reads else {**POSTGRES, "target_session_attrs": "read-write"}
    engine = create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        connect_args={name: value for name, value in usual.items() if name not in parsed.query},
    )
    chosen = str(parsed.query.get("options", ""))
    settings = {name: value for name, value in SESSION.items() if name == "synchronous_commit" or name not in chosen}

    def prepare_session(connection: Any, _: object) -> None:
        for name, value in settings.items():
            connection.execute(f"SET {name} = '{value}'")
        connection.commit()

    event.listen(engine, "connect", prepare_session)
    return engine


def open_reader(folder: str, url: str | None) -> Engine:
    """An engine that only reads, and never checkpoints: for commands beside a server."""
    return _sqlite(os.path.join(folder, "labels.sqlite"), reads=True) if url is None else _by_url(url, reads=True)


def take_lock(connection: Connection) -> None:
    """One server a database: of SQLite the project's folder is locked, of PostgreSQL the database."""
    if connection.dialect.name != "postgresql":
        return
    is_ours = connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": LOCK}).scalar()
    connection.commit()
    if not is_ours:
        problem = "another dubito label has this store open"
        raise InvalidArgument(problem, hint="use the page of that one, or stop it first.")


@contextmanager
def answered_in_time(connection: Connection) -> Iterator[None]:
    """Give a PostgreSQL up that has not answered in time, though the network takes what is sent to it.

    No setting of libpq bounds that: the socket is shut down, and whoever waits for an answer gets an error.
    """
    if connection.dialect.name != "postgresql":
        yield
        return
    timer = threading.Timer(LONGEST_ANSWER, _hang_up, [connection.connection.dbapi_connection])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _hang_up(driver: Any) -> None:
    with suppress(Exception):  # It may have ended by itself.
        shared = socket.socket(fileno=driver.pgconn.socket)
        try:
            shared.shutdown(socket.SHUT_RDWR)
        finally:
            shared.detach()


class Place:
    """The files of a store on the disk, which others can remove or replace while a server has them open."""

    def __init__(self, engine: Engine) -> None:
        path = engine.url.database if engine.dialect.name == "sqlite" else None
        self._paths: list[str] = [] if path is None else [path, f"{path}-wal"]
        self._were = self._are()
        self.settle()

    def settle(self) -> None:
        """What the file holds now is this server's own doing: it alone copies the log into it."""
        self._version = self._written()

    def _written(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._paths[0])
        except (IndexError, OSError):
            return None
        return found.st_mtime_ns, found.st_size

    def _are(self) -> list[tuple[int, int] | None]:
        return [_identity(path) for path in self._paths]

    def renewed(self, engine: Engine) -> "Place":
        """The files as a new connection has them: the log may be another one, the store itself must not be."""
        if self._are()[:1] != self._were[:1]:
            self.check()
        return Place(engine)

    def is_unchanged(self) -> bool:
        """Whether they are still the same files."""
        return self._are() == self._were

    def check_contents(self) -> None:
        """Refuse to go on where another program wrote the file, as one does that copies a backup over it."""
        self.check()
        if self._written() != self._version:
            raise StoreFailed(
                f"it could not be saved: another program has written {self._paths[0]} while this server has it open. "
                "Stop the server, put a copy back if there is one, and start it again."
            )

    def check(self) -> None:
        """Refuse to go on where they are gone: what is written to them now nobody could find again."""
        if not self.is_unchanged():
            raise StoreFailed(
                f"it could not be saved: {self._paths[0]}, or the log beside it, was removed or replaced while this "
                "server has it open. Stop the server, put a copy back if there is one, and start it again."
            )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def naming_store(what: str, path: str | None = None) -> Iterator[None]:
    """Turn what a database says into one plain line; of a file, its path, too."""
    try:
        yield
    except DBAPIError as error:
        said = str(error.orig)
        if path is not None and ("not a database" in said or "malformed" in said):
            hint = "restore it from a copy; the file is left as it is."
            raise InvalidData(f"{what}: {said} ({path})", hint=hint) from error
        kind = StoreUnavailable if _may_pass(error) else StoreFailed
        raise kind(f"{what}: {_reported(error)}") from error


def _may_pass(error: DBAPIError) -> bool:
    """Whether the database was out of reach or locked, rather than unable to keep something."""
    if isinstance(error.orig, sqlite3.Error):
        return "locked" in str(error.orig)
    return error.connection_invalidated or (isinstance(error, OperationalError) and "No space" not in str(error.orig))


def _reported(error: DBAPIError) -> str:
    said = " ".join(str(error.orig).split())
    if "disk is full" in said or "disk I/O" in said or "No space" in said:
        return "the disk is full or fails. Nothing that was saved is lost: make room and try again."
    if "readonly" in said or "unable to open" in said:
        return f"its folder cannot be written ({said}). Make it writable, or copy the project."
    if "locked" in said:
        return "another program has locked the database. Stop that program, or try again."
    if _may_pass(error):
        return f"the database cannot be reached ({said[:200]}). Start it and try again."
    return said[:300]


# The tables of a store, and how an older one becomes this one.

VERSION = 2
"""1 had no `seconds`; see `MIGRATIONS`."""

metadata = MetaData()
facts = Table(
    "dubito_facts", metadata, Column("name", String(100), primary_key=True), Column("value", Text, nullable=False)
)
"""``schema``, the project that the store is of, and what the next round is restricted to."""
events = Table(
    "dubito_events",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("key", String(200), nullable=False, unique=True),
    Column("kind", String(10), nullable=False),
    Column("annotator", String(200), nullable=False),
    Column("item", BigInteger, nullable=False),
    Column("label", String(200)),
    Column("round", Integer, nullable=False),
    Column("target", BigInteger),
    Column("at", Float(53), nullable=False),
    Column("guess", String(200)),
    Column("sure", Float(53)),
    Column("guess_seen", Boolean, nullable=False),
    Column("why", String(20), nullable=False),
    Column("seconds", Float(53)),
)
rounds = Table(
    "dubito_rounds",
    metadata,
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("labels", Integer, nullable=False),
    Column("n_right", Integer),
    Column("n_tested", Integer),
    Column("covered", Float(53)),
    Column("audited_right", Integer),
    Column("audited", Integer),
    Column("stop", Boolean, nullable=False),
    Column("advice", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("seconds", Float(53), nullable=False),
)
picks = Table(
    "dubito_picks",
    metadata,
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("rank", Integer, primary_key=True, autoincrement=False),
    Column("item", BigInteger, nullable=False),
    Column("why", String(20), nullable=False),
)
leases = Table(
    "dubito_leases",
    metadata,
    Column("item", BigInteger, primary_key=True, autoincrement=False),
    Column("annotator", String(200), primary_key=True),
    Column("until", Float(53), nullable=False),
)

ANSWERS = """
CREATE VIEW dubito_answers AS
SELECT e.item, e.annotator, e.label, e.round, e.at, e.number FROM dubito_events e
WHERE e.kind <> 'undo'
  AND NOT EXISTS (SELECT 1 FROM dubito_events u WHERE u.kind = 'undo' AND u.target = e.number)
  AND NOT EXISTS (
    SELECT 1 FROM dubito_events l
    WHERE l.kind <> 'undo' AND l.item = e.item AND l.annotator = e.annotator AND l.number > e.number
      AND NOT EXISTS (SELECT 1 FROM dubito_events v WHERE v.kind = 'undo' AND v.target = l.number))
"""
"""What each person's answer on each item is now; a label that is NULL is a skip."""


def prepare(connection: Connection, project: str, *, is_new_allowed: bool = True) -> None:
    """Make the tables, or bring older ones up to date; a store of another project, or of a newer dubito, is refused."""
    if not inspect(connection).has_table(facts.name):
        if not is_new_allowed:
            problem = "the store is empty, though it had labels before"
            raise InvalidData(problem, hint="restore the database from a copy, then start the server again.")
        metadata.create_all(connection)
        connection.execute(text(ANSWERS))
        known = [{"name": "schema", "value": str(VERSION)}, {"name": "project", "value": project}]
        connection.execute(insert(facts), known)
        return
    found = {str(row[0]): str(row[1]) for row in connection.execute(select(facts.c.name, facts.c.value))}
    if found.get("project") != project:
        raise InvalidData("the store is of another project", hint="name another database with --store.")
    _migrate(connection, int(found["schema"]))


def refuse_taken(connection: Connection, ident: str | None) -> None:
    """Refuse a store of another project than this one."""
    if not inspect(connection).has_table(facts.name):
        return
    if connection.execute(select(facts.c.value).where(facts.c.name == "project")).scalar() != ident:
        raise InvalidData("the store is of another project", hint="name another database with --store.")


def _migrate(connection: Connection, version: int) -> None:
    if version > VERSION:
        problem = f"the store has schema {version}, and this dubito knows {VERSION}"
        raise InvalidData(problem, hint="open it with the dubito that wrote it, or a newer one.")
    for step in range(version, VERSION):
        MIGRATIONS[step](connection)
    if version < VERSION:
        connection.execute(update(facts).where(facts.c.name == "schema").values(value=str(VERSION)))


def _add_seconds(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE dubito_events ADD COLUMN seconds DOUBLE PRECISION"))


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {1: _add_seconds}
"""From each version to the next."""
