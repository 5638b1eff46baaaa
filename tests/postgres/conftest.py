"""Every test of the store again, in PostgreSQL; left out where it is not installed (see ``make postgres``)."""

from collections.abc import Iterator
from itertools import count

import pytest
from sqlalchemy import create_engine, text

from postgres.cluster import cluster, programs

collect_ignore_glob = [] if programs() else ["test_*.py"]
_numbers = count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with cluster(is_kept=False) as url:
        yield url


@pytest.fixture
def store(server: str) -> str:
    """A database that nobody has used."""
    name = f"labels{next(_numbers)}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return server.replace("/postgres?", f"/{name}?")
