"""Networks trained side by side; here on the CPU, where the same steps are made without a CUDA graph."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dubito.distances import squared_radii
from dubito.errors import InvalidArgument, InvalidData
from dubito.experiments.datasets.dataset import Dataset
from dubito.experiments.lanes.lane import Bank, Lane, Plan, train_side_by_side
from dubito.experiments.lanes.players import trains_together
from dubito.experiments.lanes.reading import largest_distance, nearest_squared, read_rows
from dubito.experiments.lanes.studio import Assignment, Studio
from dubito.experiments.models.networks.network import Torch
from dubito.experiments.models.networks.split import Split, state_of
from dubito.experiments.models.networks.training import Training, colour_units, normalised
from dubito.experiments.plans.arms import Arm
from dubito.experiments.plans.experiment import Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.runs import work as working
from dubito.experiments.runs.run import run_experiment

ADAM = Training(epochs=3, later_epochs=2, learning_rate=1e-3, decay=False, batch=8, device="cpu")
SCHEDULE = Schedule(initial=12, budget=6, rounds=3)


def small(n_classes: int) -> torch.nn.Module:
    """A convolution, batch normalisation and a linear layer, on images of any size."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32, n_classes),
    )


def squashed(n_classes: int) -> torch.nn.Module:
    """Something follows the layer that one might take for the head."""
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, n_classes), torch.nn.Softplus())


def lamps(n: int = 120) -> Dataset:
    """Bright and dark images, with noise: two classes that a small network can tell apart."""
    rng = np.random.default_rng(0)
    labels = np.arange(n) % 2
    pixels = (rng.integers(0, 160, (n, 4, 4, 3)) + 80 * labels[:, None, None, None]).astype(np.uint8)
    part = n - n // 4
    return Dataset("lamps", pixels[:part], labels[:part], ("dark", "bright"), pixels[part:], labels[part:])


def small_model(learning_rate: float = 5e-3, factory: str = "small", head: str = "5", samples: int = 0) -> Torch:
    return Torch(
        factory=f"{__name__}.{factory}",
        head=head,
        epochs=4,
        later_epochs=2,
        learning_rate=learning_rate,
        batch=8,
        device="cpu",
        samples=samples,
    )


def experiment(model: Torch | None = None, schedule: Schedule = SCHEDULE, extra: tuple[Arm, ...] = ()) -> Experiment:
    arms = Arm("random"), Arm("doubt-coreset"), Arm("badge"), *extra
    return Experiment("lamps", arms, model=model or small_model(), schedule=schedule, seeds=(0, 1))


def results(rounds: list[Round]) -> list[dict[str, object]]:
    """Rounds without their times."""
    return [{key: value for key, value in each.as_dict().items() if not key.endswith("seconds")} for each in rounds]


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Play side by side though there is no GPU."""
    monkeypatch.setattr(working, "trains_together", lambda model: True)


@given(st.integers(1, 60), st.integers(1, 5), st.integers(0, 2**31))
def test_every_epoch_shows_every_row_and_only_the_last_minibatch_is_cut(n: int, epochs: int, seed: int) -> None:
    training = Training(epochs, 1, 1e-3, False, 8, "cpu")
    made = Plan(np.arange(100, 100 + n), training, is_first=True, seed=seed)
    counts = np.bincount(made.order.flatten().numpy() - 100, minlength=n)
    assert made.order.shape == (max(epochs, epochs * n // 8), 8)
    if n >= 8:
        assert counts.max() <= epochs
        assert epochs * n - counts.sum() < 8
    assert torch.equal(made.order, Plan(np.arange(100, 100 + n), training, is_first=True, seed=seed).order)


def test_the_learning_rate_stays_or_falls_along_a_cosine() -> None:
    rows = np.arange(80)
    falling = Plan(rows, Training(2, 1, 0.5, True, 8, "cpu"), is_first=True, seed=0).rates
    assert torch.all(Plan(rows, ADAM, is_first=True, seed=0).rates == ADAM.learning_rate)
    assert falling[0] == 0.5
    assert torch.all(falling.diff() < 0)
    assert 0 < falling[-1] < 0.02


def test_a_lane_makes_the_steps_of_plain_adam() -> None:
    torch.manual_seed(0)
    data, network = lamps(), small(2)
    bank, made = Bank({0: data}, "cpu"), Plan(np.arange(40), ADAM, is_first=True, seed=1)
    lane = Lane(network, Split(network, "5", ADAM, is_training=True), bank, ADAM, made.steps)
    lane.begin(state_of(network), made)
    train_side_by_side([lane], made.steps)
    optimizer = torch.optim.Adam(network.train().parameters(), lr=ADAM.learning_rate)
    for rows in made.order:
        given = normalised(bank.rows[rows], *colour_units("cpu"))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(given), bank.labels[rows]).backward()
        optimizer.step()
    found = lane.finish()
    for name, expected in network.state_dict().items():
        assert torch.allclose(found[name].float(), expected.float(), atol=1e-6), name


def test_a_turn_begins_with_a_new_optimizer() -> None:
    torch.manual_seed(0)
    network, bank = small(2), Bank({0: lamps()}, "cpu")
    made, start = Plan(np.arange(30), ADAM, is_first=False, seed=1), state_of(network)
    lane = Lane(network, Split(network, "5", ADAM, is_training=True), bank, ADAM, 50)
    ends = []
    for _ in range(2):
        lane.begin(start, made)
        train_side_by_side([lane], made.steps)
        ends.append(lane.finish())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in start)
    assert not torch.equal(ends[0]["0.weight"], start["0.weight"])


def test_data_that_seeds_share_is_on_the_device_once() -> None:
    data, other = lamps(), lamps(60)
    bank = Bank({0: data, 1: data, 2: other}, "cpu")
    assert bank.start == {0: 0, 1: 0, 2: 90}
    assert len(bank.rows) == len(bank.labels) == 135
    assert torch.equal(bank.of(2, 45), torch.from_numpy(other.features))


def test_a_network_in_bfloat16_has_its_last_layer_in_float32() -> None:
    torch.manual_seed(0)
    network = small(2).eval()
    narrow = Training(1, 1, 1e-3, False, 8, "cpu", precision="bfloat16")
    rows = torch.from_numpy(lamps().features)
    weights = state_of(network)
    seen, told = Split(network, "5", narrow, is_training=False)(weights, rows)
    exact, _ = Split(network, "5", ADAM, is_training=False)(weights, rows)
    assert seen.dtype == told.dtype == torch.float32
    assert torch.equal(told, network[5](seen))
    assert 0 < (seen - exact).abs().max() < 0.05


def test_rows_are_read_in_blocks_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = small(2).eval()
    split, sizes = Split(network, "5", ADAM, is_training=False), []

    def answer(weights: dict[str, torch.Tensor], rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sizes.append(len(rows))
        return split(weights, rows)

    rows, weights = torch.from_numpy(lamps().features), state_of(network)
    monkeypatch.setattr("dubito.experiments.lanes.reading.READ_ROWS", 40)
    seen, told = read_rows(answer, weights, rows)
    whole = split(weights, rows)
    assert sizes == [40, 40, 40]
    assert torch.allclose(seen, whole[0], atol=1e-6)
    assert torch.allclose(told, whole[1], atol=1e-6)


@given(st.integers(0, 2**31))
def test_the_largest_distances_are_those_of_every_pair(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = (rng.normal(size=(40, 3)) + 50.0).astype(np.float32)
    rows, doubt = rng.permutation(40)[:5], rng.random(40)
    nearest = np.sqrt(squared_radii(features, features[rows]))
    tensor = torch.from_numpy(features)
    squared = nearest_squared(tensor, rows)
    assert largest_distance(tensor, rows, squared) == pytest.approx(nearest.max(), rel=1e-12)
    assert largest_distance(tensor, rows, squared, doubt) == pytest.approx((nearest * doubt).max(), rel=1e-12)


@pytest.mark.usefixtures("together")
def test_cells_played_side_by_side_write_what_cells_played_alone_write(tmp_path: Path) -> None:
    rounds = run_experiment(experiment(), tmp_path, dataset=lamps())
    assert [each.labels for each in rounds] == [12, 18, 24, 30] * 6
    assert all(len(set(each.picked)) == (6 if each.turn < 3 else 0) for each in rounds)
    assert all(each.radius and each.scaled_radius and each.radius >= each.scaled_radius for each in rounds)
    for seed in (0, 1):
        first = [each for each in rounds if each.seed == seed and each.turn == 0]
        assert len({each.test_accuracy for each in first}) == len({each.core_set_loss for each in first}) == 1
    last = [each.test_accuracy for each in rounds if each.turn == 3]
    assert np.mean(last) > 0.8
    assert not list((tmp_path / "checkpoints").iterdir())


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("stop", [3, 8, 14])
def test_interrupted_and_resumed_it_goes_on_from_the_last_finished_turn(
    tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_experiment(experiment(), tmp_path / "whole", dataset=lamps())
    seen = 0

    def interrupt(standing: object) -> None:
        nonlocal seen
        seen += 1
        if seen == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment(), tmp_path / "cut", dataset=lamps(), progress=interrupt)
    turns = list[int]()
    train = Studio.train

    def watched(self: Studio, assignments: list[Assignment]) -> object:
        turns.extend(each.turn for each in assignments)
        return train(self, assignments)

    monkeypatch.setattr(Studio, "train", watched)
    resumed = run_experiment(experiment(), tmp_path / "cut", dataset=lamps())
    assert results(resumed) == results(whole)
    assert min(turns, default=9) == (stop - 1) // 6 + 1  # Six cells a turn: none that was trained is trained again.


@pytest.mark.usefixtures("together")
def test_where_checkpoints_were_lost_turns_are_trained_again(tmp_path: Path) -> None:
    whole = run_experiment(experiment(), tmp_path / "whole", dataset=lamps())
    journal = (tmp_path / "whole" / "journal.jsonl").read_text().splitlines(keepends=True)
    run_experiment(experiment(), tmp_path / "cut", dataset=lamps())
    (tmp_path / "cut" / "journal.jsonl").write_text("".join(journal[:15]))
    assert results(run_experiment(experiment(), tmp_path / "cut", dataset=lamps())) == results(whole)


@pytest.mark.usefixtures("together")
def test_training_from_scratch_needs_no_checkpoints(tmp_path: Path) -> None:
    anew = Schedule(initial=12, budget=6, rounds=1, from_scratch=True)
    first, again = (run_experiment(experiment(schedule=anew), tmp_path / name, dataset=lamps()) for name in "ab")
    assert results(first) == results(again)


@pytest.mark.usefixtures("together")
def test_a_committee_is_asked_where_a_strategy_wants_one(tmp_path: Path) -> None:
    one = Schedule(initial=12, budget=3, rounds=1)
    rounds = run_experiment(experiment(small_model(samples=2), one, (Arm("bald"),)), tmp_path, dataset=lamps())
    assert {each.strategy for each in rounds if each.picked} == {"random", "doubt-coreset", "badge", "bald"}


@pytest.mark.usefixtures("together")
def test_training_that_diverges_names_the_learning_rate(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="lower learning_rate=1e\\+30"):
        run_experiment(experiment(small_model(learning_rate=1e30)), tmp_path, dataset=lamps())


@pytest.mark.parametrize("is_together", [False, True])
def test_a_head_that_something_follows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_together: bool
) -> None:
    monkeypatch.setattr(working, "trains_together", lambda model: is_together)
    with pytest.raises((InvalidArgument, InvalidData), match=r"head ?= ?'1' is not the last module"):
        run_experiment(experiment(small_model(factory="squashed", head="1")), tmp_path, dataset=lamps())


def test_on_a_cpu_cells_are_played_one_after_another() -> None:
    assert not trains_together(small_model())
    assert not trains_together(experiment().model)


def seven(n_classes: int) -> torch.nn.Module:
    """Outputs for classes that are not there."""
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 7))


def two_answers(n_classes: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Unflatten(1, (1, 48)), torch.nn.LSTM(48, n_classes))


def frozen(n_classes: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, n_classes)).requires_grad_(False)


def too_wide(n_classes: int) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(49, n_classes))


def broken(n_classes: int) -> torch.nn.Module:
    raise ValueError("my own mistake")


def no_module(n_classes: int) -> str:
    return "network"


@pytest.mark.parametrize("is_together", [False, True])
@pytest.mark.parametrize(
    ("factory", "head", "message"),
    [
        ("seven", "1", r"output of shape \(2, 7\), and there are 2 classes"),
        ("two_answers", "2", "output of type tuple"),
        ("frozen", "1", "every parameter is frozen"),
        ("too_wide", "1", "cannot take items of shape 3x4x4: RuntimeError"),
        ("broken", "1", "failed when called with n_classes ?= ?2.*ValueError: my own mistake"),
        ("no_module", "1", "returned str; return a torch.nn.Module"),
    ],
)
def test_a_network_that_cannot_be_used_is_refused_by_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_together: bool, factory: str, head: str, message: str
) -> None:
    monkeypatch.setattr(working, "trains_together", lambda model: is_together)
    with pytest.raises((InvalidArgument, InvalidData), match=message):
        run_experiment(experiment(small_model(factory=factory, head=head)), tmp_path, dataset=lamps())


def odd(n_classes: int) -> torch.nn.Module:
    """Two layers that share their weights, one that is frozen, and one that nothing uses."""
    network = torch.nn.Sequential()
    network.add_module("flat", torch.nn.Flatten())
    network.add_module("narrow", torch.nn.Linear(48, 8).requires_grad_(False))
    network.add_module("one", torch.nn.Linear(8, 8))
    network.add_module("two", torch.nn.Linear(8, 8))
    network.add_module("head", torch.nn.Linear(8, n_classes))
    network.two.weight = network.one.weight
    network.register_parameter("spare", torch.nn.Parameter(torch.ones(3)))
    return network


def test_a_lane_keeps_ties_leaves_what_is_frozen_and_passes_over_what_is_unused() -> None:
    torch.manual_seed(0)
    network, bank = odd(2), Bank({0: lamps()}, "cpu")
    made, start = Plan(np.arange(40), ADAM, is_first=True, seed=1), state_of(network)
    lane = Lane(network, Split(network, "head", ADAM, is_training=True), bank, ADAM, made.steps)
    lane.begin(start, made)
    train_side_by_side([lane], made.steps)
    found = lane.finish()
    assert torch.equal(found["one.weight"], found["two.weight"])
    assert not torch.equal(found["one.weight"], start["one.weight"])
    assert torch.equal(found["narrow.weight"], start["narrow.weight"])
    assert torch.equal(found["spare"], start["spare"])


def test_weights_that_do_not_fit_the_network_are_refused() -> None:
    network, bank = small(2), Bank({0: lamps()}, "cpu")
    made = Plan(np.arange(40), ADAM, is_first=True, seed=1)
    lane = Lane(network, Split(network, "5", ADAM, is_training=True), bank, ADAM, made.steps)
    with pytest.raises(InvalidData, match=r"'5\.bias' does not fit the network"):
        lane.begin({**state_of(network), "5.bias": torch.zeros(1)}, made)
