"""Where an experiment's data comes from in each run: a file, something built in, or a copy in the run's folder."""

import hashlib
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import cast

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, MemoryLimit
from dubito.experiments.datasets.builtin import builtin_dataset
from dubito.experiments.datasets.dataset import Dataset, read_dataset
from dubito.experiments.datasets.images.loading import find_images, is_table
from dubito.experiments.datasets.images.pictures import SUFFIXES, Size, check_size
from dubito.experiments.plans.experiment import Data, Experiment
from dubito.files import read_array
from dubito.files.disk import room_for
from dubito.files.limits import hold
from dubito.files.sealed import load_sealed, save_sealed
from dubito.matrix import AnyArray
from dubito.wording import PASS

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
        found = read_dataset(settings.path, test=settings.test, columns=settings.columns, missing=settings.missing)
    elif settings.images is not None:
        check_memory(settings)
        size = cast("Size | None", settings.size or None)
        found = find_images(settings.images, "images", test=settings.test, size=size).as_dataset()
    elif folder is not None and (folder / DATA).exists():
        found = load_dataset(folder / DATA)
    else:
        raise InvalidArgument(
            f"experiment {experiment.name!r} names no data", mend="set path, images or builtin in [data]."
        )
    return lambda seed: found


def check_memory(settings: Data) -> None:
    """Refuse pictures that, at the size asked for, are more than the machine's memory; none of them is read for this.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "1.png").touch()
    ...     check_memory(Data(images=folder, size=(10**9, 10**9)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dubito.errors.MemoryLimit: size=(1000000000, 1000000000) makes 3,000,000,000 GB of 1 picture, and this machine...
    """
    if not settings.size:
        return
    check_size(settings.size)
    n = count_pictures(str(settings.images))
    needed = 3 * n * settings.size[0] * settings.size[1]
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise MemoryLimit(
            f"makes {needed / 1e9:,.0f} GB of {n:,} picture{'s' if n > 1 else ''}, and this machine has "
            f"{there / 1e9:,.0f} GB of memory",
            argument="size",
            value=settings.size,
            mend=f"{PASS} a smaller size.",
        )


def count_pictures(images: str) -> int:
    """How many pictures a folder holds, or how many rows a Parquet file has."""
    if is_table(images):
        return len(read_array(images, "labels"))
    return sum(name.lower().endswith(SUFFIXES) for _, _, names in os.walk(images) for name in names)


def save_dataset(data: Dataset, path: Path) -> None:
    """Keep data that was handed in, for other processes and for later."""
    arrays = {
        "name": np.array(data.name),
        "features": data.features,
        "labels": data.labels,
        "classes": np.array(data.classes),
        "test_features": data.test_features,
        "test_labels": data.test_labels,
    }
    with room_for(path):
        save_sealed(str(path), arrays)


def load_dataset(path: Path) -> Dataset:
    """What `save_dataset` kept; a file that was damaged is refused by its name."""
    saved = load_sealed(str(path), check_size=lambda n_bytes: hold(str(path), "", n_bytes))
    if not is_dataset(saved):
        raise InvalidData(
            f"{path} is damaged: it does not hold the data that the run was begun with",
            mend="bring the old file back, or run the experiment in another folder.",
        )
    return Dataset(
        name=str(saved["name"]),
        features=saved["features"],
        labels=saved["labels"],
        classes=tuple(saved["classes"].tolist()),
        test_features=saved["test_features"],
        test_labels=saved["test_labels"],
    )


def is_dataset(saved: Mapping[str, AnyArray]) -> bool:
    """Whether arrays have the names, types, shapes and codes that `save_dataset` writes."""
    if set(saved) != {"name", "features", "labels", "classes", "test_features", "test_labels"}:
        return False
    classes, features = saved["classes"], saved["features"]
    are_alike = (
        features.dtype == saved["test_features"].dtype and features.shape[1:] == saved["test_features"].shape[1:]
    )
    return (
        classes.ndim == 1
        and features.dtype.kind in "fu"
        and are_alike
        and are_codes(saved["labels"], features, len(classes))
        and are_codes(saved["test_labels"], saved["test_features"], len(classes))
    )


def are_codes(labels: AnyArray, features: AnyArray, n_classes: int) -> bool:
    """Whether labels are places in the classes, one for each row."""
    if features.ndim < 2 or labels.shape != features.shape[:1] or labels.dtype.kind not in "iu":
        return False
    return bool(((labels >= 0) & (labels < n_classes)).all())


def fingerprint(data: Dataset) -> str:
    """Sixteen hexadecimal digits that change with any number of the data."""
    digest = hashlib.sha256(repr((data.classes, data.features.shape, data.test_features.shape)).encode())
    for array in (data.features, data.labels, data.test_features, data.test_labels):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]
