"""One cell of an experiment: train, measure, ask for labels, and again."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dubito.doubt import doubt_from_probabilities, uncertainty
from dubito.errors import InvalidData
from dubito.experiments.cells.claims import Cell, Checkpoints
from dubito.experiments.cells.measures import Coverage, accuracy, core_set_loss, recall
from dubito.experiments.cells.stage import Stage
from dubito.experiments.chance import draw
from dubito.experiments.models.base import Fitted, Lesson, State, committee_proba
from dubito.experiments.plans.arms import Arm, heard
from dubito.experiments.plans.experiment import Experiment
from dubito.experiments.records import Round
from dubito.matrix import FloatArray, IntArray
from dubito.pool import Pool

CHECKPOINT_SECONDS = 5.0
"""Training that is saved in a checkpoint: doing less of it again costs less than writing files all the time."""


class Space:
    """The points that distances are measured between, and what is known of their distances."""

    def __init__(self, arm: Arm, coverage: Coverage) -> None:
        self.arm = arm
        self.coverage = coverage
        self.pool = Pool(coverage.features, metric=arm.metric)

    def candidates(self) -> IntArray:
        """Rows that are not labelled, ascending."""
        is_open = np.ones(len(self.coverage.features), dtype=np.bool_)
        is_open[self.coverage.references] = False
        return np.flatnonzero(is_open)

    def choose(self, budget: int, probabilities: FloatArray, seed: int) -> IntArray:
        """Rows to ask for; ``probabilities`` (n, c), or (n, k, c) for a strategy that asks a committee."""
        self.pool.label(rows=self.coverage.references)
        return self.pool.select(budget, probabilities=probabilities, strategy=self.arm.build(), seed=seed).indices


def play(
    cell: Cell, experiment: Experiment, stage: Stage, played: Sequence[Round], checkpoints: Checkpoints
) -> Iterator[Round]:
    """The rounds of a cell that are not played yet.

    Each is to be written down before the next is asked for. What a checkpoint or the journal lacks is done again, with
    the same result.
    """
    asked = [np.array(each.picked, dtype=np.int64) for each in played]
    if any(rows.max(initial=0) >= len(stage.data.labels) for rows in asked):
        raise InvalidData(
            f"the journal asks for rows of {cell.arm.name!r} that the data does not have; bring the old data back."
        )
    state = restore(experiment, stage, asked, checkpoints)
    space = None if stage.coverage is None else still_space(cell.arm, stage.coverage, asked)
    unsaved = 0.0
    for turn in range(len(played), experiment.schedule.rounds + 1):
        lesson = lesson_of(experiment, stage, asked, turn, state)
        started = time.perf_counter()
        fitted = experiment.model.fit(lesson)
        trained = time.perf_counter() - started
        if space is None or experiment.model.moves:
            space = moved_space(cell.arm, stage, asked, fitted)
        result = replace(measure(experiment, stage, space, lesson, fitted), train_seconds=trained)
        state, unsaved = fitted.state, unsaved + trained
        is_saved = unsaved >= CHECKPOINT_SECONDS and experiment.model.goes_on
        if is_saved:
            checkpoints.save(turn, state)
            unsaved = 0.0
        yield result
        if is_saved:
            checkpoints.forget_before(turn)
        asked.append(np.array(result.picked, dtype=np.int64))
        space.coverage.add(asked[-1])


def still_space(arm: Arm, initial: Coverage, asked: Sequence[IntArray]) -> Space:
    """The features themselves."""
    coverage = initial.copy()
    for rows in asked:
        coverage.add(rows)
    return Space(arm, coverage)


def moved_space(arm: Arm, stage: Stage, asked: Sequence[IntArray], fitted: Fitted) -> Space:
    """Where a model has moved the points to: nothing is known of their distances yet."""
    coverage = Coverage(fitted.embed(stage.data.features))
    coverage.add(np.concatenate([stage.initial, *asked]))
    return Space(arm, coverage)


def lesson_of(experiment: Experiment, stage: Stage, asked: Sequence[IntArray], turn: int, state: State) -> Lesson:
    """What is known at a turn: the labels asked for before it, in the order of their rows."""
    rows = np.sort(np.concatenate([stage.initial, *asked[:turn]]))
    return Lesson(
        features=stage.data.features[rows],
        labels=stage.data.labels[rows],
        n_classes=len(stage.data.classes),
        seed=stage.seed,
        turn=turn,
        state={} if experiment.schedule.from_scratch else state,
    )


def restore(experiment: Experiment, stage: Stage, asked: Sequence[IntArray], checkpoints: Checkpoints) -> State:
    """The state after the turns played: out of the latest checkpoint, and by training again from there on."""
    if experiment.schedule.from_scratch or not experiment.model.goes_on:
        return {}
    state: State = {}
    first, last = 0, len(asked)
    for turn in reversed(range(last)):
        found = checkpoints.load(turn)
        if found is not None:
            state, first = found, turn + 1
            break
    for turn in range(first, last):
        state = experiment.model.fit(lesson_of(experiment, stage, asked, turn, state)).state
    return state


def measure(experiment: Experiment, stage: Stage, space: Space, lesson: Lesson, fitted: Fitted) -> Round:
    """What a trained model is worth, and what its strategy asks for next."""
    data, arm = stage.data, space.arm
    tested = fitted.predict_proba(data.test_features)
    started = time.perf_counter()
    guessed, labelled = fitted.predict_proba(data.features), space.coverage.references
    doubt = doubt_from_probabilities(guessed)
    picked = np.empty(0, dtype=np.int64)
    if lesson.turn < experiment.schedule.rounds:
        said = committee_proba(experiment.model, lesson, fitted.state, data.features) if arm.needs_samples else guessed
        told = heard(arm, said, space.candidates(), draw(stage.seed, "permuted", lesson.turn))
        picked = space.choose(experiment.schedule.budget, told, draw(stage.seed, "picks", lesson.turn))
    selected = time.perf_counter() - started
    return Round(
        strategy=arm.name,
        seed=stage.seed,
        turn=lesson.turn,
        labels=len(lesson.labels),
        test_accuracy=accuracy(tested, data.test_labels),
        train_accuracy=accuracy(guessed[labelled], data.labels[labelled]),
        recall=recall(tested, data.test_labels),
        core_set_loss=core_set_loss(guessed, data.labels),
        radius=space.coverage.largest(),
        scaled_radius=space.coverage.largest(doubt),
        uncertainty=uncertainty(doubt[picked]) if len(picked) else None,
        picked=tuple(picked.tolist()),
        train_seconds=0.0,
        select_seconds=selected if len(picked) else 0.0,
    )
