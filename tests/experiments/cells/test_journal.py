"""A journal survives a kill at any byte, several writers, and a full disk."""

import errno
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dubito.errors import InvalidData
from dubito.experiments.cells import journal as journal_module
from dubito.experiments.cells.journal import Journal, JournalReader
from dubito.files.disk import DiskFull

RECORDS = [{"kind": "round", "turn": turn, "picked": list(range(turn))} for turn in range(4)]


def filled(folder: Path) -> Journal:
    journal = Journal(folder / "journal.jsonl")
    for record in RECORDS:
        journal.append(record)
    return journal


def test_records_come_back_in_the_order_they_were_added(tmp_path: Path) -> None:
    assert filled(tmp_path).read() == RECORDS
    assert Journal(tmp_path / "none.jsonl").read() == []


def test_a_last_line_torn_at_any_byte_is_passed_over_and_cut_off(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    whole = journal.path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    for end in range(start, len(whole)):
        journal.path.write_bytes(whole[:end])
        assert journal.read() == RECORDS[:3]
        journal.append({"turn": 9})
        assert journal.read() == [*RECORDS[:3], {"turn": 9}]


def test_a_first_line_torn_at_any_byte_leaves_an_empty_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for end in range(len('{"turn": 1}')):
        journal.path.write_bytes(b'{"turn": 1}'[:end])
        assert journal.read() == []
        journal.append({"turn": 2})
        assert journal.read() == [{"turn": 2}]


@pytest.mark.parametrize("garbage", [b"\0\0\0\0\n", b"{not json}\n", b"3\n", b"\xff\xfe\n"])
def test_a_whole_last_line_that_is_no_record_is_cut_off_too(tmp_path: Path, garbage: bytes) -> None:
    journal = filled(tmp_path)
    with journal.path.open("ab") as file:
        file.write(garbage)
    assert journal.read() == RECORDS
    journal.append({"turn": 9})
    assert journal.read() == [*RECORDS, {"turn": 9}]


def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    lines = journal.path.read_bytes().splitlines(keepends=True)
    journal.path.write_bytes(b"".join([lines[0], b"{damaged}\n", *lines[2:]]))
    with pytest.raises(InvalidData, match=r"line 2 of .*journal\.jsonl is no record"):
        journal.read()


def test_lines_longer_than_one_look_at_the_end_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "TAIL_BYTES", 4)
    assert filled(tmp_path).read() == RECORDS


def test_a_reader_sees_only_what_is_new(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    reader = JournalReader(journal.path)
    assert len(list(reader.news())) == 4
    assert list(reader.news()) == []
    with journal.path.open("ab") as file:
        file.write(b'{"turn"')
    assert list(reader.news()) == []
    journal.append({"turn": 9})
    assert list(reader.news()) == [{"turn": 9}]


def add_many(path: Path, name: str) -> None:
    journal = Journal(path)
    for turn in range(50):
        journal.append({"name": name, "turn": turn, "filling": "x" * 200})


def test_several_processes_add_without_harming_each_other(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=add_many, args=(path, name)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    records = Journal(path).read()
    for name in "abc":
        assert [record["turn"] for record in records if record["name"] == name] == list(range(50))


FILLS_UP = """
import resource, signal, sys
from pathlib import Path
from dubito.experiments.cells.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
journal = Journal(Path(sys.argv[1]))
for turn in range(100):
    journal.append({"turn": turn, "filling": "x" * 90})
"""


def test_a_write_that_fails_midway_leaves_only_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    done = subprocess.run([sys.executable, "-c", FILLS_UP, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert path.read_bytes().endswith(b"\n")
    records = Journal(path).read()
    assert [record["turn"] for record in records] == list(range(len(records)))
    assert len(records) > 3


def test_a_full_disk_is_said_and_the_journal_stays_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = filled(tmp_path)
    before = journal.path.read_bytes()
    write = os.write

    def half(file: int, data: bytes) -> int:
        if len(data) < 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: len(data) // 2])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        with pytest.raises(DiskFull, match=r"no space left on device\. What was done is kept: make room"):
            journal.append({"turn": 9})
    assert journal.path.read_bytes() == before
    journal.append({"turn": 9})
    assert journal.read() == [*RECORDS, {"turn": 9}]


def test_what_has_no_number_in_json_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append({"loss": float("nan")})
    assert journal.read() == RECORDS


def test_a_record_is_a_line_that_anything_can_read(tmp_path: Path) -> None:
    lines = filled(tmp_path).path.read_text().splitlines()
    assert [json.loads(line) for line in lines] == RECORDS
