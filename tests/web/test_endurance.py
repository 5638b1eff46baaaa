"""The short forms of what ``make labelling`` does at length: kills, a crowd, and requests that are made up."""

import os
import signal
from http.client import HTTPConnection
from pathlib import Path

import pytest

from dubito.cli import main
from endurance.crowd import gather
from endurance.kills import kill_again_and_again
from endurance.servers import Client, Server, children_of, is_alive, serving
from labelling.projects import copy_played, make_project, wait_until


@pytest.mark.parametrize(("n_kills", "n_people"), [(1, 3), pytest.param(4, 8, marks=pytest.mark.slow)])
def test_no_acknowledged_label_is_lost_or_doubled_when_the_server_is_killed(
    tmp_path: Path, n_kills: int, n_people: int
) -> None:
    project, _ = make_project(tmp_path, n_rows=1000 * n_kills)
    found = kill_again_and_again(Path(project.folder), n_kills, n_people=n_people)
    assert found["acknowledged"] >= 10 * (n_kills + 1)
    faults = {name: found[name] for name in ("lost", "changed", "doubled", "gaps", "odd", "integrity")}
    assert faults == {"lost": 0, "changed": 0, "doubled": 0, "gaps": 0, "odd": [], "integrity": "ok"}


@pytest.mark.parametrize("overlap", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_crowd_labels_everything_and_nobody_more_than_the_overlap(tmp_path: Path, overlap: int) -> None:
    project, _ = make_project(tmp_path, n_rows=60, overlap=overlap)
    found = gather(Path(project.folder), n_people=4, overlap=overlap)
    assert found["odd"] == []
    assert not found["is_locked"]
    assert found["beyond_overlap"] == 0
    assert (found["labelled"], found["labels"]) == (60, 60 * overlap)


@pytest.mark.slow
def test_requests_that_are_made_up_neither_break_it_nor_pass_without_the_token(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")  # Only make test-all installs it.
    from endurance.fuzzing import fuzz

    project, _ = copy_played(tmp_path)
    with serving(Path(project.folder)) as server:
        found = fuzz(server, 200)
        assert found["broken"] == []
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


def test_ctrl_c_with_a_page_open_ends_the_server_without_a_traceback(tmp_path: Path) -> None:
    project, _ = copy_played(tmp_path)
    with serving(Path(project.folder)) as server:
        connections = [HTTPConnection(server.host, server.port, timeout=60) for _ in range(3)]
        for connection in connections:
            connection.request("GET", "/api/events", headers={"Authorization": f"Bearer {server.token}"})
            assert connection.getresponse().readline() == b"event: ping\n"
        said = server.stop()
        for connection in connections:
            connection.close()
    assert server.process.returncode == 0
    assert "Traceback" not in said
    assert "Cancel" not in said
    assert said.splitlines()[-1].startswith("dubito: stopped")
