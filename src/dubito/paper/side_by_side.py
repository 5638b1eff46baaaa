"""Train several runs of an experiment concurrently on one GPU.

All runs have the same number of labels in a turn, so their networks train in lockstep. Runs with the same seed, labels
and initial weights, as in turn 0, share one training. Images, features and the selection stay on the device. The
journal is the same as for runs that are trained one after another.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from dubito.api import select
from dubito.core.problem import Metric
from dubito.experiments.data import Dataset
from dubito.experiments.data_sources import DataSource
from dubito.experiments.journal import Checkpoints, ExperimentJournal, Run, claim, remove_run_files
from dubito.experiments.models.base import State
from dubito.experiments.models.networks.checks import check_converged
from dubito.experiments.models.networks.learner import Forward, Learner, Split, Weights, as_state, as_weights, state_of
from dubito.experiments.models.networks.network import Trainable
from dubito.experiments.models.networks.training import Steps, n_steps, rows_trained
from dubito.experiments.plan import Experiment
from dubito.experiments.rounds import SeedData, Turn, finish_round, labeled_at, measure, picked_rows, prepare_seed
from dubito.experiments.runner import ProgressReport, has_all_rounds
from dubito.experiments.seeds import derive_seed
from dubito.matrix import AnyArray, FloatArray, IntArray
from dubito.strategies import Strategy

if TYPE_CHECKING:
    import torch

# On a GPU, the training step of each network is captured as a CUDA graph and replayed on its own stream, because one
# small network leaves most of a GPU idle.

WARM_UP_STEPS = 2
"""Steps before a capture, in which libraries choose algorithms and the optimizer allocates its state."""


class DeviceData:
    """The data of all seeds on the device; arrays shared by several seeds are stored once."""

    def __init__(self, data: Mapping[int, Dataset], device: str) -> None:
        import torch

        self.start: dict[int, int] = {}
        """Index of the first row of each seed."""
        rows, labels, starts = list[AnyArray](), list[IntArray](), dict[tuple[int, int], int]()
        for seed, each in data.items():
            key = id(each.features), id(each.labels)
            if key not in starts:
                starts[key] = sum(len(part) for part in labels)
                rows.append(each.features)
                labels.append(each.labels)
            self.start[seed] = starts[key]
        self.rows = torch.cat([torch.from_numpy(np.array(each)) for each in rows]).to(device)
        self.labels = torch.cat([torch.from_numpy(np.array(each)) for each in labels]).to(device)

    def of(self, seed: int, n: int) -> "torch.Tensor":
        """The ``n`` training rows of a seed."""
        return self.rows[self.start[seed] : self.start[seed] + n]


class StreamLearner:
    """A learner with its own CUDA stream, whose step is a CUDA graph; on a CPU, a plain learner.

    Parameters
    ----------
    learner : Learner
        Its capacity must be at least three steps: two to warm up and one to capture.
    """

    def __init__(self, learner: Learner) -> None:
        import torch

        self.learner, self.is_on_gpu = learner, learner.is_on_gpu
        self.stream = torch.cuda.Stream(learner.device) if self.is_on_gpu else None
        self.replay: Callable[[], None] = self._capture() if self.is_on_gpu else learner.step

    def begin(self, weights: Weights, steps: Steps) -> None:
        with self._in_stream_order():
            self.learner.begin(weights, steps)

    def step(self) -> None:
        import torch

        with nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
            self.replay()

    def finish(self) -> dict[str, "torch.Tensor"]:
        with self._in_stream_order():
            return self.learner.finish()

    def _capture(self) -> Callable[[], None]:
        """Capture the step as a graph. The warm-up changes the weights; `begin` resets them."""
        import torch

        with self._in_stream_order():
            for _ in range(WARM_UP_STEPS):
                self.learner.step()
        torch.cuda.synchronize(self.learner.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.learner.step()
        replay: Callable[[], None] = graph.replay
        return replay

    @contextmanager
    def _in_stream_order(self) -> Iterator[None]:
        """Run the block on this stream, after all earlier and before all later work on the caller's stream.

        Streams do not wait for one another by themselves, so weights could be copied before they are computed.
        """
        import torch

        if self.stream is None:
            yield
            return
        outer = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(outer)
        with torch.cuda.stream(self.stream):
            yield
        outer.wait_stream(self.stream)


def train_in_lockstep(learners: Sequence[StreamLearner], steps: int) -> None:
    """Run a turn of all learners in lockstep and wait for the GPU."""
    import torch

    for _ in range(steps):
        for learner in learners:
            learner.step()
    if learners[0].is_on_gpu:
        torch.cuda.synchronize(learners[0].learner.device)


# Features, probabilities and distances of a trained network, computed on the device.

READ_ROWS = 2500
"""Batch size of the forward pass; the last batch is padded so that all have the same shape."""
DISTANCE_ROWS = 8192
"""Rows per block of the distance computation."""
RECOMPUTED = 64
"""How many of the largest distances are recomputed in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceView:
    """Predictions and features of a trained network on the device: a `dubito.experiments.rounds.View`."""

    features: "torch.Tensor"
    """(n, e) float32 on the device: inputs of the head for the training rows."""
    pool_probabilities: FloatArray
    """(n, c) float64, for the training rows."""
    test_probabilities: FloatArray
    """(t, c) float64, for the test set."""
    labeled: IntArray
    """The rows the network was trained on, ascending."""
    nearest: "torch.Tensor"
    """(n,) float32 squared distance to the nearest labeled row."""

    @property
    def state(self) -> State:
        """Empty: committee members start from new weights."""
        return {}

    def largest(self, doubt: FloatArray | None = None) -> float:
        return largest_distance(self.features, self.labeled, self.nearest, doubt)

    def choose(self, strategy: Strategy, metric: Metric, budget: int, probabilities: FloatArray, seed: int) -> IntArray:
        """Rows to label next; the features stay on the device."""
        return select(
            self.features,
            budget,
            labeled=self.labeled,
            probabilities=probabilities,
            strategy=strategy,
            metric=metric,
            seed=seed,
        ).indices


def read_rows(forward: Forward, weights: Weights, rows: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
    """(n, e) features and (n, c) logits."""
    import torch

    features_of_blocks, logits_of_blocks = list[torch.Tensor](), list[torch.Tensor]()
    size = min(READ_ROWS, len(rows))
    with torch.no_grad():
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            n = len(block)
            if n < size:
                block = torch.cat([block, block[:1].expand(size - n, *block.shape[1:])])
            features, logits = forward(weights, block)
            features_of_blocks.append(features[:n].flatten(1))
            logits_of_blocks.append(logits[:n])
    return torch.cat(features_of_blocks), torch.cat(logits_of_blocks)


def softmax(logits: "torch.Tensor") -> FloatArray:
    """(n, c) softmax in float64, on the host."""
    return np.asarray(logits.double().softmax(dim=1).cpu().numpy())


def nearest_squared(features: "torch.Tensor", labeled: IntArray) -> "torch.Tensor":
    """(n,) float32 squared distance to the nearest labeled row; 0 for labeled rows.

    Θ(n·m·e) time, in blocks of rows.
    """
    import torch

    centered = features - features.mean(dim=0)  # Reduces rounding errors if coordinates are large.
    rows = torch.from_numpy(labeled).to(features.device)
    references = centered.index_select(0, rows)
    lengths, squares = (references * references).sum(dim=1), (centered * centered).sum(dim=1)
    parts = [
        torch.addmm(lengths, centered[start : start + DISTANCE_ROWS], references.T, alpha=-2.0).amin(dim=1)
        for start in range(0, len(features), DISTANCE_ROWS)
    ]
    nearest = (torch.cat(parts) + squares).clamp_min(0.0)
    nearest[rows] = 0.0
    return nearest


def largest_distance(
    features: "torch.Tensor", labeled: IntArray, nearest: "torch.Tensor", doubt: FloatArray | None = None
) -> float:
    """δ, the largest distance to the nearest labeled row; or with doubt δ̂, the largest distance times doubt.

    Candidates are found in float32 and recomputed in float64.

    Examples
    --------
    >>> import torch
    >>> line = torch.tensor([[0.0], [1.0], [5.0]])
    >>> labeled = np.array([0])
    >>> near = nearest_squared(line, labeled)
    >>> largest_distance(line, labeled, near), largest_distance(line, labeled, near, np.array([0.0, 1.0, 0.1]))
    (5.0, 1.0)
    """
    import torch

    weights = torch.ones_like(nearest, dtype=torch.float64)
    if doubt is not None:
        weights = torch.from_numpy(doubt).to(features.device) ** 2
    top = (nearest.double() * weights).topk(min(RECOMPUTED, len(nearest))).indices
    references = features[torch.from_numpy(labeled).to(features.device)].double()
    exact = torch.cdist(features[top].double(), references, compute_mode="donot_use_mm_for_euclid_dist").amin(dim=1)
    return float((exact * weights[top].sqrt()).max())


# Training of all runs of an experiment.

MAX_CONCURRENT = 20
"""Networks trained concurrently: for VGG16 on an H200, 20 were faster than 10 and than 35."""
COMPILE_THRESHOLD = 5_000_000
"""Rows to train on from which compiling, which takes about 20 seconds, pays off."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """One training: its data and its initial weights."""

    seed: int
    turn: int
    rows: IntArray
    """The labeled rows of the seed's data, ascending."""
    weights: Weights | None
    """Weights after the previous turn; None to start from new weights."""


class BatchTrainer:
    """Trains the networks of an experiment and computes their predictions."""

    def __init__(self, experiment: Experiment, model: Trainable, seeds: Mapping[int, SeedData], n_runs: int) -> None:
        import torch

        self.model, self.training = model, model.training
        self.seeds = seeds
        self.n_classes = len(next(iter(seeds.values())).data.classes)
        self.data = DeviceData({seed: seed_data.data for seed, seed_data in seeds.items()}, self.training.device)
        arrays = {id(seed_data.data.test_features): seed_data.data.test_features for seed_data in seeds.values()}
        tests = {key: torch.from_numpy(np.array(each)).to(self.training.device) for key, each in arrays.items()}
        self.tests = {seed: tests[id(seed_data.data.test_features)] for seed, seed_data in seeds.items()}
        self.network = model.network(self.n_classes, next(iter(seeds)))
        splits = {
            is_training: Split(self.network, model.head, self.training, is_training=is_training)
            for is_training in (True, False)
        }
        splits[False].check(self.network, self.data.rows[:2], self.n_classes)
        schedule = experiment.schedule
        rows = rows_trained(schedule.labels, self.training, from_scratch=schedule.from_scratch)
        is_long = n_runs * rows >= COMPILE_THRESHOLD
        is_compiled = self.training.is_on_gpu and is_long
        self.learn, self.read = (
            torch.compile(splits[each].__call__) if is_compiled else splits[each] for each in (True, False)
        )
        self.capacity = max(
            n_steps(int(labels), epochs, self.training.batch)
            for labels in experiment.schedule.labels
            for epochs in (self.training.epochs, self.training.later_epochs)
        )
        self.learners: list[StreamLearner] = []

    def train(self, assignments: Sequence[Assignment]) -> list[dict[str, "torch.Tensor"]]:
        """The weights after each assignment; all must have the same number of labels."""
        trained: list[dict[str, torch.Tensor]] = []
        n_groups = -(-len(assignments) // MAX_CONCURRENT)
        for group in np.array_split(np.arange(len(assignments)), max(n_groups, 1)) if assignments else ():
            trained += self._train([assignments[i] for i in group])
        return trained

    def _train(self, group: Sequence[Assignment]) -> list[dict[str, "torch.Tensor"]]:
        while len(self.learners) < len(group):
            capacity = max(self.capacity, WARM_UP_STEPS + 1)  # Enough for the longest turn and for the warm-up.
            data = self.data.rows, self.data.labels
            self.learners.append(StreamLearner(Learner(self.network, self.learn, *data, self.training, capacity)))
        learners = self.learners[: len(group)]
        for learner, each in zip(learners, group, strict=True):
            rows = each.rows + self.data.start[each.seed]
            seed = derive_seed(each.seed, "batches", each.turn)
            steps = Steps(rows, self.training, is_first=each.weights is None, seed=seed)
            weights = each.weights
            if weights is None:
                weights = state_of(self.model.network(self.n_classes, each.seed).to(self.training.device))
            learner.begin(weights, steps)
        with seeded(derive_seed(group[0].seed, "weights", 1, group[0].turn), self.training.device):
            train_in_lockstep(learners, steps.count)
        trained = [learner.finish() for learner in learners]
        for weights, each in zip(trained, group, strict=True):
            parameters = [weights[name] for name, _ in self.network.named_parameters(remove_duplicate=False)]
            check_converged(parameters, each.turn, self.training.learning_rate)
        return trained

    def predict(self, assignment: Assignment, weights: Weights) -> DeviceView:
        """The predictions with these weights, for all rows of the seed."""
        n = len(self.seeds[assignment.seed].data.labels)
        features, logits = read_rows(self.read, weights, self.data.of(assignment.seed, n))
        _, test_logits = read_rows(self.read, weights, self.tests[assignment.seed])
        nearest = nearest_squared(features, assignment.rows)
        return DeviceView(features, softmax(logits), softmax(test_logits), assignment.rows, nearest)


@contextmanager
def seeded(seed: int, device: str) -> Iterator[None]:
    """Seed torch's generators (for dropout and the like) in the block, and restore them afterwards."""
    import torch

    with torch.random.fork_rng([] if device == "cpu" else [torch.device(device)]):
        torch.manual_seed(seed)
        yield


@contextmanager
def cudnn_benchmark() -> Iterator[None]:
    """Let cuDNN benchmark its algorithms in the block."""
    import torch

    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    with warnings.catch_warnings():
        # torch.compile recommends TF32, which is the user's choice, and imports deprecated modules.
        warnings.filterwarnings("ignore", "TensorFloat32")
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        try:
            yield
        finally:
            torch.backends.cudnn.benchmark = before


CHECKPOINT_WRITERS = 8
"""Checkpoints written concurrently."""


@dataclass(slots=True, eq=False)
class ActiveRun:
    """The state of a run between its turns."""

    run: Run
    seed_data: SeedData
    picked: list[IntArray]
    """The rows picked after each turn in the journal."""
    checkpoints: Checkpoints
    turn: int = 0
    """The next turn to train."""
    weights: Weights | None = None
    trained: Weights | None = None
    """Weights after the current turn if they were trained before an interruption but not yet measured."""

    def rows(self) -> IntArray:
        """The labeled rows in the current turn, ascending."""
        return labeled_at(self.seed_data, self.picked, self.turn)


@dataclass(slots=True, eq=False)
class TrainingGroup:
    """Runs that share one training."""

    assignment: Assignment
    active_runs: list[ActiveRun] = field(default_factory=list)


def run_side_by_side(
    remaining: Sequence[Run],
    experiment: Experiment,
    folder: Path,
    source: DataSource,
    journal: ExperimentJournal,
    report: ProgressReport,
) -> bool:
    """Claim every free run and train them concurrently; False if other processes hold all of them."""
    with ExitStack() as claims:
        claimed = [run for run in remaining if claims.enter_context(claim(run, folder))]
        unfinished = [run for run in claimed if not has_all_rounds(journal, experiment, run)]
        if unfinished:
            run_together(unfinished, experiment, folder, source, journal, report)
        return bool(unfinished)


def run_together(
    runs: Sequence[Run],
    experiment: Experiment,
    folder: Path,
    source: DataSource,
    journal: ExperimentJournal,
    report: ProgressReport,
) -> None:
    """Train the remaining rounds of runs that this process has claimed, and write each to the journal.

    The weights of a turn are saved before its rounds are written, because training on a GPU is not reproducible. If a
    checkpoint is lost anyway, turns in the journal are trained again but not measured again.
    """
    model = cast("Trainable", experiment.model)
    seeds = {seed: prepare_seed(experiment, source(seed), seed) for seed in sorted({run.seed for run in runs})}
    active_runs = [restore_run(run, experiment, seeds[run.seed], folder, journal) for run in runs]
    with cudnn_benchmark(), ThreadPoolExecutor(CHECKPOINT_WRITERS) as writers:
        trainer = BatchTrainer(experiment, model, seeds, len(runs))
        while remaining := [active for active in active_runs if active.turn <= experiment.schedule.rounds]:
            turn = min(active.turn for active in remaining)
            groups = group_runs([active for active in remaining if active.turn == turn])
            started = time.perf_counter()
            # Some weights were trained before an interruption.
            restored = [each.active_runs[0].trained for each in groups]
            untrained = [each.assignment for each in groups if each.active_runs[0].trained is None]
            new_weights = iter(trainer.train(untrained))
            trained = [next(new_weights) if weights is None else weights for weights in restored]
            seconds = time.perf_counter() - started
            for group, weights in zip(groups, trained, strict=True):
                for active in group.active_runs:
                    active.weights = None if experiment.schedule.from_scratch else weights
            if turn < experiment.schedule.rounds:
                list(writers.map(save_checkpoint, [active for group in groups for active in group.active_runs]))
            for group, weights in zip(groups, trained, strict=True):
                record_round(group, weights, experiment, trainer, journal, report, seconds / len(groups))
            for active in remaining:
                if active.turn > experiment.schedule.rounds:
                    remove_run_files(active.run, folder)


def restore_run(
    run: Run, experiment: Experiment, seed_data: SeedData, folder: Path, journal: ExperimentJournal
) -> ActiveRun:
    """Restore a run from the journal and its last checkpoint."""
    picked = picked_rows(journal.completed(run), run, seed_data)
    active = ActiveRun(run, seed_data, picked, Checkpoints(run, folder))
    if experiment.schedule.from_scratch:
        active.turn = len(picked)
        return active
    device = cast("Trainable", experiment.model).training.device
    saved = active.checkpoints.load(len(picked))
    if saved is not None:
        active.turn, active.trained = len(picked), as_weights(saved, device)
        return active
    for turn in reversed(range(len(picked))):
        saved = active.checkpoints.load(turn)
        if saved is not None:
            active.turn, active.weights = turn + 1, as_weights(saved, device)
            break
    return active


def group_runs(active_runs: Iterable[ActiveRun]) -> list[TrainingGroup]:
    """Group the runs of a turn that share one training."""
    groups: dict[tuple[int, bytes, int], TrainingGroup] = {}
    for active in active_runs:
        rows, seed = active.rows(), active.run.seed
        initial_weights = active.weights if active.trained is None else active.trained
        key = seed, rows.tobytes(), 0 if initial_weights is None else id(initial_weights)
        if key not in groups:
            groups[key] = TrainingGroup(Assignment(seed, active.turn, rows, active.weights))
        groups[key].active_runs.append(active)
    return list(groups.values())


def save_checkpoint(active: ActiveRun) -> None:
    """Write the checkpoint, unless it was written before an interruption."""
    if active.weights is not None and active.trained is None:
        active.checkpoints.save(active.turn, as_state(active.weights))


def record_round(
    group: TrainingGroup,
    weights: Weights,
    experiment: Experiment,
    trainer: BatchTrainer,
    journal: ExperimentJournal,
    report: ProgressReport,
    seconds: float,
) -> None:
    """Measure a network, pick rows for each run that shares it, and write the rounds that the journal lacks."""
    unrecorded = [active for active in group.active_runs if active.turn >= len(active.picked)]
    if unrecorded:
        rows, view = group.assignment.rows, trainer.predict(group.assignment, weights)
        metrics = measure(view, unrecorded[0].seed_data, rows)
        for active in unrecorded:
            turn = Turn(active.run.arm, experiment, active.seed_data, active.turn, rows)
            done = finish_round(turn, view, metrics, seconds)
            journal.write_round(done)
            active.picked.append(np.array(done.picked, dtype=np.int64))
            report()
    for active in group.active_runs:
        active.checkpoints.remove_before(active.turn)
        active.turn, active.trained = active.turn + 1, None
