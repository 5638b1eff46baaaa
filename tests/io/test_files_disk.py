"""Locks that a file's neighbor carries, and file systems without them."""

import errno
import fcntl
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import dubito
from dubito.errors import DubitoError, InvalidArgument, MissingFile
from dubito.io import append_picks, read_picks, save_selection
from dubito.io.durable import file_lock, is_same_file, locked

PATIENCE = 600.0
"""Seconds that a test waits for what must happen."""


def picked(*rows: int) -> dubito.Selection:
    return dubito.select(np.eye(9), len(rows), strategy="random", candidates=rows)


def test_a_file_that_is_gone_from_the_folder_is_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with path.open("w") as file:
        assert is_same_file(file.fileno(), path)
        path.unlink()
        assert not is_same_file(file.fileno(), path)


def test_a_held_file_is_waited_for_and_that_is_reported_once(tmp_path: Path) -> None:
    path, described, ours = str(tmp_path / "picks.csv"), threading.Event(), threading.Event()

    def wait() -> None:
        with file_lock(path, waiting=described.set):
            ours.set()

    with file_lock(path):
        waiter = threading.Thread(target=wait)
        waiter.start()
        assert described.wait(PATIENCE)
        assert not ours.is_set()
    assert ours.wait(PATIENCE)
    waiter.join(PATIENCE)
    assert os.listdir(tmp_path) == []


def test_many_who_add_at_once_lose_no_round(tmp_path: Path) -> None:
    path = str(tmp_path / "picks.csv")
    adders = [threading.Thread(target=append_picks, args=(picked(row), path)) for row in range(9)]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join(PATIENCE)
    assert sorted(read_picks(path)) == list(range(9))
    ranks = [line.split(",")[0] for line in Path(path).read_text().splitlines()]
    assert ranks == ["rank", *map(str, range(1, 10))]
    assert os.listdir(tmp_path) == ["picks.csv"]


def test_the_same_round_added_by_two_is_there_once(tmp_path: Path) -> None:
    path, refused = str(tmp_path / "picks.csv"), []

    def add() -> None:
        try:
            append_picks(picked(3, 5), path)
        except InvalidArgument as error:
            refused.append(str(error))

    adders = [threading.Thread(target=add) for _ in range(4)]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join(PATIENCE)
    assert sorted(read_picks(path)) == [3, 5]
    assert len(refused) == 3


def test_a_file_system_without_locks_is_refused_where_they_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    path = tmp_path / "picks.csv"
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(
        DubitoError, match=r"picks\.csv cannot be locked, .*: no locks available\. Choose a folder on a"
    ):
        append_picks(picked(3), str(path))
    with pytest.raises(DubitoError, match=r"journal cannot be locked"), locked(tmp_path / "journal"):
        pass
    assert not path.exists()
    save_selection(picked(3), str(path))
    assert read_picks(str(path)).tolist() == [3]


def test_what_else_a_lock_says_is_not_taken_for_a_lack_of_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: int, operation: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(DubitoError, match=r"picks\.csv cannot be written: input/output error\."):
        save_selection(picked(3), str(tmp_path / "picks.csv"))


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"picks.csv cannot be written: its folder does not exist"):
        append_picks(picked(3), str(tmp_path / "none" / "picks.csv"))
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match=r"picks.csv cannot be written: not a directory; choose another path"):
        append_picks(picked(3), str(tmp_path / "file" / "picks.csv"))
