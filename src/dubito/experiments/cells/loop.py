"""One cell of an experiment: train, measure, ask for labels, and again."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dubito.experiments.cells.claims import Cell, Checkpoints
from dubito.experiments.cells.measures import NearestLabelled
from dubito.experiments.cells.rounds import Turn, asked_in, finish_round, labelled_at, lesson_on, measure
from dubito.experiments.cells.stage import Stage
from dubito.experiments.models.base import Fitted, State
from dubito.experiments.plans.arms import Arm
from dubito.experiments.plans.experiment import Experiment
from dubito.experiments.records import Round
from dubito.matrix import FloatArray, IntArray
from dubito.pool import Pool

CHECKPOINT_SECONDS = 5.0
"""Training that is saved in a checkpoint: doing less of it again costs less than writing files all the time."""


class CellSpace:
    """The points that distances are measured between, and what is known of their distances."""

    def __init__(self, arm: Arm, nearest: NearestLabelled) -> None:
        self.nearest = nearest
        self.pool = Pool(nearest.features, metric=arm.metric)


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """What a model that was trained by itself makes of the data: a `dubito.experiments.cells.rounds.View`."""

    space: CellSpace
    guessed: FloatArray
    tested: FloatArray
    state: State

    def largest(self, doubt: FloatArray | None = None) -> float:
        """δ, or δ̂."""
        return self.space.nearest.largest(doubt)

    def choose(self, arm: Arm, budget: int, probabilities: FloatArray, seed: int) -> IntArray:
        """Rows to ask for; what was learnt of distances in earlier rounds is used."""
        pool = self.space.pool
        pool.label(rows=self.space.nearest.references)
        return pool.select(budget, probabilities=probabilities, strategy=arm.build(), seed=seed).indices


def play(
    cell: Cell, experiment: Experiment, stage: Stage, played: Sequence[Round], checkpoints: Checkpoints
) -> Iterator[Round]:
    """The rounds of a cell that are not played yet.

    Each is to be written down before the next is asked for. What a checkpoint or the journal lacks is done again, with
    the same result.
    """
    asked = asked_in(played, cell, stage)
    state = restore(experiment, stage, asked, checkpoints)
    space = None if stage.nearest is None else still_space(cell.arm, stage.nearest, asked)
    unsaved = 0.0
    for number in range(len(played), experiment.schedule.rounds + 1):
        turn = Turn(cell.arm, experiment, stage, number, labelled_at(stage, asked, number))
        fitted, seconds = fit(turn, state)
        if space is None or experiment.model.moves:
            space = moved_space(cell.arm, stage, asked, fitted)
        result = record(turn, space, fitted, seconds)
        state, unsaved = fitted.state, unsaved + seconds
        is_saved = unsaved >= CHECKPOINT_SECONDS and experiment.model.goes_on
        if is_saved:
            checkpoints.save(number, state)
            unsaved = 0.0
        yield result
        if is_saved:
            checkpoints.forget_before(number)
        asked.append(np.array(result.picked, dtype=np.int64))
        space.nearest.add(asked[-1])


def fit(turn: Turn, state: State) -> tuple[Fitted, float]:
    """The model trained, and the seconds that took."""
    lesson = turn.lesson({} if turn.experiment.schedule.from_scratch else state)
    started = time.perf_counter()
    fitted = turn.experiment.model.fit(lesson)
    return fitted, time.perf_counter() - started


def record(turn: Turn, space: CellSpace, fitted: Fitted, train_seconds: float) -> Round:
    """What a trained model is worth, and what its strategy asks for next."""
    data = turn.stage.data
    guessed, tested = fitted.predict_proba(data.features), fitted.predict_proba(data.test_features)
    view = InMemory(space, guessed, tested, fitted.state)
    return finish_round(turn, view, measure(view, turn.stage, turn.rows), train_seconds)


def still_space(arm: Arm, initial: NearestLabelled, asked: Sequence[IntArray]) -> CellSpace:
    """The features themselves."""
    nearest = initial.copy()
    for rows in asked:
        nearest.add(rows)
    return CellSpace(arm, nearest)


def moved_space(arm: Arm, stage: Stage, asked: Sequence[IntArray], fitted: Fitted) -> CellSpace:
    """Where a model has moved the points to: nothing is known of their distances yet."""
    nearest = NearestLabelled(fitted.embed(stage.data.features))
    nearest.add(np.concatenate([stage.initial, *asked]))
    return CellSpace(arm, nearest)


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
        state = experiment.model.fit(lesson_on(stage, labelled_at(stage, asked, turn), turn, state)).state
    return state
