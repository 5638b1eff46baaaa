"""Cells of an experiment played side by side on one GPU.

All cells of a turn have as many labels, so they are trained in lock-step. Cells of one seed with the same labels and
the same weights behind them, as in the first turn, are trained once. Images, features and the selection stay on the
device; what is written down, and when, is as for cells that are played alone.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np

from dubito.api import select
from dubito.experiments.data import Dataset
from dubito.experiments.data_sources import DataSource
from dubito.experiments.journal import Cell, Checkpoints, Ledger, clear
from dubito.experiments.models.base import Model, State
from dubito.experiments.models.networks.learner import Answer, Learner, Split, Weights, as_state, as_weights, state_of
from dubito.experiments.models.networks.network import Trainable
from dubito.experiments.models.networks.refusals import check_converged
from dubito.experiments.models.networks.training import Steps, n_steps
from dubito.experiments.plan import Arm, Experiment
from dubito.experiments.rounds import Stage, Turn, asked_in, finish_round, labelled_at, measure, set_stage
from dubito.experiments.seeds import draw
from dubito.matrix import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    import torch

# Networks in training side by side, each in a `Lane` of its own.
#
# What a step does is decided in `models.networks.learner`, its minibatch and learning rate in
# `models.networks.steps`, as for every network. On a GPU a step is captured once as a CUDA graph, and lanes replay
# theirs in lock-step, each on its own stream: one small network leaves most of a GPU idle, twenty do not.

WARM_UP = 2
"""Steps before a capture: libraries choose their algorithms, and the optimizer makes its state."""


class Bank:
    """The data of every seed on the device, each array once."""

    def __init__(self, data: Mapping[int, Dataset], device: str) -> None:
        import torch

        self.start: dict[int, int] = {}
        """Where the rows of a seed begin."""
        rows, labels, places = list[AnyArray](), list[IntArray](), dict[tuple[int, int], int]()
        for seed, each in data.items():
            key = id(each.features), id(each.labels)
            if key not in places:
                places[key] = sum(len(part) for part in labels)
                rows.append(each.features)
                labels.append(each.labels)
            self.start[seed] = places[key]
        self.rows = torch.cat([torch.from_numpy(np.array(each)) for each in rows]).to(device)
        self.labels = torch.cat([torch.from_numpy(np.array(each)) for each in labels]).to(device)

    def of(self, seed: int, n: int) -> "torch.Tensor":
        """The ``n`` training rows of a seed."""
        return self.rows[self.start[seed] : self.start[seed] + n]


class Lane:
    """A learner on a stream of its own, whose step is a CUDA graph; on a CPU a learner and nothing else.

    Parameters
    ----------
    learner : Learner
        With room for at least three steps: two are tried out before the capture of a third.
    """

    def __init__(self, learner: Learner) -> None:
        import torch

        self.learner, self.is_on_gpu = learner, learner.is_on_gpu
        self.stream = torch.cuda.Stream(learner.device) if self.is_on_gpu else None
        self.replay: Callable[[], None] = self._capture() if self.is_on_gpu else learner.step

    def begin(self, weights: Weights, steps: Steps) -> None:
        """Make ready for a turn: these weights, a new optimizer, the turn's steps."""
        with self._in_order():
            self.learner.begin(weights, steps)

    def step(self) -> None:
        """One minibatch; on a GPU only asked for, not waited for."""
        with self._on_stream():
            self.replay()

    def finish(self) -> dict[str, "torch.Tensor"]:
        """The weights as they are now, copied."""
        with self._in_order():
            return self.learner.finish()

    def _capture(self) -> Callable[[], None]:
        """The step as a graph; what trying it out did to the weights, `begin` undoes."""
        import torch

        with self._in_order():
            for _ in range(WARM_UP):
                self.learner.step()
        torch.cuda.synchronize(self.learner.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.learner.step()
        replay: Callable[[], None] = graph.replay
        return replay

    def _on_stream(self) -> Any:
        import torch

        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    @contextmanager
    def _in_order(self) -> Iterator[None]:
        """On the lane's stream, after what was asked of the caller's stream before and before what comes after it.

        Streams do not wait for one another by themselves: weights would be copied before they are there.
        """
        import torch

        if self.stream is None:
            yield
            return
        callers = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(callers)
        with torch.cuda.stream(self.stream):
            yield
        callers.wait_stream(self.stream)


def train_side_by_side(lanes: Sequence[Lane], steps: int) -> None:
    """All lanes through a turn in lock-step; waits for the end."""
    import torch

    for _ in range(steps):
        for lane in lanes:
            lane.step()
    if lanes[0].is_on_gpu:
        torch.cuda.synchronize(lanes[0].learner.device)


# What a network makes of the whole data, read on the device: features, probabilities, and how far points lie.

READ_ROWS = 2500
"""Rows that go through a network at once; the last block is filled up, so that all are of one size."""
NEAR_ROWS = 8192
"""Rows whose distances are reckoned at once."""
SETTLED = 64
"""Rows of the largest distances, which are settled in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class LaneView:
    """What a trained network makes of a seed's data: a `dubito.experiments.rounds.View`."""

    features: "torch.Tensor"
    """(n, e) float32 on the device: inputs of the head for the training part."""
    guessed: FloatArray
    """(n, c) for the training part, in float64."""
    tested: FloatArray
    """(t, c) for the test set."""
    labelled: IntArray
    """What the network was trained on, ascending."""
    nearest: "torch.Tensor"
    """(n,) squared distance to the nearest labelled row, in float32."""

    @property
    def state(self) -> State:
        """Nothing: members of a committee of networks start anew."""
        return {}

    def largest(self, doubt: FloatArray | None = None) -> float:
        """δ, or δ̂."""
        return largest_distance(self.features, self.labelled, self.nearest, doubt)

    def choose(self, arm: Arm, budget: int, probabilities: FloatArray, seed: int) -> IntArray:
        """Rows to ask for; the features stay where they are."""
        return select(
            self.features,
            budget,
            labelled=self.labelled,
            probabilities=probabilities,
            strategy=arm.build(),
            metric=arm.metric,
            seed=seed,
        ).indices


def read_all(
    answer: Answer, weights: Weights, rows: "torch.Tensor", tests: "torch.Tensor", labelled: IntArray
) -> LaneView:
    """Put all rows through a network."""
    features, logits = read_rows(answer, weights, rows)
    _, tested = read_rows(answer, weights, tests)
    nearest = nearest_squared(features, labelled)
    return LaneView(features, probabilities(logits), probabilities(tested), labelled, nearest)


def read_rows(answer: Answer, weights: Weights, rows: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """(n, e) features and (n, c) logits."""
    import torch

    seen, said = list[torch.Tensor](), list[torch.Tensor]()
    size = min(READ_ROWS, len(rows))
    with torch.no_grad():
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            n = len(block)
            if n < size:
                block = torch.cat([block, block[:1].expand(size - n, *block.shape[1:])])
            features, logits = answer(weights, block)
            seen.append(features[:n].flatten(1))
            said.append(logits[:n])
    return torch.cat(seen), torch.cat(said)


def probabilities(logits: "torch.Tensor") -> FloatArray:
    """(n, c) softmax in float64, on the host."""
    return np.asarray(logits.double().softmax(dim=1).cpu().numpy())


def nearest_squared(features: "torch.Tensor", labelled: IntArray) -> "torch.Tensor":
    """(n,) squared distance to the nearest labelled row, in float32; 0 for a labelled one.

    Θ(n·m·e), in blocks of rows.
    """
    import torch

    centred = features - features.mean(dim=0)  # Large coordinates would drown the differences.
    rows = torch.from_numpy(labelled).to(features.device)
    references = centred.index_select(0, rows)
    lengths, squares = (references * references).sum(dim=1), (centred * centred).sum(dim=1)
    parts = [
        torch.addmm(lengths, centred[start : start + NEAR_ROWS], references.T, alpha=-2.0).amin(dim=1)
        for start in range(0, len(features), NEAR_ROWS)
    ]
    nearest = (torch.cat(parts) + squares).clamp_min(0.0)
    nearest[rows] = 0.0
    return nearest


def largest_distance(
    features: "torch.Tensor", labelled: IntArray, nearest: "torch.Tensor", doubt: FloatArray | None = None
) -> float:
    """δ, the largest distance to the nearest labelled row; or δ̂, that of distance times doubt.

    Found in float32 and settled in float64.

    Examples
    --------
    >>> import torch
    >>> line = torch.tensor([[0.0], [1.0], [5.0]])
    >>> known = np.array([0])
    >>> near = nearest_squared(line, known)
    >>> largest_distance(line, known, near), largest_distance(line, known, near, np.array([0.0, 1.0, 0.1]))
    (5.0, 1.0)
    """
    import torch

    weights = torch.ones_like(nearest, dtype=torch.float64)
    if doubt is not None:
        weights = torch.from_numpy(doubt).to(features.device) ** 2
    top = (nearest.double() * weights).topk(min(SETTLED, len(nearest))).indices
    references = features[torch.from_numpy(labelled).to(features.device)].double()
    exact = torch.cdist(features[top].double(), references, compute_mode="donot_use_mm_for_euclid_dist").amin(dim=1)
    return float((exact * weights[top].sqrt()).max())


# The studio: an experiment's data on the device, its network in two forms, and lanes to train in.

LANES = 20
"""Networks trained at once: on an H200 twenty of VGG16 ran faster than ten, and than 35."""
WORTH_COMPILING = 5_000_000
"""Rows a run has to train on before compiling, which takes some 20 seconds, pays."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """A network to train for a turn."""

    seed: int
    turn: int
    rows: IntArray
    """The labelled rows of the seed's data, ascending."""
    weights: Weights | None
    """What the turn before left; None to begin anew."""


class Studio:
    """Where the cells of an experiment are trained and read."""

    def __init__(self, experiment: Experiment, model: Trainable, stages: Mapping[int, Stage], n_cells: int) -> None:
        import torch

        self.model, self.training = model, model.training
        self.stages = stages
        self.n_classes = len(next(iter(stages.values())).data.classes)
        self.bank = Bank({seed: stage.data for seed, stage in stages.items()}, self.training.device)
        kept = {id(stage.data.test_features): stage.data.test_features for stage in stages.values()}
        tests = {key: torch.from_numpy(np.array(each)).to(self.training.device) for key, each in kept.items()}
        self.tests = {seed: tests[id(stage.data.test_features)] for seed, stage in stages.items()}
        self.network = model.network(self.n_classes, next(iter(stages)))
        splits = {
            is_training: Split(self.network, model.head, self.training, is_training=is_training)
            for is_training in (True, False)
        }
        splits[False].check(self.network, self.bank.rows[:2], self.n_classes)
        is_long = n_cells * rows_trained(experiment, model) >= WORTH_COMPILING
        is_compiled = self.training.is_on_gpu and is_long
        self.learn, self.read = (
            torch.compile(splits[each].__call__) if is_compiled else splits[each] for each in (True, False)
        )
        self.capacity = max(
            n_steps(int(labels), epochs, self.training.batch)
            for labels in experiment.schedule.labels
            for epochs in (self.training.epochs, self.training.later_epochs)
        )
        self.lanes: list[Lane] = []

    def train(self, assignments: Sequence[Assignment]) -> list[dict[str, "torch.Tensor"]]:
        """The weights that each assignment ends with; all must have as many labels."""
        trained: list[dict[str, torch.Tensor]] = []
        n_groups = -(-len(assignments) // LANES)
        for group in np.array_split(np.arange(len(assignments)), max(n_groups, 1)) if assignments else ():
            trained += self._train([assignments[place] for place in group])
        return trained

    def _train(self, group: Sequence[Assignment]) -> list[dict[str, "torch.Tensor"]]:
        while len(self.lanes) < len(group):
            self.lanes.append(Lane(self._learner()))
        lanes = self.lanes[: len(group)]
        for lane, each in zip(lanes, group, strict=True):
            rows = each.rows + self.bank.start[each.seed]
            chance = draw(each.seed, "batches", each.turn)
            steps = Steps(rows, self.training, is_first=each.weights is None, seed=chance)
            lane.begin(self.first_weights(each.seed) if each.weights is None else each.weights, steps)
        with seeded(draw(group[0].seed, "weights", 1, group[0].turn), self.training.device):
            train_side_by_side(lanes, steps.count)
        trained = [lane.finish() for lane in lanes]
        for weights, each in zip(trained, group, strict=True):
            learned = [weights[name] for name, _ in self.network.named_parameters(remove_duplicate=False)]
            check_converged(learned, each.turn, self.training.learning_rate)
        return trained

    def _learner(self) -> Learner:
        """With room for the longest turn, and for the steps that a lane tries out."""
        capacity = max(self.capacity, WARM_UP + 1)
        return Learner(self.network, self.learn, self.bank.rows, self.bank.labels, self.training, capacity)

    def first_weights(self, seed: int) -> Weights:
        """What a seed's cells begin with."""
        return state_of(self.model.network(self.n_classes, seed).to(self.training.device))

    def look(self, assignment: Assignment, weights: Weights) -> LaneView:
        """What a network makes of the data it was trained on a part of."""
        seed = assignment.seed
        n = len(self.stages[seed].data.labels)
        return read_all(self.read, weights, self.bank.of(seed, n), self.tests[seed], assignment.rows)


def rows_trained(experiment: Experiment, model: Trainable) -> int:
    """Rows that a cell is trained on in all its turns, counting each time."""
    first, *later = (int(labels) for labels in experiment.schedule.labels)
    training = model.training
    epochs = training.epochs if experiment.schedule.from_scratch else training.later_epochs
    return training.epochs * first + epochs * sum(later)


@contextmanager
def seeded(seed: int, device: str) -> Iterator[None]:
    """Dropout and its like drawn by the seed; torch's generators as before afterwards."""
    import torch

    with torch.random.fork_rng([] if device == "cpu" else [torch.device(device)]):
        torch.manual_seed(seed)
        yield


@contextmanager
def tuned() -> Iterator[None]:
    """Let the library of convolutions try its algorithms and keep the fastest; as before afterwards."""
    import torch

    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    with warnings.catch_warnings():
        # Torch's compiler advises less exact products, which are the user's to choose, and imports deprecated parts.
        warnings.filterwarnings("ignore", "TensorFloat32")
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        try:
            yield
        finally:
            torch.backends.cudnn.benchmark = before


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
