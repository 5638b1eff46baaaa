"""What was once done wrong or left unsaid with exit 0: names that mean two things, masks, empty files."""

from pathlib import Path

import numpy as np
import pytest

import dubito

from .conftest import Program
from .test_cli_labeled import picked

N = 20
RNG = np.random.default_rng(5)
POINTS = RNG.normal(size=(N, 2)).round(3)
LOGITS = RNG.normal(size=(N, 3)).round(3)
SHARES = RNG.dirichlet(np.ones(3), N)
TRUTHS = np.arange(N) % 3
JSON = ("--json", "--standardize", "no")


def write(path: str, header: str, *columns: object) -> None:
    rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    lines = [",".join(map(str, row)) for row in rows]
    Path(path).write_text("\n".join([header, *lines, ""]))


@pytest.fixture(autouse=True)
def points(run: Program) -> None:
    write("pool.csv", "a,b", *POINTS.T)


def by_logits(logits: object) -> list[int]:
    return list(map(int, dubito.select(POINTS, 5, logits=logits, strategy="entropy").indices))


@pytest.mark.parametrize("name", ["y", "target", "pool", "fold", "class", "label", "doubt", "split", "candidates"])
def test_a_class_of_logits_may_have_the_name_of_a_role(run: Program, name: str) -> None:
    write("lg.csv", f"n,maybe,{name}", *LOGITS.T)
    ran = run("select", "pool.csv", "-b", "5", "-s", "entropy", "--logits", "lg.csv", *JSON)
    assert f"logits of 3 classes: n, maybe, {name}" in ran.err
    assert picked(ran.out) == by_logits(LOGITS)


@pytest.mark.parametrize("labels", [TRUTHS, np.array(["cat", "dog"] * (N // 2))])
def test_labels_beside_logits_are_left_out_with_a_note(run: Program, labels: object) -> None:
    write("lg.csv", "n,maybe,yes,label", *LOGITS.T, labels)
    ran = run("select", "pool.csv", "-b", "5", "-s", "entropy", "--logits", "lg.csv", *JSON)
    assert "lg.csv: left out label; rename it if it belongs to a class" in ran.err
    assert picked(ran.out) == by_logits(LOGITS)


def test_doubt_beside_logits_is_no_class(run: Program) -> None:
    write("lg.csv", "n,maybe,yes,doubt", *LOGITS.T, SHARES[:, 0])
    ran = run("select", "pool.csv", "-b", "5", "-s", "entropy", "--logits", "lg.csv", *JSON)
    assert "left out doubt; rename" in ran.err
    assert picked(ran.out) == by_logits(LOGITS)


def test_probabilities_are_the_columns_that_sum_to_one(run: Program) -> None:
    write("p.csv", "n,maybe,y,fold", *SHARES.T, TRUTHS)
    write("q.csv", "n,maybe,yes,target", *SHARES.T, SHARES[:, 0])
    chosen = dubito.select(POINTS, 5, probabilities=SHARES, strategy="entropy").indices.tolist()
    for path, classes, left in (("p.csv", "n, maybe, y", "fold"), ("q.csv", "n, maybe, yes", "target")):
        ran = run("select", "pool.csv", "-b", "5", "-s", "entropy", "--probabilities", path, *JSON)
        assert f"probabilities of 3 classes: {classes}" in ran.err
        assert f"left out {left}; rename" in ran.err
        assert picked(ran.out) == chosen


@pytest.mark.parametrize("form", ["csv", "words", "npz", "rows"])
def test_candidates_of_the_pools_own_file_alone_are_picked(run: Program, form: str) -> None:
    mask = TRUTHS == 1
    path = "own.csv" if form in ("csv", "words") else "own.npz"
    if path == "own.csv":
        write(path, "a,b,candidates", *POINTS.T, mask.astype(int) if form == "csv" else np.where(mask, "yes", "no"))
    else:
        np.savez(path, features=POINTS, candidates=np.flatnonzero(mask) if form == "rows" else mask.astype(int))
    ran = run("select", path, "-b", "4", "-s", "coreset", *JSON)
    assert f"{path}: {mask.sum()} of {N} rows may be picked, by candidates" in ran.err
    assert picked(ran.out) == dubito.select(POINTS, 4, candidates=mask, strategy="coreset").indices.tolist()


def test_other_candidates_count_before_those_of_the_pools_own_file(run: Program) -> None:
    write("own.csv", "a,b,candidates", *POINTS.T, (TRUTHS == 1).astype(int))
    write("few.csv", "index", np.arange(6))
    ran = run("select", "own.csv", "-b", "6", "-s", "coreset", "--candidates", "few.csv", *JSON)
    assert sorted(picked(ran.out)) == list(range(6))
    ran = run("select", "own.csv", "-b", str(N), "-s", "coreset", "--ignore-columns", "candidates", *JSON)
    assert sorted(picked(ran.out)) == list(range(N))


def test_candidates_that_are_no_mask_are_refused_in_a_table(run: Program) -> None:
    write("own.csv", "a,b,candidates", *POINTS.T, np.arange(N) + 1)
    ran = run("select", "own.csv", "-b", "4", "-s", "coreset", "-q")
    assert ran.code == 3
    assert "own.csv holds '2' in candidates" in ran.complaint


def test_labels_without_a_row_are_reported(run: Program) -> None:
    write("named.csv", "id,a,b", [f"n{row}" for row in range(N)], *POINTS.T)
    Path("head.csv").write_text("id,label\n")
    ran = run("select", "named.csv", "-b", "2", "-s", "coreset", "--labeled", "head.csv", *JSON)
    assert ran.code == 0
    assert "head.csv: 0 rows, so nothing counts as labeled" in ran.err


@pytest.mark.parametrize("width", [1, 2])
def test_an_only_column_of_0_and_1_is_a_mask_whatever_its_name(run: Program, width: int) -> None:
    write("thin.csv", ",".join("ab"[:width]), *POINTS[:, :width].T)
    mask = TRUTHS == 0
    write("mask.csv", "done", mask.astype(int))
    ran = run("select", "thin.csv", "-b", "4", "-s", "coreset", "--labeled", "mask.csv", *JSON)
    assert f"mask.csv: its only column is 0 or 1 for every row of the pool: {mask.sum()} with 1" in ran.err
    chosen = dubito.select(POINTS[:, :width], 4, labeled=mask, strategy="coreset")
    assert picked(ran.out) == chosen.indices.tolist()


def test_a_label_counts_before_a_mask_and_it_is_said(run: Program) -> None:
    labels = ["x"] * 4 + [""] * (N - 4)
    write("both.csv", "index,label,labeled", np.arange(N), labels, [1] * 3 + [0] * (N - 3))
    ran = run("select", "pool.csv", "-b", "4", "-s", "coreset", "--labeled", "both.csv", *JSON)
    assert f"both.csv has label and labeled, which disagree in 1 of {N} rows: label counts" in ran.err
    assert picked(ran.out) == dubito.select(POINTS, 4, labeled=np.arange(4), strategy="coreset").indices.tolist()


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_ranks_go_on_from_the_largest_after_rows_were_deleted(run: Program, form: str) -> None:
    append = ("select", "pool.csv", "-b", "3", "-s", "coreset", "-o", f"picks.{form}", "--append", "-q")
    assert run(*append).code == 0
    lines = Path(f"picks.{form}").read_text().splitlines()
    del lines[-2]
    Path(f"picks.{form}").write_text("\n".join([*lines, ""]))
    assert run(*append).code == 0
    ranks = dubito.io.read_array(f"picks.{form}::rank", "doubt")
    assert ranks.tolist() == [1, 3, 4, 5, 6]
