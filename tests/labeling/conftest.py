"""Where labels are kept: in SQLite here; `tests/postgres` runs the same tests with the address of a real PostgreSQL."""

import pytest


@pytest.fixture
def store() -> str | None:
    return None
