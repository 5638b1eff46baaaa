"""Runs that dubito left before its first release are read, reported and resumed for good."""

import json
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from dubito.cli import main
from dubito.errors import InvalidData
from dubito.experiments.records import Round, curves
from dubito.experiments.runner import is_finished, read_folder, read_headers, read_rounds, resume_experiment

RUNS = Path(__file__).parent / "runs"
ROUNDS = {"digits": 24, "perceptron": 12, "uneven": 2}
HASHES = {"digits": "3125ee79", "perceptron": "0c533903", "uneven": "86c046ff"}


def journal(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (RUNS / name / "journal.jsonl").read_text().splitlines()]


def copied(name: str, folder: Path, lines: int | None = None) -> Path:
    """A copy to work on, with so many lines of its journal."""
    shutil.copytree(RUNS / name, folder / name)
    path = folder / name / "journal.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    return folder / name


def plain(each: Round) -> dict[str, object]:
    """A round without its times."""
    return {key: value for key, value in each.as_dict().items() if not key.endswith("seconds")}


@pytest.mark.parametrize("name", ROUNDS)
def test_every_round_is_read_as_it_was_written(name: str) -> None:
    rounds, (header,) = read_rounds(RUNS / name), read_headers(RUNS / name)
    written = {(each["strategy"], each["seed"], each["turn"]): each for each in journal(name)[1:]}
    assert len(rounds) == len(written) == ROUNDS[name]
    for each in rounds:
        expected = written[each.strategy, each.seed, each.turn]
        assert {**each.as_dict(), "recall": list(each.recall), "picked": list(each.picked), "kind": "round"} == expected
    assert header == journal(name)[0]
    assert is_finished(RUNS / name)


@pytest.mark.parametrize("name", ROUNDS)
def test_the_hash_of_an_experiment_is_what_it_was(name: str) -> None:
    experiment = read_folder(RUNS / name)
    assert experiment.hash8 == HASHES[name] == journal(name)[0]["experiment"]
    assert experiment.to_toml() == (RUNS / name / "experiment.toml").read_text()


@pytest.mark.parametrize("name", ["digits", "perceptron"])
def test_a_report_is_made_of_it(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name != "digits":  # A report is mostly drawing: one is enough.
        monkeypatch.setattr(Figure, "draw", lambda figure, renderer: None)
    folder = copied(name, tmp_path)
    assert main(["report", str(folder), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().err.count("error") == 0
    held = json.loads((tmp_path / "out" / "results.json").read_text())
    found = {curve.name: curve.mean.tolist() for curve in curves(read_rounds(folder))}
    assert {each["strategy"]: each["mean"] for each in held["strategies"]} == found


@pytest.mark.parametrize("name", ["digits", "perceptron"])
def test_cut_short_it_is_resumed_to_what_it_was(name: str, tmp_path: Path) -> None:
    """The same rows asked for at random; accuracies may differ by what another machine rounds differently."""
    whole = read_rounds(RUNS / name)
    folder = copied(name, tmp_path, lines=1 + ROUNDS[name] // 2)
    kept = {(each.strategy, each.seed, each.turn): plain(each) for each in read_rounds(folder)}
    resumed = resume_experiment(folder)
    assert len(kept) == ROUNDS[name] // 2
    assert len(resumed) == len(whole)
    for each, was in zip(resumed, whole, strict=True):
        place = each.strategy, each.seed, each.turn
        assert (*place, each.labels) == (was.strategy, was.seed, was.turn, was.labels)
        assert plain(each) == kept.get(place, plain(each))
        assert abs(each.test_accuracy - was.test_accuracy) < 0.1
        if each.strategy == "random":
            assert each.picked == was.picked


def test_one_that_was_trained_by_other_steps_is_refused_with_the_hint(tmp_path: Path) -> None:
    folder = copied("uneven", tmp_path, lines=2)
    with pytest.raises(InvalidData, match=r"an earlier version of dubito.*; run the experiment in another folder\."):
        resume_experiment(folder)


@pytest.mark.parametrize("name", ROUNDS)
def test_a_finished_one_is_only_read(name: str, tmp_path: Path) -> None:
    folder = copied(name, tmp_path)
    before = (folder / "journal.jsonl").read_bytes()
    assert [plain(each) for each in resume_experiment(folder)] == [plain(each) for each in read_rounds(RUNS / name)]
    assert (folder / "journal.jsonl").read_bytes() == before
