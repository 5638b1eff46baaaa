"""Every test of the store again, in PostgreSQL; left out where it is not installed (see ``make postgres``)."""

from collections.abc import Iterator
from itertools import count

import pytest
from sqlalchemy import create_engine, text

from postgres.cluster import Cluster, programs

collect_ignore_glob = [] if programs() else ["test_*.py"]
_numbers = count()


@pytest.fixture(scope="session")
def server() -> Iterator[Cluster]:
    place = programs()
    assert place is not None
    made = Cluster(place, is_durable=False)
    yield made
    made.remove()


@pytest.fixture
def store(server: Cluster) -> str:
    """A database that nobody has used."""
    name = f"labels{next(_numbers)}"
    engine = create_engine(server.url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return server.url.replace("/postgres?", f"/{name}?")
