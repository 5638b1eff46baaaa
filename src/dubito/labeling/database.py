"""The database of a project: SQLite in its folder, or PostgreSQL at a URL. Connections, errors and schema."""

import os
import socket
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

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
"""Key of the PostgreSQL advisory lock that a server holds on its database."""
POSTGRES = {
    "connect_timeout": 3,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""Defaults of the libpq connection parameters; the URL can override them, as in ``?keepalives_idle=60``. With these, a
dead connection fails after 20 to 25 seconds instead of many minutes."""
SESSION = {
    "synchronous_commit": "on",
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
"""Settings of each session, unless the URL sets them (``?options=-c statement_timeout=60s``). The keepalives are those
of the database server: it ends the session of a crashed labeling server, which releases the lock."""
RESPONSE_SECONDS = 60.0
"""Seconds that a PostgreSQL transaction may take before the connection is closed."""


class StoreFailed(DubitoError, OSError):
    """A write failed; what was stored before is intact."""


class StoreUnavailable(StoreFailed):
    """The store is unreachable or locked; the same request may succeed later."""


def open_engine(folder: str, url: str | None, *, read_only: bool = False) -> Engine:
    """An engine for the single writer, or one that only reads, for commands that run next to a server.

    Only the writer may checkpoint, because of SQLite's WAL-reset bug.
    """
    if url is not None:
        return _postgres(url, read_only=read_only)
    return _sqlite(os.path.join(folder, "labels.sqlite"), read_only=read_only)


def _sqlite(path: str, *, read_only: bool) -> Engine:
    uri = f"file:{quote(os.path.abspath(path))}{_read_only_query(path) if read_only else ''}"

    def creator() -> Any:
        if not read_only:
            _make_private(path)
        return _connect(uri, read_only)

    engine = create_engine(URL.create("sqlite+pysqlite", database=path), creator=creator, poolclass=NullPool)
    if not read_only:
        # sqlite3 would begin a transaction only at the first write; ours begin before the first read.
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _read_only_query(path: str) -> str:
    """URI parameters for reading.

    In a read-only folder SQLite cannot create its -shm file; without a writer (no -wal file), the database can be
    opened as immutable instead.
    """
    is_immutable = not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK) and not os.path.exists(f"{path}-wal")
    return "?mode=ro&immutable=1" if is_immutable else "?mode=ro"


def _make_private(path: str) -> None:
    """Restrict a database to its owner; SQLite gives the -wal and -shm files the same mode.

    An existing file is not opened, because closing it would drop the POSIX locks that SQLite holds in this process.
    """
    with suppress(OSError):  # It exists, or cannot be created; then SQLite reports it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    for each in (path, f"{path}-wal", f"{path}-shm"):
        with suppress(OSError):  # It does not exist, or belongs to another user.
            os.chmod(each, 0o600)


def _connect(uri: str, read_only: bool) -> Any:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=10.0)
    connection.execute(f"PRAGMA wal_autocheckpoint={0 if read_only else 1000}")
    if not read_only:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
    return connection


def _postgres(url: str, *, read_only: bool) -> Engine:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        hint = "write postgresql+psycopg://user@host/database."
        raise InvalidArgument("is not the address of a database", argument="store", hint=hint) from error
    if parsed.get_backend_name() != "postgresql":
        hint = "write postgresql+psycopg://user@host/database, or leave it out for a file in the project."
        raise InvalidArgument("is not the address of a PostgreSQL database", argument="store", hint=hint)
    require("psycopg", extra="postgres")
    # A standby is read-only: of several hosts, the writer connects to the primary.
    parameters = POSTGRES if read_only else {**POSTGRES, "target_session_attrs": "read-write"}
    engine = create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        connect_args={name: value for name, value in parameters.items() if name not in parsed.query},
    )
    options = str(parsed.query.get("options", ""))
    settings = {name: value for name, value in SESSION.items() if name == "synchronous_commit" or name not in options}

    def prepare_session(connection: Any, _: object) -> None:
        for name, value in settings.items():
            connection.execute(f"SET {name} = '{value}'")
        connection.commit()

    event.listen(engine, "connect", prepare_session)
    return engine


def take_lock(connection: Connection) -> None:
    """Lock a PostgreSQL database for one server; for SQLite the project folder is locked instead."""
    if connection.dialect.name != "postgresql":
        return
    is_locked = connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": LOCK}).scalar()
    connection.commit()
    if not is_locked:
        problem = "another labeling server has this store open"
        raise InvalidArgument(problem, hint="use its page, or stop it first.")


@contextmanager
def response_timeout(connection: Connection) -> Iterator[None]:
    """Shut down the socket of a PostgreSQL connection that does not respond in time, so that the caller gets an error.

    No libpq setting covers a server that accepts data but never responds.
    """
    if connection.dialect.name != "postgresql":
        yield
        return
    timer = threading.Timer(RESPONSE_SECONDS, _shut_down_socket, [connection.connection.dbapi_connection])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut_down_socket(driver: Any) -> None:
    with suppress(Exception):  # The connection may have ended already.
        duplicate = socket.socket(fileno=driver.pgconn.socket)
        try:
            duplicate.shutdown(socket.SHUT_RDWR)
        finally:
            duplicate.detach()


class StoreFiles:
    """Detects when another program removes, replaces or writes the database files while a server has them open."""

    def __init__(self, engine: Engine) -> None:
        path = engine.url.database if engine.dialect.name == "sqlite" else None
        self._paths: list[str] = [] if path is None else [path, f"{path}-wal"]
        self._identities = list(map(_identity, self._paths))
        self.record_version()

    def record_version(self) -> None:
        """Accept the current size and modification time as this server's own writes."""
        self._version = self._file_version()

    def _file_version(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._paths[0])
        except (IndexError, OSError):
            return None
        return found.st_mtime_ns, found.st_size

    def reopened(self, engine: Engine) -> "StoreFiles":
        """The files after reconnecting: the write-ahead log may be a new file, the database must be the same."""
        if list(map(_identity, self._paths[:1])) != self._identities[:1]:
            self.check()
        return StoreFiles(engine)

    def check_contents(self) -> None:
        """Raise `StoreFailed` if another program wrote the file, for example by copying a backup over it."""
        self.check()
        if self._file_version() != self._version:
            raise StoreFailed(
                f"it could not be saved: another program has written {self._paths[0]} while this server has it open. "
                "Stop the server, restore a copy if there is one, and start it again."
            )

    def check(self) -> None:
        """Raise `StoreFailed` if the files were removed or replaced: later writes to them would be lost."""
        if list(map(_identity, self._paths)) != self._identities:
            raise StoreFailed(
                f"it could not be saved: {self._paths[0]}, or the log beside it, was removed or replaced while this "
                "server has it open. Stop the server, restore a copy if there is one, and start it again."
            )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def store_errors(what: str, path: str | None = None) -> Iterator[None]:
    """Convert database errors into a one-line `StoreFailed`; for a damaged file, into `InvalidData` with its path."""
    try:
        yield
    except DBAPIError as error:
        detail = str(error.orig)
        if path is not None and ("not a database" in detail or "malformed" in detail):
            hint = "restore it from a copy; the file is left as it is."
            raise InvalidData(f"{what}: {detail} ({path})", hint=hint) from error
        kind = StoreUnavailable if _is_transient(error) else StoreFailed
        raise kind(f"{what}: {_describe(error)}") from error


def _is_transient(error: DBAPIError) -> bool:
    """Whether the database was unreachable or locked, so that a retry may succeed."""
    if isinstance(error.orig, sqlite3.Error):
        return "locked" in str(error.orig)
    return error.connection_invalidated or (isinstance(error, OperationalError) and "No space" not in str(error.orig))


def _describe(error: DBAPIError) -> str:
    detail = " ".join(str(error.orig).split())
    if "disk is full" in detail or "disk I/O" in detail or "No space" in detail:
        return "the disk is full or fails. Nothing that was saved is lost: make room and try again."
    if "readonly" in detail or "unable to open" in detail:
        return f"its folder cannot be written ({detail}). Make it writable, or copy the project."
    if "locked" in detail:
        return "another program has locked the database. Stop that program, or try again."
    if _is_transient(error):
        return f"the database cannot be reached ({detail[:200]}). Start it and try again."
    return detail[:300]


# Schema and migrations.

VERSION = 4
"""Schema version; version 1 had no `seconds` column, version 2 no `new_label`, version 3 no estimated accuracy. See
`MIGRATIONS`."""

metadata = MetaData()
facts = Table(
    "dubito_facts", metadata, Column("name", String(100), primary_key=True), Column("value", Text, nullable=False)
)
"""Key-value pairs: the ``schema`` version, the ``project`` id, and the current restriction of the items."""
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
    Column("new_label", String(200)),
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
    Column("estimated", Float(53)),
    Column("estimated_low", Float(53)),
    Column("estimated_high", Float(53)),
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
WITH RECURSIVE answers AS (
  SELECT e.number, e.item, e.annotator, e.kind, e.label, e.round, e.at FROM dubito_events e
  WHERE e.kind IN ('label', 'skip')
    AND NOT EXISTS (SELECT 1 FROM dubito_events u WHERE u.kind = 'undo' AND u.target = e.number)
    AND NOT EXISTS (
      SELECT 1 FROM dubito_events l
      WHERE l.kind IN ('label', 'skip') AND l.item = e.item AND l.annotator = e.annotator AND l.number > e.number
        AND NOT EXISTS (SELECT 1 FROM dubito_events v WHERE v.kind = 'undo' AND v.target = l.number))
), changes AS (
  SELECT c.number, c.label, c.new_label, u.number AS undone FROM dubito_events c
  LEFT JOIN dubito_events u ON u.kind = 'undo' AND u.target = c.number
  WHERE c.kind IN ('rename', 'merge', 'remove')
), named(number, label, since) AS (
  SELECT number, label, number FROM answers
  UNION ALL
  SELECT n.number, CASE WHEN c.undone IS NULL THEN c.new_label ELSE n.label END, COALESCE(c.undone, c.number)
  FROM named n JOIN changes c ON c.label = n.label AND c.number > n.since
    AND NOT EXISTS (SELECT 1 FROM changes d WHERE d.label = n.label AND d.number > n.since AND d.number < c.number)
)
SELECT a.item, a.annotator, n.label, a.round, a.at, a.number FROM answers a JOIN named n ON n.number = a.number
WHERE (n.label IS NOT NULL OR a.kind = 'skip')
  AND NOT EXISTS (SELECT 1 FROM changes c WHERE c.label = n.label AND c.number > n.since)
"""
"""The current answer of each annotator on each item, with the current name of its class; a NULL label is a skip."""


def has_store(connection: Connection) -> bool:
    """Whether the database has the tables of a store."""
    return inspect(connection).has_table(facts.name)


def prepare(connection: Connection, project: str, *, is_new_allowed: bool = True) -> None:
    """Create the tables or migrate older ones; raise `InvalidData` for a store of another project or a newer dubito."""
    if not has_store(connection):
        if not is_new_allowed:
            problem = "the store is empty, though it had labels before"
            raise InvalidData(problem, hint="restore the database from a copy, then start the server again.")
        metadata.create_all(connection)
        connection.execute(text(ANSWERS))
        known = [{"name": "schema", "value": str(VERSION)}, {"name": "project", "value": project}]
        connection.execute(insert(facts), known)
        return
    check_owner(connection, project)
    version = int(connection.execute(select(facts.c.value).where(facts.c.name == "schema")).scalar_one())
    if version > VERSION:
        problem = f"the store has schema {version}, and this dubito knows {VERSION}"
        raise InvalidData(problem, hint="open it with the dubito that wrote it, or a newer one.")
    for statement in [each for step in range(version, VERSION) for each in MIGRATIONS[step]]:
        connection.execute(text(statement))
    if version < VERSION:
        connection.execute(update(facts).where(facts.c.name == "schema").values(value=str(VERSION)))


def check_owner(connection: Connection, ident: str | None) -> None:
    """Raise `InvalidData` if the database has a store that belongs to another project."""
    if not has_store(connection):
        return
    if connection.execute(select(facts.c.value).where(facts.c.name == "project")).scalar() != ident:
        raise InvalidData("the store belongs to another project", hint="pass another database with --store.")


MIGRATIONS: Mapping[int, Sequence[str]] = {
    1: ("ALTER TABLE dubito_events ADD COLUMN seconds DOUBLE PRECISION",),
    2: (
        "DROP VIEW IF EXISTS dubito_answers",
        "ALTER TABLE dubito_events ADD COLUMN new_label VARCHAR(200)",
        ANSWERS,
    ),
    3: tuple(
        f"ALTER TABLE dubito_rounds ADD COLUMN {name} DOUBLE PRECISION"
        for name in ("estimated", "estimated_low", "estimated_high")
    ),
}
"""By schema version, the statements that migrate a store to the next version."""
