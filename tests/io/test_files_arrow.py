"""Arrow and Parquet as they come: Feather, decimals, categories, tensors as types, checksums, and bombs."""

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from dubito.errors import DubitoError, InvalidData, MemoryLimit
from dubito.io import input_limit, open_source, read_array, read_pool
from dubito.io.formats.arrow import ArrowFile, opened

TABLE = pa.table({"id": ["a", "b", "c"], "x": [1.0, 2.0, 3.0], "y": pa.array([4, 5, 6], pa.int8())})


def write(path: Path, table: Any, **more: Any) -> str:
    if path.suffix == ".parquet":
        pq.write_table(table, path, **more)
    else:
        pa.feather.write_feather(table, path, **more)
    return str(path)


@pytest.mark.parametrize("name", ["pool.feather", "pool.arrow", "pool.parquet"])
@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_every_file_of_arrow_is_a_table(tmp_path: Path, name: str, compression: str) -> None:
    more = {"compression": "none" if name.endswith("parquet") and compression == "uncompressed" else compression}
    path = write(tmp_path / name, TABLE, **more)
    pool = read_pool(path)
    assert np.asarray(pool.features).tolist() == [[1, 4], [2, 5], [3, 6]]
    assert pool.ids is not None
    assert pool.ids.tolist() == ["a", "b", "c"]


def test_lists_in_feather_are_vectors_batch_by_batch(tmp_path: Path) -> None:
    values = np.arange(60, dtype=np.float32).reshape(20, 3)
    path = write(tmp_path / "pool.feather", pa.table({"v": list(values)}), chunksize=7)
    np.testing.assert_array_equal(np.asarray(read_pool(path).features[:]), values)


@pytest.mark.parametrize("name", ["pool.feather", "pool.parquet"])
def test_decimals_and_categories_of_numbers_are_numbers(tmp_path: Path, name: str) -> None:
    columns = {
        "price": pa.array([Decimal("1.50"), Decimal("2.25")]),
        "grade": pa.array([3, 7]).dictionary_encode(),
        "flag": pa.array([True, False]),
        "label": pa.array(["u", "v"]).dictionary_encode(),
    }
    path = write(tmp_path / name, pa.table(columns))
    assert np.asarray(read_pool(path).features).tolist() == [[1.5, 3, 1], [2.25, 7, 0]]
    assert read_array(path, "labels").tolist() == ["u", "v"]


def test_tensors_as_types_are_vectors(tmp_path: Path) -> None:
    kind = pa.fixed_shape_tensor(pa.float32(), [3])
    storage = pa.array([[1, 2, 3], [4, 5, 6]], pa.list_(pa.float32(), 3))
    path = write(tmp_path / "pool.parquet", pa.table({"v": pa.ExtensionArray.from_storage(kind, storage)}))
    assert np.asarray(read_pool(path).features[:]).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_nullable_integers_without_nulls_are_numbers_and_structs_are_named(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": pd.array([1, 2], dtype="Int64"), "s": [{"a": 1}, {"a": 2}]})
    frame.to_parquet(tmp_path / "pool.parquet", index=False)
    path = str(tmp_path / "pool.parquet")
    assert open_source(path).entry("x").content == "numbers"
    with pytest.raises(InvalidData, match=r"column 's' of .* holds struct<a: int64>"):
        read_pool(path)


def test_a_column_that_is_one_value_many_times_counts_as_long_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.parquet", pa.table({"x": np.zeros(2_000_000)}))
    assert Path(path).stat().st_size < 20_000
    with input_limit(10**6), pytest.raises(MemoryLimit, match=r"'x' of .*pool.parquet takes 16 MB of memory"):
        read_pool(path)


@pytest.mark.parametrize("compression", ["zstd", "lz4", "uncompressed"])
def test_batches_of_feather_are_counted(tmp_path: Path, compression: str) -> None:
    table = pa.table({"id": [str(row) for row in range(1_000_000)], "x": np.zeros(1_000_000), "y": np.ones(1_000_000)})
    path = write(tmp_path / "pool.feather", table, compression=compression, chunksize=10_000)
    with input_limit(10**6), pytest.raises(MemoryLimit, match=r"'x and 2 columns' of .*feather takes 16 MB of memory"):
        read_array(path, "features")


@pytest.mark.parametrize("compression", ["zstd", "uncompressed"])
@pytest.mark.parametrize("version", ["V4", "V5"])
def test_sizes_in_the_heads_are_those_of_the_columns(tmp_path: Path, compression: str, version: str) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "number": pa.array(rng.normal(size=500)),
        "text": pa.array([f"row {row}" for row in range(500)]),
        "list": pa.array([[1.0, 2.0]] * 500, pa.list_(pa.float32(), 2)),
        "ragged": pa.array([[1] * (row % 3) for row in range(500)]),
        "category": pa.array(["a", "b"] * 250).dictionary_encode(),
        "gaps": pa.array([None, 1] * 250),
        "record": pa.array([{"a": 1, "b": "x"}] * 500),
    }
    table = pa.table(columns)
    options = pa.ipc.IpcWriteOptions(
        metadata_version=pa.ipc.MetadataVersion[version],
        compression=None if compression == "uncompressed" or version == "V4" else compression,
    )
    with (
        pa.OSFile(str(tmp_path / "pool.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, table.schema, options=options) as to,
    ):
        to.write_table(table, max_chunksize=200)
    with opened(str(tmp_path / "pool.arrow")) as file:
        assert isinstance(file, ArrowFile)
        assert file.group_sizes == [200, 200, 100]
        batches, dictionaries = file.sizes
        for name in columns:
            # Buffers are written in eights of bytes, and what holds no gap may be left out.
            held, described = file.read([name]).nbytes, file.size(batches, [name]) - dictionaries
            assert held - 64 <= described <= held + 64 * 12, name


def test_a_bomb_of_feather_is_refused_before_any_of_it_is_unpacked(tmp_path: Path) -> None:
    path = write(
        tmp_path / "pool.feather", pa.table({"x": np.zeros(3_000_000)}), compression="zstd", chunksize=3_000_000
    )
    counted = (
        "import pyarrow as pa; from dubito.io import input_limit, read_pool\n"
        f"with input_limit(10**6):\n try: read_pool({path!r})\n"
        " except Exception as error: print(type(error).__name__, pa.default_memory_pool().max_memory() < 10**6)"
    )
    done = subprocess.run([sys.executable, "-c", counted], capture_output=True, text=True, check=True)
    assert done.stdout == "MemoryLimit True\n"


def test_heads_that_lead_nowhere_are_the_file_s_fault(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "pool.feather", TABLE, compression="zstd"))
    whole, messages = path.read_bytes(), list[str]()
    for place in range(len(whole) - 400, len(whole)):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        try:
            read_pool(str(path))
        except DubitoError as error:
            messages.append(str(error))
    assert len(messages) > 50
    assert [each for each in messages if "pool.feather" not in each or "\n" in each] == []


def test_checksums_of_pages_are_compared(tmp_path: Path) -> None:
    path = Path(
        write(tmp_path / "pool.parquet", TABLE, compression="none", use_dictionary=False, write_page_checksum=True)
    )
    content = bytearray(path.read_bytes())
    content[content.index(np.array([1.0, 2.0, 3.0]).tobytes()) + 6] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidData, match=r"pool.parquet cannot be read .*CRC"):
        read_pool(str(path))


@pytest.mark.parametrize("flip", range(0, 400, 7))
def test_a_damaged_arrow_file_is_read_or_refused(tmp_path: Path, flip: int) -> None:
    path = Path(write(tmp_path / "pool.feather", TABLE, compression="uncompressed"))
    content = bytearray(path.read_bytes())
    content[flip % len(content)] ^= 0x55
    path.write_bytes(content)
    message = "pool.feather"
    try:
        read_pool(str(path))
    except DubitoError as error:
        message = str(error)
    assert "pool.feather" in message
    assert "\n" not in message


def test_feather_of_the_first_version_is_reported(tmp_path: Path) -> None:
    (tmp_path / "pool.feather").write_bytes(b"FEA1" + bytes(20))
    with pytest.raises(InvalidData, match=r"pool.feather is Feather version 1; write it again"):
        open_source(str(tmp_path / "pool.feather"))


@pytest.mark.parametrize("name", ["pool.feather", "pool.parquet"])
def test_lists_as_text_are_vectors(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, pa.table({"id": ["a", "b"], "v": ["[0.5, 1]", "[2, 3]"]}))
    pool = read_pool(path)
    assert np.asarray(pool.features).tolist() == [[0.5, 1], [2, 3]]
    odd = write(tmp_path / f"odd{name}", pa.table({"v": ["[0.5, 1]"] * 30 + ["[2]"]}))
    with pytest.raises(InvalidData, match=r"has a list of shape \(1,\) in row 30 and \(2,\) in row 0"):
        read_pool(odd)


@pytest.mark.parametrize("name", ["pool.arrow", "pool.parquet"])
def test_damaged_words_of_pandas_on_the_index_are_refused(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, TABLE.replace_schema_metadata({b"pandas": b'{"index_columns": ["id"'}))
    with pytest.raises(InvalidData, match=rf"{name} cannot be read .* damaged"):
        open_source(path)
