"""Pool files on the command line: what `dubito select` makes of ids, embeddings, texts and labels."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dubito.io.formats.parquet import Embeddings

from .conftest import Program


def write_pool(target: Path, embedder: str = "words", first: int = 0, **more: object) -> None:
    vectors = np.random.default_rng(first).normal(size=(12, 3)).astype(np.float32) * [1.0, 1.0, 1000.0]
    columns = {
        "id": [f"t{row}" for row in range(first, first + 12)],
        "embedding": pa.array(list(vectors), pa.list_(pa.float32(), 3)),
        "text": [f"text {row}" for row in range(first, first + 12)],
        "stars": list(range(12)),
    }
    made = Embeddings(embedder, "1", 3, "text", "texts.csv", "0.1.0", "f00")
    pq.write_table(pa.table({**columns, **more}).replace_schema_metadata(made.metadata()), target)


@pytest.fixture
def picks(run: Program) -> list[dict[str, str]]:
    write_pool(Path("pool.parquet"), label=["x", "y", *[None] * 10])
    ran = run("select", "pool.parquet", "-b", "5", "--strategy", "coreset", "-o", "picks.csv")
    assert ran.code == 0, ran.err
    assert "2 of 12 rows have a label and count as labeled" in ran.err
    assert "standardize" not in ran.err
    return list(csv.DictReader(Path("picks.csv").read_text().splitlines()))


def test_picks_of_a_pool_file_have_its_ids_and_texts(picks: list[dict[str, str]]) -> None:
    assert len(picks) == 5
    assert list(picks[0]) == ["rank", "index", "id", "priority", "text"]
    assert all(pick["text"] == f"text {pick['id'][1:]}" for pick in picks)
    assert {"t0", "t1"}.isdisjoint(pick["id"] for pick in picks)


def test_a_folder_of_two_embedders_is_no_pool(run: Program) -> None:
    Path("pools").mkdir()
    write_pool(Path("pools/a.parquet"))
    write_pool(Path("pools/b.parquet"), "sentence:mini", first=12)
    ran = run("select", "pools", "-b", "2", "--strategy", "coreset")
    assert ran.code == 3
    assert "embedded by sentence:mini" in ran.complaint


def test_labeled_features_of_another_embedder_are_refused(run: Program) -> None:
    write_pool(Path("pool.parquet"))
    write_pool(Path("old.parquet"), "sentence:mini", first=100)
    write_pool(Path("same.parquet"), first=100)
    ran = run("select", "pool.parquet", "-b", "2", "--strategy", "coreset", "--labeled", "old.parquet::embedding")
    assert ran.code == 3
    assert "old.parquet::embedding was embedded by sentence:mini" in ran.complaint
    ran = run("select", "pool.parquet", "-b", "2", "--strategy", "coreset", "--labeled", "same.parquet::embedding")
    assert ran.code == 0, ran.err


def test_a_sheet_finds_the_pictures_of_a_pool_file(run: Program) -> None:
    from PIL import Image

    Path("far/photos").mkdir(parents=True)
    for row in range(12):
        Image.new("RGB", (4, 4), (row, 0, 0)).save(f"far/photos/{row}.png")
    write_pool(Path("pool.parquet"), path=[f"{row}.png" for row in range(12)])
    table = pq.read_table("pool.parquet")
    made = Embeddings("pixels", "1", 3, "path", "far/photos", "0.1.0", "f00")
    pq.write_table(table.replace_schema_metadata(made.metadata()), "pool.parquet")
    ran = run("select", "pool.parquet", "-b", "3", "--strategy", "coreset", "-o", "p.csv", "--sheet", "p.html")
    assert ran.code == 0, ran.err
    assert "(3 pictures)" in ran.err
