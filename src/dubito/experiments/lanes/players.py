"""Cells of an experiment played side by side on one GPU.

All cells of a turn have as many labels, so they are trained in lock-step. Cells of one seed with the same labels and
the same weights behind them, as in the first turn, are trained once. Images, features and the selection stay on the
device; what is written down, and when, is as for cells that are played alone.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard, cast

import numpy as np

from dubito.experiments.cells.claims import Cell, Checkpoints, clear
from dubito.experiments.cells.ledger import Ledger
from dubito.experiments.cells.rounds import Turn, asked_in, finish_round, labelled_at, measure
from dubito.experiments.cells.sources import DataSource
from dubito.experiments.cells.stage import Stage, set_stage
from dubito.experiments.lanes.studio import Assignment, Studio, tuned
from dubito.experiments.models.base import Model
from dubito.experiments.models.networks.fitting import as_state, as_weights
from dubito.experiments.models.networks.network import Trainable
from dubito.experiments.models.networks.split import Weights
from dubito.experiments.plans.experiment import Experiment
from dubito.matrix import IntArray

WRITERS = 8
"""Checkpoints written at once."""

Step = Callable[[], None]


@dataclass(slots=True, eq=False)
class Player:
    """A cell that is being played."""

    cell: Cell
    stage: Stage
    asked: list[IntArray]
    """What was asked for after each turn in the journal."""
    checkpoints: Checkpoints
    turn: int = 0
    """What is to be trained next."""
    weights: Weights | None = None
    trained: Weights | None = None
    """What its turn ends with, where it was trained before a stop and not measured."""

    def rows(self) -> IntArray:
        """What is labelled at its turn, ascending."""
        return labelled_at(self.stage, self.asked, self.turn)


@dataclass(slots=True, eq=False)
class Shared:
    """Players that need the same training."""

    assignment: Assignment
    players: list[Player] = field(default_factory=list)


def trains_together(model: Model) -> TypeGuard[Trainable]:
    """Whether the cells of a model are played side by side: those that say so, as networks on a GPU do."""
    return model.side_by_side


def play_together(
    cells: Sequence[Cell], experiment: Experiment, folder: Path, source: DataSource, ledger: Ledger, step: Step
) -> None:
    """Play what is left of cells that are ours, and write down every round.

    The weights of every turn are saved before its rounds are written: training again would not give the same ones on a
    GPU. Where a checkpoint was lost all the same, turns that the journal has are trained again, not measured.
    """
    model = cast("Trainable", experiment.model)
    stages = {seed: set_stage(experiment, source(seed), seed) for seed in sorted({cell.seed for cell in cells})}
    players = [begin(cell, experiment, stages[cell.seed], folder, ledger) for cell in cells]
    with tuned(), ThreadPoolExecutor(WRITERS) as writers:
        studio = Studio(experiment, model, stages, len(cells))
        while left := [player for player in players if player.turn <= experiment.schedule.rounds]:
            turn = min(player.turn for player in left)
            groups = share([player for player in left if player.turn == turn])
            started = time.perf_counter()
            trained = train(groups, studio)
            seconds = time.perf_counter() - started
            for group, weights in zip(groups, trained, strict=True):
                for player in group.players:
                    player.weights = None if experiment.schedule.from_scratch else weights
            if turn < experiment.schedule.rounds:
                list(writers.map(save, [player for group in groups for player in group.players]))
            for group, weights in zip(groups, trained, strict=True):
                record(group, weights, experiment, studio, ledger, step, seconds / len(groups))
            for player in left:
                if player.turn > experiment.schedule.rounds:
                    clear(player.cell, folder)


def begin(cell: Cell, experiment: Experiment, stage: Stage, folder: Path, ledger: Ledger) -> Player:
    """A cell as the journal and its last checkpoint have it."""
    asked = asked_in(ledger.played(cell), cell, stage)
    player = Player(cell, stage, asked, Checkpoints(cell, folder))
    if experiment.schedule.from_scratch:
        player.turn = len(asked)
        return player
    device = cast("Trainable", experiment.model).training.device
    found = player.checkpoints.load(len(asked))
    if found is not None:
        player.turn, player.trained = len(asked), as_weights(found, device)
        return player
    for turn in reversed(range(len(asked))):
        found = player.checkpoints.load(turn)
        if found is not None:
            player.turn, player.weights = turn + 1, as_weights(found, device)
            break
    return player


def share(players: Iterable[Player]) -> list[Shared]:
    """Players of a turn, those together that need the same training."""
    found: dict[tuple[int, bytes, int], Shared] = {}
    for player in players:
        rows, seed = player.rows(), player.cell.seed
        behind = player.weights if player.trained is None else player.trained
        key = seed, rows.tobytes(), 0 if behind is None else id(behind)
        if key not in found:
            found[key] = Shared(Assignment(seed, player.turn, rows, player.weights))
        found[key].players.append(player)
    return list(found.values())


def train(groups: Sequence[Shared], studio: Studio) -> list[Weights]:
    """The weights that each group's turn ends with: trained now, or before a stop."""
    anew = iter(studio.train([each.assignment for each in groups if each.players[0].trained is None]))
    return [next(anew) if (kept := each.players[0].trained) is None else kept for each in groups]


def save(player: Player) -> None:
    """Write a player's weights, unless they were kept before a stop."""
    if player.weights is not None and player.trained is None:
        player.checkpoints.save(player.turn, as_state(player.weights))


def record(
    group: Shared,
    weights: Weights,
    experiment: Experiment,
    studio: Studio,
    ledger: Ledger,
    step: Step,
    seconds: float,
) -> None:
    """Measure a network, let each of its players choose, and write that down; what the journal has is passed over."""
    waiting = [player for player in group.players if player.turn >= len(player.asked)]
    if waiting:
        rows, view = group.assignment.rows, studio.look(group.assignment, weights)
        known = measure(view, waiting[0].stage, rows)
        for player in waiting:
            turn = Turn(player.cell.arm, experiment, player.stage, player.turn, rows)
            done = finish_round(turn, view, known, seconds)
            ledger.write_round(done)
            player.asked.append(np.array(done.picked, dtype=np.int64))
            step()
    for player in group.players:
        player.checkpoints.forget_before(player.turn)
        player.turn, player.trained = player.turn + 1, None
