"""Who has nothing but the README: a table with ids, texts, gaps and semicolons, three rounds by commands alone."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

import dubito
from dubito.matrix import FloatArray

from .conftest import Program, Ran

N = 90
RNG = np.random.default_rng(3)
KIND = RNG.integers(0, 2, N)
VALUES: FloatArray = np.column_stack(
    [RNG.normal(40 + 8 * KIND, 10), RNG.normal(30000 + 9000 * KIND, 8000), RNG.normal(0.2, 0.3, N)]
).round(3)
GAPS = {(12, 0), (40, 1), (41, 0), (77, 1)}
LEFT = [row for row in range(N) if row not in {row for row, _ in GAPS}]
OPTIONS = ("--id-column", "customer", "--ignore-columns", "name,comment", "--missing", "drop", "-s", "coreset")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """As a German spreadsheet saves it; the first ten rows are labeled."""
    lines = ["customer;name;comment;age;pay;rate;label"]
    for row in range(N):
        cells = ["" if (row, column) in GAPS else f"{VALUES[row, column]}".replace(".", ",") for column in range(3)]
        comment = '"said; ""fine"""' if row % 3 else ""
        label = "ab"[KIND[row]] if row < 10 else ""
        lines.append(";".join([f"C{1000 + 7 * row}", f"Frau Müller {row}", comment, *cells, label]))
    (tmp_path / "table.csv").write_bytes("\r\n".join([*lines, ""]).encode("latin-1"))
    return tmp_path / "table.csv"


def rows_of(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(Path(path).read_text())))


def label(path: str, count: int) -> list[int]:
    """A person fills in the first so many labels; the rows that got one."""
    rows = rows_of(path)
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], "label"])
        writer.writeheader()
        writer.writerows({**row, "label": "a" if place < count else ""} for place, row in enumerate(rows))
    return [int(row["index"]) for row in rows[:count]]


def by_hand(labeled: list[int]) -> list[int]:
    """The picks of the library, on the rows without a gap, standardized with NumPy."""
    pool = VALUES[LEFT]
    pool = (pool - pool.mean(axis=0)) / pool.std(axis=0)
    seen = np.array([LEFT.index(row) for row in labeled if row in LEFT])
    return [LEFT[place] for place in dubito.select(pool, 6, labeled=seen, strategy="coreset").indices.tolist()]


def untold(ran: Ran, *wanted: str) -> list[str]:
    """What a command did not say of all that it should."""
    return [each for each in wanted if each not in ran.err]


@pytest.mark.usefixtures("table")
def test_each_refusal_names_the_next_step(run: Program) -> None:
    first = run("select", "table.csv", "-b", "6", "-s", "coreset")
    assert "pass --id-column customer" in first.complaint
    second = run("select", "table.csv", "-b", "6", "-s", "coreset", "--id-column", "customer")
    assert "else --ignore-columns name,comment." in second.complaint
    third = run("select", "table.csv", "-b", "6", "-s", "coreset", *OPTIONS[:4])
    assert "table.csv has 4 missing values in 4 of 90 rows (age 2, pay 2); pass --missing median" in third.err
    assert [ran.code for ran in (first, second, third)] == [3, 3, 3]


@pytest.mark.usefixtures("table")
def test_three_rounds_give_the_picks_of_the_library_by_the_file_s_own_rows_and_ids(run: Program) -> None:
    labeled, files = list(range(10)), list[str]()
    for number, count in ((1, 6), (2, 4), (3, 6)):
        given = [each for path in files for each in ("--labeled", path)]
        ran = run(
            "select", "table.csv", "-b", "6", *OPTIONS, *given, "-o", f"r{number}.csv", "--sheet", f"r{number}.html"
        )
        assert ran.code == 0, ran.err
        read = ("semicolons", "decimal commas", "Latin-1", "3 features: age, pay, rate", "10 of 90 rows have a label")
        assert untold(ran, *read) == []
        made = ("those rows are left out", "columns are standardized (unscaled, pay makes over 99.9%", "(texts)")
        assert untold(ran, *made) == []
        rows = rows_of(f"r{number}.csv")
        assert [int(row["index"]) for row in rows] == by_hand(labeled)
        assert all(row["id"] == f"C{1000 + 7 * int(row['index'])}" for row in rows)
        assert all(row["name"] == f"Frau Müller {row['index']}" for row in rows)
        files.append(f"r{number}.csv")
        labeled += label(f"r{number}.csv", count)


@pytest.mark.usefixtures("table", "blank_figures")
def test_the_labeled_rows_can_be_played_again(run: Program) -> None:
    options = ("--initial", "4", "--budget", "1", "--rounds", "1", "--seeds", "2", "-s", "margin", "--workers", "1")
    ran = run("simulate", "table.csv", *OPTIONS[:6], *options, "-o", "out")
    assert ran.code == 0, ran.err
    assert untold(ran, "10 of 90 rows have a label; the others are ignored", "columns are standardized") == []


def text_table(name: str, n_rows: int = 40) -> None:
    lines = [f"{row},message number {row},{'spam' if row % 2 else 'ham'},{row / 8},{row % 7}" for row in range(n_rows)]
    Path(name).write_text("\n".join(["id,message,kind,size,links", *lines, ""]))


def test_texts_are_embedded_before_they_are_selected_from(run: Program) -> None:
    text_table("mail.csv")
    ran = run("select", "mail.csv", "-b", "3", "--label-column", "kind")
    assert "run dubito embed mail.csv --text message -o pool.parquet and pass pool.parquet;" in ran.complaint
    assert run("embed", "mail.csv", "--text", "message", "-o", "pool.parquet").code == 0
    assert run("select", "pool.parquet", "-b", "3", "--ignore-columns", "kind").code == 0


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("select", "mail.csv", "-b", "3"), "all 40 labels in 'id' of mail.csv are different"),
        (("status", "mail.csv"), "all 40 labels in 'id' of mail.csv are different"),
        (
            ("simulate", "mail.csv"),
            "column 'id' of mail.csv cannot be the class of the rows: it has 40 different values",
        ),
    ],
)
def test_a_column_of_ids_is_no_label_column(run: Program, command: tuple[str, ...], problem: str) -> None:
    text_table("mail.csv")
    ran = run(*command, "--label-column", "id", "--ignore-columns", "message,kind")
    assert problem in ran.complaint
    assert "name another column with --label-column" in ran.complaint


def test_numbers_that_hardly_repeat_are_no_classes(run: Program) -> None:
    text_table("mail.csv")
    ran = run("simulate", "mail.csv", "--label-column", "size", "--ignore-columns", "message,kind")
    assert "or put the values into a few classes" in ran.complaint


def test_notes_on_a_file_come_before_an_error(run: Program) -> None:
    Path("pool.csv").write_text("x;y\n1;2\n2;3\n")
    ran = run("select", "pool.csv", "-b", "9", "-s", "coreset")
    notes, error = ran.err.splitlines()[:-1], ran.complaint
    assert "dubito: pool.csv was read with semicolons between its fields." in notes
    assert error.startswith("--budget 9 exceeds the 2 points")
