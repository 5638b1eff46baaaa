"""Labels in files: who says what of which row, and what a person is told where that is not plain."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from .conftest import Program

N = 120
RNG = np.random.default_rng(3)
POINTS = RNG.normal(size=(N, 3)).round(3)
KINDS = np.where(POINTS[:, 0] > 0.4, "ant", np.where(POINTS[:, 1] > 0, "bee", "cat"))
IDS = [f"n{row}" for row in range(N)]
SELECT = ("select", "pool.csv", "-b", "6")


def write(path: str, header: str, *columns: Iterable[object]) -> None:
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    Path(path).write_text("\n".join([header, *lines, ""]))


@pytest.fixture(autouse=True)
def points(run: Program) -> None:
    write("pool.csv", "id,a,b,c", IDS, *POINTS.T.tolist())
    write("one.csv", "id,label", IDS[:40], KINDS[:40])


def test_files_that_contradict_each_other_are_refused(run: Program) -> None:
    write("two.csv", "id,label", ["n3", "n50", "n4"], ["owl", "ant", "owl"])
    ran = run(*SELECT, "--labelled", "one.csv", "--labelled", "two.csv")
    assert ran.code == 3
    said = (
        f"one.csv says label {str(KINDS[3])!r} and two.csv 'owl' of id 'n3', and 1 more differs; correct one of them."
    )
    assert said in ran.complaint
    ran = run("status", "pool.csv", "--labelled", "one.csv", "--labelled", "two.csv")
    assert said in ran.complaint


def test_files_that_agree_are_joined(run: Program) -> None:
    write("two.csv", "id,label", ["n3", "n50", "n4"], [KINDS[3], "ant", ""])
    ran = run(*SELECT, "--labelled", "one.csv", "--labelled", "two.csv")
    assert ran.code == 0
    assert "41 labels of 3 classes" in ran.err


def test_a_pool_without_ids_names_the_row(run: Program) -> None:
    write("pool.csv", "a,b,c", *POINTS.T.tolist())
    write("one.csv", "index,label", range(40), KINDS[:40])
    write("two.csv", "index,label", [7], ["owl"])
    ran = run(*SELECT, "--labelled", "one.csv", "--labelled", "two.csv")
    assert f"one.csv says label {str(KINDS[7])!r} and two.csv 'owl' of row 7; correct one of them." in ran.complaint


@pytest.mark.parametrize("column", ["label", "class"])
def test_the_pools_own_column_may_not_contradict_a_file(run: Program, column: str) -> None:
    own = ["owl" if row in (3, 60) else "" for row in range(N)]
    write("pool.csv", f"id,a,b,c,{column}", IDS, *POINTS.T.tolist(), own)
    ran = run(*SELECT, "--labelled", "one.csv")
    assert ran.code == 3
    mend = {"label": "take label out of pool.csv.", "class": "pass --ignore-columns class."}[column]
    said = f"pool.csv says {column} 'owl' and one.csv {str(KINDS[3])!r} of id 'n3'; correct one of them, or {mend}"
    assert said in ran.complaint
    if column == "class":
        assert run(*SELECT, "--labelled", "one.csv", "--ignore-columns", "class").code == 0


def test_names_of_classes_change_no_pick(run: Program) -> None:
    first = json.loads(run(*SELECT, "--labelled", "one.csv", "--json").out)["picks"]
    other = {"ant": "zebra", "bee": "yak", "cat": "ape"}
    write("one.csv", "id,label", IDS[:40], [other[kind] for kind in KINDS[:40]])
    assert json.loads(run(*SELECT, "--labelled", "one.csv", "--json").out)["picks"] == first


@pytest.mark.parametrize("option", ["--labelled", "--candidates"])
def test_rows_by_index_beside_ids_are_told(run: Program, option: str) -> None:
    write("rows.csv", "index,label", range(40), KINDS[:40])
    ran = run(*SELECT, option, "rows.csv")
    assert ran.code == 0
    told = (
        "pool.csv has ids and rows.csv none: rows are matched by their index, the row numbers of the pool as it is now."
    )
    assert told in ran.err
    write("rows.csv", "index,id,label", range(40), IDS[:40], KINDS[:40])
    assert "matched by" not in run(*SELECT, option, "rows.csv").err
