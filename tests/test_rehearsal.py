"""Rehearsals: what is compared is only what each strategy asked for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dubito.errors import InvalidArgument
from dubito.matrix import AnyArray
from dubito.rehearsal import Curve, Plan, Rehearsal, best_saver, finding, first_state, labels_saved, rehearse
from dubito.strategies import Coreset, DoubtCoreset, LeastConfidence, Random, Strategy

SMALL = Plan(initial=12, batch=5, rounds=2, seeds=3)


def blobs(n: int = 120) -> tuple[AnyArray, AnyArray]:
    rng = np.random.default_rng(1)
    classes = np.arange(n) % 3
    return rng.normal(size=(n, 4)) + 2.5 * np.eye(4)[classes], classes


def test_all_strategies_start_from_the_same_labels_seed_by_seed() -> None:
    arms: dict[str, Strategy] = {"random": Random(), "coreset": Coreset(), "least-confidence": LeastConfidence()}
    played = rehearse(*blobs(), arms, SMALL)
    starts = [curve.accuracy[:, 0].tolist() for curve in played.curves]
    assert starts[0] == starts[1] == starts[2]
    assert len(set(starts[0])) > 1


def test_the_same_rehearsal_gives_the_same_numbers() -> None:
    once, again = (rehearse(*blobs(), {"random": Random()}, SMALL) for _ in range(2))
    assert np.array_equal(once.curves[0].accuracy, again.curves[0].accuracy)


def test_the_first_questions_are_in_the_pool_unlabelled_and_misread_as_told() -> None:
    features, classes = blobs()
    played = rehearse(features, classes, {"doubt-coreset": DoubtCoreset()}, SMALL)
    labelled, model = first_state(features, classes, SMALL)
    (asked,) = played.asked
    assert len(set(asked.rows.tolist())) == SMALL.batch
    assert not set(asked.rows.tolist()) & set(labelled.tolist())
    assert (model.predict(features[asked.rows]) != classes[asked.rows]).tolist() == asked.misread.tolist()


def test_progress_counts_every_training_once() -> None:
    seen: list[tuple[int, int]] = []
    rehearse(*blobs(), {"random": Random()}, SMALL, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, 9) for done in range(1, 10)]


def test_a_single_seed_has_no_spread() -> None:
    played = rehearse(*blobs(), {"random": Random()}, Plan(initial=12, batch=5, rounds=1, seeds=1))
    assert played.curves[0].spread.tolist() == [0.0, 0.0]


def test_the_plan_by_default_is_the_demo_s() -> None:
    assert Plan().labels.tolist() == [20, 40, 60, 80, 100, 120, 140]
    with pytest.raises(InvalidArgument, match="want 140 labels and the pool has 80; pass rounds <= 3"):
        rehearse(*blobs(), {"random": Random()})


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"initial": 0}, "initial=0"), ({"batch": -1}, "batch=-1"), ({"test_share": 1.0}, "leaves no pool")],
)
def test_a_plan_that_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        replace(Plan(), **settings)


def test_labels_of_one_class_cannot_train_a_model() -> None:
    features, _ = blobs()
    with pytest.raises(InvalidArgument, match="hold one class only"):
        rehearse(features, np.zeros(120), {"random": Random()}, SMALL)


def curve(name: str, *accuracy: float) -> Curve:
    return Curve(name, 10 * np.arange(1, len(accuracy) + 1), np.array([accuracy]))


def test_labels_saved_are_counted_at_equal_accuracy() -> None:
    random = curve("random", 0.5, 0.6, 0.7)
    assert labels_saved(curve("better", 0.5, 0.7, 0.9), random) == 10.0
    assert labels_saved(curve("best", 0.7, 0.8, 0.9), random) == 20.0
    assert labels_saved(curve("same", 0.5, 0.6, 0.7), random) is None
    assert labels_saved(curve("worse", 0.5, 0.6, 0.6), random) is None


def test_the_finding_names_the_best_or_says_that_there_is_none() -> None:
    random, better, best = curve("random", 0.5, 0.6), curve("a", 0.5, 0.7), curve("b", 0.5, 0.8)
    plan = Plan(10, 10, 1, 1)
    played = Rehearsal(plan, (random, better, best), ())
    found = best_saver(played, "random")
    assert found is not None
    assert found[0] is best
    assert finding(played, "random") == "b needs 13 labels for what random learns from 20"
    assert finding(Rehearsal(plan, (random,), ()), "random") == "nothing beat random here"
