"""JSON and JSON lines: rows or columns of objects, as people and pandas write them."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.errors import InvalidData, MemoryLimit, MissingFile
from dubito.io import Columns, find_doubt, input_limit, open_source, read_array, read_picks, read_pool
from dubito.io.missing_values import missing_as_nan

ROWS = [{"id": "a", "x": 1, "y": 2.5, "label": "cat"}, {"id": "b", "x": -3, "y": 4e2, "label": "dog"}]
FEATURES = [[1, 2.5], [-3, 400]]


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def lines(rows: list[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pool.jsonl", lines([*ROWS])),
        ("pool.jsonl", "\ufeff" + lines([*ROWS]).replace("\n", "\r\n\r\n")),
        ("pool.jsonl", lines([*ROWS]).encode("utf-16")),
        ("pool.jsonl.gz", gzip.compress(lines([*ROWS]).encode(), mtime=0)),
        ("pool.json", json.dumps(ROWS)),
        ("pool.json.gz", gzip.compress(json.dumps(ROWS).encode(), mtime=0)),
        ("pool.json", json.dumps({name: [row[name] for row in ROWS] for name in ROWS[0]})),
        *(("pool.json", pd.DataFrame(ROWS).to_json(orient=orient)) for orient in ("columns", "records", "split")),
    ],
)
def test_every_way_to_write_rows_is_read(tmp_path: Path, name: str, content: str | bytes) -> None:
    path = write(tmp_path / name, content)
    pool = read_pool(path)
    assert np.asarray(pool.features).tolist() == FEATURES
    assert pool.feature_names == ("x", "y")
    assert pool.ids is not None
    assert pool.ids.tolist() == ["a", "b"]
    assert read_array(path, "labels").tolist() == ["cat", "dog"]


@pytest.mark.parametrize("orient", ["columns", "split"])
def test_an_index_that_is_more_than_row_numbers_stays_with_its_rows(tmp_path: Path, orient: str) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=["p", "q"])
    text = frame.to_json(orient="columns") if orient == "columns" else frame.to_json(orient="split")
    source = open_source(write(tmp_path / "pool.json", text))
    assert source.names == ("", "x")
    assert source.entry("").names().tolist() == ["p", "q"]


def test_lists_in_objects_are_vectors(tmp_path: Path) -> None:
    rows = [{"id": 7, "embedding": [1, 2.5], "doubt": 0.5}, {"id": 9, "embedding": [3, 4], "doubt": 1}]
    path = write(tmp_path / "pool.jsonl", lines([*rows]))
    pool = read_pool(path)
    assert np.asarray(pool.features).tolist() == [[1, 2.5], [3, 4]]
    assert pool.ids is not None
    assert pool.ids.dtype == np.int64
    found = find_doubt(pool.source)
    assert found is not None
    assert found[1].tolist() == [0.5, 1]
    samples = [{"probabilities": [[0.5, 0.5], [0.25, 0.75]]}] * 3
    assert read_array(write(tmp_path / "p.json", json.dumps(samples)), "probabilities").shape == (3, 2, 2)


@pytest.mark.parametrize("name", ["pool.json", "pool.jsonl"])
def test_lists_alone_are_an_array_without_a_name(tmp_path: Path, name: str) -> None:
    rows = [[1.5, 2], [3, 4]]
    path = write(tmp_path / name, json.dumps(rows) if name == "pool.json" else lines([*rows]))
    assert np.asarray(read_pool(path).features).tolist() == rows
    text = json.dumps([3, 1]) if name == "pool.json" else "3\n1\n"
    assert read_array(write(tmp_path / f"d{name}", text), "doubt").tolist() == [3, 1]
    names = json.dumps(["a", "b"]) if name == "pool.json" else '"a"\n"b"\n'
    assert read_array(write(tmp_path / f"n{name}", names), "ids").tolist() == ["a", "b"]


def test_a_key_that_a_row_lacks_is_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.jsonl", '{"id": 1, "x": 1}\n\n{"id": 2, "x": 2, "label": "a"}\n{"id": 3}\n')
    with pytest.raises(InvalidData, match=r"column 'x' of .*pool.jsonl is empty in line 4; fix or remove that row"):
        read_pool(path)
    with pytest.raises(InvalidData, match=r"column 'label' of .*pool.jsonl is empty in line 1; fill it in"):
        read_array(path, "labels")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"x": 1}\n{"x": 1', r"line 2 of .*pool.jsonl is not valid JSON"),
        ('{"x": 1}\n[1]\n', r"pool.jsonl holds array\(\[1.\]\) as line 2; every one must be an object"),
        ('{"x": 1, "x": 2}\n', r"line 1 of .* is not valid JSON \(the name 'x' occurs twice in an object\)"),
        ("[" * 100_000, r"line 1 of .*pool.jsonl is not valid JSON \(maximum recursion"),
        ('{"x": ' + "9" * 5000 + "}", r"line 1 of .*pool.jsonl is not valid JSON \(Exceeds the limit"),
        ('{"x": ' + "9" * 400 + "}", r"column 'x' of .* holds 9999.*9999, which is not a number, in line 1"),
        (
            '{"x": {"a": 1}}',
            r"column 'x' of .*pool.jsonl holds values such as \{'a': 1\}, but features are numbers",
        ),
        ('{"x": [1, 2]}\n{"x": [1]}\n', r"column 'x' of .* has a list of shape \(1,\) in line 2 and \(2,\) in line 1"),
        ('{"x": [1, 2]}\n{"x": null}\n', r"column 'x' of .*pool.jsonl is empty in line 2"),
        ('{"x": 1}\n{"x": "one"}\n', r"column 'x' of .*pool.jsonl holds text such as 'one', but features are numbers"),
        ("\n\n", r"pool.jsonl holds no rows"),
        ('{"x": [[1], [1, 2]]}\n', r"column 'x' of .* holds values such as \[\[1\], \[1, 2\]\], but"),
        ("[1, [2]]\n", r"is JSON, but not a table"),
    ],
)
def test_lines_that_cannot_be_read_are_reported(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InvalidData, match=message) as caught:
        read_pool(write(tmp_path / "pool.jsonl", content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("3", r"pool.json is JSON, but not a table; write a list of objects"),
        ("{}", r"is JSON, but not a table"),
        ("[]", r"holds no rows"),
        ('{"x": 3}', r"is JSON, but not a table"),
        ('["a", 1]', r"is JSON, but not a table"),
        ('[{"x": 1}, 2]', r"pool.json holds 2 as item 1; every one must be an object"),
        ('{"x": [1], "y": [1, 2]}', r"has 2 values in 'y' and 1 in 'x'; all columns must have the same length"),
        ('{"x": {"a": 1}, "y": {"b": 1}}', r"has other rows in 'y' than in 'x'"),
        ('{"columns": ["x", "x"], "index": [0], "data": [[1, 2]]}', r"has two columns with the same name"),
        ('{"columns": ["x"], "index": [0], "data": [[1, 2]]}', r"is JSON, but not a table"),
        ('{"x": [1', r"pool.json cannot be read as .json: it is truncated"),
        ("[" * 100_000, r"pool.json cannot be read as .json"),
    ],
)
def test_json_that_is_no_table_is_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        read_pool(write(tmp_path / "pool.json", content))


def test_dubito_s_own_picks_are_a_table_like_any_other(tmp_path: Path) -> None:
    picks = {"schema": 1, "picks": [{"rank": 1, "index": 4}, {"rank": 2, "index": 2}]}
    path = write(tmp_path / "picks.json", json.dumps(picks))
    assert open_source(path).names == ("rank", "index")
    assert read_picks(path).tolist() == [4, 2]


def test_whole_floats_and_truth_values_are_names_and_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.jsonl", '{"id": 1.0, "x": true}\n{"id": 2.0, "x": false}\n')
    pool = read_pool(path)
    assert pool.ids is not None
    assert pool.ids.tolist() == [1, 2]
    assert np.asarray(pool.features).tolist() == [[1], [0]]


def test_truth_values_among_numbers_are_refused(tmp_path: Path) -> None:
    among_numbers = write(tmp_path / "a.jsonl", '{"x": 0.5}\n{"x": true}\n')
    with pytest.raises(InvalidData, match=r"'x' of .*a\.jsonl holds True, a boolean among numbers, in line 2"):
        read_pool(among_numbers)
    among_truths = write(tmp_path / "b.jsonl", '{"x": null}\n{"x": true}\n{"x": 1}\n')
    with missing_as_nan(), pytest.raises(InvalidData, match="holds 1, a number among booleans, in line 3"):
        read_pool(among_truths)


def test_texts_that_stand_for_nothing_are_gaps_among_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.jsonl", '{"x": 0.5, "y": "NA"}\n{"x": "N/A", "y": 1}\n{"x": "null", "y": 2}\n')
    with missing_as_nan():
        features = np.asarray(read_pool(path).features)
    assert np.array_equal(features, [[0.5, np.nan], [np.nan, 1.0], [np.nan, 2.0]], equal_nan=True)
    with pytest.raises(InvalidData, match=r"column 'x' .* holds 'N/A', which is not a number, in line 2"):
        read_pool(path)


def test_a_json_beside_shards_is_left_alone_and_alone_it_is_the_data(tmp_path: Path) -> None:
    write(tmp_path / "meta.json", json.dumps(ROWS))
    assert read_pool(str(tmp_path)).features.shape == (2, 2)
    np.save(tmp_path / "part.npy", np.zeros((3, 2)))
    assert read_pool(str(tmp_path)).features.shape == (3, 2)


def test_json_is_held_within_the_bound(tmp_path: Path) -> None:
    rows: list[object] = [{"v": list(range(100))} for _ in range(2000)]
    for path in (write(tmp_path / "a.jsonl", lines(rows)), write(tmp_path / "a.json", json.dumps(rows))):
        with input_limit(10**6), pytest.raises(MemoryLimit, match="inputs may take 1 MB"):
            open_source(path)
        with input_limit(10**7):
            assert read_array(path, "features").shape == (2000, 100)


Cells = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.floats()))


@given(st.lists(st.dictionaries(st.sampled_from("abc"), Cells), min_size=1, max_size=5))
def test_any_objects_are_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
) -> None:
    path = write(tmp_path_factory.mktemp("any") / "pool.jsonl", lines([*rows]))
    features, message = np.empty((0, 0)), ""
    try:
        features = np.asarray(read_pool(path, columns=Columns(features=["a"])).features)
    except (InvalidData, MissingFile) as error:
        message = str(error)
    assert "\n" not in message
    for row, found in zip(rows, features, strict=not message):
        np.testing.assert_array_equal(np.atleast_1d(found), np.atleast_1d(np.array(row["a"], dtype=np.float64)))


def test_what_is_no_number_no_list_and_no_text_is_reported_with_its_place(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.jsonl", '{"x": 1, "y": 2}\n{"x": {"a": 1}, "y": [1]}\n')
    for name, shown in {"x": r"\{'a': 1\} in line 2", "y": r"a mixture"}.items():
        with pytest.raises(
            InvalidData, match=rf"column '{name}' of .* holds .*{shown}.*; use numbers, lists of numbers or"
        ):
            read_array(f"{path}::{name}", "doubt")


def test_row_numbers_that_pandas_writes_as_keys_are_an_index_and_no_ids(tmp_path: Path) -> None:
    pd.DataFrame({"x": [1.0, 2.0, 5.0]}).to_json(tmp_path / "pool.json")
    pool = read_pool(str(tmp_path / "pool.json"))
    assert pool.ids is None
    assert pool.row_ids.index is not None
    assert pool.row_ids.index.keys == ["0", "1", "2"]
    assert pool.feature_names == ("x",)
