"""The short forms of what ``make faults-labeling`` does at length: faults, a crowd, and requests that are made up."""

import os
import signal
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from dubito.cli import main
from endurance.crowd import gather
from endurance.fuzzing import fuzz, label_some, send_malformed
from endurance.outages import Entry, Person, Service, compare, endure, kill, lock_database
from endurance.page import wrong_in
from endurance.servers import Client, Server, children_of, is_alive, serving
from labeling.projects import copy_played, make_project, wait_until


@pytest.mark.slow
def test_no_acknowledged_label_is_lost_or_doubled_when_the_server_is_killed_or_the_database_locked(
    tmp_path: Path,
) -> None:
    project, _ = make_project(tmp_path, n_rows=400)
    found = endure(Service(Path(project.folder)), [kill, lock_database], n_people=3)
    assert wrong_in(found) == []
    assert found["faults"] == 2
    assert found["acknowledged"] >= 20


def test_what_was_lost_changed_doubled_or_not_asked_for_is_counted() -> None:
    person = Person(0, [0], None, 0.0)  # type: ignore[arg-type]
    person.acknowledged = {"a": (1, "label", 0, "left"), "b": (2, "label", 2, "right"), "c": (3, "label", 4, "left")}
    person.standing = [(0, "left"), (2, "right"), (4, "left")]
    log: list[Entry] = [(1, "a", "label", "person-0", 0, "left"), (2, "b", "label", "person-0", 2, "left")]
    found = compare([*log, log[0], (5, "d", "label", "person-0", 6, "left")], {0: "left", 2: "left"}, [person])
    assert found == {"lost": 1, "changed": 1, "doubled": 1, "gaps": 1, "unasked": 1, "wrong_items": 2}


@pytest.mark.parametrize("overlap", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_crowd_labels_everything_and_nobody_more_than_the_overlap(tmp_path: Path, overlap: int) -> None:
    project, _ = make_project(tmp_path, n_rows=60, overlap=overlap)
    found = gather(Path(project.folder), n_people=4, overlap=overlap)
    assert found["odd"] == []
    assert not found["is_locked"]
    assert found["beyond_overlap"] == 0
    assert (found["labeled"], found["labels"]) == (60, 60 * overlap)


@pytest.mark.slow
def test_malformed_requests_neither_break_it_nor_change_a_label_that_they_do_not_name(tmp_path: Path) -> None:
    project, _ = copy_played(tmp_path)
    with serving(Path(project.folder)) as server:
        label_some(server, 30)
        found = send_malformed(server, Path(project.folder), 300)
        assert wrong_in(found) == []
        assert found["events"] > 5


@pytest.mark.slow
def test_requests_that_are_made_up_neither_break_it_nor_pass_without_the_token(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")  # Only make test-all installs it.
    project, _ = copy_played(tmp_path)
    with serving(Path(project.folder)) as server:
        label_some(server, 30)
        found = fuzz(server, Path(project.folder), 200)
        assert wrong_in(found) == []
        assert found["requests"] > 100


def test_the_worker_ends_with_the_server_and_begins_again_when_it_is_killed(tmp_path: Path) -> None:
    project, _ = make_project(tmp_path)
    server = Server(Path(project.folder))
    wait_until(lambda: bool(children_of(server.process.pid)))
    (worker,) = children_of(server.process.pid)
    client = Client(server)
    wait_until(lambda: client.ask("GET", "/api/project")[1]["round"] == 1)
    os.kill(worker, signal.SIGKILL)
    assert client.ask("POST", "/api/round")[0] == 202
    wait_until(lambda: client.ask("GET", "/api/project")[1]["round"] == 2)
    (worker,) = children_of(server.process.pid)
    client.close()
    server.kill()
    wait_until(lambda: not is_alive(worker))


def test_a_second_server_on_one_project_is_refused_and_the_token_is_in_no_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, _ = copy_played(tmp_path)
    server = Server(Path(project.folder))
    assert main(["label", str(project.folder), "--no-browser", "--port", "0"]) == 2
    refused = capsys.readouterr().err
    assert f"has {project.folder} open, at http://127.0.0.1:{server.port}/" in refused
    assert server.token not in refused
    with Client(server) as client:
        client.ask("GET", f"/?token={server.token}")
        client.ask("GET", "/?token=wrong-one")
    said = server.stop()
    assert server.token not in said
    assert "wrong-one" not in said
    assert "stopped;" in said


@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_ctrl_c_with_a_page_open_ends_the_server_without_a_traceback(tmp_path: Path, times: int) -> None:
    project, _ = copy_played(tmp_path)
    with serving(Path(project.folder)) as server:
        connections = [HTTPConnection(server.host, server.port, timeout=60) for _ in range(3)]
        for connection in connections:
            connection.request("GET", "/api/events", headers={"Authorization": f"Bearer {server.token}"})
            assert connection.getresponse().readline() == b"event: ping\n"
        for _ in range(times - 1):
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.02)  # Two of one kind at once arrive as one.
        said = server.stop()
        for connection in connections:
            connection.close()
    assert server.process.returncode == 0
    assert "Traceback" not in said
    assert "Cancel" not in said
    assert said.splitlines()[-1].startswith("dubito: stopped")
