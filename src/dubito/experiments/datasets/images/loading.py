"""Images by one name or path."""

import os
from functools import partial
from pathlib import Path
from typing import Protocol

from dubito.errors import InvalidArgument, MissingFile
from dubito.experiments.datasets.images.cifar import CIFAR10, CIFAR100, read_cifar, refuse_pickles
from dubito.experiments.datasets.images.folder import read_folder
from dubito.experiments.datasets.images.pictures import Size
from dubito.experiments.datasets.images.record import ImageSet
from dubito.experiments.datasets.images.svhn import SVHN, read_svhn
from dubito.experiments.datasets.images.table import read_table
from dubito.experiments.published.downloads import DownloadProgress
from dubito.experiments.published.folders import data_folder
from dubito.files import split_spec
from dubito.files.entries import nearest
from dubito.wording import named


class Reader(Protocol):
    """Reads a published collection."""

    def __call__(
        self, folder: Path, /, *, allow_download: bool = ..., progress: DownloadProgress | None = ...
    ) -> ImageSet:
        """Out of a folder, into which missing files may be brought."""
        ...


COLLECTIONS: dict[str, Reader] = {
    "cifar10": partial(read_cifar, CIFAR10),
    "cifar100": partial(read_cifar, CIFAR100),
    "svhn": partial(read_svhn, SVHN),
}
"""Published collections by name."""


def load_images(
    source: str | os.PathLike[str],
    *,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = False,
    test: str | None = None,
    size: Size | None = None,
    progress: DownloadProgress | None = None,
) -> ImageSet:
    """Images and their classes: a published collection, a folder of pictures, or a Parquet file.

    Parameters
    ----------
    source : str or path
        ``cifar10``, ``cifar100`` or ``svhn``; a folder with a folder of pictures for each class, or with ``train`` and
        ``test`` made so; or a ``.parquet`` file with the columns ``image`` and ``label``.
    data_dir : str or path, optional
        Where the files of a published collection are: its archive or what that unpacks to. Without it,
        `default_folder`.
    download : bool
        Bring files of a published collection that are not there, from their official address. A download that broke
        off goes on, and is used only if its checksum is the published one; files that were there are taken as they are.
    test : str, optional
        A second Parquet file, with the test set.
    size : tuple (height, width), optional
        Resize the pictures of a folder or a Parquet file; without it all must be of one size.
    progress : callable, optional
        Told of a download: the file's name, bytes that are here, bytes in all.

    Returns
    -------
    ImageSet
        In memory: n x height x width x 3 bytes.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("apple", "pear"):
    ...         Path(folder, name).mkdir()
    ...         Image.new("RGB", (8, 6), "green").save(Path(folder, name, "1.png"))
    ...     fruit = load_images(folder)
    >>> fruit.images.shape, fruit.classes, fruit.labels.tolist()
    ((2, 6, 8, 3), ('apple', 'pear'), [0, 1])
    """
    name = os.fspath(source)
    return find_images(name, "source", data_dir=data_dir, download=download, test=test, size=size, progress=progress)


def find_images(
    name: str,
    argument: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = False,
    test: str | None = None,
    size: Size | None = None,
    progress: DownloadProgress | None = None,
) -> ImageSet:
    """What `load_images` does; ``argument`` is what messages call the name."""
    path = Path(split_spec(name)[0])
    published = COLLECTIONS.get(name)
    _refuse_strays(named(argument, name), published is not None, is_table(name), data_dir, download, test, size)
    if published is not None:
        return published(data_folder(data_dir, download), allow_download=download, progress=progress)
    if is_table(name):
        return read_table(name, test=test, size=size)
    refuse_pickles(path)
    if path.is_dir():
        return read_folder(path, size=size)
    if path.exists():
        problem = "is neither a folder nor a .parquet file"
        raise InvalidArgument(problem, argument=argument, value=name, mend="pass one of these.")
    problem = f"is neither there nor a published collection ({', '.join(COLLECTIONS)})"
    mend = nearest(name, COLLECTIONS).strip() or "check the path."
    raise MissingFile(problem, argument=argument, value=name, mend=mend)


def is_table(source: str) -> bool:
    """Whether this names a Parquet file, with or without a column.

    Examples
    --------
    >>> is_table("birds.parquet::species"), is_table("birds")
    (True, False)
    """
    return split_spec(source)[0].lower().endswith(".parquet")


def _refuse_strays(
    source: str, is_published: bool, is_parquet: bool, data_dir: object, download: bool, test: object, size: object
) -> None:
    """Refuse arguments that mean nothing for this kind of source."""
    strays = {
        "data_dir": (data_dir is not None and not is_published, "for published collections"),
        "download": (download and not is_published, "for published collections"),
        "size": (size is not None and is_published, "for pictures in a folder or a Parquet file"),
        "test": (test is not None and not is_parquet, "for Parquet files"),
    }
    for argument, (is_stray, purpose) in strays.items():
        if is_stray:
            raise InvalidArgument(f"is {purpose}, not for {source}", argument=argument, mend="leave it out.")
