"""A kind of model, a data set, an image set and a runner from outside dubito, found by their entry points."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dubito.doubt import softmax
from dubito.experiments.data import Dataset, make_dataset
from dubito.experiments.data_sources import DataSource
from dubito.experiments.images import DownloadProgress, ImageSet
from dubito.experiments.journal import ExperimentJournal, Run
from dubito.experiments.models.base import Fitted, ModelDefaults, State, TrainingSet, flat, over_all_classes
from dubito.experiments.plan import Experiment
from dubito.experiments.runner import ProgressReport, run_one_by_one
from dubito.matrix import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Centroids(ModelDefaults):
    """The class whose mean is nearest."""

    temperature: float = 1.0
    kind: ClassVar[str] = "centroids"
    runner: ClassVar[str] = "backwards"

    def fit(self, train_set: TrainingSet) -> Fitted:
        """O(m·d)."""
        features = flat(train_set.features)
        means = [features[train_set.labels == code].mean(axis=0) for code in train_set.present]
        return CentroidsFit(np.stack(means), train_set.present, train_set.n_classes, self.temperature)


@dataclass(frozen=True, slots=True, eq=False)
class CentroidsFit:
    """Fitted `Centroids`."""

    means: AnyArray
    classes: IntArray
    n_classes: int
    temperature: float

    @property
    def state(self) -> State:
        """Nothing: every turn starts anew."""
        return {}

    def predict_proba(self, features: AnyArray) -> FloatArray:
        """(n, c)"""
        squared = ((flat(features)[:, None] - self.means) ** 2).sum(axis=2)
        return over_all_classes(softmax(-squared / self.temperature), self.classes, self.n_classes)

    def embed(self, features: AnyArray) -> AnyArray:
        """The features themselves."""
        return flat(features)


@dataclass(frozen=True, slots=True)
class Half:
    """No model: nothing is there but its name and its setting."""

    temperature: float = 1.0
    kind: ClassVar[str] = "half"


def rings(seed: int) -> Dataset:
    """Three clouds on a circle, drawn anew for each seed."""
    rng = np.random.default_rng(seed)
    labels = np.arange(120) % 3
    angles = 2 * np.pi * labels / 3
    points = 4 * np.column_stack([np.cos(angles), np.sin(angles)]) + rng.normal(size=(120, 2))
    return make_dataset("rings", points, labels)


def dots(folder: Path, /, *, allow_download: bool = False, progress: DownloadProgress | None = None) -> ImageSet:
    """Black and white pictures, which need no file."""
    labels = np.arange(20) % 2
    images = np.broadcast_to((255 * labels).astype(np.uint8)[:, None, None, None], (20, 4, 4, 3))
    return ImageSet("dots", images, labels, ("black", "white"), images[:0], labels[:0])


def run_backwards(
    remaining: Sequence[Run],
    experiment: Experiment,
    folder: Path,
    source: DataSource,
    journal: ExperimentJournal,
    report: ProgressReport,
) -> bool:
    """The last run first."""
    return run_one_by_one(remaining[::-1], experiment, folder, source, journal, report)
