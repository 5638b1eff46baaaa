"""A round, put together in one place wherever its model was trained: its worth, what is asked for, what that took."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dubito.doubt import doubt_from_probabilities, uncertainty
from dubito.errors import InvalidData
from dubito.experiments.cells.claims import Cell
from dubito.experiments.cells.measures import accuracy, core_set_loss, recall
from dubito.experiments.cells.stage import Stage
from dubito.experiments.chance import draw
from dubito.experiments.models.base import Lesson, State, committee_proba
from dubito.experiments.plans.arms import Arm, heard
from dubito.experiments.plans.experiment import Experiment
from dubito.experiments.records import Round
from dubito.matrix import FloatArray, IntArray


class View(Protocol):
    """What a trained model makes of a seed's data, in memory or on a device."""

    @property
    def guessed(self) -> FloatArray:
        """(n, c) probabilities for the training part."""
        ...

    @property
    def tested(self) -> FloatArray:
        """(t, c) for the test set."""
        ...

    @property
    def state(self) -> State:
        """What members of a committee may go on from."""
        ...

    def largest(self, doubt: FloatArray | None = None) -> float:
        """δ, the largest distance of a row to its nearest labelled one; or δ̂, that of distance times doubt."""
        ...

    def choose(self, arm: Arm, budget: int, probabilities: FloatArray, seed: int) -> IntArray:
        """Rows to ask for; ``probabilities`` (n, c), or (n, k, c) for a strategy that asks a committee."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A training of a cell, and the labels it was made on."""

    arm: Arm
    experiment: Experiment
    stage: Stage
    number: int
    rows: IntArray
    """What is labelled, ascending."""

    @property
    def is_last(self) -> bool:
        """Nothing is asked for after it."""
        return self.number >= self.experiment.schedule.rounds

    def lesson(self, state: State) -> Lesson:
        """What is known: the labels asked for before it, in the order of their rows."""
        return lesson_on(self.stage, self.rows, self.number, state)


@dataclass(frozen=True, slots=True, eq=False)
class ModelWorth:
    """What a model is worth; the same for all cells that share it."""

    test_accuracy: float
    train_accuracy: float
    recall: tuple[float | None, ...]
    core_set_loss: float
    radius: float
    scaled_radius: float


def measure(view: View, stage: Stage, rows: IntArray) -> ModelWorth:
    """What a model is worth, and how far the data lies from its labels."""
    data, guessed = stage.data, view.guessed
    return ModelWorth(
        test_accuracy=accuracy(view.tested, data.test_labels),
        train_accuracy=accuracy(guessed[rows], data.labels[rows]),
        recall=recall(view.tested, data.test_labels),
        core_set_loss=core_set_loss(guessed, data.labels),
        radius=view.largest(),
        scaled_radius=view.largest(doubt_from_probabilities(guessed)),
    )


def finish_round(turn: Turn, view: View, known: ModelWorth, train_seconds: float) -> Round:
    """Let the strategy choose, and put the round together.

    ``select_seconds`` is what choosing took: what the strategy does with the model's probabilities, and the training of
    the committee where it asks one. Predicting is not in it.
    """
    started = time.perf_counter()
    picked = np.empty(0, dtype=np.int64) if turn.is_last else _pick(turn, view)
    selected = time.perf_counter() - started
    return Round(
        strategy=turn.arm.name,
        seed=turn.stage.seed,
        turn=turn.number,
        labels=len(turn.rows),
        test_accuracy=known.test_accuracy,
        train_accuracy=known.train_accuracy,
        recall=known.recall,
        core_set_loss=known.core_set_loss,
        radius=known.radius,
        scaled_radius=known.scaled_radius,
        uncertainty=uncertainty(doubt_from_probabilities(view.guessed[picked])) if len(picked) else None,
        picked=tuple(picked.tolist()),
        train_seconds=train_seconds,
        select_seconds=selected if len(picked) else 0.0,
    )


def _pick(turn: Turn, view: View) -> IntArray:
    arm, data, model = turn.arm, turn.stage.data, turn.experiment.model
    candidates = np.setdiff1d(np.arange(len(data.labels)), turn.rows, assume_unique=True)
    asks = arm.needs_samples
    said = committee_proba(model, turn.lesson({}), view.state, data.features) if asks else view.guessed
    hears = heard(arm, said, candidates, draw(turn.stage.seed, "permuted", turn.number))
    return view.choose(arm, turn.experiment.schedule.budget, hears, draw(turn.stage.seed, "picks", turn.number))


def asked_in(played: Sequence[Round], cell: Cell, stage: Stage) -> list[IntArray]:
    """What a cell asked for after each turn that its journal has.

    Rows that the data does not have, or that were labelled from the start, are refused.
    """
    asked = [np.array(each.picked, dtype=np.int64) for each in played]
    for each, rows in zip(played, asked, strict=True):
        if rows.max(initial=0) >= len(stage.data.labels) or np.isin(rows, stage.initial).any():
            raise InvalidData(
                f"the journal asks for rows of {cell.arm.name!r} in turn {each.turn} that the data does not have, or "
                "that were labelled from the start",
                mend="bring the old data back, or run the experiment in another folder.",
            )
    return asked


def labelled_at(stage: Stage, asked: Sequence[IntArray], turn: int) -> IntArray:
    """The rows that are labelled at a turn, ascending."""
    return np.sort(np.concatenate([stage.initial, *asked[:turn]]))


def lesson_on(stage: Stage, rows: IntArray, turn: int, state: State) -> Lesson:
    """What a model learns from these rows."""
    return Lesson(
        features=stage.data.features[rows],
        labels=stage.data.labels[rows],
        n_classes=len(stage.data.classes),
        seed=stage.seed,
        turn=turn,
        state=state,
    )
