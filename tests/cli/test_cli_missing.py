"""Missing values: all counted at once, filled in or left out, and no row changes its number."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dubito
from dubito.experiments.data import read_dataset
from dubito.io import gathering_notes, read_pool
from dubito.io.missing_values import fill_or_drop_missing, missing_as_nan
from dubito.matrix import FloatArray

from .conftest import Program

RNG = np.random.default_rng(5)
WHOLE: FloatArray = RNG.normal(size=(40, 3)).round(4)
DOUBT: FloatArray = RNG.random(40).round(4)
GAPS = {(2, 0), (2, 1), (7, 1), (11, 1), (30, 2)}
HOLED: FloatArray = np.array([[np.nan if (r, c) in GAPS else WHOLE[r, c] for c in range(3)] for r in range(40)])
LEFT = [row for row in range(40) if row not in (2, 7, 11, 30)]
COUNTS = "has 5 missing values in 4 of 40 rows (b 3, a 1, c 1)"
PLAIN = ("--standardize", "no")


def write(folder: Path, form: str) -> str:
    columns = {name: HOLED[:, place] for place, name in enumerate("abc")}
    ids = [f"n{row}" for row in range(40)]
    if form == "parquet":
        cells = {name: [None if np.isnan(v) else float(v) for v in values] for name, values in columns.items()}
        pq.write_table(pa.table({"id": ids, **cells, "doubt": DOUBT}), folder / "pool.parquet")
    elif form == "jsonl":
        rows = [
            {
                "id": ids[r],
                **{n: None if np.isnan(v[r]) else float(v[r]) for n, v in columns.items()},
                "doubt": float(DOUBT[r]),
            }
            for r in range(40)
        ]
        (folder / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "npz":
        np.savez(folder / "pool.npz", features=HOLED, ids=np.array(ids), doubt=DOUBT)
    else:
        lines = [
            [ids[r], *("" if np.isnan(v) else repr(float(v)) for v in HOLED[r]), repr(float(DOUBT[r]))]
            for r in range(40)
        ]
        with (folder / "pool.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["id", "a", "b", "c", "doubt"], *lines])
    return f"pool.{form}"


def picks(text: str) -> list[tuple[int, str]]:
    return [(int(row["index"]), row["id"]) for row in csv.DictReader(io.StringIO(text))]


def expected_drop(budget: int, labeled: list[int]) -> list[int]:
    seen = [LEFT.index(row) for row in labeled if row in LEFT]
    chosen = dubito.select(WHOLE[LEFT], budget, labeled=np.array(seen, dtype=int), doubt=DOUBT[LEFT]).indices
    return [LEFT[place] for place in chosen.tolist()]


def filled_by_hand() -> FloatArray:
    values: FloatArray = np.where(np.isnan(HOLED), np.nanmedian(HOLED, axis=0), HOLED)
    return values


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_all_are_counted_at_once_and_the_hint_is_named(run: Program, tmp_path: Path, form: str) -> None:
    path = write(tmp_path, form)
    ran = run("select", path, "-b", "6")
    hint = "pass --missing median to fill in each column's median, or --missing drop to leave those rows out."
    assert (ran.code, f"{path} {COUNTS}; {hint}" in ran.err, ran.out) == (3, True, "")


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl", "npz"])
def test_dropped_rows_are_not_in_the_pool_and_the_others_keep_their_numbers_and_ids(
    run: Program, tmp_path: Path, form: str
) -> None:
    path = write(tmp_path, form)
    np.save(tmp_path / "seen.npy", np.array([0, 7, 21]))
    ran = run("select", path, "-b", "9", "--missing", "drop", "--labeled", "seen.npy", *PLAIN)
    assert ran.code == 0, ran.err
    assert picks(ran.out) == [(row, f"n{row}") for row in expected_drop(9, [0, 7, 21])]
    assert "those rows are left out" in ran.err
    assert "1 of the rows left out were labeled; their labels are ignored" in ran.err
    assert "9 of 40 rows picked" in ran.err


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl", "npz"])
def test_medians_are_those_of_the_whole_column(run: Program, tmp_path: Path, form: str) -> None:
    ran = run("select", write(tmp_path, form), "-b", "9", "--missing", "median", *PLAIN)
    hand = dubito.select(filled_by_hand(), 9, doubt=DOUBT).indices.tolist()
    assert [row for row, _ in picks(ran.out)] == hand
    assert "medians were filled in" in ran.err


def test_candidates_beams_and_json_speak_of_the_file_s_rows(run: Program, tmp_path: Path) -> None:
    path = write(tmp_path, "csv")
    np.save(tmp_path / "few.npy", np.array([2, 20, 25, 30, 33, 38]))
    given = ("--missing", "drop", "--candidates", "few.npy", "--beam-width", "2", *PLAIN, "--json", "-q")
    described = json.loads(run("select", path, "-b", "3", *given).out)
    rows = [each["index"] for each in described["picks"]]
    assert set(rows) <= {20, 25, 33, 38}
    assert described["n_pool"] == 40
    assert all(set(each["indices"]) <= {20, 25, 33, 38} for each in described["configurations"])


def test_rounds_go_on_by_the_same_numbers(run: Program, tmp_path: Path) -> None:
    path = write(tmp_path, "csv")
    for _ in range(3):
        assert run("select", path, "-b", "5", "--missing", "drop", "-o", "all.csv", "--append", "-q").code == 0
    rows = [row for row, _ in picks(Path("all.csv").read_text())]
    assert len(set(rows)) == 15
    assert set(rows) <= set(LEFT)


def test_doubt_may_lack_the_rows_that_are_dropped(run: Program, tmp_path: Path) -> None:
    write(tmp_path, "csv")
    lines = [f"n{row},{float(DOUBT[row])!r}" for row in reversed(LEFT)]
    (tmp_path / "few.csv").write_text("\n".join(["id,doubt", *lines, f"n7,{float(DOUBT[7])!r}"]) + "\n")
    given = ("select", "pool.csv", "-b", "9", "--doubt", "few.csv", "-q", *PLAIN)
    ran = run(*given, "--missing", "drop")
    assert ran.code == 0, ran.err
    assert [row for row, _ in picks(ran.out)] == expected_drop(9, [])
    assert "few.csv lacks 3 of the pool's 40 ids" in run(*given, "--missing", "median").complaint
    (tmp_path / "few.csv").write_text("\n".join(["id,doubt", *lines[1:]]) + "\n")
    assert "few.csv lacks 1 of the pool's 36 ids ('n39')" in run(*given, "--missing", "drop").complaint


def test_a_fault_beside_rows_that_are_dropped_is_reported_by_the_id_or_the_file_s_row(
    run: Program, tmp_path: Path
) -> None:
    path = write(tmp_path, "csv")
    faulty = np.where(np.arange(40) == 20, 1.5, DOUBT)
    np.save(tmp_path / "faulty.npy", faulty)
    np.save(tmp_path / "bare.npy", HOLED)
    given = ("-b", "3", "--missing", "drop", "--doubt", "faulty.npy", "-q", *PLAIN)
    assert "doubt (faulty.npy) holds 1.5 at id 'n20' (row 20 of the pool);" in run("select", path, *given).complaint
    assert "doubt (faulty.npy) holds 1.5 at row 20;" in run("select", "bare.npy", *given).complaint


def test_a_diagnosis_leaves_the_same_rows_out(run: Program, tmp_path: Path) -> None:
    path = write(tmp_path, "csv")
    np.save(tmp_path / "seen.npy", np.array([0, 7]))
    ran = run("diagnose", path, "--labeled", "seen.npy", "--missing", "drop", "--json", *PLAIN)
    described = dubito.diagnose(WHOLE[LEFT], labeled=[0], doubt=DOUBT[LEFT])
    assert json.loads(ran.out)["delta"] == described.delta
    assert run("diagnose", path, "--labeled", "seen.npy").code == 3


def test_doubt_for_other_rows_than_the_pool_s_is_refused(run: Program, tmp_path: Path) -> None:
    write(tmp_path, "csv")
    np.save(tmp_path / "doubt.npy", DOUBT[LEFT])
    ran = run("select", "pool.csv", "-b", "3", "--doubt", "doubt.npy", "--missing", "drop")
    assert ran.code == 2
    assert "36 rows and the pool" in ran.err


def test_what_cannot_be_filled_or_left_is_refused() -> None:
    empty = np.array([[1.0, np.nan], [2.0, np.nan]])
    with pytest.raises(dubito.InvalidData, match="has no values in pay"):
        fill_or_drop_missing("t.csv", empty, ["age", "pay"], "median")
    with pytest.raises(dubito.InvalidData, match="no row is left"):
        fill_or_drop_missing("t.csv", empty, ["age", "pay"], "drop")
    with pytest.raises(
        dubito.InvalidData, match=r"the first is nan at row 0, column 0\); fill them in or drop those rows first"
    ):
        fill_or_drop_missing("t.npy", np.array([[np.nan, 1.0], [1.0, np.nan], [1.0, 1.0]]), (), None)
    many = np.full((2, 12), np.nan)
    with pytest.raises(dubito.InvalidData, match="4 more columns"):
        fill_or_drop_missing("t.csv", many, [f"x{place}" for place in range(12)], None)
    whole = np.ones((2, 2), dtype=np.int64)
    assert fill_or_drop_missing("t.npy", whole, (), None).features is whole


def test_the_library_s_reader_still_names_the_first_gap(tmp_path: Path) -> None:
    write(tmp_path, "csv")
    with pytest.raises(dubito.InvalidData, match=r"column 'a' of .* is empty in line 4"):
        read_pool(str(tmp_path / "pool.csv"))
    with missing_as_nan():
        assert np.isnan(np.asarray(read_pool(str(tmp_path / "pool.csv")).features[:])).sum() == 5


def test_another_way_is_refused(run: Program, tmp_path: Path) -> None:
    ran = run("select", write(tmp_path, "csv"), "-b", "3", "--missing", "mean")
    assert ran.complaint == "--missing mean is not known; did you mean 'median'? Choose from drop, median."


@pytest.mark.usefixtures("blank_figures")
def test_simulate_takes_part_labeled_rows_with_gaps_filled_in_or_left_out(run: Program, tmp_path: Path) -> None:
    labels = ["" if row >= 34 else "ab"[int(WHOLE[row, 0] > 0)] for row in range(40)]
    cells = [["" if np.isnan(v) else repr(float(v)) for v in HOLED[row]] for row in range(40)]
    with (tmp_path / "data.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["a", "b", "c", "label"], *([*row, label] for row, label in zip(cells, labels, strict=True))]
        )
    small = ("--initial", "6", "--budget", "4", "--rounds", "1", "--seeds", "1", "-s", "coreset", "--workers", "1")
    refused = run("simulate", "data.csv", *small, "-o", "no")
    assert refused.code == 3
    assert "data.csv has 5 missing values in 4 of 34 rows (b 3, a 1, c 1); pass --missing median" in refused.err
    for how, rows in (("drop", 30), ("median", 34)):
        ran = run("simulate", "data.csv", *small, "--missing", how, "-o", how)
        assert ran.code == 0, ran.err
        assert "data.csv: 34 of 40 rows have a label; the others are ignored." in ran.err
        described = "medians were filled in, those of all labeled rows, including those of the test set"
        assert (described in ran.err) == (how == "median")
        assert f"{rows} rows of 3 features in 2 classes" in Path(f"{how}/report.html").read_text()
        assert f'missing = "{how}"' in Path(f"{how}/experiment.toml").read_text()
        assert run("report", how, "-o", f"{how}-again").code == 0


def test_gaps_of_a_test_file_get_the_medians_of_what_is_learned_from(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b,label\n1,5,x\n2,,y\n9,7,x\n,8,y\n")
    (tmp_path / "test.csv").write_text("a,b,label\n100,,x\n,200,y\n")
    with gathering_notes() as notes:
        data = read_dataset(str(tmp_path / "data.csv"), test=str(tmp_path / "test.csv"), missing="median")
    assert data.features.tolist() == [[1, 5], [2, 7], [9, 7], [2, 8]]
    assert data.test_features.tolist() == [[100, 7], [2, 200]]
    assert [note.rpartition(", ")[2] for note in notes] == ["those of the training rows"] * 2
