"""Before the first turn: one seed's view of the data, made a pool, and the rows that are labelled from the start."""

from dataclasses import dataclass, replace

import numpy as np

from dubito.errors import InvalidArgument
from dubito.experiments.cells.measures import NearestLabelled
from dubito.experiments.chance import draw
from dubito.experiments.datasets.dataset import Dataset
from dubito.experiments.datasets.pools import make_pool
from dubito.experiments.plans.experiment import DEFAULT_TEST_SHARE, Experiment
from dubito.matrix import AnyArray, IntArray
from dubito.wording import PASS, named


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
            mend=f"{PASS} {named('rows')} <= {n}.",
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
