"""The page of the experiments on images says what its records hold; tried on small runs of the same names."""

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from dubito.experiments.data import Dataset, builtin_dataset
from dubito.experiments.models.networks.network import Mlp
from dubito.experiments.plan import Schedule, read_shipped, shipped_experiments
from dubito.experiments.records import Curve
from dubito.experiments.runner import run_experiment
from dubito.experiments.statistics import Rounded

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
RUN = ("cifar10-main", "cifar10-ablation", "images-strength-clean", "cifar10-sweep-400", "cifar10-sweep-5000")
SMALL = Mlp(hidden=(8,), epochs=4, later_epochs=2, learning_rate=0.02, features="hidden")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools" / "docs"))
        return runpy.run_path(str(ROOT / "tools" / "docs" / "networks.py"))


@pytest.fixture(scope="module")
def data() -> Dataset:
    whole = builtin_dataset("digits", 0).split(0.6, 0)
    return replace(whole, test_features=whole.test_features[:200], test_labels=whole.test_labels[:200])


@pytest.fixture(scope="module")
def runs(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the shipped strategies under the shipped names, small enough for a test."""
    folder = tmp_path_factory.mktemp("runs")
    for name in RUN:
        plan = read_shipped(name)
        small = replace(
            plan,
            data=replace(plan.data, images=None, rows=100),
            model=SMALL,
            schedule=Schedule(initial=20, budget=10, rounds=1),
            seeds=(0, 1),
        )
        run_experiment(small, folder / name, dataset=data)
    return folder


@pytest.fixture(scope="module")
def made(script: dict[str, Any], runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("docs") / "results" / "networks.md"
    with pytest.MonkeyPatch.context() as patched:
        # What is drawn is not looked at here, and drawing it takes long.
        patched.setattr(Figure, "draw", lambda figure, renderer: None)
        script["main"]([str(runs / RUN[0]), str(runs), "--machine", "a small machine"], page)
    return page


@pytest.fixture(scope="module")
def kept(script: dict[str, Any]) -> dict[str, Any]:
    """The records of the repository."""
    found: dict[str, Any] = script["records"](ROOT / "docs" / "results" / "networks")
    return found


def test_what_was_run_is_measured_and_the_rest_is_not(made: Path) -> None:
    text = made.read_text(encoding="utf-8")
    assert len(re.findall(r"^### ", text, re.MULTILINE)) == len(RUN)
    for name in shipped_experiments():
        if name.startswith(("cifar", "svhn", "images-strength-")):
            row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
            assert row.endswith("| not measured |") is (name not in RUN)
    assert (
        "| SVHN: scaled with a beam of 10 is above the plain core-set and random (figure 6) | not measured |  |" in text
    )
    assert "a small machine" in text
    claims = [line for line in text.splitlines() if re.search(r"\| \*\*(holds|does not hold)( \(.*\))?\*\* \|", line)]
    assert len(claims) == 5
    assert [claim.startswith("| the epochs of table 1") for claim in claims if "(CIFAR-10 alone)**" in claim] == [True]


def test_a_table_with_many_numbers_of_labels_says_how_many_it_shows(
    script: dict[str, Any], kept: dict[str, Any]
) -> None:
    table = script["page"].__globals__["section"].__globals__["accuracy_table"]
    whole = list(table(kept["cifar10-ablation"]))
    assert whole[0].count(" labels |") == 9
    labels, names = np.arange(10, 270, 10), ("random", "coreset")
    many = SimpleNamespace(curves=[Curve(name, labels, np.full((2, 26), 0.5)) for name in names])
    said, heads, *_ = table(SimpleNamespace(summary=many))
    assert said == "9 of the 26 numbers of labels; the figure has all.\n"
    assert (heads.count(" labels |"), heads.startswith("| accuracy, % | 10 labels |")) == (9, True)


def test_the_time_of_a_selection_is_the_median(made: Path, script: dict[str, Any]) -> None:
    record = script["read_record"](made.parent / "networks" / "cifar10-main.json")
    rounds = [each for each in record.rounds if each.strategy == "badge" and each.picked]
    slow = [replace(each, select_seconds=seconds) for each, seconds in zip(rounds, (9.0, 2.0, 1.0), strict=False)]
    seconds = script["page"].__globals__["section"].__globals__["selection_seconds"]
    assert seconds(replace(record, rounds=[*slow, replace(slow[0], select_seconds=1.0)]), "badge") == 2.0


def test_every_number_of_labels_and_strategy_has_its_accuracy(made: Path, script: dict[str, Any]) -> None:
    record = script["read_record"](made.parent / "networks" / "cifar10-main.json")
    text = made.read_text(encoding="utf-8").partition("### cifar10-main")[2].partition("###")[0]
    assert "| accuracy, % | 20 labels | 30 labels |" in text
    for curve in record.summary.curves:
        mean, spread = Rounded(100 * curve.mean[0]), Rounded(100 * curve.spread[0])
        assert f"| `{curve.name}` | {mean:.1f} ± {spread:.1f} | " in text
    assert "trainings, " in text


def test_records_are_small_and_lack_the_rows_picked_and_the_machine(made: Path) -> None:
    for path in (made.parent / "networks").iterdir():
        text = path.read_text(encoding="utf-8")
        held = json.loads(text)
        assert "picked" not in held["columns"]
        assert len(text) < 200 * len(held["rounds"]) + 3000
        assert re.findall(r'(?<![\w.:])/(?:home|root|tmp|mnt|Users)/|"host"', text) == []
    assert {path.name for path in (made.parent / "images").iterdir()} == {f"network-{name}.png" for name in RUN}


def test_the_page_is_made_again_out_of_its_records(made: Path, script: dict[str, Any]) -> None:
    before = made.read_text(encoding="utf-8")
    script["main"]([], made)
    assert made.read_text(encoding="utf-8") == before


def test_a_run_that_is_not_finished_or_not_known_is_refused(
    script: dict[str, Any], runs: Path, tmp_path: Path, data: Dataset
) -> None:
    with pytest.raises(SystemExit, match="holds no run"):
        script["main"]([str(tmp_path)], tmp_path / "page.md")
    plan = replace(read_shipped("strength"), model=SMALL, data=replace(read_shipped("strength").data, builtin=None))
    run_experiment(replace(plan, schedule=Schedule(20, 5, 1), seeds=(0,)), tmp_path / "other", dataset=data)
    with pytest.raises(SystemExit, match="a run of strength, which the page does not know"):
        script["main"]([str(tmp_path / "other")], tmp_path / "page.md")
    whole = (runs / RUN[0] / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "experiment.toml").write_bytes((runs / RUN[0] / "experiment.toml").read_bytes())
    (tmp_path / "half" / "journal.jsonl").write_bytes(b"".join(whole[:5]))
    with pytest.raises(SystemExit, match="not finished; go on with: dubito resume"):
        script["main"]([str(tmp_path / "half")], tmp_path / "page.md")


def test_the_page_of_the_repository_is_what_its_records_make(script: dict[str, Any], kept: dict[str, Any]) -> None:
    page = ROOT / "docs" / "results" / "networks.md"
    assert script["page"](kept) == page.read_text(encoding="utf-8")
    for name, record in kept.items():
        assert record.experiment == read_shipped(name)
        assert record.summary.left_out == 0
