"""What a newcomer reads on the way: notes on tables, hints for the next round, refusals in the program's words."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .conftest import Pool, Program

CORESET = ("--strategy", "coreset", "--budget", "2")


def write_items(name: str, labels: list[str]) -> None:
    """Thirty items of two features and a column of labels, as CSV or Parquet."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(30, 2))
    labels = labels + [""] * (30 - len(labels))
    if name.endswith("parquet"):
        filled = [label or None for label in labels]
        pq.write_table(pa.table({"a": values[:, 0], "b": values[:, 1], "label": filled}), name)
        return
    rows = [f"{a},{b},{label}\n" for (a, b), label in zip(values, labels, strict=True)]
    Path(name).write_text("a,b,Label\n" + "".join(rows))


def test_the_next_round_names_every_file_so_far(pool: Pool, run: Program) -> None:
    for name, row in (("seed.csv", 1), ("r 1.csv", 2)):
        Path(name).write_text(f"index,label\n{row},x\n")
    labeled = ("--labelled", "seed.csv", "--labeled", "r 1.csv")
    ran = run("select", "features.npy", *CORESET, *labeled, "-o", "r2.csv")
    assert ran.err.endswith("pass --labeled seed.csv --labeled 'r 1.csv' --labeled r2.csv\n")


@pytest.mark.parametrize(("name", "column"), [("items.csv", "Label"), ("items.parquet", "label")])
def test_rows_of_a_pool_s_own_table_with_a_label_count_as_labeled(run: Program, name: str, column: str) -> None:
    write_items(name, ["cat", "dog", "", "0"])
    ran = run("select", name, "--strategy", "coreset", "--budget", "27", "--json")
    assert {pick["index"] for pick in json.loads(ran.out)["picks"]} == set(range(30)) - {0, 1, 3}
    assert f"dubito: {name}: 3 of 30 rows have a {column} and count as labeled.\n" in ran.err


def test_labels_count_across_the_shards_of_a_folder(run: Program) -> None:
    Path("shards").mkdir()
    write_items("shards/0.csv", ["cat"])
    write_items("shards/1.csv", ["", "dog"])
    ran = run("select", "shards", "--strategy", "coreset", "--budget", "58", "--json")
    assert {pick["index"] for pick in json.loads(ran.out)["picks"]} == set(range(60)) - {0, 31}


def test_a_label_column_is_found_in_capitals_and_one_that_is_missing_is_refused(pool: Pool, run: Program) -> None:
    Path("seen.csv").write_text("index,Label\n3,a\n5,\n")
    ran = run("select", "features.npy", *CORESET, "--labeled", "seen.csv", "--dry-run")
    assert "1 of the 2 rows in seen.csv have a Label" in ran.err
    ran = run("select", "features.npy", *CORESET, "--labeled", "seen.csv", "--label-column", "nope")
    assert ran.code == 2
    assert ran.complaint == "seen.csv has no column 'nope' (--label-column); it holds index, Label."
    write_items("items.csv", ["cat"])
    ran = run("select", "items.csv", *CORESET, "--label-column", "nope")
    assert "items.csv has no column 'nope'; it holds a (numbers), b (numbers), Label" in ran.complaint


def test_a_label_column_of_the_pool_may_be_missing_in_what_is_labeled(run: Program) -> None:
    write_items("items.csv", ["cat"])
    Path("seen.csv").write_text("index,label\n3,a\n5,\n")
    ran = run("select", "items.csv", *CORESET, "--labeled", "seen.csv", "--label-column", "Label", "--dry-run")
    assert "labeled     2\n" in ran.out


def test_a_parquet_of_labels_may_have_gaps_and_names_of_its_own(pool: Pool, run: Program) -> None:
    pq.write_table(pa.table({"index": [3, 5, 7], "kind": [1.0, None, float("nan")]}), "seen.parquet")
    ran = run("select", "features.npy", *CORESET, "--labeled", "seen.parquet", "--label-column", "kind", "--dry-run")
    assert "labeled     1\n" in ran.out


def test_a_table_without_labels_counts_whole_and_says_so(pool: Pool, run: Program) -> None:
    Path("seen.csv").write_text("index\n3\n5\n")
    ran = run("select", "features.npy", *CORESET, "--labeled", "seen.csv", "--dry-run")
    assert (
        ran.err
        == "dubito: seen.csv: 2 rows, no label column: all count as labeled, and no model is fitted on this file.\n"
    )


def test_the_features_of_a_table_are_named_and_what_looks_like_an_id_is_reported(run: Program) -> None:
    rows = "".join(f"{row},{row % 7},1,{row % 3},0,0.5\n" for row in range(30))
    Path("a.csv").write_text("user_id,year,a,b,c,d\n" + rows)
    described = run("select", "a.csv", *CORESET, "--dry-run", "--standardize", "no").err
    assert described.splitlines() == [
        "dubito: 6 features: user_id, year, a, b, c, ...",
        "dubito: user_id looks like an id: pass --id-column user_id if so; otherwise it is a feature",
        "dubito: a, c, d are the same in every row: pass --ignore-columns a,c,d",
    ]
    Path("b.csv").write_text("number,year,a,b,c,d\n" + rows)
    assert "number looks like an id: pass --id-column number" in run("select", "b.csv", *CORESET, "--dry-run").err
    options = ("--standardize", "no", "--id-column", "number", "--ignore-columns", "a,c,d")
    ran = run("select", "b.csv", *CORESET, "--dry-run", *options)
    assert ran.err == "dubito: 2 features: year, b\n"
    assert run("select", "b.csv", *CORESET, "--dry-run", "-q").err == ""


def test_an_id_that_belongs_to_another_row_than_the_index_wins_with_a_note(pool: Pool, run: Program) -> None:
    Path("seen.csv").write_text("index,id,label\n4,img004,a\n7,img012,b\n")
    ran = run("select", "pool.npz", *CORESET, "--labeled", "seen.csv", "--dry-run")
    assert "seen.csv: in row 2 the id 'img012' is row 12 of the pool, but the index is 7; the id counts" in ran.err
    assert "labeled     3\n" in ran.out


def test_a_format_that_contradicts_the_suffix_is_refused(pool: Pool, run: Program) -> None:
    ran = run("select", "features.npy", *CORESET, "--json", "-o", "a.csv")
    assert (ran.code, "--json and -o a.csv disagree" in ran.complaint) == (2, True)
    ran = run("select", "features.npy", *CORESET, "--format", "npy", "-o", "z.csv")
    assert (ran.code, "--format npy and -o z.csv disagree" in ran.complaint) == (2, True)
    assert run("select", "features.npy", *CORESET, "--format", "csv", "-o", "picks.txt").code == 0
    ran = run("select", "features.npy", *CORESET, "-o", "out.xlsx")
    assert (ran.code, "suffix .xlsx is not known; use .csv" in ran.complaint) == (2, True)


def test_appending_keeps_the_labels_filled_in_meanwhile(pool: Pool, run: Program) -> None:
    Path("picks.csv").write_text("rank,index,priority,label\n1,4,2.0,cat\n")
    assert run("select", "features.npy", *CORESET, "-o", "picks.csv", "--append").code == 0
    lines = Path("picks.csv").read_text().splitlines()
    assert lines[:2] == ["rank,index,priority,label", "1,4,2.0,cat"]
    assert [line.endswith(",") for line in lines[2:]] == [True, True]


def test_diagnose_says_what_it_lacks_in_options(pool: Pool, run: Program) -> None:
    ran = run("diagnose", "features.npy", "--probabilities", "probabilities.npy")
    assert (ran.code, ran.complaint) == (2, "nothing is labeled; pass --labeled FILE.")
    Path("seen.txt").write_text("3\n")
    ran = run("diagnose", "features.npy", "--labeled", "seen.txt")
    assert ran.complaint == "no doubt was given; pass --probabilities, --logits or --doubt."


def test_candidates_may_be_a_table_of_ids_or_a_column(pool: Pool, run: Program) -> None:
    Path("few.csv").write_text("id\nimg011\nimg012\n")
    ran = run("select", "pool.npz", *CORESET, "--candidates", "few.csv", "--json")
    assert {pick["index"] for pick in json.loads(ran.out)["picks"]} == {11, 12}
    Path("mask.csv").write_text("candidates\n" + "0\n" * 28 + "1\n1\n")
    ran = run("select", "pool.npz", *CORESET, "--candidates", "mask.csv", "--json")
    assert {pick["index"] for pick in json.loads(ran.out)["picks"]} == {28, 29}


def test_an_error_about_candidates_does_not_speak_of_labels(pool: Pool, run: Program) -> None:
    Path("few.csv").write_text("name\nx\n")
    for name in ("few.csv", "features.npy", "none.npy"):
        ran = run("select", "pool.npz", *CORESET, "--candidates", name)
        assert "labeled" not in ran.complaint
    assert "few.csv has no column that names rows" in run("select", "pool.npz", *CORESET, "--candidates", "few.csv").err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--budget", "0"), "pass --budget >= 1"),
        (("--budget", "40"), "pass --budget <= 28"),
        (("--budget", "2", "--strategy", "coreset", "--strength", "2"), "it takes --beam-width."),
        (("--budget", "2", "--strategy", "zzz"), "is not known; choose from"),
        (("--budget", "2", "--metric", "manhattan"), "--metric manhattan is not known; choose from cosine, euclidean"),
    ],
)
def test_errors_speak_of_options(pool: Pool, run: Program, options: tuple[str, ...], said: str) -> None:
    ran = run("select", "pool.npz", *options)
    assert (ran.code, said in ran.complaint) == (2, True), ran.err
