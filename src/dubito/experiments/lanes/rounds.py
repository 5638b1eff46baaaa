"""A round of a cell whose network, features and data are on a device."""

import time
from dataclasses import dataclass

import numpy as np

from dubito.doubt import doubt_from_probabilities, uncertainty
from dubito.experiments.cells.measures import accuracy, core_set_loss, recall
from dubito.experiments.cells.stage import Stage
from dubito.experiments.chance import draw
from dubito.experiments.lanes.reading import Reading, largest_distance, nearest_squared
from dubito.experiments.lanes.studio import Assignment
from dubito.experiments.models.base import Lesson, committee_proba
from dubito.experiments.plans.arms import Arm, heard
from dubito.experiments.plans.experiment import Experiment
from dubito.experiments.records import Round
from dubito.matrix import FloatArray, IntArray
from dubito.selecting import select


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What is the same for all cells that share a network."""

    test_accuracy: float
    train_accuracy: float
    recall: tuple[float | None, ...]
    core_set_loss: float
    radius: float
    scaled_radius: float


def measure(reading: Reading, stage: Stage, rows: IntArray) -> Measured:
    """What a network is worth, and how far the data lies from its labels."""
    data, guessed = stage.data, reading.probabilities
    nearest = nearest_squared(reading.features, rows)
    doubt = doubt_from_probabilities(guessed)
    return Measured(
        test_accuracy=accuracy(reading.tested, data.test_labels),
        train_accuracy=accuracy(guessed[rows], data.labels[rows]),
        recall=recall(reading.tested, data.test_labels),
        core_set_loss=core_set_loss(guessed, data.labels),
        radius=largest_distance(reading.features, rows, nearest),
        scaled_radius=largest_distance(reading.features, rows, nearest, doubt),
    )


def choose(
    arm: Arm,
    experiment: Experiment,
    stage: Stage,
    assignment: Assignment,
    reading: Reading,
    known: Measured,
    train_seconds: float,
) -> Round:
    """What a cell's strategy asks for, and the whole round."""
    started = time.perf_counter()
    picked = np.empty(0, dtype=np.int64)
    if assignment.turn < experiment.schedule.rounds:
        picked = _pick(arm, experiment, stage, assignment, reading)
    selected = time.perf_counter() - started
    doubt = doubt_from_probabilities(reading.probabilities[picked]) if len(picked) else None
    return Round(
        strategy=arm.name,
        seed=assignment.seed,
        turn=assignment.turn,
        labels=len(assignment.rows),
        test_accuracy=known.test_accuracy,
        train_accuracy=known.train_accuracy,
        recall=known.recall,
        core_set_loss=known.core_set_loss,
        radius=known.radius,
        scaled_radius=known.scaled_radius,
        uncertainty=None if doubt is None else uncertainty(doubt),
        picked=tuple(picked.tolist()),
        train_seconds=train_seconds,
        select_seconds=selected if len(picked) else 0.0,
    )


def _pick(arm: Arm, experiment: Experiment, stage: Stage, assignment: Assignment, reading: Reading) -> IntArray:
    candidates = np.setdiff1d(np.arange(len(stage.data.labels)), assignment.rows)
    said = _committee(experiment, stage, assignment) if arm.needs_samples else reading.probabilities
    return select(
        reading.features,
        experiment.schedule.budget,
        labelled=assignment.rows,
        probabilities=heard(arm, said, candidates, draw(assignment.seed, "permuted", assignment.turn)),
        strategy=arm.build(),
        metric=arm.metric,
        seed=draw(assignment.seed, "picks", assignment.turn),
    ).indices


def _committee(experiment: Experiment, stage: Stage, assignment: Assignment) -> FloatArray:
    """(n, k, c) by members that are trained one after another, each from weights of its own."""
    lesson = Lesson(
        features=stage.data.features[assignment.rows],
        labels=stage.data.labels[assignment.rows],
        n_classes=len(stage.data.classes),
        seed=assignment.seed,
        turn=assignment.turn,
        state={},
    )
    return committee_proba(experiment.model, lesson, {}, stage.data.features)
