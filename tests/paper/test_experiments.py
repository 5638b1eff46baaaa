"""Experiments that come with the package: the paper's as the paper has them, our own, found by name."""

from pathlib import Path

import pytest

from dubito.errors import MissingFile
from dubito.experiments.images import COLLECTIONS
from dubito.experiments.plan import find_experiment, parse_experiment, read_shipped, shipped_experiments, shipped_text
from dubito.paper.vgg16 import Vgg16

IMAGES = [name for name in shipped_experiments() if name.startswith(("cifar", "svhn", "images-"))]
SWEEP = (400, 1000, 2500, 5000)
FLAWS = ("clean", "redundant", "ambiguous", "imbalanced", "mislabelled")


def test_every_experiment_on_images_is_there() -> None:
    mains = {f"{data}-main" for data in COLLECTIONS.names()}
    sweep = {f"cifar10-sweep-{budget}" for budget in SWEEP}
    flawed = {f"images-{what}-{flaw}" for what in ("strength", "coverage") for flaw in FLAWS}
    others = {"cifar10-ablation", "cifar10-low-noise", "images-coverage-cifar100"}
    assert mains | sweep | flawed | others == set(IMAGES)


@pytest.mark.parametrize("name", IMAGES)
def test_an_experiment_on_images_trains_vgg16_as_the_paper_does(name: str) -> None:
    plan, text = read_shipped(name), shipped_text(name)
    assert plan.name == name
    assert plan.seeds == (0, 1, 2, 3, 4)
    assert plan.data.images is not None
    assert isinstance(plan.model, Vgg16)
    assert (plan.model.weights, plan.model.batch, plan.model.learning_rate) == ("imagenet", 64, 1e-4)
    epochs = {"cifar10": (30, 12), "cifar100": (80, 20), "svhn": (50, 20)}[plan.data.images]
    if name == "images-coverage-cifar100":
        assert plan.model.decay
        epochs = (40, 8)
    assert (plan.model.epochs, plan.model.later_epochs) == epochs
    assert not plan.schedule.from_scratch
    assert plan.strategies[0].name == "random"
    assert text.startswith("# ")
    assert parse_experiment(plan.to_toml()) == plan


def test_the_main_experiments_go_from_5000_to_25000_labels() -> None:
    for data in COLLECTIONS.names():
        plan = read_shipped(f"{data}-main")
        assert plan.schedule.labels.tolist() == [5000, 10000, 15000, 20000, 25000]
        assert plan.model == read_shipped(f"{data}-main").model
        assert [arm.name for arm in plan.strategies] == [
            "random",
            "coreset",
            "doubt-coreset",
            "doubt-coreset:beam_width=10",
            "least-confidence",
            "margin",
            "badge",
        ]


def test_low_noise_differs_from_the_main_experiment_in_the_learning_rate_alone() -> None:
    main, low = read_shipped("cifar10-main"), read_shipped("cifar10-low-noise")
    assert isinstance(low.model, Vgg16)
    assert low.model.decay
    assert low.to_toml() == main.to_toml().replace("decay = false", "decay = true").replace("-main", "-low-noise")


def test_the_ablation_has_both_parts_each_part_and_neither() -> None:
    plan = read_shipped("cifar10-ablation")
    assert plan.schedule.labels[[0, 1, -1]].tolist() == [1000, 1400, 4200]
    assert [arm.name for arm in plan.strategies[1:]] == [
        "coreset",
        "coreset:beam_width=20",
        "doubt-coreset",
        "doubt-coreset:beam_width=20",
        "doubt-coreset:scaling=acquired",
    ]


def test_the_sweep_ends_at_equal_totals() -> None:
    plans = [read_shipped(f"cifar10-sweep-{budget}") for budget in SWEEP]
    assert [plan.schedule.budget for plan in plans] == list(SWEEP)
    assert {(plan.schedule.initial, int(plan.schedule.labels[-1])) for plan in plans} == {(1000, 11000)}
    assert all((plan.strategies, plan.model) == (plans[0].strategies, plans[0].model) for plan in plans)


def test_the_strength_study_differs_in_its_pools_and_tests_on_a_hold_out() -> None:
    plans = [read_shipped(f"images-strength-{flaw}") for flaw in FLAWS]
    assert [plan.pool for plan in plans] == [
        "clean",
        "redundant:5",
        "ambiguous:1",
        "imbalanced:10",
        "mislabelled:0.1",
    ]
    assert {plan.data.test_share for plan in plans} == {0.2}
    assert [plan.data.rows for plan in plans] == [10000, 10000, 10000, 25000, 10000]
    assert all(plan.model == plans[0].model and plan.schedule == plans[0].schedule for plan in plans)
    assert plans[0].schedule.labels.tolist() == [1000, 2000, 3000, 4000, 5000]
    assert "doubt-coreset:permuted=true" in [arm.name for arm in plans[0].strategies]


def test_a_file_goes_before_a_name_and_a_name_is_offered_for_one_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_experiment("strength").name == "strength"
    (tmp_path / "strength").write_text(shipped_text("strength").replace('"strength"', '"mine"'))
    assert find_experiment("strength").name == "mine"
    with pytest.raises(MissingFile, match=r"cifar10-mian is neither a file nor .*; did you mean 'cifar10-main'\?"):
        find_experiment("cifar10-mian")
    with pytest.raises(MissingFile, match=r"these are cifar10-ablation, cifar10-low-noise, "):
        find_experiment("zzz")
    for path in ("gone.toml", "gone/strength"):
        with pytest.raises(MissingFile, match=rf"{path} does not exist"):
            find_experiment(path)


def test_files_of_a_study_are_looked_for_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_shipped("features-clean").data.path == str(tmp_path / "cifar10_vgg16_frozen.npz")
