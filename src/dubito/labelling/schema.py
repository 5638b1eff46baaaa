"""The tables of a store, and how an older one becomes this one."""

from collections.abc import Callable, Mapping

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    insert,
    inspect,
    select,
    text,
    update,
)

from dubito.errors import InvalidData

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
            raise InvalidData(problem, mend="restore the database from a copy, then start the server again.")
        metadata.create_all(connection)
        connection.execute(text(ANSWERS))
        known = [{"name": "schema", "value": str(VERSION)}, {"name": "project", "value": project}]
        connection.execute(insert(facts), known)
        return
    found = {str(row[0]): str(row[1]) for row in connection.execute(select(facts.c.name, facts.c.value))}
    if found.get("project") != project:
        raise InvalidData("the store is of another project", mend="name another database with --store.")
    _migrate(connection, int(found["schema"]))


def refuse_taken(connection: Connection, ident: str | None) -> None:
    """Refuse a store of another project than this one."""
    if not inspect(connection).has_table(facts.name):
        return
    if connection.execute(select(facts.c.value).where(facts.c.name == "project")).scalar() != ident:
        raise InvalidData("the store is of another project", mend="name another database with --store.")


def _migrate(connection: Connection, version: int) -> None:
    if version > VERSION:
        problem = f"the store has schema {version}, and this dubito knows {VERSION}"
        raise InvalidData(problem, mend="open it with the dubito that wrote it, or a newer one.")
    for step in range(version, VERSION):
        MIGRATIONS[step](connection)
    if version < VERSION:
        connection.execute(update(facts).where(facts.c.name == "schema").values(value=str(VERSION)))


def _add_seconds(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE dubito_events ADD COLUMN seconds DOUBLE PRECISION"))


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {1: _add_seconds}
"""From each version to the next."""
