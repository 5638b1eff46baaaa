"""A round, put together in one place wherever its model was trained: its worth, what is asked for, what that took."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dubito.core.distances import read_rows, settle
from dubito.doubt import doubt_from_probabilities, uncertainty
from dubito.errors import PASS, InvalidArgument, InvalidData, named
from dubito.experiments.data import Dataset
from dubito.experiments.journal import Cell, Checkpoints
from dubito.experiments.models.base import Fitted, Lesson, State, committee_proba
from dubito.experiments.plan import DEFAULT_TEST_SHARE, Arm, Experiment, heard
from dubito.experiments.pools import make_pool
from dubito.experiments.records import Round
from dubito.experiments.seeds import draw
from dubito.matrix import AnyArray, FloatArray, IntArray, blocks
from dubito.pool import Pool

# What a round is measured by: accuracy, recall, the core-set loss, and how far the data lies from its labels.

LEAST_PROBABILITY = 1e-12
"""What a class that cannot be is taken to have, so that the loss stays finite."""
FIRST_SEEN = 64
"""Labelled rows that every row is measured against at first."""
GROWTH = 8
"""How many times as many labelled rows a row is measured against when that did not settle it."""
LOOK_ROWS = 1024
ROWS_AT_ONCE = 32
"""Rows measured before looking again who could be farthest; then twice as many, and so on."""
PAIRS_BYTES = 8 << 20
"""Of pairs of rows whose distance is settled at once."""
SMALL = 1 << 23
"""Multiplications below which measuring every row costs less than finding out which to measure."""


def accuracy(probabilities: FloatArray, labels: IntArray) -> float:
    """Share of rows whose most probable class is right.

    Examples
    --------
    >>> accuracy(np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0, 1]))
    0.5
    """
    return float((probabilities.argmax(axis=1) == labels).mean())


def recall(probabilities: FloatArray, labels: IntArray) -> tuple[float | None, ...]:
    """Share of each class's rows that is right; None for a class without rows.

    Examples
    --------
    >>> recall(np.array([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0]]), np.array([0, 1]))
    (1.0, 0.0, None)
    """
    n_classes = probabilities.shape[1]
    right = np.bincount(labels[probabilities.argmax(axis=1) == labels], minlength=n_classes)
    there = np.bincount(labels, minlength=n_classes)
    return tuple(float(r / t) if t else None for r, t in zip(right, there, strict=True))


def core_set_loss(probabilities: FloatArray, labels: IntArray) -> float:
    """Mean cross-entropy over all rows, labelled or not, in nats.

    Examples
    --------
    >>> round(core_set_loss(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 0])), 4)
    0.3466
    """
    given = probabilities[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(given, LEAST_PROBABILITY)).mean() + 0.0)


class NearestLabelled:
    """How far each row is from its nearest labelled one, known only as well as was asked.

    Distances once measured are upper bounds for ever: labelled rows only come to be more. A question for the largest
    measures the rows whose bounds are largest, against the labelled rows they have not met, until no other bound can
    beat what was found. Where there is little to measure, it is done at once. The answer depends on the labelled rows
    and the batches they came in, not on what was asked before. O(n) memory.

    Examples
    --------
    >>> nearest = NearestLabelled(np.array([[0.0], [1.0], [5.0]]))
    >>> nearest.add(np.array([0]))
    >>> nearest.largest(), nearest.largest(np.array([0.0, 1.0, 0.1]))
    (5.0, 1.0)
    """

    def __init__(self, features: AnyArray) -> None:
        self.features = features
        self.references = np.empty(0, dtype=np.int64)
        self.squared = np.full(len(features), np.inf)
        self.seen = np.zeros(len(features), dtype=np.int64)
        self.centred: tuple[FloatArray, FloatArray] | None = None
        self.near = features[:0].astype(np.promote_types(features.dtype, np.float32))
        """The labelled rows about the first of them, as many as were needed yet: what a quick look is taken at."""

    def copy(self) -> "NearestLabelled":
        """The same knowledge, to go on from on its own."""
        twin = NearestLabelled(self.features)
        twin.references, twin.squared, twin.seen = self.references, self.squared.copy(), self.seen.copy()
        twin.centred, twin.near = self.centred, self.near
        return twin

    def add(self, rows: IntArray) -> None:
        """These rows are labelled from now on."""
        is_small = self.features.size * len(rows) <= SMALL
        if is_small and len(rows) and (self.seen == len(self.references)).all():
            np.minimum(self.squared, self._squared_to_nearest(rows), out=self.squared)
            self.seen += len(rows)
        self.references = np.concatenate([self.references, rows])
        self.squared[rows] = 0.0

    def largest(self, doubt: FloatArray | None = None) -> float:
        """δ, the largest distance; or δ̂, the largest distance times doubt."""
        weights = np.ones(len(self.squared)) if doubt is None else doubt * doubt
        most = ROWS_AT_ONCE
        while len(rows := self._unsettled(weights, most)):
            self._measure(rows)
            most *= 2 if self.seen[rows[0]] == len(self.references) else 1
        return float(np.sqrt(self._scaled(weights).max()))

    def tighten(self) -> None:
        """Bring every bound near the truth by one quick look at all labelled rows.

        Worth it where many questions follow. Θ(n·m·d) in float32.
        """
        if (self.seen == len(self.references)).all():
            return
        origin = self.features.mean(axis=0, dtype=np.float64)
        references = (self.features[self.references] - origin).astype(np.float32)
        sizes = np.einsum("ij,ij->i", references, references)
        for span in blocks(len(self.features), LOOK_ROWS):
            near = (self.features[span] - origin).astype(np.float32)
            nearest = self.references[(sizes - 2.0 * near @ references.T).argmin(axis=1)]
            # Whichever row that look takes for the nearest, the distance to it bounds the one to the nearest.
            bound = settle(read_rows(self.features, span), read_rows(self.features, nearest))
            self.squared[span] = np.minimum(self.squared[span], bound)

    def _scaled(self, weights: FloatArray) -> FloatArray:
        scaled = np.zeros_like(weights)
        np.multiply(self.squared, weights, out=scaled, where=weights > 0)  # Nothing times infinity is nothing here.
        return scaled

    def _unsettled(self, weights: FloatArray, most: int) -> IntArray:
        """The rows of largest bound that could still be farthest, all having met as many labelled ones."""
        is_exact = (self.seen == len(self.references)) | (self.squared == 0)
        if is_exact.all():
            return np.empty(0, dtype=np.int64)
        scaled = self._scaled(weights)
        rows = np.flatnonzero(~is_exact & (scaled > scaled[is_exact].max(initial=0.0)))
        if len(rows) > most and np.isfinite(self.squared).all():
            rows = rows[np.argpartition(-scaled[rows], most)[:most]]
        return rows[self.seen[rows] == self.seen[rows].min()] if len(rows) else rows

    def _measure(self, rows: IntArray) -> None:
        """Measure rows against the next labelled ones they have not met, in blocks."""
        start = int(self.seen[rows[0]])
        stop = min(len(self.references), max(FIRST_SEEN, GROWTH * start))
        for span in blocks(len(rows), LOOK_ROWS):
            for others in blocks(stop - start, LOOK_ROWS):
                first, last = start + others.start, min(start + others.stop, stop)
                self._lower(rows[span], first, last)
        self.seen[rows] = stop

    def _lower(self, rows: IntArray, first: int, last: int) -> None:
        """Lower the bounds of rows by some labelled ones: a product finds which can be nearest, `settle` decides."""
        others = self._near_references(last)[first:last]
        with np.errstate(over="ignore", invalid="ignore"):
            near = self._about_the_first(rows)
            sizes, other_sizes = np.einsum("ij,ij->i", near, near), np.einsum("ij,ij->i", others, others)
            squared = other_sizes - 2.0 * near @ others.T
            # Rounding grows with the sizes; generous, since what it lets through is only settled.
            slack = (near.shape[1] + 8) * 8.0 * np.finfo(near.dtype).eps * (sizes + other_sizes.max())
            is_out = squared > (squared.min(axis=1) + slack)[:, None]
        # What overflowed compares as false, and is settled.
        row, other = np.nonzero(~is_out)
        for pairs in blocks(len(row), max(1, PAIRS_BYTES // (8 * near.shape[1]))):
            one, two = rows[row[pairs]], self.references[first + other[pairs]]
            np.minimum.at(self.squared, one, settle(read_rows(self.features, one), read_rows(self.features, two)))

    def _near_references(self, count: int) -> AnyArray:
        """The first ``count`` labelled rows about the first of them."""
        if len(self.near) < count:
            self.near = np.concatenate([self.near, self._about_the_first(self.references[len(self.near) :])])
        return self.near

    def _about_the_first(self, rows: IntArray) -> AnyArray:
        """Rows less the first labelled one, in float32 at least."""
        return np.asarray(self.features[rows].astype(self.near.dtype) - self.features[self.references[0]])

    def _squared_to_nearest(self, rows: IntArray) -> FloatArray:
        """(n,) squared distance to the nearest of these rows."""
        if self.centred is None:
            # About their mean, or large coordinates would drown the differences.
            near = self.features - self.features.mean(axis=0, dtype=np.float64)
            self.centred = near, np.einsum("ij,ij->i", near, near)
        near, sizes = self.centred
        products = (-2.0 * near[rows]) @ near.T
        products += sizes[rows, None]
        squared: FloatArray = sizes + products.min(axis=0)
        return np.maximum(squared, 0.0, out=squared)


# Before the first turn: one seed's view of the data, made a pool, and the rows that are labelled from the start.


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """What all strategies of one seed share."""

    data: Dataset
    seed: int
    initial: IntArray
    """Rows labelled before the first training, ascending."""
    nearest: NearestLabelled | None
    """Distances to the initial rows; None where training moves the points, and these mean nothing."""


def prepare(experiment: Experiment, data: Dataset, seed: int) -> Dataset:
    """One seed's view of the data: what tests set apart, rows drawn, features standardised, and made a pool.

    With ``test_share`` in the experiment, a test set that the data brings is left out altogether. float16 becomes
    float32; 8-bit images stay as they are for models that take them. `Round.picked` are rows of its ``features``.
    """
    settings = experiment.data
    if not data.has_test or settings.test_share is not None:
        data = data.split(settings.test_share or DEFAULT_TEST_SHARE, draw(seed, "test"))
    if settings.rows is not None:
        data = drawn(data, settings.rows, draw(seed, "rows"))
    if settings.standardise:
        data = data.standardised()
    if experiment.pool != "clean":
        made = make_pool(data.features, data.labels, experiment.pool, draw(seed, "pool"))
        data = replace(data, features=made.features, labels=made.labels)
    takes_images = experiment.model.takes_images
    features = widened(data.features, takes_images)
    tested = widened(data.test_features, takes_images).astype(features.dtype, copy=False)
    return replace(data, features=features, test_features=tested)


def training_rows(experiment: Experiment, data: Dataset, seed: int) -> int:
    """How many rows `prepare` leaves to ask for; features are not touched for this. O(n)."""
    bare, tested = np.empty((len(data.labels), 0)), np.empty((len(data.test_labels), 0))
    return len(prepare(experiment, replace(data, features=bare, test_features=tested), seed).labels)


def drawn(data: Dataset, rows: int, seed: int) -> Dataset:
    """The data with that many rows of its training part, in their order."""
    n = len(data.labels)
    if rows > n:
        raise InvalidArgument(
            f"exceeds the {n} rows of the training part",
            argument="rows",
            value=rows,
            hint=f"{PASS} {named('rows')} <= {n}.",
        )
    kept = np.sort(np.random.default_rng(seed).choice(n, rows, replace=False))
    return replace(data, features=data.features[kept], labels=data.labels[kept])


def widened(features: AnyArray, takes_images: bool) -> AnyArray:
    """Numbers that a model can reckon with: at least float32; pixels between 0 and 1 unless it takes images."""
    if features.dtype == np.uint8:
        return features if takes_images else features.astype(np.float32) / np.float32(255.0)
    return features.astype(np.float32) if features.dtype.itemsize < 4 else features


def set_stage(experiment: Experiment, data: Dataset, seed: int) -> Stage:
    """Divide the data, and draw the initial labels."""
    seen = prepare(experiment, data, seed)
    experiment.schedule.check_size(len(seen.labels))
    generator = np.random.default_rng(draw(seed, "initial"))
    initial = np.sort(generator.choice(len(seen.labels), experiment.schedule.initial, replace=False))
    return Stage(seen, seed, initial, None if experiment.model.moves else first_nearest(seen, initial))


def first_nearest(data: Dataset, initial: IntArray) -> NearestLabelled:
    """How far every row is from the initial ones: measured once for all strategies."""
    nearest = NearestLabelled(data.features.reshape(len(data.labels), -1))
    nearest.add(initial)
    nearest.tighten()
    nearest.largest()
    return nearest


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
                hint="bring the old data back, or run the experiment in another folder.",
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


# One cell of an experiment: train, measure, ask for labels, and again.

CHECKPOINT_SECONDS = 5.0
"""Training that is saved in a checkpoint: doing less of it again costs less than writing files all the time."""


class CellSpace:
    """The points that distances are measured between, and what is known of their distances."""

    def __init__(self, arm: Arm, nearest: NearestLabelled) -> None:
        self.nearest = nearest
        self.pool = Pool(nearest.features, metric=arm.metric)


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """What a model that was trained by itself makes of the data: a `dubito.experiments.rounds.View`."""

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
