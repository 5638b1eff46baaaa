"""Where an experiment's data comes from in each run: a file, something built in, or a copy in the run's folder."""

import hashlib
import os
from functools import cached_property, lru_cache
from pathlib import Path
from typing import cast

import numpy as np

from dubito.errors import InvalidArgument, MemoryLimit
from dubito.experiments.cells.kept import DATA, load_dataset
from dubito.experiments.datasets.builtin import builtin_dataset
from dubito.experiments.datasets.dataset import DataFile, Dataset, read_data_file
from dubito.experiments.datasets.images.loading import COLLECTIONS, find_images, is_table
from dubito.experiments.datasets.images.pictures import SUFFIXES, Size, check_size
from dubito.experiments.plans.experiment import Data, Experiment
from dubito.experiments.published.downloads import DownloadProgress
from dubito.files import read_array
from dubito.wording import PASS


class DataSource:
    """The data of an experiment: read, decoded or drawn when it is first asked for, and once.

    Parameters
    ----------
    experiment : Experiment
        Its ``data`` says what to read.
    folder : Path, optional
        Of a run, which may keep data that was handed in when it was begun.
    dataset : Dataset, optional
        Data that is handed in now.

    Examples
    --------
    >>> from dubito.experiments.plans.arms import Arm
    >>> digits = DataSource(Experiment("digits", (Arm("random"),), Data(builtin="digits")))
    >>> digits(0).features.shape, digits.is_shared
    ((1797, 64), False)
    """

    def __init__(self, experiment: Experiment, folder: Path | None = None, dataset: Dataset | None = None) -> None:
        self.name, self.settings, self.folder = experiment.name, experiment.data, folder
        self._whole = dataset
        # The last seed alone: cells are played seed by seed, and a data set may be large.
        self._drawn = lru_cache(maxsize=1)(lambda seed: builtin_dataset(str(self.settings.builtin), seed))

    @property
    def is_shared(self) -> bool:
        """Whether all seeds have the same data; what is built in may be drawn anew for each."""
        return self._whole is not None or self.settings.builtin is None

    def __call__(self, seed: int) -> Dataset:
        """The data of a seed."""
        return self.whole() if self.is_shared else self._drawn(seed)

    def whole(self, *, download: bool = False, progress: DownloadProgress | None = None) -> Dataset:
        """The data that all seeds share; files of a published collection that are missing are brought if allowed."""
        if self._whole is None:
            self._whole = self._read(download, progress)
        return self._whole

    @cached_property
    def file(self) -> DataFile | None:
        """The file that features and labels are read from; None where there is no such file."""
        settings = self.settings
        if settings.path is None:
            return None
        return read_data_file(settings.path, test=settings.test, columns=settings.columns, missing=settings.missing)

    @property
    def is_published(self) -> bool:
        """Whether the data is a published collection of images."""
        return self.settings.images in COLLECTIONS

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
        raise InvalidArgument(f"experiment {self.name!r} names no data", mend="set path, images or builtin in [data].")


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


def fingerprint(data: Dataset) -> str:
    """Sixteen hexadecimal digits that change with any number of the data."""
    digest = hashlib.sha256(repr((data.classes, data.features.shape, data.test_features.shape)).encode())
    for array in (data.features, data.labels, data.test_features, data.test_labels):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]
