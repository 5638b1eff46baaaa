"""Parquet: lists and columns of numbers, what is refused with its row, and shards."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.errors import DubitoError, InvalidData, MissingFile
from dubito.io import Columns, find_array, open_source, read_array, read_pool
from dubito.matrix import Stack


def parquet_file(path: Path, *, row_group_size: int | None = None, **columns: object) -> str:
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return str(path)


LISTS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


@pytest.mark.parametrize("numbers", [pa.float16(), pa.float32(), pa.float64(), pa.int8()])
@pytest.mark.parametrize("make", [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2)])
def test_parquet_lists_are_a_matrix_of_their_own_type(tmp_path: Path, numbers: pa.DataType, make: object) -> None:
    assert callable(make)
    values = np.array(LISTS).astype(numbers.to_pandas_dtype())
    column = pa.array(list(values), make(numbers))
    path = parquet_file(tmp_path / "pool.parquet", embeddings=column, text=["a", "b", "c"], n=[1, 2, 3])
    features = np.asarray(read_pool(path).features)
    assert features.tolist() == LISTS
    assert features.dtype == values.dtype


def test_a_fixed_size_list_is_not_copied_and_pieces_are_stacked(tmp_path: Path) -> None:
    column = pa.array(LISTS, pa.list_(pa.float32(), 2))
    whole = read_pool(parquet_file(tmp_path / "whole.parquet", x=column)).features
    assert isinstance(whole, np.ndarray)
    assert not whole.flags.owndata
    assert not whole.flags.writeable
    values = np.arange(100_000, dtype=np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values), 2)
    pieces = read_pool(parquet_file(tmp_path / "pieces.parquet", row_group_size=10_000, x=column)).features
    assert isinstance(pieces, Stack)
    assert [len(part) for part in pieces.parts if isinstance(part, np.ndarray)] == [20_000, 20_000, 10_000]
    np.testing.assert_array_equal(pieces[0:50_000], values.reshape(-1, 2))


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (None, r"has no value in row 20000"),
        ([1.0, None], r"has no value in row 20000"),
        ([1.0], r"has 1 numbers in row 20000 and 2 in the rows before it"),
    ],
)
def test_a_hole_far_down_has_its_row_in_the_file(tmp_path: Path, last: list[float | None] | None, message: str) -> None:
    path = parquet_file(tmp_path / "pool.parquet", row_group_size=20_000, x=[[1.0, 2.0]] * 20_000 + [last])
    with pytest.raises(InvalidData, match=message):
        read_pool(path)


def test_parquet_columns_of_numbers_stand_side_by_side(tmp_path: Path) -> None:
    path = parquet_file(
        tmp_path / "pool.parquet",
        row_group_size=1,
        **{"id": ["a", "b"], "a.b": pa.array([1, 2], pa.float32()), "z": pa.array([3, 4], pa.float32())},
    )
    pool = read_pool(path)
    assert pool.ids is not None
    assert pool.ids.tolist() == ["a", "b"]
    assert pool.features.dtype == np.float32
    assert np.asarray(pool.features).tolist() == [[1, 3], [2, 4]]


def test_a_parquet_index_of_pandas_is_no_feature(tmp_path: Path) -> None:
    pd.DataFrame({"x": [1.0, 2.0]}, index=[5, 9]).to_parquet(tmp_path / "pool.parquet")
    assert np.asarray(read_pool(str(tmp_path / "pool.parquet")).features).tolist() == [[1], [2]]


def test_parquet_labels_may_be_categories_or_whole_floats(tmp_path: Path) -> None:
    categories = pa.array(["cat", "dog", "cat"]).dictionary_encode()
    path = parquet_file(tmp_path / "pool.parquet", x=[1.0, 2.0, 3.0], label=categories, mark=[1.0, 2.0, 1.0])
    assert read_array(path, "labels").tolist() == ["cat", "dog", "cat"]
    marks = read_array(path, "labels", columns=Columns(label="mark"))
    assert marks.dtype == np.int64
    labeled = parquet_file(tmp_path / "seen.parquet", x=[1.0, 2.0], labeled=[True, False])
    assert np.asarray(find_array(open_source(labeled), "labeled")).tolist() == [True, False]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": pa.array([1.0, None])}, r"column 'x' of .*pool.parquet has no value in row 1; fill it in"),
        ({"x": [[1.0, 2.0], [3.0, None], [4.0, 5.0]]}, r"column 'x' of .*pool.parquet has no value in row 1"),
        ({"x": [[1.0], [2.0], None]}, r"column 'x' of .*pool.parquet has no value in row 2"),
        ({"x": [[1.0], [2.0], [3.0, 4.0]]}, r"column 'x' of .* has 2 numbers in row 2 and 1 in the rows before it"),
        ({"id": ["a", None], "x": [1, 2]}, r"column 'id' of .*pool.parquet has no value in row 1"),
        ({"t": pa.array([1], pa.timestamp("ms")), "x": [1]}, r"column 't' of .* holds timestamp\[ms\], but features"),
        ({"features": [["a"]]}, r"column 'features' of .* is of type list<.*; use numbers, lists of numbers or text"),
    ],
)
@pytest.mark.parametrize("row_group_size", [1, 100])
def test_holes_in_parquet_are_refused_with_their_row(
    tmp_path: Path, columns: dict[str, object], message: str, row_group_size: int
) -> None:
    path = parquet_file(tmp_path / "pool.parquet", row_group_size=row_group_size, **columns)
    spec = f"{path}::features" if "features" in columns else path
    with pytest.raises(InvalidData, match=message):
        read_pool(spec) if "features" not in columns else read_array(spec, "doubt")


def test_two_list_columns_are_listed(tmp_path: Path) -> None:
    path = parquet_file(tmp_path / "pool.parquet", x=LISTS, y=LISTS, z=[1, 2, 3])
    with pytest.raises(MissingFile, match=r"and 2 that could be the features .*Name one with Columns\(features="):
        read_pool(path)
    assert np.asarray(read_pool(path, columns=Columns(features=["y"])).features).tolist() == LISTS
    with pytest.raises(InvalidData, match=r"column 'x' of .* holds lists of double; the features must be columns"):
        read_pool(path, columns=Columns(features=["x", "z"]))


def test_parquet_without_rows_or_columns(tmp_path: Path) -> None:
    empty = parquet_file(
        tmp_path / "empty.parquet", x=pa.array([], pa.list_(pa.float32())), id=pa.array([], pa.string())
    )
    assert read_array(empty, "features").shape == (0, 0)
    assert read_array(empty, "ids").dtype.kind == "U"
    with pytest.raises(InvalidData, match=r"none.parquet holds no columns"):
        open_source(parquet_file(tmp_path / "none.parquet"))
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]), tmp_path / "twice.parquet")
    with pytest.raises(InvalidData, match=r"twice.parquet has two columns called 'x'"):
        open_source(str(tmp_path / "twice.parquet"))


@given(damage=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_parquet_is_read_or_refused_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "pool.parquet"
    parquet_file(path, x=LISTS, id=["a", "b", "c"])
    content = bytearray(path.read_bytes())
    for place, byte in damage:
        content[place % len(content)] = byte
    path.write_bytes(content)
    message = path.name
    try:
        read_pool(str(path))
    except DubitoError as error:
        message = str(error)
    assert path.name in message
    assert "\n" not in message


def test_text_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pool.parquet"
    parquet_file(path, x=LISTS, id=["aaaa", "bbbb", "cccc"])
    path.write_bytes(path.read_bytes().replace(b"bbbb", b"b\xffbb"))
    with pytest.raises(InvalidData, match=r"pool.parquet cannot be read as .parquet"):
        read_pool(str(path))


def test_truncated_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pool.parquet"
    parquet_file(path, x=LISTS)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InvalidData, match=r"pool.parquet cannot be read as .parquet: it is truncated"):
        open_source(str(path))


def test_a_shard_without_rows_is_passed_over(tmp_path: Path) -> None:
    kind = pa.list_(pa.float32())
    parquet_file(tmp_path / "part-0.snappy.parquet", x=pa.array([], kind))
    parquet_file(tmp_path / "part-1.snappy.parquet", x=pa.array(LISTS, kind))
    parquet_file(tmp_path / "part-2.snappy.parquet", row_group_size=1, x=pa.array(LISTS, kind))
    (tmp_path / "_SUCCESS").touch()
    features = read_pool(str(tmp_path)).features
    assert np.asarray(features[0:6]).tolist() == LISTS * 2


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (1, 2, 3))])
def test_damaged_sizes_are_refused_and_do_not_end_the_process(tmp_path: Path, first: int) -> None:
    path = tmp_path / "pool.parquet"
    parquet_file(path, x=LISTS, id=["a", "b", "c"])
    content = path.read_bytes()
    # What a column chunk says of its sizes has no checksum: a byte there made pyarrow 26 abort.
    for place in range(200 + first, len(content) - 200, 4):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        message = path.name
        try:
            read_pool(str(path))
        except DubitoError as error:
            message = str(error)
        assert path.name in message
