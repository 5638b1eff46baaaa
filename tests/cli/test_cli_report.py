"""``dubito report``: the report of a run made again, also of one that is not finished."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dubito.cli import main
from dubito.cli.commands.report import about_run
from dubito.experiments.journal import Journal, encode_line
from dubito.experiments.plan import Data
from dubito.experiments.runner import read_folder

from .conftest import Program

SMALL = ("--initial", "8", "--budget", "6", "--rounds", "1", "--seeds", "2", "--workers", "1", "-s", "coreset")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two strategies and two seeds, and its data."""
    place = tmp_path_factory.mktemp("played")
    rng = np.random.default_rng(3)
    labels = np.arange(90) % 3
    np.savez(place / "data.npz", features=rng.normal(size=(90, 3)) + 2.0 * np.eye(3)[labels], labels=labels)
    assert main(["simulate", str(place / "data.npz"), *SMALL, "-o", str(place / "run"), "-q", "--json"]) == 0
    return place


@pytest.fixture
def folder(played: Path, tmp_path: Path) -> Path:
    """A copy of that run, to do anything with."""
    shutil.copytree(played / "run", tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.slow
def test_a_report_made_again_is_the_same_page(run: Program, folder: Path) -> None:
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    ran = run("report", "run")
    assert ran.code == 0, ran.err
    assert (folder / "report.html").read_bytes() == before
    assert ran.out.endswith("  run/report.html\n  run/curves.png\n")


@pytest.mark.slow
@pytest.mark.usefixtures("blank_figures")
def test_a_report_can_go_elsewhere_and_links_back(run: Program, folder: Path) -> None:
    assert run("report", "run", "-o", "elsewhere", "--target", "0.5").code == 0
    page = Path("elsewhere/report.html").read_text()
    assert 'href="../run/journal.jsonl"' in page
    assert "50.0%" in page
    assert "elsewhere/report.html exists; pass --force" in run("report", "run", "-o", "elsewhere").complaint
    assert run("report", "run", "-o", "elsewhere", "--force").code == 0
    assert (folder / "report.html").exists()


@pytest.mark.usefixtures("blank_figures")
def test_of_a_run_cut_short_what_all_strategies_have_is_reported(run: Program, folder: Path) -> None:
    journal = folder / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-1]) + lines[-1][:25])
    ran = run("report", "run", "--json")
    described = json.loads(ran.out)
    assert described["seeds"] == [0]
    assert described["records_left_out"] == 3
    assert "Not finished: 7 of 8 trainings are recorded" in (folder / "report.html").read_text()


@pytest.mark.usefixtures("blank_figures")
def test_strategies_that_are_not_begun_are_named(run: Program, folder: Path) -> None:
    journal = folder / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if '"strategy": "coreset"' not in line.replace('":"', '": "')))
    assert "Not begun yet, and not in any result: coreset." in run("report", "run").out
    page = (folder / "report.html").read_text()
    assert "Shown is what all strategies begun have: 2 seeds, up to 14 labels. Not begun yet: coreset." in page


@pytest.mark.usefixtures("blank_figures")
def test_without_a_folder_the_run_worked_on_last_is_reported(run: Program, folder: Path) -> None:
    assert "dubito-runs holds no run; pass the folder of one" in run("report").complaint
    shutil.copytree(folder, folder.parent / "dubito-runs" / "latest")
    assert "the most recent run is dubito-runs/latest" in run("report").err
    ran = run("report", "-q")
    assert ran.err == ""
    assert ran.out.endswith("  dubito-runs/latest/report.html\n  dubito-runs/latest/curves.png\n")


def test_a_run_without_anything_to_compare_yet_says_so(run: Program, folder: Path) -> None:
    journal = folder / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:2]))
    assert "Only random was run" in run("report", "run").out
    assert "Not finished: 1 of 8" in (folder / "report.html").read_text()
    journal.write_text(lines[0])
    assert "run has no records yet; run or resume it first." in run("report", "run").complaint


@pytest.mark.usefixtures("blank_figures")
def test_a_run_without_its_notes_takes_the_classes_from_the_data_or_goes_without(folder: Path) -> None:
    (folder / "about.json").unlink()
    change_header(folder, classes=None)
    experiment = read_folder(folder)
    assert about_run(experiment, folder).classes == ("0", "1", "2")
    gone = replace(experiment, data=Data(path="gone.npz", test_share=0.25))
    assert about_run(gone, folder).classes == ()
    assert ("data", "gone.npz; tested on 25% of every class, drawn by the seed") in about_run(gone, folder).facts
    assert about_run(replace(experiment, data=Data(builtin="digits")), folder).classes == ()
    assert main(["report", str(folder), "-q"]) == 0


def change_header(folder: Path, **changes: object) -> None:
    """Set or, with None, remove what the first line of a journal says."""
    header, *others = Journal(folder / "journal.jsonl").read()
    changed = {name: value for name, value in {**header, **changes}.items() if value is not None}
    (folder / "journal.jsonl").write_bytes(b"".join(map(encode_line, [changed, *others])))


@pytest.mark.usefixtures("blank_figures")
def test_classes_that_the_journal_names_are_named_where_the_data_is_gone(run: Program, folder: Path) -> None:
    (folder / "about.json").unlink()
    change_header(folder, classes=["plane", "car", "frog"])
    gone = replace(read_folder(folder), data=Data(images="gone"))
    assert about_run(gone, folder).classes == ("plane", "car", "frog")
    assert run("report", "run").code == 0
    assert "<tr><td>frog</td>" in (folder / "report.html").read_text()


def test_rows_and_the_checksum_of_weights_are_among_the_facts(folder: Path) -> None:
    (folder / "about.json").unlink()
    change_header(folder, weights="mine.safetensors, sha256 01234567")
    part = replace(read_folder(folder), data=Data(images="birds", rows=1600))
    facts = dict(about_run(part, folder).facts)
    assert facts["data"] == "birds; 1,600 rows of the training part, drawn by the seed"
    assert facts["weights"] == "mine.safetensors, sha256 01234567"


@pytest.mark.parametrize(
    "content",
    [
        b"no json\n",
        b"[1, 2]\n",
        b"[" * 100_000,
        b"\xff\n",
        b'{"command": 5}\n',
        b'{"shape": ["a"]}\n',
        b'{"classes": "abc"}\n',
        b'{"classes": [1, 2]}\n',
        b'{"command": "dubito", "check": "0123456789abcdef"}\n',
    ],
)
def test_notes_on_a_run_that_were_damaged_are_refused_by_name(run: Program, folder: Path, content: bytes) -> None:
    (folder / "about.json").write_bytes(content)
    ran = run("report", "run")
    assert ran.code == 3
    assert ran.complaint.startswith("run/about.json was changed or damaged: it")
    assert ran.complaint.endswith("delete it; the report then lacks the command of the run.")


def test_a_letter_changed_in_the_notes_on_a_run_is_noticed(run: Program, folder: Path) -> None:
    notes = (folder / "about.json").read_text()
    (folder / "about.json").write_text(notes.replace("90 rows", "80 rows"))
    assert "about.json was changed or damaged: it does not fit its checksum" in run("report", "run").complaint


def test_an_experiment_that_is_not_the_one_of_the_journal_is_refused(run: Program, folder: Path) -> None:
    plan = (folder / "experiment.toml").read_text()
    (folder / "experiment.toml").write_text(plan.replace("budget = 6", "budget = 5"))
    ran = run("report", "run")
    assert ran.code == 3
    assert "run/journal.jsonl belongs to experiment" in ran.complaint
    assert "restore the experiment.toml that it was started with" in ran.complaint


@pytest.mark.usefixtures("blank_figures")
def test_of_a_journal_without_checksums_that_is_reported(run: Program, folder: Path) -> None:
    records = Journal(folder / "journal.jsonl").read()
    del records[0]["checks"]
    (folder / "journal.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    described = "dubito: 9 lines of run/journal.jsonl have no checksum"
    assert described in run("report", "run").err
    assert described in run("resume", "run").err
    assert run("report", "run", "-q").err == ""


def test_what_is_no_run_is_refused(run: Program, tmp_path: Path) -> None:
    assert "nowhere is not a folder; pass that of a run." in run("report", "nowhere").complaint
    (tmp_path / "empty").mkdir()
    assert "empty has no experiment.toml" in run("report", "empty").complaint
