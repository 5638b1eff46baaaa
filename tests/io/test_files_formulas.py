"""Ids that a spreadsheet would work out: kept from it where asked, and the same again when read."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.api import select
from dubito.core.problem import Selection
from dubito.errors import InvalidData
from dubito.io import append_picks, open_source
from dubito.io.cells import FORMULA_START, plain_cell, safe_cell

IDS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\tx", "'=quoted", "-7", "plain", "a\r=1+1", "\n=1+1"]


def selection(indices: list[int]) -> Selection:
    picked = select(np.arange(10.0)[:, None], len(indices), candidates=indices, strategy="random")
    return replace(picked, indices=np.array(indices), ids=np.array(IDS)[indices])


@given(st.text())
def test_text_made_safe_comes_back_and_is_no_formula(text: str) -> None:
    safe = str(safe_cell(text))
    assert plain_cell(safe) == text or not FORMULA_START.match(text)
    assert not safe.startswith(("=", "@", "\t", "\r", "\n"))


def test_picks_for_a_spreadsheet_hold_no_formula_and_read_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "picks.csv"
    selection([0, 1, 2, 3, 4]).save(str(path), safe_csv=True)
    append_picks(selection([5, 6, 7, 8, 9]), str(path), safe_csv=True)
    with path.open(newline="") as file:
        cells = [row["id"] for row in csv.DictReader(file)]
    assert not any(cell.startswith(("=", "+", "@", "\t", "\n")) for cell in cells)
    assert len(cells) == len(IDS)
    assert b'"a\r=1+1"' in path.read_bytes()
    assert cells[6:8] == ["-7", "plain"]
    assert open_source(str(path)).entry("id").names().tolist() == IDS


def test_without_it_ids_are_written_as_they_are(tmp_path: Path) -> None:
    selection([0, 1]).save(str(tmp_path / "picks.csv"))
    with (tmp_path / "picks.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == IDS[:2]


def test_picks_that_another_program_saved_in_its_own_way_are_not_added_to(tmp_path: Path) -> None:
    path = tmp_path / "picks.csv"
    path.write_text("rank;index;id;priority\n1;3;a;0.5\n")
    with pytest.raises(
        InvalidData, match=r"cannot be appended to: .* semicolons between its fields; save it as plain CSV"
    ):
        append_picks(selection([0]), str(path))
    assert path.read_text().count("\n") == 2
