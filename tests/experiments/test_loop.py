"""One run: what a round records, what strategies share, and that stopping anywhere changes nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dubito
from dubito.doubt import doubt_from_probabilities
from dubito.errors import InvalidArgument
from dubito.experiments import rounds as loop
from dubito.experiments import rounds as measures
from dubito.experiments.data import Dataset, make_dataset
from dubito.experiments.journal import CHECKPOINTS, Checkpoints, Run
from dubito.experiments.models.base import Model
from dubito.experiments.models.linear import Linear, Sklearn
from dubito.experiments.models.networks.network import Mlp
from dubito.experiments.plan import Arm, Data, Experiment, Schedule
from dubito.experiments.records import Round
from dubito.experiments.rounds import NearestLabeled, labeled_at, prepare, prepare_seed, run_rounds, training_set

SCHEDULE = Schedule(initial=9, budget=4, rounds=3)


@pytest.fixture
def data() -> Dataset:
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 3
    centers = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    return make_dataset("three", centers[labels] + rng.normal(size=(120, 2)), labels)


def experiment_of(*arms: Arm, model: Model | None = None, schedule: Schedule = SCHEDULE) -> Experiment:
    return Experiment("plan", arms or (Arm("random"),), schedule=schedule, model=model or Linear(), seeds=(5,))


def played(
    experiment: Experiment, data: Dataset, folder: Path, arm: Arm | None = None, before: list[Round] | None = None
) -> list[Round]:
    """A run's rounds, those given among them; times set to 0."""
    run = Run(arm or experiment.strategies[0], 5)
    (folder / CHECKPOINTS).mkdir(exist_ok=True)
    seed_data = prepare_seed(experiment, data, 5)
    new = run_rounds(run, experiment, seed_data, before or [], Checkpoints(run, folder))
    return [*(before or []), *(replace(each, train_seconds=0.0, select_seconds=0.0) for each in new)]


def test_a_round_records_what_the_paper_names(data: Dataset, tmp_path: Path) -> None:
    experiment = experiment_of(Arm("doubt-coreset"))
    rounds = played(experiment, data, tmp_path)
    seed_data = prepare_seed(experiment, data, 5)
    seen = seed_data.data
    labeled = seed_data.initial
    for turn, each in enumerate(rounds):
        rows = labeled_at(seed_data, [np.array(each.picked, int) for each in rounds], turn)
        fitted = Linear().fit(training_set(seed_data, rows, turn, {}))
        guessed = fitted.predict_proba(seen.features)
        doubt = doubt_from_probabilities(guessed)
        assert (each.turn, each.labels, each.seed) == (turn, len(labeled), 5)
        assert each.test_accuracy == pytest.approx(
            (fitted.predict_proba(seen.test_features).argmax(1) == seen.test_labels).mean(), abs=0.05
        )
        radii = np.linalg.norm(seen.features[:, None] - seen.features[labeled], axis=2).min(axis=1)
        assert each.radius == pytest.approx(radii.max())
        assert each.scaled_radius == pytest.approx((radii * doubt).max(), rel=1e-2)
        assert each.core_set_loss == pytest.approx(-np.log(guessed[np.arange(96), seen.labels]).mean(), rel=1e-2)
        labeled = np.concatenate([labeled, np.array(each.picked, dtype=np.int64)])
    assert len(np.unique(labeled)) == len(labeled) == 9 + 3 * 4
    assert rounds[-1].picked == ()
    assert rounds[-1].uncertainty is None
    assert all(each.uncertainty is not None for each in rounds[:-1])


def test_the_first_pick_of_a_core_set_lies_at_the_radius(data: Dataset, tmp_path: Path) -> None:
    for each in played(experiment_of(Arm("coreset")), data, tmp_path)[1:-1]:
        assert each.radius is not None
        assert each.radius > 0


def test_strategies_share_split_labels_and_weights_until_their_sets_differ(data: Dataset, tmp_path: Path) -> None:
    arms = Arm("coreset"), Arm("least-confidence"), Arm("coreset", label="the same again")
    experiment = experiment_of(*arms, model=Mlp(hidden=(4,), epochs=5, later_epochs=2))
    first, other, again = (played(experiment, data, tmp_path, arm) for arm in arms)
    assert replace(first[0], picked=(), uncertainty=0.0) == replace(
        other[0], strategy="coreset", picked=(), uncertainty=0.0
    )
    assert [replace(each, strategy="coreset") for each in again] == first
    assert first[-1] != replace(other[-1], strategy="coreset")


@pytest.mark.parametrize("kept", [0.0, 1e9], ids=["checkpoints", "replay"])
@pytest.mark.parametrize(
    "model",
    [
        Linear(),
        Mlp(hidden=(4,), epochs=5, later_epochs=2, features="hidden"),
        Sklearn("sklearn.naive_bayes.GaussianNB"),
    ],
    ids=lambda model: model.kind,
)
def test_a_cell_stopped_after_any_turn_goes_on_to_the_same_bits(
    model: Model, kept: float, data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", kept)
    experiment = experiment_of(Arm("doubt-coreset"), model=model)
    whole = played(experiment, data, tmp_path)
    for turns in range(len(whole) + 1):
        run = Run(experiment.strategies[0], 5)
        for path in (tmp_path / CHECKPOINTS).iterdir():
            path.unlink()
        stopped = run_rounds(run, experiment, prepare_seed(experiment, data, 5), [], Checkpoints(run, tmp_path))
        before = [replace(next(stopped), train_seconds=0.0, select_seconds=0.0) for _ in range(turns)]
        saved = len(list((tmp_path / CHECKPOINTS).iterdir()))
        assert saved == (0 if kept or not model.continues else min(turns, 2)), "the last two at most"
        assert played(experiment, data, tmp_path, before=before) == whole


def test_a_torn_checkpoint_is_done_again(data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    experiment = experiment_of(Arm("coreset"))
    whole = played(experiment, data, tmp_path)
    saved = sorted((tmp_path / CHECKPOINTS).iterdir())
    assert [path.name.rpartition("-")[2] for path in saved] == ["5.3.npz"], "only the last is kept"
    checkpoints = Checkpoints(Run(experiment.strategies[0], 5), tmp_path)
    for size in (0, 10, saved[0].stat().st_size // 2):
        checkpoints.path(1).write_bytes(saved[0].read_bytes()[:size])
        assert checkpoints.load(1) is None
        assert played(experiment, data, tmp_path, before=whole[:2]) == whole


def test_a_checkpoint_without_all_its_arrays_or_its_checksum_is_done_again(tmp_path: Path) -> None:
    checkpoints = Checkpoints(Run(Arm("coreset"), 5), tmp_path)
    checkpoints.path(1).parent.mkdir()
    checkpoints.save(1, {"weights": np.arange(3.0), "bias": np.zeros(1)})
    assert checkpoints.load(2) is None
    with np.load(checkpoints.path(1)) as archive:
        arrays = dict(archive)
    for gone in ("bias", "checksum"):
        np.savez(checkpoints.path(1), **{name: array for name, array in arrays.items() if name != gone})
        assert checkpoints.load(1) is None


def test_from_scratch_forgets_the_weights(data: Dataset, tmp_path: Path) -> None:
    model = Mlp(hidden=(4,), epochs=5, later_epochs=1)
    schedule = replace(SCHEDULE, from_scratch=True)
    anew = played(experiment_of(model=model, schedule=schedule), data, tmp_path)
    on = played(experiment_of(model=model), data, tmp_path)
    assert anew[0] == on[0]
    assert anew[1].core_set_loss != on[1].core_set_loss
    assert played(experiment_of(model=model, schedule=schedule), data, tmp_path, before=anew[:2]) == anew


def test_a_committee_is_asked_where_a_strategy_wants_one(data: Dataset, tmp_path: Path) -> None:
    experiment = experiment_of(Arm("bald"), Arm("least-confidence"), model=Linear(samples=3))
    bald, other = (played(experiment, data, tmp_path, arm) for arm in experiment.strategies)
    assert bald[0].picked != other[0].picked
    assert bald[0].scaled_radius == other[0].scaled_radius


def test_another_metric_changes_the_picks_and_not_the_measure(data: Dataset, tmp_path: Path) -> None:
    plain, cosine = Arm("coreset"), Arm("coreset", metric="cosine")
    rounds = [played(experiment_of(arm), data, tmp_path) for arm in (plain, cosine)]
    assert rounds[0][0].radius == rounds[1][0].radius
    assert rounds[0][0].picked != rounds[1][0].picked


def test_a_pool_is_made_of_the_training_part_alone(data: Dataset) -> None:
    experiment = replace(experiment_of(), pool="redundant:1", data=Data(test_share=0.25, standardize=True))
    made = prepare(experiment, replace(data, features=data.features.astype(np.float16)), seed=1)
    assert made.features.shape == (180, 2)
    assert made.test_features.shape == (30, 2)
    assert made.features.dtype == made.test_features.dtype == np.float32
    assert np.allclose(made.features[:90].mean(axis=0), 0, atol=1e-3)
    assert np.array_equal(
        made.features, prepare(experiment, replace(data, features=data.features.astype(np.float16)), seed=1).features
    )


def test_more_labels_than_rows_are_refused(data: Dataset) -> None:
    with pytest.raises(InvalidArgument, match="pass rounds <= 21"):
        prepare_seed(experiment_of(schedule=Schedule(initial=9, budget=4, rounds=22)), data, 0)


@given(st.integers(0, 10_000), st.integers(1, 3), st.sampled_from([0, 1 << 30]))
def test_the_radius_is_that_of_a_plain_look_at_all_pairs(seed: int, batches: int, small: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.integers(-9, 9, (150, 3)).astype(np.float64)
    doubt = rng.choice([0.0, 0.25, 0.5, 1.0], 150)
    rows = rng.permutation(150)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(measures, "SMALL_PROBLEM", small)
        patched.setattr(measures, "FIRST_COMPARED", 4)
        patched.setattr(measures, "GROWTH", 2)
        patched.setattr(measures, "ROWS_AT_ONCE", 8)
        nearest = NearestLabeled(features)
        for batch in range(batches):
            nearest.add(rows[batch * 20 : (batch + 1) * 20])
            if seed % 2:
                nearest.tighten()
            labeled = rows[: (batch + 1) * 20]
            radii = np.linalg.norm(features[:, None] - features[labeled], axis=2).min(axis=1)
            assert nearest.largest(doubt) == pytest.approx((radii * doubt).max(), abs=1e-9)
            assert nearest.copy().largest() == pytest.approx(radii.max(), abs=1e-9)


def test_the_radius_is_the_engines_own_to_the_last_bit() -> None:
    rng = np.random.default_rng(1)
    features, doubt = rng.normal(size=(500, 40)), rng.random(500)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(measures, "SMALL_PROBLEM", 0)
        nearest = NearestLabeled(features)
        nearest.add(np.arange(100))
        pool = dubito.Pool(features)
        pool.label(rows=np.arange(100))
        assert nearest.largest() == pool.select(1, strategy="coreset").priorities[0]
        assert nearest.largest(doubt) == pool.select(1, doubt=doubt, strategy="doubt-coreset").priorities[0]
