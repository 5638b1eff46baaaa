"""Disks that are full, folders that cannot be written, stores that are damaged: a plain line, and nothing is lost."""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dubito.cli import main
from dubito.labeling.creation import open_project
from dubito.labeling.service import AnswerIn, LabelingService
from endurance.servers import Client, Server
from labeling.projects import copy_played, make_project, truth, wait_until
from web.clients import client_of


def post(client: Client, row: int, key: str | None = None) -> tuple[int, Any]:
    body = {
        "key": key or secrets.token_hex(8),
        "annotator": "ann",
        "row": row,
        "class": truth(row),
        "guess_seen": False,
    }
    return client.ask("POST", "/api/labels", body)


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="util-linux has prlimit")
def test_a_full_disk_is_reported_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    project, _ = make_project(tmp_path, n_rows=400, batch=1000)
    server = Server(Path(project.folder))
    limit = ["prlimit", "--pid", str(server.process.pid)]
    with Client(server) as client:
        wait_until(lambda: client.ask("GET", "/api/project")[1]["round"] == 1)
        size = (Path(project.folder) / "labels.sqlite-wal").stat().st_size
        subprocess.run([*limit, f"--fsize={size + 60_000}:"], check=True)
        kept, status = 0, 201
        described: Any = None
        while status == 201:
            status, described = post(client, kept, f"key-{kept}")
            kept += status == 201
        assert status == 507
        assert "disk is full" in described["error"]
        assert "\n" not in described["error"]
        assert client.ask("GET", "/api/project")[1]["labeled"] == kept
        assert client.ask("POST", "/api/classes", {"name": "new"})[0] in (201, 507)
        subprocess.run([*limit, "--fsize=unlimited:"], check=True)
        assert post(client, kept, f"key-{kept}")[0] == 201
    server.kill()
    again = LabelingService(*open_project(project.folder))
    assert again.state.label_table.labels == {row: truth(row) for row in range(kept + 1)}
    again.close()


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@cache
def has_nobody() -> bool:
    """Whether nobody may run this Python."""
    import_it = [*NOBODY, sys.executable, "-c", "import dubito"]
    return shutil.which("setpriv") is not None and subprocess.run(import_it, check=False).returncode == 0


def as_nobody(command: list[str]) -> list[str]:
    """The command as somebody who may write next to nothing: for root no file is read-only."""
    if os.geteuid() != 0:
        return command
    if not has_nobody():
        pytest.skip("nobody else may run this Python here")
    return [*NOBODY, *command]


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A folder that others may read. Each start of pytest takes that right from the parents of `tmp_path`."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_project_that_cannot_be_written_is_refused_in_a_line(public_path: Path) -> None:
    project, _ = make_project(public_path)
    LabelingService(*open_project(project.folder)).close()
    folder = Path(project.folder)
    for place in (folder, *folder.iterdir()):
        place.chmod(0o555 if place.is_dir() else 0o444)
    command = [sys.executable, "-m", "dubito", "label", str(folder), "--no-browser", "--port", "0"]
    ran = subprocess.run(as_nobody(command), capture_output=True, text=True, timeout=120, check=False, cwd=public_path)
    assert ran.returncode in (1, 2)
    assert "cannot be written" in ran.stderr
    assert [line.split()[1] for line in ran.stderr.splitlines()] == ["opening", "error:"]


def test_a_store_that_is_no_database_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project, _ = make_project(tmp_path)
    (Path(project.folder) / "labels.sqlite").write_bytes(b"not a database at all" * 100)
    assert main(["label", project.folder, "--no-browser", "--port", "0"]) in (1, 2, 3)
    assert "the labels cannot be opened: file is not a database" in capsys.readouterr().err


def test_a_round_that_is_damaged_is_made_again(tmp_path: Path) -> None:
    project, _ = copy_played(tmp_path)
    (Path(project.folder) / "round-1.npz").write_bytes(b"PK broken")
    again = LabelingService(*open_project(project.folder))
    assert again.state.model is None
    again.start()
    again.loop.request_round()
    wait_until(lambda: again.state.round == 2)
    again.close()


def test_the_source_may_move_and_only_its_pictures_are_missed(tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "photos").mkdir()
    for number in range(4):
        Image.new("L", (8, 8), 60 * number).save(tmp_path / "photos" / f"{number}.png")
    open_project(str(tmp_path / "photos"), classes=["a", "b"])
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    with client_of(LabelingService(*open_project(str(tmp_path / "photos.dubito")))) as client:
        answer = client.get("/api/items/0/picture")
        assert answer.status_code == 404
        assert "cannot be opened" in answer.json()["error"]
        assert client.get("/api/project").json()["items"] == 4


@pytest.mark.slow
def test_the_status_of_a_project_that_cannot_be_written_is_reported(public_path: Path) -> None:
    service = LabelingService(*make_project(public_path))
    service.answer([AnswerIn(f"k{row}", "ann", row, truth(row)) for row in range(20)]).result()
    service.close()
    folder = Path(service.state.project.folder)
    (public_path / "rows.npz").chmod(0o444)
    for place in (folder, *folder.iterdir()):
        place.chmod(0o555 if place.is_dir() else 0o444)
    command = [sys.executable, "-m", "dubito", "status", str(folder), "--json"]
    ran = subprocess.run(as_nobody(command), capture_output=True, text=True, timeout=120, check=False, cwd=public_path)
    assert ran.returncode == 0, ran.stderr
    assert '"labels": 20' in ran.stdout
