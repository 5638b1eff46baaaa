"""Where the data of an experiment come from: a file, a built-in data set, or a copy in the folder of the run."""

import hashlib
import os
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import cast

import numpy as np

from dubito.errors import PASS, InvalidArgument, InvalidData, MemoryLimit
from dubito.experiments.data import DataFile, Dataset, builtin_dataset, read_data_file
from dubito.experiments.images import COLLECTIONS, SUFFIXES, DownloadProgress, Size, check_size, find_images, is_table
from dubito.experiments.plan import Data, Experiment
from dubito.io import read_array
from dubito.io.durable import explain_disk_full, load_with_checksum, save_with_checksum
from dubito.io.limits import machine_memory, reserve_memory
from dubito.matrix import AnyArray

# Arrays that were passed in Python are saved in the folder of the run, for other processes and for resuming.

DATA = "data.npz"
"""Name of the file in the folder."""


def save_dataset(data: Dataset, path: Path) -> None:
    """Save a data set that was passed in Python."""
    arrays = {
        "name": np.array(data.name),
        "features": data.features,
        "labels": data.labels,
        "classes": np.array(data.classes),
        "test_features": data.test_features,
        "test_labels": data.test_labels,
    }
    with explain_disk_full(path):
        save_with_checksum(str(path), arrays)


def load_dataset(path: Path) -> Dataset:
    """Load what `save_dataset` saved. Raises `InvalidData` if the file is damaged."""
    saved = load_with_checksum(str(path), check_size=lambda n_bytes: reserve_memory(str(path), "", n_bytes))
    if not is_dataset(saved):
        hint = "restore the original file, or run the experiment in another folder."
        raise InvalidData(f"{path} is damaged: it does not hold the data that the run was started with", hint=hint)
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
    """Whether labels are class codes, one for each row."""
    if features.ndim < 2 or labels.shape != features.shape[:1] or labels.dtype.kind not in "iu":
        return False
    return bool(((labels >= 0) & (labels < n_classes)).all())


class DataSource:
    """The data of an experiment, which is read or generated when it is first needed.

    The folder of the run contains a copy of the data if arrays were passed when the run was started.

    Examples
    --------
    >>> from dubito.experiments.plan import Arm
    >>> digits = DataSource(Experiment("digits", (Arm("random"),), Data(builtin="digits")))
    >>> digits(0).features.shape, digits.is_shared
    ((1797, 64), False)
    """

    def __init__(self, experiment: Experiment, folder: Path | None = None, dataset: Dataset | None = None) -> None:
        self.name, self.settings, self.folder = experiment.name, experiment.data, folder
        self._shared = dataset
        # Only the last seed is cached: runs are sorted by seed, and a data set may be large.
        self._for_seed = lru_cache(maxsize=1)(lambda seed: builtin_dataset(str(self.settings.builtin), seed))

    @property
    def is_shared(self) -> bool:
        """Whether all seeds have the same data; a built-in data set may depend on the seed."""
        return self._shared is not None or self.settings.builtin is None

    def __call__(self, seed: int) -> Dataset:
        return self.shared() if self.is_shared else self._for_seed(seed)

    def shared(self, *, download: bool = False, progress: DownloadProgress | None = None) -> Dataset:
        """The data that all seeds share. Downloads missing files of a published collection if allowed."""
        if self._shared is None:
            self._shared = self._read(download, progress)
        return self._shared

    @cached_property
    def file(self) -> DataFile | None:
        settings = self.settings
        if settings.path is None:
            return None
        return read_data_file(
            settings.path,
            labeled=settings.labeled,
            test=settings.test,
            columns=settings.columns,
            missing=settings.missing,
        )

    @property
    def is_published(self) -> bool:
        return self.settings.images in COLLECTIONS.names()

    def _read(self, download: bool, progress: DownloadProgress | None) -> Dataset:
        if self.file is not None:
            return self.file.dataset
        settings = self.settings
        if settings.images is not None:
            check_memory(settings)
            size = cast("Size | None", settings.size or None)
            return find_images(
                settings.images, "images", download=download, test=settings.test, size=size, progress=progress
            ).as_dataset()
        if self.folder is not None and (self.folder / DATA).exists():
            return load_dataset(self.folder / DATA)
        raise InvalidArgument(f"experiment {self.name!r} has no data", hint="set path, images or builtin in [data].")


def check_memory(settings: Data) -> None:
    """Raise if the resized pictures would exceed the memory of the machine. Does not read any picture.

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
    memory = machine_memory()
    if needed > memory:
        problem = (
            f"makes {needed / 1e9:,.0f} GB of {n:,} picture{'s' if n > 1 else ''}, and this machine has "
            f"{memory / 1e9:,.0f} GB of memory"
        )
        raise MemoryLimit(problem, argument="size", value=settings.size, hint=f"{PASS} a smaller size.")


def count_pictures(images: str) -> int:
    """How many pictures a folder holds, or how many rows a Parquet file has."""
    if is_table(images):
        return len(read_array(images, "labels"))
    return sum(name.lower().endswith(SUFFIXES) for _, _, names in os.walk(images) for name in names)


def fingerprint(data: Dataset) -> str:
    """A hash of all numbers of the data: sixteen hexadecimal digits."""
    digest = hashlib.sha256(repr((data.classes, data.features.shape, data.test_features.shape)).encode())
    for array in (data.features, data.labels, data.test_features, data.test_labels):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]
