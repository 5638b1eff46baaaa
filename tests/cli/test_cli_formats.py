"""Files of every form through the real command line: understood with a note, or refused with the fix."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from .conftest import Program

CORESET = ("--budget", "2", "--strategy", "coreset")


def test_a_table_of_semicolons_commas_and_latin_letters_is_read_with_three_notes(run: Program) -> None:
    rows = "".join(f"Stück {row};{row},5;{row * row % 7}\n" for row in range(9))
    Path("pool.csv").write_bytes(f"id;größe;breite\n{rows}".encode("latin-1"))
    ran = run("select", "pool.csv", *CORESET)
    assert ran.code == 0
    assert "Stück" in ran.out
    assert "dubito: pool.csv is not UTF-8: it was read as Western European (Latin-1)" in ran.err
    assert "dubito: pool.csv was read with semicolons between its fields." in ran.err
    assert "dubito: pool.csv was read with decimal commas: 1,5 is one and a half." in ran.err
    assert run("select", "pool.csv", *CORESET, "-q").err == ""


def test_notes_come_from_every_file_that_a_command_reads(run: Program) -> None:
    np.save("pool.npy", np.arange(12.0).reshape(6, 2) ** 2)
    Path("p.csv").write_text("a;b\n" + "0,5;0,5\n" * 6)
    ran = run("select", "pool.npy", "--budget", "1", "--probabilities", "p.csv")
    assert ran.code == 0
    assert "dubito: p.csv was read with decimal commas" in ran.err


def test_a_file_that_is_refused_leaves_its_error_alone_on_stderr(run: Program) -> None:
    Path("pool.csv").write_text("id;x\na;1\nb;oops\n")
    assert "holds text such as 'oops'" in run("select", "pool.csv", *CORESET).complaint


def bomb(name: str) -> str:
    if name.endswith(".npz"):
        np.savez_compressed(name, features=np.zeros((4000, 1000)))
    else:
        Path(name).write_bytes(gzip.compress(b"x,y\n" + b"0,0\n" * 2_000_000))
    assert Path(name).stat().st_size < 100_000
    return name


@pytest.mark.parametrize("name", ["bomb.npz", "bomb.csv.gz"])
@pytest.mark.parametrize("option", ["--input-limit", "--memory-limit"])
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_what_unpacks_to_more_than_inputs_may_take_is_refused_before_it_is_read(
    run: Program, name: str, option: str, more: tuple[str, ...]
) -> None:
    ran = run("select", bomb(name), *CORESET, option, "5MB", *more)
    assert ran.code == 2
    assert name in ran.complaint
    assert "the 5 MB that inputs may take; if this is intended, pass --input-limit" in ran.complaint.replace(
        "inputs may take 5 MB", "the 5 MB that inputs may take"
    )
    assert "in Python" not in ran.complaint


@pytest.mark.parametrize("command", ["simulate", "diagnose", "run"])
def test_every_command_that_reads_has_the_bound(run: Program, command: str) -> None:
    rng = np.random.default_rng(0)
    np.savez("data.npz", features=rng.normal(size=(2000, 100)), labels=np.arange(2000) % 2, labeled=np.arange(9))
    Path("plan.toml").write_text(
        'schema = 1\nname = "plan"\nstrategies = ["random"]\n[data]\npath = "data.npz"\n[schedule]\nrounds = 1\n'
    )
    ran = run(command, "plan.toml" if command == "run" else "data.npz", "--input-limit", "1MB")
    assert ran.code in (2, 3)
    assert "takes 1.6 MB of memory once it is unpacked, and inputs may take 1 MB" in ran.err


def test_the_environment_may_bound_inputs_and_an_option_goes_before_it(
    run: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = bomb("bomb.npz")
    monkeypatch.setenv("DUBITO_INPUT_LIMIT", "5MB")
    assert "inputs may take 5 MB" in run("select", name, *CORESET).complaint
    assert run("select", name, *CORESET, "--dry-run", "--input-limit", "1GB").code == 0
    monkeypatch.setenv("DUBITO_INPUT_LIMIT", "much")
    assert "much' is not a size" in run("select", name, *CORESET).complaint


def test_a_bound_that_is_no_size_is_refused(run: Program) -> None:
    assert "--input-limit lots is not a size" in run("select", "x.npy", *CORESET, "--input-limit", "lots").complaint


def test_text_like_formulas_goes_round_through_a_spreadsheet_and_is_reported(run: Program) -> None:
    Path("pool.csv").write_text("id,=note,x\n=1+1,-a,0\n@b,plain,5\nc,+b,9\n")
    options = ("--strategy", "coreset", "--ignore-columns", "=note")
    ran = run("select", "pool.csv", "-b", "3", *options, "-o", "picks.csv")
    assert ran.code == 0
    assert "has an apostrophe before it in picks.csv (2 in id, 2 in =note), for spreadsheets" in ran.err
    first = Path("picks.csv").read_text()
    assert first.splitlines()[0].endswith(",'=note")
    assert all(cell in first for cell in ("'=1+1", "'@b", "'-a", "'+b", ",plain"))
    kept = first.splitlines()
    Path("two.csv").write_text("\n".join(kept[:3]) + "\n")
    ran = run("select", "pool.csv", "-b", "1", *options, "-o", "two.csv", "--append", "-q")
    assert ran.code == 0
    assert {line.split(",")[2] for line in Path("two.csv").read_text().splitlines()[1:]} == {"'=1+1", "'@b", "c"}


@pytest.mark.parametrize("more", [(), ("-o", "picks.csv", "--no-safe-csv"), ("-o", "picks.jsonl")])
def test_text_is_as_it_was_where_programs_read_it(run: Program, more: tuple[str, ...]) -> None:
    Path("pool.csv").write_text("id,x\n=1+1,0\n=b,5\n=c,9\n")
    ran = run("select", "pool.csv", *CORESET, *more)
    written = ran.out if not more else Path(more[1]).read_text()
    assert (ran.code, "apostrophe" in ran.err, "'=" in written) == (0, False, False)
    assert "=" in written


def test_an_id_column_that_one_file_lacks_is_reported_with_its_own_hint(run: Program) -> None:
    Path("pool.csv").write_text("id,a,b\nr0,1,2\nr1,3,4\nr2,9,9\n")
    Path("p.csv").write_text("key,c1,c2\nr0,0.5,0.5\nr1,0.25,0.75\nr2,0,1\n")
    ran = run("select", "pool.csv", "--budget", "1", "--probabilities", "p.csv", "--id-column", "key")
    assert ran.code == 2
    assert "pool.csv has no column 'key', and its ids are in 'id'; leave the option out" in ran.complaint


def test_a_single_line_of_numbers_is_a_row_and_no_header(run: Program) -> None:
    Path("pool.csv").write_text("0,1,2\n")
    ran = run("select", "pool.csv", "--budget", "1", "--json")
    assert (ran.code, len(json.loads(ran.out)["picks"])) == (0, 1)


def test_labels_that_are_not_found_are_named_by_their_option(run: Program) -> None:
    Path("data.csv").write_text("id,a,b\n0,1,2\n1,3,4\n2,9,9\n")
    assert "Name one with --label-column" in run("simulate", "data.csv").complaint


def test_labeled_tables_are_as_strict_as_pools(run: Program) -> None:
    Path("pool.csv").write_text("id,a,b\nr0,1,2\nr1,3,4\nr2,9,9\n")
    Path("labels.csv").write_text("id,label\nr1,a\nr2,b,c\n")
    assert (
        "line 3 of labels.csv has 3 fields instead of 2"
        in run("select", "pool.csv", *CORESET, "--labeled", "labels.csv").complaint
    )
