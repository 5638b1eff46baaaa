"""Where an experiment's data comes from in each run: a file, something built in, or a copy in the run's folder."""

import hashlib
import io
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import cast

import numpy as np

from dubito.errors import InvalidArgument
from dubito.experiments.builtin import builtin_dataset
from dubito.experiments.config import Experiment
from dubito.experiments.data import Dataset, read_dataset
from dubito.experiments.images import load_images
from dubito.experiments.images.pictures import Size
from dubito.experiments.journal import room_for
from dubito.files import Columns, write_atomically

DATA = "data.npz"
"""In a run's folder: the data that Python handed in."""

Source = Callable[[int], Dataset]
"""The data of a seed: the same for all, except a toy's, which is drawn anew."""


def find_source(experiment: Experiment, folder: Path | None = None, dataset: Dataset | None = None) -> Source:
    """The data an experiment names, or what was handed in now or when its folder was made."""
    settings = experiment.data
    if dataset is not None:
        return lambda seed: dataset
    if settings.builtin is not None:
        name = settings.builtin
        return lru_cache(maxsize=1)(lambda seed: builtin_dataset(name, seed))
    if settings.path is not None:
        columns = Columns(settings.id_column, settings.label_column, settings.feature_columns)
        found = read_dataset(settings.path, test=settings.test, columns=columns)
    elif settings.images is not None:
        size = cast("Size | None", settings.size or None)
        found = load_images(settings.images, test=settings.test, size=size).as_dataset()
    elif folder is not None and (folder / DATA).exists():
        found = load_dataset(folder / DATA)
    else:
        raise InvalidArgument(f"experiment {experiment.name!r} names no data; set path, images or builtin in [data].")
    return lambda seed: found


def save_dataset(data: Dataset, path: Path) -> None:
    """Keep data that was handed in, for other processes and for later."""
    buffer = io.BytesIO()
    np.savez(
        buffer,
        name=np.array(data.name),
        features=data.features,
        labels=data.labels,
        classes=np.array(data.classes),
        test_features=data.test_features,
        test_labels=data.test_labels,
    )
    with room_for(path):
        write_atomically(str(path), buffer.getvalue())


def load_dataset(path: Path) -> Dataset:
    """What `save_dataset` kept."""
    with np.load(path, allow_pickle=False) as saved:
        return Dataset(
            name=str(saved["name"]),
            features=saved["features"],
            labels=saved["labels"],
            classes=tuple(saved["classes"].tolist()),
            test_features=saved["test_features"],
            test_labels=saved["test_labels"],
        )


def fingerprint(data: Dataset) -> str:
    """Sixteen hexadecimal digits that change with any number of the data."""
    digest = hashlib.sha256(repr((data.classes, data.features.shape, data.test_features.shape)).encode())
    for array in (data.features, data.labels, data.test_features, data.test_labels):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]
