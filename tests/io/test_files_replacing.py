"""Files that are there whole or not at all, made by one alone, and nothing left behind by those that were killed."""

import errno
import fcntl
import os
import stat
import threading
import time
from pathlib import Path

import pytest

from dubito.errors import DubitoError, InvalidArgument, OutputExists
from dubito.io.durable import SECONDS_KEPT, write_atomically

LONG_AGO = 2 * SECONDS_KEPT
PATIENCE = 600.0
"""Seconds that a test waits for what must happen."""


def left_behind(folder: Path, name: str, age: float) -> Path:
    """A temporary file as a killed process leaves it."""
    path = folder / name
    path.write_bytes(b"half")
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def test_what_a_killed_process_left_goes_with_the_next_write_to_that_name(tmp_path: Path) -> None:
    left_behind(tmp_path, ".picks.csv.0123abcd.tmp", LONG_AGO)
    left_behind(tmp_path, ".picks.csv.89abcdef.tmp", LONG_AGO)
    write_atomically(str(tmp_path / "picks.csv"), b"whole")
    assert os.listdir(tmp_path) == ["picks.csv"]


def test_what_is_new_held_or_of_another_name_stays(tmp_path: Path) -> None:
    kept = [
        left_behind(tmp_path, ".picks.csv.0123abcd.tmp", SECONDS_KEPT / 10),
        left_behind(tmp_path, ".other.csv.0123abcd.tmp", LONG_AGO),
        left_behind(tmp_path, ".picks.csv.mine.tmp", LONG_AGO),
        left_behind(tmp_path, "picks.csv.0123abcd.tmp", LONG_AGO),
        left_behind(tmp_path, ".picks.csv.89abcdef.tmp", LONG_AGO),
    ]
    with kept[-1].open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_atomically(str(tmp_path / "picks.csv"), b"whole")
    assert sorted(tmp_path.iterdir()) == sorted([*kept, tmp_path / "picks.csv"])


def test_a_link_that_looks_like_ours_is_left_alone(tmp_path: Path) -> None:
    precious = left_behind(tmp_path, "precious", LONG_AGO)
    (tmp_path / ".picks.csv.0123abcd.tmp").symlink_to(precious)
    write_atomically(str(tmp_path / "picks.csv"), b"whole")
    assert precious.exists()


@pytest.mark.parametrize("has_links", [True, False])
def test_of_many_who_make_a_new_file_at_once_one_does(
    has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    path, made, refused = tmp_path / "picks.csv", [], []

    def make(content: bytes) -> None:
        try:
            write_atomically(str(path), content, new=True)
            made.append(content)
        except OutputExists as error:
            refused.append(str(error))

    makers = [threading.Thread(target=make, args=(b"%d" % number,)) for number in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(PATIENCE)
    assert made == [path.read_bytes()]
    assert set(refused) == {f"{path} exists; pass force=True to replace it, or another path."}
    assert len(refused) == 7
    assert os.listdir(tmp_path) == ["picks.csv"]


def test_a_folder_in_the_way_of_a_new_file_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "picks.csv").mkdir()
    with pytest.raises(InvalidArgument, match="is a directory"):
        write_atomically(str(tmp_path / "picks.csv"), b"x", new=True)


def test_another_failure_to_link_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(DubitoError, match=r"picks.csv cannot be written: input/output error\."):
        write_atomically(str(tmp_path / "picks.csv"), b"x", new=True)
    assert os.listdir(tmp_path) == []


def test_the_folder_is_synced_after_the_file_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[bool, bool]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), (tmp_path / "kept").exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(str(tmp_path / "kept"), b"whole")
    assert synced == [(False, False), (True, True)]
