"""Picks carry what a person labels from, in every format, and become a page to label from."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

from .conftest import Program

TEXTS = ["plain", 'with "quotes", commas', "two\nlines", "", "ünïcode", "=1+1"]
GIVEN = ("-b", "6", "-s", "coreset", "--feature-columns", "x,y", "-q")


@pytest.fixture
def items(tmp_path: Path) -> Path:
    """Twelve rows with ids, texts of which some are empty, names of pictures, two features and a label."""
    rng = np.random.default_rng(1)
    rows = [
        [f"n{row}", TEXTS[row % 6], f"pics/{row}.png", *rng.normal(size=2).tolist(), "cat" if row == 0 else ""]
        for row in range(12)
    ]
    with (tmp_path / "pool.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text", "picture", "x", "y", "label"], *rows])
    (tmp_path / "pics").mkdir()
    for row in range(12):
        Image.new("RGB", (30, 20), (20 * row, 0, 0)).save(tmp_path / f"pics/{row}.png")
    return tmp_path


def expected(rows: list[int]) -> list[tuple[str, str, str]]:
    return [(f"n{row}", TEXTS[row % 6], f"pics/{row}.png") for row in rows]


@pytest.mark.usefixtures("items")
def test_every_column_of_text_goes_along_in_every_format(run: Program) -> None:
    for suffix in ("csv", "json", "jsonl", "parquet"):
        ran = run("select", "pool.csv", *GIVEN, "-o", f"picks.{suffix}")
        assert ran.code == 0, ran.err
    with Path("picks.csv").open(newline="") as file:
        table: list[dict[str, object]] = [dict(row) for row in csv.DictReader(file)]
    tables = [
        table,
        json.loads(Path("picks.json").read_text())["picks"],
        [json.loads(line) for line in Path("picks.jsonl").read_text().splitlines()],
        pq.read_table("picks.parquet").to_pylist(),
    ]
    for picks in tables:
        assert list(picks[0]) == ["rank", "index", "id", "priority", "text", "picture"]
        rows = [int(str(each["index"])) for each in picks]
        found = [(each["id"], str(each["text"]).lstrip("'"), each["picture"]) for each in picks]
        assert found == expected(rows)


@pytest.mark.usefixtures("items")
def test_columns_are_named_or_left_out(run: Program) -> None:
    assert run("select", "pool.csv", *GIVEN, "--keep", "picture,x").out.startswith("rank,index,id,priority,picture,x\n")
    assert run("select", "pool.csv", *GIVEN, "--keep", "none").out.startswith("rank,index,id,priority\n")
    wrong = run("select", "pool.csv", *GIVEN, "--keep", "txt")
    assert (wrong.code, "has no column 'txt'" in wrong.err, "did you mean 'text'" in wrong.err) == (2, True, True)
    for name in ("label", "priority"):
        refused = run("select", "pool.csv", *GIVEN, "--keep", name)
        assert (refused.code, f"cannot contain a column called '{name}'" in refused.err) == (2, True)


@pytest.mark.usefixtures("items")
def test_picks_with_texts_come_back_and_are_added_to(run: Program) -> None:
    given = ("-b", "3", "-s", "coreset", "--feature-columns", "x,y", "-q")
    for _ in range(3):
        assert run("select", "pool.csv", *given, "-o", "all.csv", "--append").code == 0
    with Path("all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["index"] for row in rows}) == 9
    with Path("done.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "label"])
        writer.writeheader()
        writer.writerows({**row, "label": "dog" if place < 4 else ""} for place, row in enumerate(rows))
    ran = run("select", "pool.csv", "-b", "2", "-s", "coreset", "--feature-columns", "x,y", "--labeled", "done.csv")
    assert "4 of the 9 rows in done.csv have a label" in ran.err


@pytest.mark.usefixtures("items")
def test_a_page_shows_the_pictures_in_the_order_of_the_picks(run: Program) -> None:
    ran = run("select", "pool.csv", *GIVEN[:-1], "-o", "picks.csv", "--sheet", "picks.html")
    assert "a page of 6 picks (6 pictures) is written to picks.html." in ran.err
    page = Path("picks.html").read_text()
    with Path("picks.csv").open(newline="") as file:
        ids = [row["id"] for row in csv.DictReader(file)]
    places = [page.index(f"<bdi>{name}</bdi>") for name in ids]
    assert places == sorted(places)
    assert page.count("<img ") == 6
    again = run("select", "pool.csv", *GIVEN, "--sheet", "picks.html")
    assert (again.code, "picks.html exists" in again.err) == (2, True)
    assert run("select", "pool.csv", *GIVEN, "--sheet", "picks.html", "--force").code == 0


@pytest.mark.usefixtures("items")
def test_a_page_of_texts_and_one_of_pictures_that_ids_name(run: Program) -> None:
    ran = run("select", "pool.csv", *GIVEN[:-1], "--keep", "text", "--sheet", "texts.html", "-o", "a.csv")
    assert "(texts)" in ran.err
    assert "<img" not in Path("texts.html").read_text()
    np.savez(
        "pool.npz", features=np.random.default_rng(0).normal(size=(12, 2)), ids=[f"{row}.png" for row in range(12)]
    )
    given = ("-b", "4", "-s", "coreset", "--sheet", "ids.html", "--pictures", "pics", "-o", "b.csv")
    assert "(4 pictures)" in run("select", "pool.npz", *given).err


@pytest.mark.usefixtures("items")
def test_a_page_that_cannot_be_is_refused_before_anything_runs(run: Program) -> None:
    for sheet, said in (("page.pdf", "give it the suffix .html"), ("no/page.html", "its folder does not exist")):
        ran = run("select", "pool.csv", *GIVEN, "--sheet", sheet)
        assert (ran.code, said in ran.err) == (2, True)
    ran = run("select", "pool.csv", *GIVEN, "--sheet", "page.html", "--pictures", "nowhere")
    assert (ran.code, "--pictures nowhere is not a folder" in ran.err) == (2, True)


def test_an_index_of_pandas_is_the_id_and_does_not_go_along_once_more(run: Program) -> None:
    pd.DataFrame({"x": [1.0, 5.0], "note": ["u", "v"]}, index=["p", "q"]).to_parquet("pool.parquet")
    ran = run("select", "pool.parquet", "-b", "1", "-s", "coreset", "--ignore-columns", "note")
    assert ran.out.splitlines()[0] == "rank,index,id,priority,note"
