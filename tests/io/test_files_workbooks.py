"""Excel workbooks as they come: indices of pandas, leftovers, formulas, dates, several sheets, and hostile ones."""

import datetime
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

from dubito.errors import InvalidData, MemoryLimit, MissingExtra
from dubito.io import Columns, input_limit, open_source, read_array, read_pool

ROWS = [["id", "x", "y", "label"], ["a", 1, 2.5, "cat"], ["b", -3, 400.0, None]]


def write(path: Path, *sheets: Sequence[object]) -> str:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets, start=1):
        sheet = book.create_sheet(f"Sheet {number}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return str(path)


def rewrite(path: str, member: str, old: str, new: str) -> None:
    """The workbook with some of the text of a member changed."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert old in contents[member].decode()
    contents[member] = contents[member].decode().replace(old, new, 1).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


SHEET = "xl/worksheets/sheet1.xml"


def test_a_sheet_is_a_table(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.xlsx", ROWS)
    pool = read_pool(path)
    assert np.asarray(pool.features).tolist() == [[1, 2.5], [-3, 400]]
    assert pool.ids is not None
    assert pool.ids.tolist() == ["a", "b"]
    assert pool.source.notes == ()
    with pytest.raises(InvalidData, match=r"column 'label' of .*pool.xlsx is empty in row 3; fill it in"):
        read_array(path, "labels")


def test_a_frame_written_by_pandas_comes_back(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    frame.to_excel(tmp_path / "bare.xlsx", index=False)
    frame.to_excel(tmp_path / "indexed.xlsx")
    for name in ("bare.xlsx", "indexed.xlsx"):
        assert np.asarray(read_pool(str(tmp_path / name)).features).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_numbers_alone_have_no_header(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.xlsx", [[1.5, 2], [3, 4]])
    assert open_source(path).names == ("column1", "column2")
    assert read_array(path, "features").shape == (2, 2)


def test_what_excel_leaves_around_a_table_is_nothing(tmp_path: Path) -> None:
    rows = [[], ["id", "x", None, "y", None], ["a", 1, None, 2, None], ["b", 3, None, 4, " "], [None] * 5, ["", " "]]
    path = write(tmp_path / "pool.xlsx", rows)
    assert np.asarray(read_pool(path).features).tolist() == [[1, 2], [3, 4]]


def test_an_empty_row_between_others_is_not_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.xlsx", [["x"], [1], [None], [2]])
    with pytest.raises(InvalidData, match=r"column 'x' of .*pool.xlsx is empty in row 3"):
        read_pool(path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["x", "x"], [1, 2]], r"has two columns called 'x'; rename one"),
        (
            [["Report of May"], ["id", "x"], ["a", 1]],
            r"row 2 of .* has a value in column 2, for which the first row has no",
        ),
        ([["x"], ["#DIV/0!"], [1]], r"column 'x' of .* holds text such as '#DIV/0!'"),
        ([["x"], ["12 %"]], r"column 'x' of .* holds text such as '12 %'"),
        ([], r"pool.xlsx holds no rows"),
        ([["id", "x"]], r"holds no rows; a pool needs at least one"),
    ],
)
def test_sheets_that_are_no_table_are_refused(tmp_path: Path, rows: Sequence[object], message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        read_pool(write(tmp_path / "pool.xlsx", rows))


def test_dates_are_text(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.xlsx", [["day", "x"], [datetime.datetime(2024, 5, 1), 1]])
    assert read_array(path, "labels", columns=Columns(label="day")).tolist() == ["2024-05-01T00:00:00"]


def test_the_first_sheet_that_holds_anything_is_read_and_others_are_reported_of(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.xlsx", [], ROWS, [["z"], [9]])
    source = open_source(path)
    assert source.names == ("id", "x", "y", "label")
    assert source.notes == (f"{path}: the sheet 'Sheet 2' was read; other sheets: 'Sheet 3'.",)


def test_a_formula_counts_with_the_value_that_was_worked_out(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.xlsx", [["x", "y"], [1, "=A2*2"], [3, 4]])
    with pytest.raises(InvalidData, match=r"row 2 of .*pool.xlsx holds the formula =A2\*2 without a value; open"):
        read_pool(path)
    rewrite(path, SHEET, "<f>A2*2</f><v />", "<f>A2*2</f><v>2</v>")
    assert np.asarray(read_pool(path).features).tolist() == [[1, 2], [3, 4]]


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.xlsx", ROWS)
    rewrite(path, SHEET, "</sheetData>", "<!--" + " " * 20_000_000 + "--></sheetData>")
    assert Path(path).stat().st_size < 100_000
    with input_limit(10**7), pytest.raises(MemoryLimit, match=r"pool.xlsx takes 20 MB of memory once it is unpacked"):
        open_source(path)


def test_a_sheet_with_more_rows_than_a_sheet_can_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dubito.io.formats.excel.MOST_ROWS", 3)
    assert np.asarray(read_pool(write(tmp_path / "pool.xlsx", [["x"], [1], [2]])).features).tolist() == [[1], [2]]
    with pytest.raises(InvalidData, match=r"more.xlsx has more than the 3 rows that a sheet can have"):
        open_source(write(tmp_path / "more.xlsx", [["x"], [1], [2], [3]]))


@pytest.mark.slow
def test_a_sheet_that_says_it_is_endless_is_not_walked_to_its_end(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.xlsx", [["x"], [1], [2]])
    rewrite(path, SHEET, '<row r="3">', '<row r="999999999999">')
    with pytest.raises(InvalidData, match=r"pool.xlsx has more than the 1,048,576 rows that a sheet can have"):
        open_source(path)


def test_what_a_sheet_says_of_its_size_is_no_matter(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.xlsx", [["x"], [1], [2]])
    rewrite(path, SHEET, 'ref="A1:A3"', 'ref="A1:XFD1048576"')
    assert np.asarray(read_pool(path).features).tolist() == [[1], [2]]


def test_one_long_text_does_not_multiply(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.xlsx", [["id", "x"], ["a" * 30_000, 0], *([f"r{row}", row] for row in range(200))])
    with input_limit(10**7), pytest.raises(MemoryLimit, match=r"'id' of .*pool.xlsx takes 24.1 MB of memory"):
        read_pool(path)


def test_entities_that_multiply_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.xlsx", [["x"], [1]])
    lol = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 20}">' for n in range(1, 9))
    rewrite(path, SHEET, "<worksheet", f'<!DOCTYPE x [<!ENTITY e0 "lol">{lol}]><worksheet')
    rewrite(path, SHEET, "<v>1</v>", "<v>&e8;</v>")
    with pytest.raises(InvalidData, match=r"pool.xlsx cannot be read as .xlsx"):
        open_source(path)


def test_without_openpyxl_the_command_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "pool.xlsx", ROWS)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dubito\[excel\]'"):
        open_source(path)


def test_ids_that_a_workbook_cannot_hold_as_numbers_are_refused_and_as_text_they_are_kept(tmp_path: Path) -> None:
    ids = [2**53 + 2 * row + 1 for row in range(4)]
    frame = pd.DataFrame({"id": ids, "x": [1.0, 2.0, 3.0, 4.0]})
    frame.to_excel(tmp_path / "numbers.xlsx", index=False)
    with pytest.raises(
        InvalidData,
        match=r"column 'id' of .*numbers.xlsx holds the number 9007199254740\d+ in row 2, which is too large",
    ):
        read_pool(str(tmp_path / "numbers.xlsx"))
    frame.astype({"id": str}).to_excel(tmp_path / "texts.xlsx", index=False)
    names = read_pool(str(tmp_path / "texts.xlsx")).ids
    assert names is not None
    assert names.tolist() == ids
