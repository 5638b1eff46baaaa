"""The tests of the store and of its failures, in PostgreSQL; and what only a server of its own can do: go away."""

import itertools
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from dubito.labelling.database import LOCK, StoreUnavailable
from dubito.labelling.desk import Desk
from dubito.labelling.spoken import Spoken
from labelling import test_faults, test_store
from labelling.projects import make_project, truth, wait_until
from postgres.cluster import Cluster

for module in (test_store, test_faults):
    globals().update({name: each for name, each in vars(module).items() if name.startswith(("test_", "labelled_"))})


def label_until(desk: Desk, stop: threading.Event, acknowledged: list[str]) -> None:
    """Label row after row, each until it is acknowledged."""
    for number in itertools.count():
        answer = Spoken(f"key-{number}", "ann", number % len(desk.state.contents), truth(number))
        while True:
            if stop.wait(0.005):
                return
            with suppress(StoreUnavailable):
                desk.answer([answer]).result(timeout=60)
                acknowledged.append(answer.key)
                break


@pytest.mark.parametrize("outage", ["restart", "terminate", "no connection left"])
def test_labels_survive_an_outage_of_the_database(tmp_path: Path, store: str, server: Cluster, outage: str) -> None:
    desk = Desk(*make_project(tmp_path, batch=5000, store=store))
    desk.start()
    acknowledged, stop = list[str](), threading.Event()
    person = threading.Thread(target=label_until, args=(desk, stop, acknowledged))
    person.start()
    try:
        for _ in range(2):
            goal = len(acknowledged) + 20
            wait_until(lambda goal=goal: len(acknowledged) >= goal)  # type: ignore[misc]
            cause_outage(server, outage)
    finally:
        goal = len(acknowledged) + 20
        wait_until(lambda: len(acknowledged) >= goal and not desk.failures())
        stop.set()
        person.join()
    wait_until(lambda: desk.state.round >= 1)
    events = list(desk.state.book.events.values())
    desk.close()
    keys = [event.key for event in events]
    assert len(set(keys)) == len(keys)
    assert set(keys) >= set(acknowledged)
    again = Desk(desk.state.project, desk.state.contents)
    assert list(again.state.book.events.values()) == events
    again.close()


def cause_outage(server: Cluster, outage: str) -> None:
    if outage == "restart":
        server.restart()
        return
    engine = create_engine(server.url, isolation_level="AUTOCOMMIT")
    terminate = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    with engine.connect() as connection:
        if outage == "no connection left":
            for name in connection.execute(text("SELECT datname FROM pg_database WHERE datname LIKE 'labels%'")):
                connection.execute(text(f"ALTER DATABASE {name[0]} CONNECTION LIMIT 0"))
        connection.execute(terminate)
        if outage == "no connection left":
            connection.execute(text("SELECT pg_sleep(1)"))
            for name in connection.execute(text("SELECT datname FROM pg_database WHERE datname LIKE 'labels%'")):
                connection.execute(text(f"ALTER DATABASE {name[0]} CONNECTION LIMIT -1"))
    engine.dispose()


def test_after_an_outage_the_store_is_not_written_while_another_server_has_it(tmp_path: Path, store: str) -> None:
    desk = Desk(*make_project(tmp_path, store=store))
    desk.answer([Spoken("a", "ann", 0, truth(0))]).result(timeout=60)
    other = create_engine(store)
    with other.connect() as connection:
        connection.execute(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"))
        wait_until(lambda: bool(connection.execute(text(f"SELECT pg_try_advisory_lock({LOCK})")).scalar()))
        connection.commit()
        for _ in range(5):
            with pytest.raises(StoreUnavailable):
                desk.answer([Spoken("b", "ann", 1, truth(1))]).result(timeout=60)
        wait_until(lambda: "another dubito label has this store open" in desk.failures().get("store", ""))
    other.dispose()
    wait_until(lambda: not desk.failures())
    desk.answer([Spoken("b", "ann", 1, truth(1))]).result(timeout=60)
    desk.close()
