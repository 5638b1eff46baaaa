"""The round trip: picks go out, labels come back in whatever file a person keeps them."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dubito

from .conftest import Pool, Program

FEATURES = ("select", "features.npy", "--strategy", "coreset", "--json", "-q")


def picked(text: str) -> list[int]:
    return [pick["index"] for pick in json.loads(text)["picks"]]


def expected(pool: Pool, labeled: object, budget: int = 4) -> list[int]:
    chosen = dubito.select(pool.features, budget, labeled=labeled, strategy="coreset")
    return list(map(int, chosen.indices))


def rows_in(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(Path(path).read_text())))


def with_labels(path: str, labels: list[str]) -> str:
    """The table of picks as a person hands it back: with a column of labels."""
    rows = rows_in(path)
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0], "label"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "label": label} for row, label in zip(rows, labels, strict=True))
    return text.getvalue()


def test_picks_with_labels_come_back_as_labeled_beside_the_pool_s_own(pool: Pool, run: Program) -> None:
    run("select", "pool.npz", "--budget", "3", "-o", "picks.csv")
    first = [int(row["index"]) for row in rows_in("picks.csv")]
    Path("picks.csv").write_text(with_labels("picks.csv", ["cat", "dog", "cat"]))
    ran = run("select", "pool.npz", "--budget", "4", "--strategy", "coreset", "--labeled", "picks.csv", "--json", "-q")
    assert picked(ran.out) == expected(pool, np.array(pool.labeled + first))


def test_rows_without_a_label_do_not_count_and_the_note_says_so(pool: Pool, run: Program) -> None:
    run("select", "pool.npz", "--budget", "3", "-o", "picks.csv")
    first = [int(row["index"]) for row in rows_in("picks.csv")]
    Path("picks.csv").write_text(with_labels("picks.csv", ["0", "", " "]))
    ran = run("select", "pool.npz", "--budget", "4", "--strategy", "coreset", "--labeled", "picks.csv", "--json")
    assert picked(ran.out) == expected(pool, np.array([*pool.labeled, first[0]]))
    assert "1 of the 3 rows in picks.csv have a label; the others do not count." in ran.err


def test_a_label_column_may_have_any_name(pool: Pool, run: Program) -> None:
    Path("seen.csv").write_text("index,kind\n3,a\n5,\n")
    ran = run(*FEATURES, "--budget", "4", "--labeled", "seen.csv", "--label-column", "kind")
    assert picked(ran.out) == expected(pool, np.array([3]))


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json", "parquet", "txt", "bom"])
def test_ids_may_come_in_any_table(pool: Pool, run: Program, kind: str) -> None:
    ids = ["img003", "img011"]
    written = {
        "csv": "label,id\n" + "".join(f"x,{name}\n" for name in ids),
        "tsv": "label\tid\n" + "".join(f"x\t{name}\n" for name in ids),
        "bom": "\ufeffid,label\n" + "".join(f"{name},x\n" for name in ids),
        "jsonl": "".join(json.dumps({"id": name, "label": 0}) + "\n" for name in ids) + "\n",
        "json": json.dumps([{"id": name} for name in ids]),
        "txt": "\n".join(ids),
    }
    path = Path(f"seen.{'csv' if kind == 'bom' else kind}")
    if kind == "parquet":
        pq.write_table(pa.table({"id": ids, "label": [1, 2], "other": [0.5, 0.5]}), path)
    else:
        path.write_text(written[kind], encoding="utf-8")
    ran = run("select", "pool.npz", "--budget", "4", "-s", "coreset", "--labeled", str(path), "--json", "-q")
    assert picked(ran.out) == expected(pool, np.array([*pool.labeled, 3, 11]))


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "parquet", "npy"])
def test_every_format_of_picks_comes_back(pool: Pool, run: Program, suffix: str) -> None:
    run("select", "features.npy", "--strategy", "coreset", "--budget", "3", "-o", f"picks.{suffix}")
    first = expected(pool, None, 3)
    assert picked(run(*FEATURES, "--budget", "4", "--labeled", f"picks.{suffix}").out) == expected(
        pool, np.array(first)
    )


def test_numbers_as_ids_are_found_however_they_are_stored(run: Program) -> None:
    features = np.array([[0.0], [4.0], [9.0], [1.0]])
    np.savez("pool.npz", features=features, ids=np.array([70, 71, 72, 73]))
    Path("seen.jsonl").write_text('{"id": 72, "label": "a"}\n')
    ran = run("select", "pool.npz", "--budget", "1", "-s", "coreset", "--labeled", "seen.jsonl", "--json", "-q")
    assert picked(ran.out) == [0]


def test_an_unknown_id_is_named(pool: Pool, run: Program) -> None:
    Path("seen.csv").write_text("id,label\nimg003,a\nimg999,b\n")
    ran = run("select", "pool.npz", "--budget", "4", "--labeled", "seen.csv")
    assert ran.code == 3
    assert "seen.csv holds an id that is not among the pool's 30 ('img999')" in ran.complaint


def test_ids_that_are_all_unknown_are_named_where_there_are_no_features(pool: Pool, run: Program) -> None:
    Path("seen.csv").write_text("id,label\nimg999,b\n")
    ran = run("select", "pool.npz", "--budget", "4", "--labeled", "seen.csv")
    assert (ran.code, "'img999'" in ran.complaint) == (3, True)


def test_points_of_another_pool_are_references_by_their_features(pool: Pool, run: Program) -> None:
    Path("old.csv").write_text("x,y,z\n1,2,3\n4,5,6\n")
    old = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.savez("pool.npz", features=pool.features, ids=np.array(pool.ids))
    ran = run("select", "pool.npz", "--budget", "4", "-s", "coreset", "--labeled", "old.csv", "--json", "-q")
    assert picked(ran.out) == expected(pool, old)


@pytest.mark.parametrize(
    ("ids", "hint"),
    [(("7", "12"), "only in leading zeros"), (("7", "old"), "drop or correct"), (("x7", "x12"), "drop or correct")],
)
def test_rows_with_ids_are_never_points_outside_the_pool(run: Program, ids: tuple[str, str], hint: str) -> None:
    lines = [f"{row:03d},{row},{row * row % 7}" for row in range(30)]
    Path("pool.csv").write_text("\n".join(["customer,a,b", *lines, ""]))
    Path("seen.csv").write_text(f"customer,a,b,label\n{ids[0]},7,0,u\n{ids[1]},12,4,v\n")
    ran = run("select", "pool.csv", "--id-column", "customer", "--budget", "4", "--labeled", "seen.csv")
    assert (ran.code, f"seen.csv holds 2 ids that are not among the pool's 30 ('{ids[0]}'" in ran.complaint) == (
        3,
        True,
    )
    assert hint in ran.complaint


def test_rows_and_features_may_be_given_together(pool: Pool, run: Program) -> None:
    foreign = np.array([[30.0, 30.0, 30.0]])
    np.save("foreign.npy", foreign)
    ran = run("select", "pool.npz", "--budget", "28", "-s", "coreset", "--labeled", "foreign.npy", "--json", "-q")
    together = np.vstack([foreign, pool.features[pool.labeled]])
    rest = np.setdiff1d(np.arange(30), pool.labeled)
    wanted = dubito.select(pool.features, 28, labeled=together, strategy="coreset", candidates=rest)
    assert picked(ran.out) == wanted.indices.tolist()


def test_a_mask_and_plain_row_numbers_do_as_well(pool: Pool, run: Program) -> None:
    np.save("mask.npy", np.arange(30) == 7)
    np.save("nothing.npy", np.empty((0, 3)))
    Path("rows.txt").write_text("7\n8\n")
    first = run(*FEATURES, "--budget", "4", "--labeled", "mask.npy", "--labeled", "nothing.npy").out
    assert picked(first) == expected(pool, np.array([7]))
    second = run(*FEATURES, "--budget", "4", "--labeled", "mask.npy", "--labeled", "rows.txt").out
    assert picked(second) == expected(pool, np.array([7, 8]))


def test_a_list_of_row_numbers_or_of_ids_in_json_names_rows(pool: Pool, run: Program) -> None:
    Path("rows.json").write_text("[7, 8]")
    assert picked(run(*FEATURES, "--budget", "4", "--labeled", "rows.json").out) == expected(pool, np.array([7, 8]))
    Path("ids.json").write_text('["img007", "img008"]')
    ran = run("select", "pool.npz", "--budget", "4", "-s", "coreset", "--labeled", "ids.json", "--json", "-q")
    assert picked(ran.out) == expected(pool, np.array([*pool.labeled, 7, 8]))


def test_a_key_names_the_array_of_labeled_rows(pool: Pool, run: Program) -> None:
    ran = run(*FEATURES, "--budget", "4", "--labeled", "pool.npz::labeled")
    assert picked(ran.out) == expected(pool, np.array(pool.labeled))


def test_a_table_of_features_without_names_is_features(pool: Pool, run: Program) -> None:
    Path("seen.csv").write_text("1,2,3\n4,5,6\n")
    ran = run(*FEATURES, "--budget", "4", "--labeled", "seen.csv")
    assert picked(ran.out) == expected(pool, np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))


@pytest.mark.parametrize(
    ("name", "content", "code", "said"),
    [
        ("seen.csv", "id,label\nimg003,a\n", 2, "names rows by id, and the pool has no ids"),
        ("seen.csv", "words\nonly\n", 3, "words"),
        ("seen.csv", "index,label\nfour,a\n", 3, "not a row number"),
        ("seen.csv", "index,label\n,a\n", 3, "has no index in row 1"),
        ("seen.csv", "index\n31\n", 3, "seen.csv holds the index 31, which is not a row of the pool"),
        ("seen.json", '{"picked": []}', 3, "names rows of the pool; it holds picked; give it a column index"),
        ("seen.json", "{", 3, "seen.json cannot be read"),
        ("seen.jsonl", '3\n{"id": 4}\n', 3, "holds 3 as line 1"),
    ],
)
def test_a_file_that_names_no_rows_is_refused(
    pool: Pool, run: Program, name: str, content: str, code: int, said: str
) -> None:
    Path(name).write_text(content)
    ran = run(*FEATURES[:-2], "--budget", "4", "--labeled", name)
    assert (ran.code, said in ran.complaint) == (code, True), ran.err
