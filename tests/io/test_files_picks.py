"""Picks read back, and added to round after round."""

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dubito.core.problem import Configuration, Selection
from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.io import FORMATS, Format, append_picks, read_array, read_picks, save_selection
from dubito.matrix import AnyArray

APPENDABLE: tuple[Format, ...] = ("csv", "jsonl", "parquet", "npy")


def selection(
    indices: list[int], priorities: list[float] | None = None, ids: AnyArray | None = None, beams: int = 1
) -> Selection:
    rows = np.array(indices, dtype=np.int64)
    values = np.array(priorities if priorities is not None else [1.0] * len(indices), dtype=np.float64)
    leading = Configuration(rows, values, 0.5, float("inf"))
    return Selection(
        indices=rows,
        priorities=values,
        radius=0.5,
        uncertainty=float("inf"),
        configurations=(leading,) * beams,
        strategy="doubt-coreset",
        engine=None,
        seed=7,
        seconds=0.25,
        n_pool=100,
        ids=ids,
    )


ODD = selection([4, 2, 9], [float("inf"), 0.1, float("nan")], ids=np.array(["a,b", "c", 'd"']))


@given(
    indices=st.lists(st.integers(0, 99), unique=True, max_size=10),
    second=st.lists(st.integers(100, 199), unique=True, max_size=10),
    format=st.sampled_from(FORMATS),
    with_ids=st.booleans(),
)
@example([], [100], "csv", False)
@example([], [100], "json", False)
@example([], [100], "jsonl", False)
@example([], [100], "parquet", True)
@example([], [100], "npy", False)
def test_picks_come_back_in_order_round_after_round(
    tmp_path_factory: pytest.TempPathFactory, indices: list[int], second: list[int], format: Format, with_ids: bool
) -> None:
    path = str(tmp_path_factory.mktemp("picks") / f"picks.{format}")
    first, then = (
        selection(rows, ids=np.array([f"id {row}" for row in rows]) if with_ids else None) for rows in (indices, second)
    )
    save_selection(first, path)
    assert read_picks(path).tolist() == indices
    if format in APPENDABLE:
        append_picks(then, path)
        assert read_picks(path).tolist() == indices + second
        assert read_picks(path).dtype == np.int64


@pytest.mark.parametrize("format", APPENDABLE)
def test_an_appended_file_is_the_file_of_both_rounds(tmp_path: Path, format: Format) -> None:
    appended, at_once = str(tmp_path / f"a.{format}"), str(tmp_path / f"b.{format}")
    append_picks(selection([5, 3], [2.0, float("nan")], ids=np.array([50, 30])), appended)
    append_picks(selection([1], [float("inf")], ids=np.array([10])), appended)
    save_selection(selection([5, 3, 1], [2.0, float("nan"), float("inf")], ids=np.array([50, 30, 10])), at_once)
    assert Path(appended).read_bytes() == Path(at_once).read_bytes()


def test_columns_a_person_added_stay_and_are_empty_in_the_new_rows(tmp_path: Path) -> None:
    table = tmp_path / "picks.csv"
    table.write_text("rank,index,priority,label,who\n1,4,2.0,cat,me\n")
    append_picks(selection([7]), str(table))
    assert table.read_text() == "rank,index,priority,label,who\n1,4,2.0,cat,me\n2,7,1.0,,\n"
    columns = tmp_path / "picks.parquet"
    pq.write_table(pa.table({"rank": [1], "index": [4], "priority": [2.0], "label": ["cat"]}), columns)
    append_picks(selection([7]), str(columns))
    assert pq.read_table(columns).to_pydict() == {
        "rank": [1, 2],
        "index": [4, 7],
        "priority": [2.0, 1.0],
        "label": ["cat", None],
    }


def test_a_missing_last_newline_is_added(tmp_path: Path) -> None:
    path = tmp_path / "picks.csv"
    path.write_text("rank,index,priority\n1,4,2.0")
    append_picks(selection([7]), str(path))
    assert list(csv.reader(io.StringIO(path.read_text())))[1:] == [["1", "4", "2.0"], ["2", "7", "1.0"]]


@pytest.mark.parametrize("format", FORMATS)
def test_saved_picks_serve_as_labeled(tmp_path: Path, format: Format) -> None:
    path = str(tmp_path / f"picks.{format}")
    save_selection(ODD, path)
    assert np.asarray(read_array(path, "labeled")).tolist() == [4, 2, 9]


@pytest.mark.parametrize("format", APPENDABLE)
def test_a_row_is_not_picked_twice(tmp_path: Path, format: Format) -> None:
    path = tmp_path / f"picks.{format}"
    save_selection(selection([4, 2]), str(path))
    before = path.read_bytes()
    with pytest.raises(
        InvalidArgument, match=rf"row 2 is among the picks of .*picks.{format} already; pass them as labeled"
    ):
        append_picks(selection([3, 2]), str(path))
    assert path.read_bytes() == before


def test_what_cannot_be_appended_to_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"a json file describes one run and cannot be appended to; use csv"):
        append_picks(ODD, str(tmp_path / "picks.json"))
    save_selection(selection([1]), str(tmp_path / "picks.txt"), format="csv")
    with pytest.raises(InvalidArgument, match=r"picks.txt cannot be appended to as csv; give it the suffix .csv"):
        append_picks(ODD, str(tmp_path / "picks.txt"), format="csv")
    for format in ("csv", "parquet"):
        save_selection(selection([1]), str(tmp_path / f"picks.{format}"))
        with pytest.raises(
            InvalidData, match=r"has the columns rank,index,priority but the new picks rank,index,id,priority"
        ):
            append_picks(ODD, str(tmp_path / f"picks.{format}"))
    save_selection(selection([1], ids=np.array([5])), str(tmp_path / "numbered.parquet"))
    with pytest.raises(InvalidData, match=r"the ids in .*numbered.parquet are of another type"):
        append_picks(ODD, str(tmp_path / "numbered.parquet"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("picks.json", "[1]", r"picks.json holds no picks: each must be an object with an integer called index"),
        ("picks.json", '{"picks": 3}', r"picks.json is JSON, but not a table"),
        ("picks.json", '{"picks"', r"picks.json cannot be read as .json"),
        ("picks.json", '{"picks": [1]}', r"each must be an object with an integer called index"),
        ("picks.jsonl", '{"index": 1}\n\n{"index": true}', r"picks.jsonl holds no picks: row numbers are integers"),
        ("picks.jsonl", '{"index": 1' + "0" * 400 + "}", r"'index' of .*picks.jsonl holds 10+ ... 0+, which is no"),
        ("picks.jsonl", '{"index": 1, "index": 2}', r"picks.jsonl is not valid JSON \(the name 'index' occurs twice"),
        ("picks.json", '{"picks": [{"index": 1}, {}]}', r"'index' of .*picks.json is empty in item 1"),
        ("picks.jsonl", '{"index": -1}', r"picks.jsonl holds no picks: row numbers are integers from 0"),
        ("picks.json", "[" * 100_000, r"picks.json cannot be read as .json"),
        ("picks.jsonl", '{"index": 1}\n{"index": 1}', r"picks.jsonl names a row more than once"),
        ("picks.csv", "rank,index\n1,-4\n", r"picks.csv holds no picks: row numbers are integers from 0"),
        ("picks.csv", "rank,index\n1,0.5\n", r"picks.csv holds no picks: row numbers"),
        ("picks.csv", "rank,index\n1,nan\n", r"picks.csv holds no picks: row numbers"),
        ("picks.csv", "rank,index\n1,3\n2,true\n", r"picks.csv holds no picks: row numbers are integers, not booleans"),
        ("picks.csv", "rank,index\n1,a\n", r"column 'index' of .*picks.csv holds 'a'"),
    ],
)
def test_a_file_that_holds_no_picks_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidData, match=message):
        read_picks(str(tmp_path / name))


def test_arrays_that_are_no_picks_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "picks.npy", np.zeros((2, 2)))
    with pytest.raises(InvalidData, match=r"they are 1-D integers, not \(2, 2\) float64"):
        read_picks(str(tmp_path / "picks.npy"))
    (tmp_path / "other.csv").write_text("rank,row\n1,2\n")
    with pytest.raises(MissingFile, match=r"other.csv has no column 'index'"):
        read_picks(str(tmp_path / "other.csv"))
    with pytest.raises(MissingFile, match=r"none.json does not exist"):
        read_picks(str(tmp_path / "none.json"))


@pytest.mark.parametrize("name", ["picks.json", "picks.jsonl", "picks.csv"])
def test_an_index_of_400_digits_is_the_file_s_fault(tmp_path: Path, name: str) -> None:
    number = "9" * 400
    content = {".csv": f"index\n{number}\n", ".jsonl": f'{{"index": {number}}}\n'}
    (tmp_path / name).write_text(content.get(Path(name).suffix, f'{{"picks": [{{"index": {number}}}]}}'))
    with pytest.raises(InvalidData, match=rf"{name} holds (no picks|9+ ... 9+, which is not a number)"):
        read_picks(str(tmp_path / name))
