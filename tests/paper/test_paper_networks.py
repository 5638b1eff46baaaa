"""Figures 5 and 6 and table 1: verdicts that can go either way, their pictures, and a study that runs and resumes."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from dubito.errors import InvalidArgument, MissingFile
from dubito.experiments.data_sources import DataSource
from dubito.experiments.models.networks.network import Mlp
from dubito.experiments.plan import Experiment, Schedule, read_shipped
from dubito.experiments.records import Curve, Round
from dubito.experiments.runner import read_rounds
from dubito.paper import network_studies as playing
from dubito.paper.exhibits import exhibits, measure, read_measured, shipped, write_measured
from dubito.paper.network_studies import (
    BEAM,
    BOTH,
    PLAIN,
    PLAIN_BEAM,
    RANDOM,
    SCALED,
    Ablation,
    Epochs,
    MainExperiments,
    NetworkStudy,
    epochs_of,
)
from dubito.paper.plots import paper_figure

LABELS = np.array([1000, 1400, 1800])
NOISE = np.random.default_rng(0).normal(scale=0.001, size=(8, 5, 3))


def made(ends: Mapping[str, float]) -> tuple[Curve, ...]:
    """Curves from 50% to these ends, with a little noise."""
    return tuple(
        Curve(name, LABELS, np.array([0.5, (0.5 + end) / 2, end]) + NOISE[place])
        for place, (name, end) in enumerate(ends.items())
    )


def words(figure: Figure) -> str:
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    return " ".join([*(text.get_text() for text in figure.texts), *titles])


ENDS = {RANDOM: 0.6, PLAIN: 0.62, PLAIN_BEAM: 0.62, SCALED: 0.65, BOTH: 0.66}


@pytest.mark.parametrize(
    ("changed", "holds", "said"),
    [
        ({}, True, "scaled with a beam is above the plain core-set beyond chance, +2.0"),
        ({BOTH: 0.62}, False, "scaled with a beam is not above the plain core-set beyond chance, "),
        ({PLAIN_BEAM: 0.64}, False, "a beam alone is above the plain core-set beyond chance, +1.0"),
        ({SCALED: 0.68}, False, "highest in the end is doubt-coreset (68.1%; scaled with a beam 66.1%)"),
    ],
)
def test_the_ablation_holds_only_where_all_of_its_claim_does(changed: dict[str, float], holds: bool, said: str) -> None:
    finding = Ablation(made(ENDS | changed))
    verdict = finding.verdict()
    assert verdict.holds is holds
    assert verdict.sentence.startswith(said), "a part that fails comes first"
    assert ("both together end highest (" in verdict.sentence) is (BOTH not in changed and SCALED not in changed)
    assert "5 seeds say nothing of variance" in verdict.sentence
    assert ("both together end highest" in words(paper_figure(finding))) is holds


@pytest.mark.parametrize(
    ("changed", "holds"), [({}, True), ({PLAIN: 0.66}, False), ({RANDOM: 0.66}, False), ({BEAM: 0.4}, False)]
)
def test_the_main_claim_is_against_both_baselines_on_every_collection(changed: dict[str, float], holds: bool) -> None:
    ends = {RANDOM: 0.6, PLAIN: 0.62, SCALED: 0.65, BEAM: 0.66}
    finding = MainExperiments({"CIFAR-10": made(ends), "SVHN": made(ends | changed)}, missing=("CIFAR-100",))
    verdict = finding.verdict()
    assert verdict.holds is holds
    assert verdict.sentence.endswith("CIFAR-100: not measured")
    assert str(verdict).startswith(f"{'holds' if holds else 'does not hold'} (CIFAR-10 and SVHN alone): scaled")
    assert replace(finding, missing=()).verdict().scope is None
    figure = paper_figure(finding)
    assert "5 seeds; CIFAR-10 and SVHN alone" in words(figure)
    assert len(figure.axes) == 2
    assert ("are not everywhere above" in words(figure)) is not holds
    assert "SVHN" in words(figure)


def trained(*accuracies: float) -> list[Round]:
    """A round for each accuracy, two strategies a turn."""
    return [
        Round(name, 0, turn, 10, 0.5, accuracy, (), 1.0, None, None, None, (), 1.0, 0.0)
        for turn, accuracy in enumerate(accuracies)
        for name in (RANDOM, PLAIN)
    ]


def test_table_1_asks_for_99_percent_after_every_training() -> None:
    finding = epochs_of({"CIFAR-10": trained(1.0, 0.995, 0.9931)}, ["SVHN"])
    assert finding.verdict().outcome == "holds (CIFAR-10 alone)"
    assert "99.31% at the lowest of all 3; 100% of single trainings are above 99%" in finding.verdict().sentence
    assert "pass 99%" in words(paper_figure(finding))
    short = epochs_of({"CIFAR-10": trained(1.0, 0.98, 0.9931)})
    assert short.verdict().outcome == "does not hold"
    assert short.verdict().numbers["trainings above 99%, CIFAR-10"] == pytest.approx(3 / 5)
    assert "do not all pass" in words(paper_figure(short))
    assert Epochs({"new": (1.0,)}, {"new": 1.0}).verdict().holds


def test_a_record_keeps_its_scope_and_one_without_is_read(tmp_path: Path) -> None:
    partly = replace(shipped()["figure-7"], scope="CIFAR-10 alone")
    path = write_measured(partly, tmp_path)
    assert read_measured(tmp_path)["figure-7"].outcome == "holds (CIFAR-10 alone)"
    held = json.loads(path.read_text(encoding="utf-8"))
    del held["scope"]
    path.write_text(json.dumps(held), encoding="utf-8")
    assert read_measured(tmp_path)["figure-7"].outcome == "holds"


def test_no_verdict_claims_collections_that_were_not_measured() -> None:
    for record in shipped().values():
        assert ("not measured" in record.sentence) is (record.scope is not None)


# Running


def small(name: str) -> Experiment:
    """The shipped experiment with a model that is trained in no time."""
    model = Mlp(hidden=(8,), epochs=2, later_epochs=1, features="hidden")
    return replace(read_shipped(name), model=model, schedule=Schedule(initial=30, budget=10, rounds=2))


def write_cifar10(folder: Path) -> None:
    """Sixty small files' worth of CIFAR-10: six batches of twelve records."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        labels = rng.permutation(12) % 10
        records = np.concatenate([labels[:, None], rng.integers(0, 256, (12, 3072))], axis=1)
        (folder / name).write_bytes(records.astype(np.uint8).tobytes())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with CIFAR-10 alone, and experiments that are small."""
    write_cifar10(tmp_path / "cifar-10-batches-bin")
    monkeypatch.setenv("DUBITO_DATA", str(tmp_path))
    monkeypatch.setattr(playing, "read_shipped", small)
    return tmp_path


@pytest.mark.slow
def test_figure_6_is_measured_on_the_images_at_hand_and_table_1_reads_its_runs(place: Path) -> None:
    study = NetworkStudy("main", ("cifar10-main", "svhn-main"), seeds=2, rounds=1, runs_dir=str(place / "runs"))
    brought: list[str] = []

    def gather(plan: Experiment, folder: Path) -> DataSource:
        brought.append(plan.name)
        return DataSource(plan, folder)

    finding, described = measure(exhibits()["figure-6"], seed=3, study=replace(study, gather=gather))
    assert isinstance(finding, MainExperiments)
    assert list(finding.curves) == ["CIFAR-10"]
    assert described.sentence.endswith("SVHN: not measured")
    assert described.outcome.endswith(" (CIFAR-10 alone)")
    assert brought == ["cifar10-main", "svhn-main"]
    (run,) = (place / "runs").iterdir()
    rounds = read_rounds(run)
    assert {each.seed for each in rounds} == {3, 4}
    (place / "cifar-10-batches-bin" / "test_batch.bin").unlink()
    again = replace(study, check="epochs").measure(3)
    assert isinstance(again, Epochs)
    assert len(again.accuracy["CIFAR-10"]) == 2, "what is done needs no images"
    assert json.dumps(described.as_dict())


def test_figure_5_without_images_says_where_they_are_looked_for(place: Path) -> None:
    study = NetworkStudy("ablation", ("cifar10-ablation",), seeds=2, rounds=1, runs_dir=str(place / "runs"))
    assert isinstance(study.measure(0), Ablation)
    (place / "cifar-10-batches-bin" / "test_batch.bin").unlink()
    with pytest.raises(MissingFile, match=r"unpack all of cifar-10-binary\.tar\.gz there"):
        study.measure(7)


def test_all_leaves_networks_out_without_a_gpu(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = NetworkStudy("ablation", ("cifar10-ablation",))
    assert not study.is_available()
    monkeypatch.setattr(playing, "resolve_device", lambda device: "cuda")
    assert study.is_available()
    assert not NetworkStudy("main", ("svhn-main",)).is_available()
    assert not NetworkStudy("main", ("gone",)).is_available()


def test_settings_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="check='minor' is not known; did you mean"):
        replace(exhibits()["figure-5"], parameters={"check": "minor"}).build()
    with pytest.raises(InvalidArgument, match="seeds=0 is too small"):
        NetworkStudy(seeds=0)
    with pytest.raises(InvalidArgument, match="rounds=0 is too small"):
        NetworkStudy(rounds=0)
