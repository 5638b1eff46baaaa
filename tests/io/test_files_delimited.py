"""CSV and TSV: which columns are features, and what is said of those that cannot be."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.errors import InvalidData, MissingFile
from dubito.io import Columns, find_array, find_doubt, open_source, read_array, read_pool
from dubito.io.missing_values import missing_as_nan
from dubito.matrix import Stack
from dubito.request.labels import MISSING_TEXTS


def text_file(path: Path, content: str) -> str:
    path.write_bytes(content.encode())
    return str(path)


@given(st.lists(st.lists(st.floats(allow_nan=False), min_size=3, max_size=3), min_size=1, max_size=20))
def test_csv_numbers_come_back_exactly(tmp_path_factory: pytest.TempPathFactory, rows: list[list[float]]) -> None:
    lines = ["a,b,c", *(",".join(map(repr, row)) for row in rows)]
    path = text_file(tmp_path_factory.mktemp("csv") / "pool.csv", "\n".join(lines))
    np.testing.assert_array_equal(np.asarray(read_pool(path).features), rows)


def test_csv_features_are_the_numbers_beside_ids_and_labels(tmp_path: Path) -> None:
    path = text_file(
        tmp_path / "pool.csv", "\ufeffid,x,label,doubt,y,flag\r\n007,1,3,0.5,-2e3,True\r\n\r\n8,nan,4,1,0,false\r\n"
    )
    pool = read_pool(path)
    np.testing.assert_array_equal(np.asarray(pool.features), [[1, -2000, 1], [np.nan, 0, 0]])
    assert pool.ids is not None
    assert pool.ids.tolist() == ["007", "8"]
    assert read_array(path, "labels").tolist() == [3, 4]
    found = find_doubt(pool.source)
    assert found is not None
    assert found[1].tolist() == [0.5, 1.0]


def test_tsv_with_quotes_and_integer_ids(tmp_path: Path) -> None:
    path = text_file(tmp_path / "pool.tsv", 'key\tx\t"a\tb"\n10\t1\t2\n-9\t3\t4\n')
    pool = read_pool(path, columns=Columns(id="key"))
    assert pool.ids is not None
    assert pool.ids.dtype == np.int64
    assert pool.ids.tolist() == [10, -9]
    assert np.asarray(pool.features).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("text", ["", " ", *sorted(MISSING_TEXTS)])
def test_what_is_no_label_is_no_number_either_and_no_text(tmp_path: Path, text: str) -> None:
    path = text_file(tmp_path / "pool.csv", f"x,y\n1,2\n{text},3\n4, {text}\n")
    with missing_as_nan():
        features = np.asarray(read_pool(path).features)
    np.testing.assert_array_equal(features, [[1, 2], [np.nan, 3], [4, np.nan]])


def test_a_text_that_stands_for_nothing_is_named_where_gaps_are_not_kept(tmp_path: Path) -> None:
    path = text_file(tmp_path / "pool.csv", "x\n1\nNA\n")
    with pytest.raises(InvalidData, match=r"column 'x' .* holds 'NA', which is not a number, in line 3"):
        read_pool(path)


def test_a_first_row_of_numbers_and_gaps_is_no_header(tmp_path: Path) -> None:
    with missing_as_nan():
        features = np.asarray(read_pool(text_file(tmp_path / "pool.csv", "NA,2\n3,4\n")).features)
    np.testing.assert_array_equal(features, [[np.nan, 2], [3, 4]])


@pytest.mark.parametrize("n_before", [200, 5000])
def test_truth_values_and_numbers_in_one_column_are_refused(tmp_path: Path, n_before: int) -> None:
    truths = text_file(tmp_path / "truths.csv", "x,y\n" + "true,1\n" * n_before + "3,1\n" * 9000)
    with pytest.raises(InvalidData, match=rf"holds '3', a number among booleans, in line {n_before + 2}"):
        read_pool(truths)
    numbers = text_file(tmp_path / "numbers.csv", "x,y\n" + "3,1\n" * n_before + "False,1\n")
    with pytest.raises(InvalidData, match=rf"holds 'False', a boolean among numbers, in line {n_before + 2}"):
        read_pool(numbers)


def test_csv_without_a_header_is_all_data(tmp_path: Path) -> None:
    path = text_file(tmp_path / "pool.csv", "1,2\n3,4\n")
    assert open_source(path).names == ("column1", "column2")
    assert np.asarray(read_pool(path).features).tolist() == [[1, 2], [3, 4]]


def test_the_header_and_index_that_pandas_writes_are_understood(tmp_path: Path) -> None:
    frame = pd.DataFrame([[5.0, 6.0], [7.0, 8.0]])
    frame.to_csv(tmp_path / "bare.csv", index=False)
    frame.to_csv(tmp_path / "indexed.csv")
    for name in ("bare.csv", "indexed.csv"):
        assert np.asarray(read_pool(str(tmp_path / name)).features).tolist() == [[5, 6], [7, 8]]


def test_feature_columns_are_kept_in_the_order_asked_for(tmp_path: Path) -> None:
    path = text_file(tmp_path / "pool.csv", "note,f1,f2,z\nhello,1,2,3\n")
    wanted = Columns(features=["z", "f*", "f1"])
    assert np.asarray(read_pool(path, columns=wanted).features).tolist() == [[3, 1, 2]]


@pytest.mark.parametrize("pattern", ["f*", "*"])
def test_a_pattern_leaves_out_ids_labels_and_what_else_is_claimed(tmp_path: Path, pattern: str) -> None:
    path = text_file(tmp_path / "pool.csv", "file,f1,finding,f2,doubt\n007,1,3,2,0.5\n008,5,4,6,0.5\n")
    pool = read_pool(path, columns=Columns(id="file", label="finding", features=[pattern]))
    assert np.asarray(pool.features).tolist() == [[1, 2], [5, 6]]
    assert pool.ids is not None
    assert pool.ids.tolist() == ["007", "008"]
    named = read_pool(path, columns=Columns(id="file", label="finding", features=["finding", "f2"]))
    assert np.asarray(named.features).tolist() == [[3, 2], [4, 6]]


def test_a_column_called_head_is_a_feature_like_any_other(tmp_path: Path) -> None:
    path = text_file(tmp_path / "pool.csv", "head,tail\n1,2\n3,4\n")
    assert np.asarray(read_pool(path).features).tolist() == [[1, 2], [3, 4]]
    assert find_array(open_source(path), "head") is None
    assert read_array(path, "head").tolist() == [[1, 2], [3, 4]]


def test_one_column_makes_a_matrix_of_width_one(tmp_path: Path) -> None:
    path = text_file(tmp_path / "pool.csv", "id,x\na,1\nb,2\n")
    assert read_pool(path).features.shape == (2, 1)
    assert read_pool(f"{path}::x").features.shape == (2, 1)


def test_a_header_alone_gives_no_rows(tmp_path: Path) -> None:
    path = text_file(tmp_path / "pool.csv", "id,x,y\n")
    assert read_array(path, "features").shape == (0, 2)
    assert read_array(path, "ids").tolist() == []
    with pytest.raises(InvalidData, match=r"pool.csv holds no rows; a pool needs at least one"):
        read_pool(path)


def test_text_after_the_sampled_rows_is_found_with_its_line(tmp_path: Path) -> None:
    path = text_file(tmp_path / "pool.csv", "x,y\n" + "1,2\n" * 5000 + "1,oops\n")
    with pytest.raises(
        InvalidData, match=r"column 'y' of .*pool.csv holds 'oops', which is not a number, in line 5002"
    ):
        read_pool(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "name,x\ncat,1\n",
            r"column 'name' of .*pool.csv holds text such as 'cat', .* pass Columns\(id='name'\), .*Columns\(ignore=",
        ),
        ("note,x\n,1\n,2\n", r"column 'note' of .*pool.csv holds nothing, but features are numbers"),
        ("x,y\n1,\n2,3\n", r"column 'y' of .*pool.csv is empty in line 2; fix or remove that row"),
        ("x,y\n1,2\n3\n", r"line 3 of .*pool.csv has 1 fields instead of 2"),
        ("x,y\n1,2\n3,4,5\n", r"line 3 of .*pool.csv has 3 fields instead of 2"),
        ("x,x\n1,2\n", r"pool.csv has two columns called 'x'; rename one"),
        ("id,x\n,1\n", r"column 'id' of .*pool.csv is empty in line 2; fill it in"),
        ("\n\n", r"pool.csv holds no rows"),
        ("x,y\n1,1_000\n", r"column 'y' of .*pool.csv holds text such as '1_000'"),
        ('x,y\n1,"2\n', r"line 2 of .*pool.csv is truncated, or has a misplaced quote"),
        ("id,x\na,1\na,2\n", r"pool.csv repeats the id 'a' \(rows 0 and 1\)"),
    ],
)
def test_broken_tables_are_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InvalidData, match=message) as caught:
        read_pool(text_file(tmp_path / "pool.csv", content))
    assert "\n" not in str(caught.value)


def test_missing_columns_are_answered_with_the_nearest(tmp_path: Path) -> None:
    path = text_file(tmp_path / "pool.csv", "key,width,height\na,1,2\n")
    with pytest.raises(
        MissingFile, match=r"has no column 'kei'; did you mean 'key'\? it holds key \(text such as 'a'\)"
    ):
        read_pool(path, columns=Columns(id="kei", features=["width"]))
    with pytest.raises(MissingFile, match=r"has no column 'widht'; did you mean 'width'\?"):
        read_pool(path, columns=Columns(features=["widht"]))
    with pytest.raises(MissingFile, match=r"has no column 'q\*'"):
        read_pool(path, columns=Columns(features=["q*"]))
    with pytest.raises(MissingFile, match=r"has no column 'klass'"):
        read_array(path, "labels", columns=Columns(label="klass"))
    with pytest.raises(
        InvalidData, match=r"column 'key' of .* holds text such as 'a'; the features must be columns of"
    ):
        read_pool(path, columns=Columns(features=["key"]))


def test_a_table_of_names_alone_has_no_features(tmp_path: Path) -> None:
    path = text_file(tmp_path / "pool.csv", "id,label\n1,2\n")
    with pytest.raises(MissingFile, match=r"pool.csv has no columns that could be the features; it holds id"):
        read_pool(path)


def test_probabilities_and_doubt_have_tables_of_their_own(tmp_path: Path) -> None:
    probabilities = text_file(tmp_path / "p.csv", "id,cat,dog\na,0.25,0.75\n")
    assert read_array(probabilities, "probabilities").tolist() == [[0.25, 0.75]]
    assert read_array(text_file(tmp_path / "d.csv", "id,score\na,0.5\n"), "doubt").tolist() == [0.5]
    with pytest.raises(MissingFile, match=r"no column called doubt, and 2 that could be the doubt .*p.csv::NAME"):
        read_array(probabilities, "doubt")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("labeled,x\n0,1\n1,2\n", [False, True]),
        ("labeled,x\nTrue,1\nFalse,2\n", [True, False]),
        ("labeled\n3\n1\n", [3, 1]),
        ("rank,index,id,priority\n1,5,a,inf\n2,0,b,\n", [5, 0]),
        ("index\n4\n2\n", [4, 2]),
        ("labeled\n0.5\n", [0.5]),
        ("id,x,y\na,1,2\n", [[1, 2]]),
        ("x\n3\n", [[3]]),
        ("pool,z\n3,4\n", [[3, 4]]),
    ],
)
def test_labeled_in_a_table_is_a_mask_rows_or_features(tmp_path: Path, content: str, expected: list[object]) -> None:
    labeled = np.asarray(read_array(text_file(tmp_path / "seen.csv", content), "labeled"))
    assert labeled.tolist() == expected
    if expected in ([3, 1], [5, 0], [4, 2]):
        assert labeled.dtype == np.int64


def test_a_key_to_a_labeled_column_gives_rows(tmp_path: Path) -> None:
    path = text_file(tmp_path / "seen.csv", "row,x\n3,0.5\n1,0.5\n")
    assert np.asarray(read_array(f"{path}::row", "labeled")).tolist() == [3, 1]


def test_shards_of_tables_are_stacked_by_column_name(tmp_path: Path) -> None:
    text_file(tmp_path / "part2.csv", "y,x,id\n2,1,b\n")
    text_file(tmp_path / "part10.csv", "id,x,y\nc,3,4\n")
    text_file(tmp_path / "part1.csv", "id,x,y\n5,6,7\n")
    pool = read_pool(str(tmp_path))
    assert isinstance(pool.features, Stack)
    assert pool.features[0:3].tolist() == [[6, 7], [1, 2], [3, 4]]
    assert pool.ids is not None
    assert pool.ids.tolist() == ["5", "b", "c"]
