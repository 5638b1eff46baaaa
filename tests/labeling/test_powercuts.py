"""The short form of the power cuts of ``make faults-labeling``."""

import random
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from endurance.page import wrong_in
from endurance.powercuts import WAYS, Disk, cut_power
from endurance.recording import Change
from levels import examples


@cache
def has_strace() -> bool:
    """Whether strace is installed, and may watch a process here."""
    command = ["strace", "-f", "--seccomp-bpf", "-e", "trace=openat", "-o", "/dev/null", "true"]
    return shutil.which("strace") is not None and subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.slow
def test_what_was_acknowledged_is_there_after_a_power_cut_at_any_moment(tmp_path: Path) -> None:
    if not has_strace():
        pytest.skip("strace is not installed, or may not watch a process")
    n_labels, n_prefixes = examples(12), examples(10)
    found = cut_power(tmp_path / "work", n_labels=n_labels, n_prefixes=n_prefixes)
    assert found["examples"] == []
    assert wrong_in(found) == []
    assert found["cuts"] == n_prefixes * len(WAYS)
    assert found["syncs"] > 2 * n_labels


def test_a_cut_takes_what_was_not_synced(tmp_path: Path) -> None:
    disk = Disk("/d")
    for change in (
        Change("create", "/d/old"),
        Change("write", "/d/old", 0, b"old"),
        Change("sync", "/d/old"),
        Change("sync", "/d"),
        Change("create", "/d/new"),
        Change("write", "/d/new", 0, b"new"),
        Change("sync", "/d/new"),
        Change("rename", "/d/new", target="/d/old"),
        Change("write", "/d/old", 3, b"er"),
    ):
        disk.change(change)
    (tmp_path / "synced").mkdir()
    disk.write(tmp_path / "synced", "synced", random.Random())
    assert [path.read_bytes() for path in (tmp_path / "synced").iterdir()] == [b"old"]
    disk.change(Change("sync", "/d"))
    (tmp_path / "renamed").mkdir()
    disk.write(tmp_path / "renamed", "synced", random.Random())
    assert [path.read_bytes() for path in (tmp_path / "renamed").iterdir()] == [b"new"]
