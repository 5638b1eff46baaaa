"""A journal survives a kill at any byte, several writers, and a full disk."""

import errno
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import cast

import pytest

from dubito.errors import InvalidData
from dubito.experiments import journal as journal_module
from dubito.experiments.journal import Journal, JournalReader, Record, parse_line
from dubito.io import write_atomically
from dubito.io.durable import DiskFull, locked
from levels import examples

RECORDS: list[Record] = [{"kind": "round", "turn": turn, "picked": list(range(turn))} for turn in range(4)]
PATIENCE = 600.0
"""Seconds that a test waits for a process, on a machine that may be busy with other work."""


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


@pytest.mark.parametrize("zeros", [b"\0\0\0\0\n", b'\0\0\0\0, "picked": []}\n'])
def test_a_last_line_that_a_cut_of_power_filled_with_zeros_is_cut_off_too(tmp_path: Path, zeros: bytes) -> None:
    journal = filled(tmp_path)
    with journal.path.open("ab") as file:
        file.write(zeros)
    assert journal.read() == RECORDS
    journal.append({"turn": 9})
    assert journal.read() == [*RECORDS, {"turn": 9}]


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize("damage", [b"{not json}\n", b"3\n", b"\xff\xfe\n", b"\n", b"[" * 100_000 + b"\n"])
def test_a_whole_line_that_is_no_record_is_an_error_that_names_it(tmp_path: Path, damage: bytes, place: int) -> None:
    journal = filled(tmp_path)
    lines = journal.path.read_bytes().splitlines(keepends=True)
    lines[place] = damage
    journal.path.write_bytes(b"".join(lines))
    with pytest.raises(InvalidData, match=rf"line {place + 1} of .*journal\.jsonl is not a record.* delete that line"):
        journal.read()


def test_a_line_with_any_byte_changed_is_an_error_or_what_it_was(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    written: list[Record] = [{"kind": "header", "checks": True}, *RECORDS]
    for record in written:
        journal.append(record)
    whole = journal.path.read_bytes()
    refused = tried = 0
    values = (b"0", b"7", b'"', b" ", b"\n")
    for place in range(len(whole) - 1):
        # In turn, where not all are tried.
        for value in (values * 2)[place % 5 :][: 5 * examples(100) // 100 or 1]:
            tried += 1
            journal.path.write_bytes(whole[:place] + value + whole[place + 1 :])
            try:
                assert journal.read() == written
            except InvalidData:
                refused += 1
    assert refused > 0.6 * tried


@pytest.mark.parametrize("line", [1, 2, 4])
def test_a_checksum_that_was_taken_away_is_missed(tmp_path: Path, line: int) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for record in ({"kind": "header", "checks": True}, *RECORDS):
        journal.append(record)
    lines = journal.path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = json.dumps(parse_line(lines[line - 1])).partition(', "check":')[0].encode() + b"}\n"
    journal.path.write_bytes(b"".join(lines))
    with pytest.raises(InvalidData, match=f"line {line} of .* has lost its checksum"):
        journal.read()


def test_a_journal_without_checksums_is_read_and_goes_on_with_them(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    assert journal.read() == RECORDS
    journal.append({"turn": 9})
    assert journal.read() == [*RECORDS, {"turn": 9}]
    journal.path.write_bytes(journal.path.read_bytes() + b'{"turn": 10}\n')
    with pytest.raises(InvalidData, match=r"line 6 of .* has lost its checksum"):
        journal.read()


def test_records_are_taken_out_and_the_others_stay_byte_for_byte(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    reader = JournalReader(journal.path)
    seen = list(reader.new_records())
    lines = journal.path.read_bytes().splitlines(keepends=True)
    journal.path.write_bytes(journal.path.read_bytes() + b'{"torn"')
    journal.remove(lambda record: record["turn"] in (1, 2))
    assert journal.path.read_bytes() == lines[0] + lines[3]
    assert os.listdir(tmp_path) == ["journal.jsonl"]
    reader.on_replaced = seen.clear
    seen.extend(reader.new_records())
    assert seen == [RECORDS[0], RECORDS[3]], "a reader begins anew with the new file"


def test_one_who_waits_for_a_journal_that_is_replaced_adds_to_the_new_one(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    adders = [threading.Thread(target=journal.append, args=({"turn": turn},)) for turn in range(10, 14)]
    with locked(journal.path):
        for adder in adders:
            adder.start()
        write_atomically(str(journal.path), journal.path.read_bytes())
    for adder in adders:
        adder.join(PATIENCE)
    assert sorted(cast("int", record["turn"]) for record in journal.read()) == [0, 1, 2, 3, 10, 11, 12, 13]


def test_lines_longer_than_one_look_at_the_end_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "TAIL_BYTES", 4)
    assert filled(tmp_path).read() == RECORDS


def test_a_reader_sees_only_what_is_new(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    reader = JournalReader(journal.path)
    assert len(list(reader.new_records())) == 4
    assert list(reader.new_records()) == []
    with journal.path.open("ab") as file:
        file.write(b'{"turn"')
    assert list(reader.new_records()) == []
    journal.append({"turn": 9})
    assert list(reader.new_records()) == [{"turn": 9}]


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
        writer.join(PATIENCE)
        assert writer.exitcode == 0
    records = Journal(path).read()
    for name in "abc":
        assert [record["turn"] for record in records if record["name"] == name] == list(range(50))


FILLS_UP = """
import resource, signal, sys
from pathlib import Path
from dubito.experiments.journal import Journal
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
        with pytest.raises(DiskFull, match=r"no space left on device\. Everything written before is kept"):
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
    assert [{**json.loads(line), "check": None} for line in lines] == [{**record, "check": None} for record in RECORDS]
