"""The rounds of one run: train, measure, pick rows, and repeat."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dubito.core.distances import exact_sq_distances, read_rows
from dubito.core.problem import Metric
from dubito.doubt import doubt_from_probabilities, uncertainty
from dubito.errors import PASS, InvalidArgument, InvalidData, named
from dubito.experiments.data import Dataset
from dubito.experiments.journal import Checkpoints, Run
from dubito.experiments.models.base import State, TrainingSet, committee_proba
from dubito.experiments.plan import DEFAULT_TEST_SHARE, Arm, Experiment, permute_among
from dubito.experiments.pools import make_pool
from dubito.experiments.records import Round
from dubito.experiments.seeds import derive_seed
from dubito.matrix import AnyArray, FloatArray, IntArray, blocks
from dubito.pool import Pool
from dubito.strategies import Strategy

# Metrics of a round.

MIN_PROBABILITY = 1e-12
"""Lower bound on probabilities, so that the loss stays finite."""
FIRST_COMPARED = 64
"""Number of labeled rows that a row is first compared with."""
GROWTH = 8
"""Factor by which that number grows when it is not enough."""
BLOCK_ROWS = 1024
ROWS_AT_ONCE = 32
"""Number of rows measured before the bounds are checked again; doubled each time."""
PAIRS_BYTES = 8 << 20
"""Memory for the pairs of rows in one computation of exact distances."""
SMALL_PROBLEM = 1 << 23
"""Number of multiplications below which measuring every row is cheaper than using bounds."""


def accuracy(probabilities: FloatArray, labels: IntArray) -> float:
    """Share of rows whose most probable class is correct.

    Examples
    --------
    >>> accuracy(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1]))
    0.5
    """
    return float((probabilities.argmax(axis=1) == labels).mean())


def recall(probabilities: FloatArray, labels: IntArray) -> tuple[float | None, ...]:
    """Share of correct rows for each class; None for a class without rows.

    Examples
    --------
    >>> recall(np.array([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0]]), np.array([0, 1]))
    (1.0, 0.0, None)
    """
    n_classes = probabilities.shape[1]
    n_right = np.bincount(labels[probabilities.argmax(axis=1) == labels], minlength=n_classes)
    n_rows = np.bincount(labels, minlength=n_classes)
    return tuple(float(right / n) if n else None for right, n in zip(n_right, n_rows, strict=True))


def core_set_loss(probabilities: FloatArray, labels: IntArray) -> float:
    """Mean cross-entropy over all rows, labeled or not, in nats.

    Examples
    --------
    >>> round(core_set_loss(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 0])), 4)
    0.3466
    """
    of_labels = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(of_labels, MIN_PROBABILITY)).mean() + 0.0)


class NearestLabeled:
    """Distance of each row to its nearest labeled row, computed lazily.

    Labeled rows are only ever added, so a measured distance remains an upper bound. `largest` measures the rows with
    the largest bounds against the labeled rows they have not been compared with, until no other bound can exceed the
    result. In small problems all rows are measured when labeled rows are added. The result depends on the labeled rows
    and the batches they were added in, not on earlier queries. O(n) memory.

    Examples
    --------
    >>> nearest = NearestLabeled(np.array([[0.0], [1.0], [5.0]]))
    >>> nearest.add(np.array([0]))
    >>> nearest.largest(), nearest.largest(np.array([0.0, 1.0, 0.1]))
    (5.0, 1.0)
    """

    def __init__(self, features: AnyArray) -> None:
        self.features = features
        self.references = np.empty(0, dtype=np.int64)
        self.squared = np.full(len(features), np.inf)
        """(n,) upper bounds of the squared distances."""
        self.compared = np.zeros(len(features), dtype=np.int64)
        """(n,) number of labeled rows that each row has been compared with."""
        self.centered: tuple[FloatArray, FloatArray] | None = None
        """Centered features and their squared lengths; computed on demand."""
        self.relative = features[:0].astype(np.promote_types(features.dtype, np.float32))
        """Labeled rows relative to the first one, in low precision; extended on demand."""

    def copy(self) -> "NearestLabeled":
        copied = NearestLabeled(self.features)
        copied.references, copied.squared, copied.compared = self.references, self.squared.copy(), self.compared.copy()
        copied.centered, copied.relative = self.centered, self.relative
        return copied

    def add(self, rows: IntArray) -> None:
        is_small = self.features.size * len(rows) <= SMALL_PROBLEM
        if is_small and len(rows) and (self.compared == len(self.references)).all():
            np.minimum(self.squared, self._squared_to_nearest(rows), out=self.squared)
            self.compared += len(rows)
        self.references = np.concatenate([self.references, rows])
        self.squared[rows] = 0.0

    def largest(self, doubt: FloatArray | None = None) -> float:
        """δ, the largest distance; with doubt δ̂, the largest distance times doubt."""
        weights = np.ones(len(self.squared)) if doubt is None else doubt * doubt
        n_rows = ROWS_AT_ONCE
        while len(rows := self._may_be_farthest(weights, n_rows)):
            self._measure(rows)
            n_rows *= 2 if self.compared[rows[0]] == len(self.references) else 1
        return float(np.sqrt(self._scaled(weights).max()))

    def tighten(self) -> None:
        """Tighten every bound by one approximate pass over all labeled rows.

        Pays off before many calls of `largest`. Θ(n·m·d) time in float32.
        """
        if (self.compared == len(self.references)).all():
            return
        origin = self.features.mean(axis=0, dtype=np.float64)
        references = (self.features[self.references] - origin).astype(np.float32)
        squares = np.einsum("ij,ij->i", references, references)
        for span in blocks(len(self.features), BLOCK_ROWS):
            centered = (self.features[span] - origin).astype(np.float32)
            nearest = self.references[(squares - 2.0 * centered @ references.T).argmin(axis=1)]
            # The exact distance to any labeled row is an upper bound, even if rounding chose the wrong one.
            bound = exact_sq_distances(read_rows(self.features, span), read_rows(self.features, nearest))
            self.squared[span] = np.minimum(self.squared[span], bound)

    def _scaled(self, weights: FloatArray) -> FloatArray:
        scaled = np.zeros_like(weights)
        np.multiply(self.squared, weights, out=scaled, where=weights > 0)  # 0 times infinity counts as 0.
        return scaled

    def _may_be_farthest(self, weights: FloatArray, n_rows: int) -> IntArray:
        """At most ``n_rows`` rows that could still be farthest, all compared with the same number of labeled rows."""
        is_exact = (self.compared == len(self.references)) | (self.squared == 0)
        if is_exact.all():
            return np.empty(0, dtype=np.int64)
        scaled = self._scaled(weights)
        rows = np.flatnonzero(~is_exact & (scaled > scaled[is_exact].max(initial=0.0)))
        if len(rows) > n_rows and np.isfinite(self.squared).all():
            rows = rows[np.argpartition(-scaled[rows], n_rows)[:n_rows]]
        return rows[self.compared[rows] == self.compared[rows].min()] if len(rows) else rows

    def _measure(self, rows: IntArray) -> None:
        """Compare rows with the next labeled rows, in blocks."""
        start = int(self.compared[rows[0]])
        stop = min(len(self.references), max(FIRST_COMPARED, GROWTH * start))
        for span in blocks(len(rows), BLOCK_ROWS):
            for others in blocks(stop - start, BLOCK_ROWS):
                first, last = start + others.start, min(start + others.stop, stop)
                self._compare(rows[span], first, last)
        self.compared[rows] = stop

    def _compare(self, rows: IntArray, first: int, last: int) -> None:
        """Compare rows with some labeled rows: a matrix product finds those that can be nearest."""
        if len(self.relative) < last:
            added = self._relative_to_first(self.references[len(self.relative) :])
            self.relative = np.concatenate([self.relative, added])
        labeled = self.relative[first:last]
        with np.errstate(over="ignore", invalid="ignore"):
            points = self._relative_to_first(rows)
            squares, labeled_squares = np.einsum("ij,ij->i", points, points), np.einsum("ij,ij->i", labeled, labeled)
            squared = labeled_squares - 2.0 * points @ labeled.T
            # A generous bound on rounding errors: extra pairs cost only an exact distance each.
            slack = (points.shape[1] + 8) * 8.0 * np.finfo(points.dtype).eps * (squares + labeled_squares.max())
            is_farther = squared > (squared.min(axis=1) + slack)[:, None]
        # Pairs that overflowed compare as false and so are computed exactly.
        row, other = np.nonzero(~is_farther)
        for pairs in blocks(len(row), max(1, PAIRS_BYTES // (8 * points.shape[1]))):
            pool_rows, labeled_rows = rows[row[pairs]], self.references[first + other[pairs]]
            exact = exact_sq_distances(read_rows(self.features, pool_rows), read_rows(self.features, labeled_rows))
            np.minimum.at(self.squared, pool_rows, exact)

    def _relative_to_first(self, rows: IntArray) -> AnyArray:
        """Rows minus the first labeled row, in at least float32."""
        return np.asarray(self.features[rows].astype(self.relative.dtype) - self.features[self.references[0]])

    def _squared_to_nearest(self, rows: IntArray) -> FloatArray:
        if self.centered is None:
            # Centering reduces rounding errors if coordinates are large.
            centered = self.features - self.features.mean(axis=0, dtype=np.float64)
            self.centered = centered, np.einsum("ij,ij->i", centered, centered)
        centered, squares = self.centered
        products = (-2.0 * centered[rows]) @ centered.T
        products += squares[rows, None]
        squared: FloatArray = squares + products.min(axis=0)
        return np.maximum(squared, 0.0, out=squared)


# Data of one seed, before turn 0.


@dataclass(frozen=True, slots=True, eq=False)
class SeedData:
    """Data and initial labels shared by all strategies of one seed."""

    data: Dataset
    seed: int
    initial: IntArray
    """Rows labeled before the first training, ascending."""
    nearest: NearestLabeled | None
    """Distances to the initial rows; None if the model learns its features, so that distances change."""


def prepare(experiment: Experiment, data: Dataset, seed: int) -> Dataset:
    """Split off the test set, sample rows, standardize the features and build the pool for one seed.

    With ``test_share`` in the experiment, a test set that comes with the data is ignored. float16 becomes float32;
    8-bit images are unchanged for models that take them. `Round.picked` holds row numbers of the returned
    ``features``.
    """
    settings = experiment.data
    if not data.has_test or settings.test_share is not None:
        data = data.split(settings.test_share or DEFAULT_TEST_SHARE, derive_seed(seed, "test"))
    if settings.rows is not None:
        data = sample_rows(data, settings.rows, derive_seed(seed, "rows"))
    if settings.standardize:
        data = data.standardized()
    if experiment.pool != "clean":
        pool = make_pool(data.features, data.labels, experiment.pool, derive_seed(seed, "pool"))
        data = replace(data, features=pool.features, labels=pool.labels)
    takes_images = experiment.model.takes_images
    features = as_model_input(data.features, takes_images)
    test_features = as_model_input(data.test_features, takes_images).astype(features.dtype, copy=False)
    return replace(data, features=features, test_features=test_features)


def training_rows(experiment: Experiment, data: Dataset, seed: int) -> int:
    """Number of training rows that `prepare` would return, without reading features. O(n)."""
    no_features, no_test = np.empty((len(data.labels), 0)), np.empty((len(data.test_labels), 0))
    return len(prepare(experiment, replace(data, features=no_features, test_features=no_test), seed).labels)


def sample_rows(data: Dataset, rows: int, seed: int) -> Dataset:
    """The data with a random sample of the training rows, in their original order."""
    n = len(data.labels)
    if rows > n:
        hint = f"{PASS} {named('rows')} <= {n}."
        raise InvalidArgument(f"exceeds the {n} rows of the training part", argument="rows", value=rows, hint=hint)
    kept = np.sort(np.random.default_rng(seed).choice(n, rows, replace=False))
    return replace(data, features=data.features[kept], labels=data.labels[kept])


def as_model_input(features: AnyArray, takes_images: bool) -> AnyArray:
    """Convert features to at least float32; pixels are scaled to [0, 1] unless the model takes images."""
    if features.dtype == np.uint8:
        return features if takes_images else features.astype(np.float32) / np.float32(255.0)
    return features.astype(np.float32) if features.dtype.itemsize < 4 else features


def prepare_seed(experiment: Experiment, data: Dataset, seed: int) -> SeedData:
    """Prepare the data of a seed and draw the initial labels."""
    prepared = prepare(experiment, data, seed)
    experiment.schedule.check_size(len(prepared.labels))
    generator = np.random.default_rng(derive_seed(seed, "initial"))
    initial = np.sort(generator.choice(len(prepared.labels), experiment.schedule.initial, replace=False))
    if experiment.model.learns_features:
        return SeedData(prepared, seed, initial, None)
    nearest = NearestLabeled(prepared.features.reshape(len(prepared.labels), -1))
    nearest.add(initial)
    # Distances to the initial rows are computed once for all strategies.
    nearest.tighten()
    nearest.largest()
    return SeedData(prepared, seed, initial, nearest)


class View(Protocol):
    """Predictions and distances of a trained model, in memory or on a device."""

    @property
    def pool_probabilities(self) -> FloatArray:
        """(n, c) probabilities for the training rows."""

    @property
    def test_probabilities(self) -> FloatArray:
        """(t, c) probabilities for the test set."""

    @property
    def state(self) -> State:
        """Model state that committee members start from."""

    def largest(self, doubt: FloatArray | None = None) -> float:
        """δ, the largest distance to the nearest labeled row; with doubt δ̂, the largest distance times doubt."""

    def choose(self, strategy: Strategy, metric: Metric, budget: int, probabilities: FloatArray, seed: int) -> IntArray:
        """Rows to label next; ``probabilities`` is (n, c), or (n, k, c) for a strategy that uses a committee."""


@runtime_checkable
class UsesSimulation(Protocol):
    """A strategy that uses information only available in an experiment: the model, all labels and the test set."""

    def in_simulation(self, turn: "Turn", view: View) -> Strategy:
        """The strategy that picks the rows of this turn."""


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One training of a run, and the rows it is trained on."""

    arm: Arm
    experiment: Experiment
    seed_data: SeedData
    number: int
    rows: IntArray
    """Labeled rows, ascending."""

    @property
    def is_last(self) -> bool:
        """Whether no rows are picked afterwards."""
        return self.number >= self.experiment.schedule.rounds

    def train_set(self, state: State) -> TrainingSet:
        return training_set(self.seed_data, self.rows, self.number, state)


def measure(view: View, seed_data: SeedData, rows: IntArray) -> dict[str, Any]:
    """The fields of `Round` that depend only on the model, which several runs may share."""
    data, pool_probabilities = seed_data.data, view.pool_probabilities
    return {
        "test_accuracy": accuracy(view.test_probabilities, data.test_labels),
        "train_accuracy": accuracy(pool_probabilities[rows], data.labels[rows]),
        "recall": recall(view.test_probabilities, data.test_labels),
        "core_set_loss": core_set_loss(pool_probabilities, data.labels),
        "radius": view.largest(),
        "scaled_radius": view.largest(doubt_from_probabilities(pool_probabilities)),
    }


def finish_round(turn: Turn, view: View, metrics: Mapping[str, Any], train_seconds: float) -> Round:
    """Pick rows with the strategy and return the round.

    ``select_seconds`` includes the selection and the training of a committee, if the strategy uses one, but not the
    model's predictions.
    """
    started = time.perf_counter()
    picked = np.empty(0, dtype=np.int64) if turn.is_last else _pick_rows(turn, view)
    select_seconds = time.perf_counter() - started
    return Round(
        strategy=turn.arm.name,
        seed=turn.seed_data.seed,
        turn=turn.number,
        labels=len(turn.rows),
        **metrics,
        uncertainty=uncertainty(doubt_from_probabilities(view.pool_probabilities[picked])) if len(picked) else None,
        picked=tuple(picked.tolist()),
        train_seconds=train_seconds,
        select_seconds=select_seconds if len(picked) else 0.0,
    )


def _pick_rows(turn: Turn, view: View) -> IntArray:
    arm, data, model = turn.arm, turn.seed_data.data, turn.experiment.model
    candidates = np.setdiff1d(np.arange(len(data.labels)), turn.rows, assume_unique=True)
    probabilities = view.pool_probabilities
    if arm.needs_samples:
        probabilities = committee_proba(model, turn.train_set({}), view.state, data.features)
    if arm.permuted:
        seed = derive_seed(turn.seed_data.seed, "permuted", turn.number)
        probabilities = permute_among(candidates, probabilities, seed)
    strategy, seed = arm.build(), derive_seed(turn.seed_data.seed, "picks", turn.number)
    if isinstance(strategy, UsesSimulation):
        strategy = strategy.in_simulation(turn, view)
    return view.choose(strategy, arm.metric, turn.experiment.schedule.budget, probabilities, seed)


def picked_rows(completed: Sequence[Round], run: Run, seed_data: SeedData) -> list[IntArray]:
    """The rows that a run picked after each turn in the journal.

    Raises if a row does not exist or was among the initial labels.
    """
    picked = [np.array(each.picked, dtype=np.int64) for each in completed]
    for each, rows in zip(completed, picked, strict=True):
        if rows.max(initial=0) >= len(seed_data.data.labels) or np.isin(rows, seed_data.initial).any():
            raise InvalidData(
                f"the journal has picks of {run.arm.name!r} in turn {each.turn} that are not rows of the data, or that "
                "were among the initial labels",
                hint="restore the original data, or run the experiment in another folder.",
            )
    return picked


def labeled_at(seed_data: SeedData, picked: Sequence[IntArray], turn: int) -> IntArray:
    """The labeled rows in a turn, ascending."""
    return np.sort(np.concatenate([seed_data.initial, *picked[:turn]]))


def training_set(seed_data: SeedData, rows: IntArray, turn: int, state: State) -> TrainingSet:
    return TrainingSet(
        features=seed_data.data.features[rows],
        labels=seed_data.data.labels[rows],
        n_classes=len(seed_data.data.classes),
        seed=seed_data.seed,
        turn=turn,
        state=state,
    )


# The loop of one run.

CHECKPOINT_SECONDS = 5.0
"""Seconds of training after which a checkpoint is written; repeating less is cheaper than writing files."""


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """Predictions and distances in memory: a `View`."""

    nearest: NearestLabeled
    pool: Pool
    """The features in which distances are measured, with cached distances."""
    pool_probabilities: FloatArray
    test_probabilities: FloatArray
    state: State

    def largest(self, doubt: FloatArray | None = None) -> float:
        return self.nearest.largest(doubt)

    def choose(self, strategy: Strategy, metric: Metric, budget: int, probabilities: FloatArray, seed: int) -> IntArray:
        """Rows to label next; ``metric`` is that of the pool, which reuses distances from earlier rounds."""
        self.pool.label(rows=self.nearest.references)
        return self.pool.select(budget, probabilities=probabilities, strategy=strategy, seed=seed).indices


def run_rounds(
    run: Run, experiment: Experiment, seed_data: SeedData, completed: Sequence[Round], checkpoints: Checkpoints
) -> Iterator[Round]:
    """Yield the remaining rounds of a run.

    The caller must journal each round before it requests the next. Anything missing in the journal or the checkpoints
    is computed again, with the same result.
    """
    data, picked = seed_data.data, picked_rows(completed, run, seed_data)
    state = restore_state(experiment, seed_data, picked, checkpoints)
    nearest, pool = None, None
    if seed_data.nearest is not None:
        nearest = seed_data.nearest.copy()
        for rows in picked:
            nearest.add(rows)
        pool = Pool(nearest.features, metric=run.arm.metric)
    unsaved = 0.0
    for number in range(len(completed), experiment.schedule.rounds + 1):
        turn = Turn(run.arm, experiment, seed_data, number, labeled_at(seed_data, picked, number))
        train_set = turn.train_set({} if experiment.schedule.from_scratch else state)
        started = time.perf_counter()
        fitted = experiment.model.fit(train_set)
        seconds = time.perf_counter() - started
        if nearest is None or pool is None or experiment.model.learns_features:
            nearest = NearestLabeled(fitted.embed(data.features))
            nearest.add(np.concatenate([seed_data.initial, *picked]))
            pool = Pool(nearest.features, metric=run.arm.metric)
        probabilities, test_probabilities = map(fitted.predict_proba, (data.features, data.test_features))
        view = InMemory(nearest, pool, probabilities, test_probabilities, fitted.state)
        result = finish_round(turn, view, measure(view, seed_data, turn.rows), seconds)
        state, unsaved = fitted.state, unsaved + seconds
        is_saved = unsaved >= CHECKPOINT_SECONDS and experiment.model.continues
        if is_saved:
            checkpoints.save(number, state)
            unsaved = 0.0
        yield result
        if is_saved:
            checkpoints.remove_before(number)
        picked.append(np.array(result.picked, dtype=np.int64))
        nearest.add(picked[-1])


def restore_state(
    experiment: Experiment, seed_data: SeedData, picked: Sequence[IntArray], checkpoints: Checkpoints
) -> State:
    """The model state after the completed turns, from the latest checkpoint and by training the turns after it."""
    if experiment.schedule.from_scratch or not experiment.model.continues:
        return {}
    state: State = {}
    first = 0
    for turn in reversed(range(len(picked))):
        saved = checkpoints.load(turn)
        if saved is not None:
            state, first = saved, turn + 1
            break
    for turn in range(first, len(picked)):
        state = experiment.model.fit(training_set(seed_data, labeled_at(seed_data, picked, turn), turn, state)).state
    return state
