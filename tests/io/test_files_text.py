"""Encodings and packing: text is understood in whatever way a program wrote it, with a note where that was guessed."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.errors import InvalidData, MemoryLimit
from dubito.io import gathering_notes, input_limit, open_source, read_pool
from dubito.io.formats.delimited import detect_encoding

TABLE = "id,größe,x\nMüller,1,2\nÉva,3,4\n"


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize(
    ("encoding", "note"),
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", "was read as UTF-16 because of its byte order mark"),
        ("utf-32", "was read as UTF-32 because of its byte order mark"),
        ("utf-16-le", "was read as UTF-16: every other byte is a NUL"),
        ("utf-16-be", "was read as UTF-16: every other byte is a NUL"),
        ("latin-1", r"it was read as Western European (Latin-1); if characters look wrong, save it as UTF-8"),
    ],
)
def test_every_usual_encoding_is_read_and_a_guess_is_reported(tmp_path: Path, encoding: str, note: str) -> None:
    pool = read_pool(write(tmp_path / "pool.csv", TABLE.encode(encoding)))
    assert pool.ids is not None
    assert pool.ids.tolist() == ["Müller", "Éva"]
    assert pool.feature_names == ("größe", "x")
    assert np.asarray(pool.features).tolist() == [[1, 2], [3, 4]]
    assert len(pool.source.notes) == (1 if note else 0)
    assert note in "".join(pool.source.notes)


def test_the_euro_sign_of_windows_is_no_control(tmp_path: Path) -> None:
    source = open_source(write(tmp_path / "pool.csv", "id,€\na,1\n".encode("cp1252")))
    assert source.names == ("id", "€")
    assert "Windows-1252" in source.notes[0]


def test_utf_8_with_a_damaged_byte_is_not_taken_for_another_encoding(tmp_path: Path) -> None:
    content = bytearray("id,x\nMüller,1\nÉva,2\nJosé,3\n".encode())
    content[content.index("É".encode())] ^= 0x40
    with pytest.raises(
        InvalidData, match=r"pool.csv is UTF-8 with 2 damaged bytes, the first in line 3; export it again"
    ):
        open_source(write(tmp_path / "pool.csv", bytes(content)))


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_what_is_no_text_is_refused(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(
        InvalidData, match=rf"pool{suffix} has (bytes that text files do not contain|a NUL character in line)"
    ):
        open_source(write(tmp_path / f"pool{suffix}", rng.bytes(5000)))


def test_a_nul_is_reported_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"pool.csv has a NUL character in line 3: it is damaged, or not a text file"):
        open_source(write(tmp_path / "pool.csv", b"id,x\na,1\nb,\x002\n"))


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_any_utf_8_is_found_to_be_utf_8(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = write(tmp_path_factory.mktemp("text") / "x.csv", text.encode())
    found = detect_encoding(path)
    with found.open() as file:
        assert file.read() == text.removeprefix("\ufeff")
    assert found.notes == ()


def test_packed_tables_are_read_as_they_are(tmp_path: Path) -> None:
    for name, content in {"pool.csv.gz": "id,x\na,1\nb,2\n", "pool.TSV.GZ": "id\tx\na\t1\nb\t2\n"}.items():
        pool = read_pool(write(tmp_path / name, gzip.compress(content.encode())))
        assert pool.ids is not None
        assert pool.ids.tolist() == ["a", "b"]
        assert pool.source.notes == ()


def test_packed_tables_may_be_shards(tmp_path: Path) -> None:
    for number in range(2):
        write(tmp_path / f"part{number}.csv.gz", gzip.compress(f"id,x\na{number},1\n".encode()))
    pool = read_pool(str(tmp_path))
    assert pool.ids is not None
    assert pool.ids.tolist() == ["a0", "a1"]


@pytest.mark.parametrize("damage", [slice(0, -6), slice(0, 20), slice(3, None)])
def test_a_damaged_packed_table_is_refused(tmp_path: Path, damage: slice) -> None:
    packed = gzip.compress(b"id,x\n" + b"".join(b"%d,%d\n" % (row, row * row) for row in range(500)))
    with pytest.raises(InvalidData, match=r"pool.csv.gz cannot be read as .csv.gz: it is truncated, damaged or of"):
        read_pool(write(tmp_path / "pool.csv.gz", packed[damage]))


def test_a_flipped_bit_in_a_packed_table_is_found_by_its_checksum(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"id,x\na,1\nb,2\n", compresslevel=0))
    packed[packed.index(b"a,1") + 2] ^= 2
    with pytest.raises(InvalidData, match=r"pool.csv.gz cannot be read .*CRC"):
        read_pool(write(tmp_path / "pool.csv.gz", bytes(packed)))


def test_a_small_file_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.csv.gz", gzip.compress(b"x,y\n" + b"1,1\n" * 5_000_000))
    assert Path(path).stat().st_size < 50_000
    with (
        input_limit(10**6),
        pytest.raises(MemoryLimit, match=r"pool.csv.gz unpacks to more than the 1 MB .*input_limit\(4000000\)"),
    ):
        read_pool(path)


def test_notes_are_gathered_from_every_file_each_once(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.csv", TABLE.encode("utf-16"))
    with gathering_notes() as notes:
        read_pool(path)
        read_pool(path)
        read_pool(write(tmp_path / "other.csv", b"x;y\n1;2\n"))
    assert [note.rpartition("/")[2] for note in notes] == [
        "pool.csv was read as UTF-16 because of its byte order mark.",
        "other.csv was read with semicolons between its fields.",
    ]
