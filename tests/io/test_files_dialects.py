"""Delimited files as people have them: delimiters, decimal commas, Excel's leftovers, and what is refused."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dubito.errors import InvalidData
from dubito.io import Columns, open_source, read_pool
from dubito.io.cells import as_list, is_number
from dubito.io.formats.delimited import DELIMITERS, guess_dialect


def write(path: Path, content: str) -> str:
    path.write_bytes(content.encode())
    return str(path)


def features(path: str) -> list[list[float]]:
    matrix: list[list[float]] = np.asarray(read_pool(path).features).tolist()
    return matrix


@pytest.mark.parametrize(("delimiter", "word"), [*DELIMITERS.items()])
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_whatever_stands_between_fields_is_recognized_and_reported(
    tmp_path: Path, delimiter: str, word: str, suffix: str
) -> None:
    lines = ["id,x,y", "a,1.5,2", "b,-3,4e2"]
    path = write(tmp_path / f"pool{suffix}", "\n".join(lines).replace(",", delimiter))
    assert features(path) == [[1.5, 2], [-3, 400]]
    expected = {".csv": ",", ".tsv": "\t"}[suffix] == delimiter
    described = () if expected else (f"{path} was read with {word} between its fields.",)
    assert open_source(path).notes == described


@given(
    rows=st.lists(st.tuples(st.text("ab,;|\t\"\n'é ", max_size=5), st.integers(-99, 99), st.floats(-9, 9)), min_size=2),
    delimiter=st.sampled_from([*DELIMITERS]),
)
def test_any_quoted_text_survives_every_delimiter(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, float]], delimiter: str
) -> None:
    assume(not any(cell.startswith(" ") and '"' in cell for cell, *_ in rows))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerows([("note", "x", "y"), *((f"n{note}", *numbers) for note, *numbers in rows)])
    path = write(tmp_path_factory.mktemp("any") / "pool.csv", text.getvalue())
    pool = read_pool(path, columns=Columns(label="note"))
    assert np.asarray(pool.features).tolist() == [[x, y] for _, x, y in rows]
    assert pool.source.entry("note").names().tolist() == [f"n{note}" for note, *_ in rows]


def test_decimal_commas_are_read_and_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.csv", "id;x;y;n\na;1,5;-0,25;3\nb;,5;1e-3;1000\nc;2,;3,5E2;7\n")
    assert features(path) == [[1.5, -0.25, 3], [0.5, 0.001, 1000], [2, 350, 7]]
    assert f"{path} was read with decimal commas: 1,5 is one and a half." in open_source(path).notes


def test_decimal_commas_without_a_header(tmp_path: Path) -> None:
    assert features(write(tmp_path / "pool.csv", "1,5;2,5\n3,5;4,25\n")) == [[1.5, 2.5], [3.5, 4.25]]


def test_thousands_or_decimals_is_asked_and_never_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.csv", "id;x\na;1,234\nb;5,678\n")
    with pytest.raises(InvalidData, match=r"column 'x' of .*pool.csv holds text such as '1,234'"):
        read_pool(path)
    proven = write(tmp_path / "proven.csv", "id;x\na;1,234\nb;0,678\n")
    assert features(proven) == [[1.234], [0.678]]


@pytest.mark.parametrize(
    ("cell", "odd"),
    [
        ("1.234,5", "thousands separators"),
        ("1 234,5", "thousands separators"),
        ("12,5 %", "a percent sign"),
        ("0x1F", "hexadecimal digits"),
        ("€ 12", "a currency symbol"),
    ],
)
def test_a_number_in_other_clothes_is_reported_by_what_is_odd(tmp_path: Path, cell: str, odd: str) -> None:
    content = "id;x\n" + "".join(f"r{row};{row},5\n" for row in range(200)) + f"last;{cell}\n"
    with pytest.raises(
        InvalidData, match=rf"column 'x' of .* holds .*, which has {odd}, in line 202; write plain numbers"
    ):
        read_pool(write(tmp_path / "pool.csv", content))


def test_a_point_among_decimal_commas_is_refused(tmp_path: Path) -> None:
    content = "id;x\n" + "".join(f"r{row};{row},5\n" for row in range(200)) + "last;1.234\n"
    with pytest.raises(InvalidData, match=r"column 'x' of .* holds '1.234', which .* in line 202"):
        read_pool(write(tmp_path / "pool.csv", content))


def test_excel_s_word_on_the_delimiter_is_heard(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.csv", "sep=;\r\nid;x\r\na;1\r\nb;\r\n")
    assert open_source(path).names == ("id", "x")
    with pytest.raises(InvalidData, match=r"is empty in line 4"):
        read_pool(path)


def test_empty_columns_and_rows_that_excel_leaves_are_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.csv", "id,x,,y,,\r\na,1,,2,,\r\nb,3,,4,,\r\n,,,,,\r\n,,,,,\r\n\r\n")
    assert features(path) == [[1, 2], [3, 4]]
    assert open_source(path).names == ("id", "x", "y")
    assert features(write(tmp_path / "more.csv", "id,x\na,1,\nb,2,\n")) == [[1], [2]]


def test_an_empty_row_between_others_is_not_skipped(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"column 'x' of .*pool.csv is empty in line 3"):
        read_pool(write(tmp_path / "pool.csv", "id,x\na,1\n,\nb,2\n"))


@pytest.mark.parametrize("content", ["id,x,,y\na,1,,2\nb,3,9,4\n", "id,x,\na,1,\nb,2,9\n"])
def test_a_value_in_a_column_without_a_name_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(
        InvalidData, match=r"line 3 of .*pool.csv has (a value in field 3, for which the header|3 fields)"
    ):
        read_pool(write(tmp_path / "pool.csv", content))


def test_row_names_that_r_writes_are_reported_of(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"line 2 .* has 3 fields instead of 2; if its first field names the row"):
        read_pool(write(tmp_path / "pool.csv", '"x","y"\n"1",5,6\n"2",7,8\n'))


def test_spaces_behind_commas_mean_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.csv", '"id", "x", "y, z"\n"a", 1, 2\n"b,c", 3, 4\n')
    pool = read_pool(path)
    assert pool.feature_names == ("x", "y, z")
    assert pool.ids is not None
    assert pool.ids.tolist() == ["a", "b,c"]


def test_line_ends_may_be_mixed_and_stand_in_quotes(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.csv", 'id,x\r\n"a\nb",1\rc,2\nd,3')
    pool = read_pool(path)
    assert pool.ids is not None
    assert pool.ids.tolist() == ["a\nb", "c", "d"]


def test_a_broken_row_of_a_semicolon_file_is_reported_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"line 3 of .*pool.csv has 2 fields instead of 3"):
        read_pool(write(tmp_path / "pool.csv", "id;x;y\na;1;2\nb;3\nc;5;6\n"))


def test_one_column_of_text_with_commas_is_not_cut_elsewhere(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.csv", 'text\n"a;b"\n"c|d;e"\n')
    assert open_source(path).names == ("text",)


def test_a_column_of_lists_is_a_matrix(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.csv", 'id,embedding\na,"[0.5, 1]"\nb,"[2,-3e1]"\n')
    assert features(path) == [[0.5, 1], [2, -30]]
    printed = write(tmp_path / "printed.csv", "id,embedding\na,[0.5 1. ]\nb,[ 2.  -3.]\n")
    assert features(printed) == [[0.5, 1], [2, -3]]


def test_a_list_may_be_longer_than_the_csv_module_likes(tmp_path: Path) -> None:
    row = "[" + ", ".join(["0.1234567890123456"] * 20_000) + "]"
    path = write(tmp_path / "pool.csv", f'id,embedding\na,"{row}"\nb,"{row}"\n')
    assert np.asarray(read_pool(path).features).shape == (2, 20_000)
    assert csv.field_size_limit() == 131_072


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (
            "[1, 2, 3]",
            r"column 'v' of .* has 3 numbers in line 102 and 2 in line 2; all lists must have the same",
        ),
        ("[1, x]", r"line 102 of .* holds '\[1, x\]', which is not a list of numbers\."),
        ("[1 ... 2]", r"line 102 of .* which is not a list of numbers; it was truncated when it was printed"),
    ],
)
def test_lists_that_differ_are_reported_with_their_line(tmp_path: Path, last: str, message: str) -> None:
    content = "id,v\n" + "".join(f'r{row},"[{row}, 1]"\n' for row in range(100)) + f'last,"{last}"\n'
    with pytest.raises(InvalidData, match=message):
        read_pool(write(tmp_path / "pool.csv", content))


@pytest.mark.parametrize("comma", [False, True])
def test_underscores_in_numbers_are_refused_in_every_line(tmp_path: Path, comma: bool) -> None:
    number = "0,5" if comma else "0.5"
    content = "id;x;y\n" + f"r;{number};{number}\n" * 2000
    with pytest.raises(InvalidData, match=r"column 'y' of .* holds '1_000', which is not a number, in line 2002"):
        np.asarray(read_pool(write(tmp_path / "pool.csv", f"{content}last;{number};1_000\n")).features)


@given(st.floats(), st.booleans())
def test_every_number_python_writes_is_a_number(value: float, comma: bool) -> None:
    text = repr(value).replace(".", ",") if comma else repr(value)
    assert is_number(text, decimal_comma=comma)


@given(st.lists(st.floats(allow_nan=False), min_size=2))
def test_lists_come_back_exactly(values: list[float]) -> None:
    found = as_list(repr(values).replace("inf", "Infinity"))
    assert found is not None
    assert found.tolist() == values


def test_an_empty_sample_has_the_dialect_its_name_promises() -> None:
    assert guess_dialect(io.StringIO(""), ";").delimiter == ";"


class Counting(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counting.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_reading_a_wide_table_compares_names_in_proportion_to_their_number(tmp_path: Path) -> None:
    counts = []
    for width in (200, 400):
        names = [f"f{place}" for place in range(width)]
        path = write(tmp_path / f"{width}.csv", ",".join(names) + "\n" + ",".join("1" * width) + "\n")
        source = open_source(path)
        Counting.compared = 0
        assert source.columns is not None
        assert source.columns([Counting(name) for name in names]).shape == (1, width)
        counts.append(Counting.compared)
    assert counts[1] <= 2 * counts[0] + 10


@pytest.mark.parametrize("rows", ["1.500\n2.500\n900\n", "900\n12.000\n-1.000\n", "1.234.567\n5\n6\n"])
def test_points_that_may_stand_between_thousands_are_refused_beside_semicolons(tmp_path: Path, rows: str) -> None:
    path = tmp_path / "pool.csv"
    path.write_text("id;x\n" + "".join(f"n{place};{row}\n" for place, row in enumerate(rows.split())))
    with pytest.raises(
        InvalidData, match=r"such as '[-\d.]+', wh(ose point|ich has marks).* thousands.*, but features are"
    ):
        read_pool(str(path))


@pytest.mark.parametrize("rows", ["1.500\n2.500\n", "1.500\n0.900\n900\n", "1.5\n900\n"])
def test_points_that_are_decimal_are_read_so(tmp_path: Path, rows: str) -> None:
    (tmp_path / "pool.csv").write_text(
        "id;x\n" + "".join(f"n{place};{row}\n" for place, row in enumerate(rows.split()))
    )
    features = np.asarray(read_pool(str(tmp_path / "pool.csv")).features)
    assert features[:, 0].tolist() == [float(row) for row in rows.split()]


@pytest.mark.parametrize(
    ("cell", "odd"),
    [("2.5", "which has a point where others have decimal commas"), ("10%", "which has a percent sign")],
)
def test_what_keeps_a_column_from_being_numbers_is_reported(tmp_path: Path, cell: str, odd: str) -> None:
    (tmp_path / "pool.csv").write_text(f"id;x;y\na;1,5;{cell}\nb;2,5;{cell}\n")
    with pytest.raises(
        InvalidData, match=f"column 'y' of .* holds text such as '{cell}', {odd}, but features are numbers"
    ):
        read_pool(str(tmp_path / "pool.csv"))
