"""The tests of the store and of its failures, in PostgreSQL; and what only a server of its own can do: go away."""

import itertools
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, make_url, text

from dubito.labeling.database import LOCK, POSTGRES, SESSION, StoreUnavailable, open_engine
from dubito.labeling.service import AnswerIn, LabelingService
from dubito.labeling.state import read_state
from labeling import test_classes, test_faults, test_store
from labeling.projects import make_project, truth, wait_until
from postgres.cluster import Cluster

for module in (test_store, test_faults, test_classes):
    names = ("test_", "labeled_", "service")
    globals().update({name: each for name, each in vars(module).items() if name.startswith(names)})


def writer_process(store: str) -> int:
    """The PostgreSQL process that serves the writer."""
    with open_engine("", store, read_only=True).connect() as connection:
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        found = connection.execute(text(query)).scalar()
    assert isinstance(found, int)
    return found


def label_until(service: LabelingService, stop: threading.Event, acknowledged: list[str]) -> None:
    """Label row after row, each until it is acknowledged."""
    for number in itertools.count():
        answer = AnswerIn(f"key-{number}", "ann", number % len(service.state.contents), truth(number))
        while True:
            if stop.wait(0.005):
                return
            with suppress(StoreUnavailable):
                service.answer([answer]).result(timeout=60)
                acknowledged.append(answer.key)
                break


@pytest.mark.parametrize("outage", ["restart", "terminate", "no connection left"])
def test_labels_survive_an_outage_of_the_database(tmp_path: Path, store: str, server: Cluster, outage: str) -> None:
    service = LabelingService(*make_project(tmp_path, batch=5000, store=store))
    service.start()
    acknowledged, stop = list[str](), threading.Event()
    person = threading.Thread(target=label_until, args=(service, stop, acknowledged))
    person.start()
    try:
        for _ in range(2):
            goal = len(acknowledged) + 20
            wait_until(lambda goal=goal: len(acknowledged) >= goal)  # type: ignore[misc]
            cause_outage(server, outage)
    finally:
        goal = len(acknowledged) + 20
        wait_until(lambda: len(acknowledged) >= goal and not service.failures())
        stop.set()
        person.join()
    wait_until(lambda: service.state.round >= 1)
    events = list(service.state.label_table.events.values())
    service.close()
    keys = [event.key for event in events]
    assert len(set(keys)) == len(keys)
    assert set(keys) >= set(acknowledged)
    again = LabelingService(service.state.project, service.state.contents)
    assert list(again.state.label_table.events.values()) == events
    again.close()


def cause_outage(server: Cluster, outage: str) -> None:
    if outage != "no connection left":
        (server.restart if outage == "restart" else server.end_connections)()
        return
    engine = create_engine(server.url, isolation_level="AUTOCOMMIT")
    terminate = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    with engine.connect() as connection:
        for name in connection.execute(text("SELECT datname FROM pg_database WHERE datname LIKE 'labels%'")):
            connection.execute(text(f"ALTER DATABASE {name[0]} CONNECTION LIMIT 0"))
        connection.execute(terminate)
        connection.execute(text("SELECT pg_sleep(1)"))
        for name in connection.execute(text("SELECT datname FROM pg_database WHERE datname LIKE 'labels%'")):
            connection.execute(text(f"ALTER DATABASE {name[0]} CONNECTION LIMIT -1"))
    engine.dispose()


def test_a_connection_gives_up_soon_on_a_server_that_is_gone_unless_the_address_says_otherwise(store: str) -> None:
    usual = predictors(open_engine("", store))
    assert {name: usual[name] for name in POSTGRES} == {name: str(value) for name, value in POSTGRES.items()}
    assert (usual["target_session_attrs"], usual["statement_timeout"], usual["lock_timeout"]) == (
        "read-write",
        "30s",
        "10s",
    )
    chosen = f"{store}&keepalives_idle=60&target_session_attrs=any&options=-c%20statement_timeout%3D60s"
    other = predictors(open_engine("", chosen))
    assert (other["keepalives_idle"], other["statement_timeout"], other["lock_timeout"]) == ("60", "1min", "10s")
    assert "target_session_attrs" not in other  # Any, which is the default of libpq.
    assert "target_session_attrs" not in predictors(open_engine("", store, read_only=True))


def predictors(engine: Engine) -> dict[str, str]:
    """What a connection has been asked for, and some settings of its session."""
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        shown = {name: str(connection.execute(text(f"SHOW {name}")).scalar()) for name in SESSION}
        return {**driver.info.get_parameters(), **shown}


def test_a_server_that_takes_what_is_sent_and_never_answers_is_given_up(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = LabelingService(*make_project(tmp_path, store=store))
    service.answer([AnswerIn("a", "ann", 0, truth(0))]).result(timeout=60)
    process = writer_process(store)
    monkeypatch.setattr("dubito.labeling.database.RESPONSE_SECONDS", 0.3)
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            service.answer([AnswerIn("b", "ann", 1, truth(1))]).result(timeout=120)
        assert service.state.label_table.labels == {0: truth(0)}
        wait_until(lambda: "another labeling server has this store open" in service.failures().get("store", ""))
    finally:
        os.kill(process, signal.SIGCONT)
    monkeypatch.undo()
    wait_until(lambda: not service.failures())
    service.answer([AnswerIn("b", "ann", 1, truth(1))]).result(timeout=60)
    assert service.state.label_table.labels == {0: truth(0), 1: truth(1)}
    service.close()


def test_a_database_that_can_only_be_read_is_refused_to_a_server_and_read_by_others(
    tmp_path: Path, store: str, server: Cluster
) -> None:
    service = LabelingService(*make_project(tmp_path, store=store))
    service.answer([AnswerIn("a", "ann", 0, truth(0))]).result(timeout=60)
    service.close()
    engine = create_engine(server.url, isolation_level="AUTOCOMMIT")
    name = make_url(store).database
    with engine.connect() as connection:
        connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
    engine.dispose()
    with pytest.raises(StoreUnavailable, match="read-only"):
        LabelingService(service.state.project, service.state.contents)
    assert read_state(service.state.project.folder).label_table.labels == {0: truth(0)}


def test_after_an_outage_the_store_is_not_written_while_another_server_has_it(tmp_path: Path, store: str) -> None:
    service = LabelingService(*make_project(tmp_path, store=store))
    service.answer([AnswerIn("a", "ann", 0, truth(0))]).result(timeout=60)
    other = create_engine(store)
    with other.connect() as connection:
        connection.execute(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"))
        wait_until(lambda: bool(connection.execute(text(f"SELECT pg_try_advisory_lock({LOCK})")).scalar()))
        connection.commit()
        for _ in range(5):
            with pytest.raises(StoreUnavailable):
                service.answer([AnswerIn("b", "ann", 1, truth(1))]).result(timeout=60)
        wait_until(lambda: "another labeling server has this store open" in service.failures().get("store", ""))
    other.dispose()
    wait_until(lambda: not service.failures())
    service.answer([AnswerIn("b", "ann", 1, truth(1))]).result(timeout=60)
    service.close()


def test_nobody_who_reads_waits_while_the_database_does_not_answer(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dubito.labeling.store.SLOW_SECONDS", 0.0)
    service = LabelingService(*make_project(tmp_path, store=store))
    with open_engine("", store).begin() as other:
        other.execute(text("LOCK TABLE dubito_events IN EXCLUSIVE MODE"))
        waiting = service.answer([AnswerIn("a", "ann", 0, truth(0))])
        wait_until(lambda: "has not answered" in service.failures().get("store", ""))
        assert service.state.lock.acquire(blocking=False)
        service.state.lock.release()
        assert not waiting.done()
    assert waiting.result(timeout=60)[0].is_new
    assert not service.failures()
    service.close()
