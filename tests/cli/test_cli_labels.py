"""Labels in files: who says what of which row, and what a person reads where that is not plain."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from .conftest import Program
from .test_cli_labeled import picked

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
    ran = run(*SELECT, "--labeled", "one.csv", "--labeled", "two.csv")
    assert ran.code == 3
    said = f"one.csv has label {str(KINDS[3])!r} and two.csv has 'owl' for id 'n3', and 1 more differs; correct"
    assert said in ran.complaint
    ran = run("status", "pool.csv", "--labeled", "one.csv", "--labeled", "two.csv")
    assert said in ran.complaint


def test_files_that_agree_are_joined(run: Program) -> None:
    write("two.csv", "id,label", ["n3", "n50", "n4"], [KINDS[3], "ant", ""])
    ran = run(*SELECT, "--labeled", "one.csv", "--labeled", "two.csv")
    assert ran.code == 0
    assert "41 labels of 3 classes" in ran.err


def test_a_pool_without_ids_names_the_row(run: Program) -> None:
    write("pool.csv", "a,b,c", *POINTS.T.tolist())
    write("one.csv", "index,label", range(40), KINDS[:40])
    write("two.csv", "index,label", [7], ["owl"])
    ran = run(*SELECT, "--labeled", "one.csv", "--labeled", "two.csv")
    assert f"one.csv has label {str(KINDS[7])!r} and two.csv has 'owl' for row 7; correct one of them." in ran.complaint


@pytest.mark.parametrize("column", ["label", "class"])
def test_the_pools_own_column_may_not_contradict_a_file(run: Program, column: str) -> None:
    own = ["owl" if row in (3, 60) else "" for row in range(N)]
    write("pool.csv", f"id,a,b,c,{column}", IDS, *POINTS.T.tolist(), own)
    ran = run(*SELECT, "--labeled", "one.csv")
    assert ran.code == 3
    hint = {"label": "remove label from pool.csv.", "class": "pass --ignore-columns class."}[column]
    said = f"pool.csv has {column} 'owl' and one.csv has {str(KINDS[3])!r} for id 'n3'; correct one of them, or {hint}"
    assert said in ran.complaint
    if column == "class":
        assert run(*SELECT, "--labeled", "one.csv", "--ignore-columns", "class").code == 0


def test_names_of_classes_change_no_pick(run: Program) -> None:
    first = json.loads(run(*SELECT, "--labeled", "one.csv", "--json").out)["picks"]
    other = {"ant": "zebra", "bee": "yak", "cat": "ape"}
    write("one.csv", "id,label", IDS[:40], [other[kind] for kind in KINDS[:40]])
    assert json.loads(run(*SELECT, "--labeled", "one.csv", "--json").out)["picks"] == first


@pytest.mark.parametrize("option", ["--labeled", "--candidates"])
def test_rows_by_index_beside_ids_are_reported(run: Program, option: str) -> None:
    write("rows.csv", "index,label", range(40), KINDS[:40])
    ran = run(*SELECT, option, "rows.csv")
    assert ran.code == 0
    described = "pool.csv has ids and rows.csv none: rows are matched by their index, which are the current row numbers"
    assert described in ran.err
    write("rows.csv", "index,id,label", range(40), IDS[:40], KINDS[:40])
    assert "matched by" not in run(*SELECT, option, "rows.csv").err


@pytest.mark.parametrize("name", ["labeled", "Labelled", "is_labeled", "is_labelled", "unlabelled", "is_unlabeled"])
@pytest.mark.parametrize(("yes", "no"), [(1, 0), ("yes", "no"), ("TRUE", "FALSE")])
def test_a_mask_in_the_pools_own_table_counts_and_is_reported(run: Program, name: str, yes: object, no: object) -> None:
    is_free = name.startswith(("un", "is_un"))
    write("pool.csv", f"id,a,b,c,{name}", IDS, *POINTS.T.tolist(), [yes if row < 40 else no for row in range(N)])
    ran = run("select", "pool.csv", "-b", "30", "-s", "coreset", "--json")
    n_labeled = 80 if is_free else 40
    described = f"pool.csv: {n_labeled} of {N} rows are labeled, by {name}; pass --ignore-columns {name} to ignore it."
    assert described in ran.err
    assert all((row < 40) == is_free for row in picked(ran.out))
    assert "are labeled" not in run(*SELECT, "-s", "coreset", "--ignore-columns", name).err


@pytest.mark.parametrize("where", ["pool", "file", "order"])
@pytest.mark.parametrize(("yes", "no"), [("ja", "nein"), ("x", ""), ("2", "0")])
def test_a_mask_in_other_words_is_refused_as_a_mask(run: Program, where: str, yes: str, no: str) -> None:
    mask = [no if row else yes for row in range(N)]
    if where == "pool":
        write("pool.csv", "id,a,b,c,labeled", IDS, *POINTS.T.tolist(), mask)
    header, *columns = {
        "pool": ["id", ["n1"]],
        "file": ["id,labeled", IDS, mask],
        "order": ["labeled,note", mask, IDS],
    }[where]
    write("mask.csv", str(header), *columns)
    ran = run(*SELECT, "--labeled", "mask.csv")
    assert ran.code == 3
    path = "pool.csv" if where == "pool" else "mask.csv"
    hint = "which is a mask; write 1 or 0, true or false, yes or no in every row."
    assert f"{path} holds {yes!r} in labeled (row 1), {hint}" in ran.complaint


def test_a_mask_with_a_gap_says_where(run: Program) -> None:
    write("mask.csv", "id,labeled", IDS, [1, "", *[0] * (N - 2)])
    ran = run(*SELECT, "--labeled", "mask.csv")
    assert "mask.csv has nothing in labeled (row 2), which is a mask" in ran.complaint


@pytest.mark.parametrize(
    ("header", "columns", "hint"),
    [
        ("label", (KINDS[:9],), "give it a column id, the pool's ids, or index, the row numbers from 0"),
        ("a,b,label", (range(9), range(9), KINDS[:9]), "points outside the pool need its 3 features."),
        ("name,label", (IDS[:9], KINDS[:9]), "name has the pool's ids: call it id there, as in the pool."),
    ],
)
def test_labels_without_a_name_for_their_rows_are_refused_with_what_is_needed(
    run: Program, header: str, columns: Iterable[Iterable[object]], hint: str
) -> None:
    write("bare.csv", header, *columns)
    ran = run(*SELECT, "--labeled", "bare.csv")
    assert ran.code == 3
    shown = header.replace(",", ", ")
    assert f"bare.csv has no column that names rows of the pool; it holds {shown}; " in ran.complaint
    assert hint in ran.complaint


def test_a_pool_without_ids_needs_row_numbers(run: Program) -> None:
    write("pool.csv", "a,b,c", *POINTS.T.tolist())
    write("bare.csv", "name,label", IDS[:9], KINDS[:9])
    ran = run(*SELECT, "--labeled", "bare.csv")
    assert "it holds name, label; give it a column index, the row numbers from 0;" in ran.complaint


def test_labels_of_points_outside_the_pool_are_told_to_teach_nothing(run: Program) -> None:
    write("old.csv", "a,b,c,label", *POINTS[:9].T.tolist(), KINDS[:9])
    ran = run(*SELECT, "-s", "coreset", "--labeled", "old.csv")
    described = "old.csv: features without an id or index are points outside the pool; their label is not used."
    assert described in ran.err


@pytest.mark.parametrize("name", ["klasse", "Kategorie"])
def test_a_label_column_of_another_name_is_hinted_at(run: Program, name: str) -> None:
    write("seen.csv", f"id,{name}", IDS[:40], KINDS[:40])
    ran = run(*SELECT, "--labeled", "seen.csv")
    assert f"fitted on this file. If {name} holds their classes, pass --label-column {name}." in ran.err
    assert "40 labels of 3 classes" in run(*SELECT, "--labeled", "seen.csv", "--label-column", name).err
    write("seen.csv", f"id,{name},by,score,a", IDS[:40], KINDS[:40], ["me", "you"] * 20, RNG.random(40), range(40))
    ran = run(*SELECT, "--labeled", "seen.csv")
    assert f"If {name} or by holds their classes, pass --label-column NAME." in ran.err


def test_a_file_of_picks_alone_gets_no_hint(run: Program) -> None:
    assert run(*SELECT, "-s", "coreset", "-o", "picks.csv").code == 0
    ran = run(*SELECT, "-s", "coreset", "--labeled", "picks.csv")
    assert "picks.csv: 6 rows, no label column: all count as labeled, and no model is fitted on this file.\n" in ran.err


def test_labels_of_a_pool_that_was_sorted_since_are_refused(run: Program) -> None:
    texts = [f"{word} {row}" for row, word in zip(range(60), ["wing", "claw", "apple"] * 20, strict=True)]
    write("texts.csv", "text", texts)
    assert run("embed", "texts.csv", "-o", "texts.parquet").code == 0
    write("first.csv", "id,text,label", range(9), texts[:9], ["u", "v", "w"] * 3)
    assert run("select", "texts.parquet", "-b", "3", "--labeled", "first.csv").code == 0
    write("texts.csv", "text", sorted(texts))
    assert run("embed", "texts.csv", "-o", "sorted.parquet").code == 0
    ran = run("select", "sorted.parquet", "-b", "3", "--labeled", "first.csv")
    assert ran.code == 3
    assert "first.csv has text 'wing 0' and sorted.parquet has 'apple 11' for id 0, and 8 more differ;" in ran.complaint
    assert "the pool was sorted or rebuilt: give it ids, or use the pool that the picks came from" in ran.complaint
    write("first.csv", "id,label", range(9), ["u", "v", "w"] * 3)
    assert run("select", "sorted.parquet", "-b", "3", "--labeled", "first.csv").code == 0


@pytest.mark.parametrize(("own", "code"), [(True, 3), (False, 0)])
def test_a_text_that_is_no_feature_tells_rows_apart_unless_many_share_it(run: Program, own: bool, code: int) -> None:
    texts = [f"{kind} {row}" if own else kind for row, kind in enumerate(KINDS)]
    write("pool.csv", "a,b,c,guess", *POINTS.T.tolist(), texts)
    write("seen.csv", "index,guess,label", range(40), texts[1:41], KINDS[:40])
    ran = run(*SELECT, "--ignore-columns", "guess", "--labeled", "seen.csv")
    assert (ran.code, "remove that column from seen.csv" in ran.err) == (code, own)


def test_classes_that_differ_in_case_or_in_marks_alone_are_reported(run: Program) -> None:
    kinds = ["Ant", "ant.", *KINDS[2:40]]
    write("seen.csv", "id,label", IDS[:40], kinds)
    described = (
        f"only in case or punctuation: 'Ant' (1) and 'ant' ({kinds.count('ant')}) and 'ant.' (1). Use one spelling"
    )
    for command in (SELECT, ("status", "pool.csv")):
        assert described in run(*command, "--labeled", "seen.csv").err
        assert "alike" not in run(*command, "--labeled", "one.csv").err
    write("seen.csv", "id,label", IDS[:40], ["1", "-1"] * 20)
    assert "alike" not in run(*SELECT, "--labeled", "seen.csv", "--no-label", "empty").err
