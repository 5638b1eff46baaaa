"""Readers of CIFAR-10 and CIFAR-100 (from the official *binary* archives) and of SVHN.

A CIFAR record is a label byte (CIFAR-100: the coarse label, then the fine one, which is used) and 3,072 pixel bytes:
the red, green and blue planes of 32 rows.
"""

import tarfile
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.experiments.images import DownloadProgress, ImageArray, ImageSet
from dubito.io.source import reading
from dubito.matrix import AnyArray, IntArray
from dubito.paper.downloads import DOWNLOAD_HINT, PublishedFile, download_file

# SVHN, cropped digits: ``train_32x32.mat`` and ``test_32x32.mat``. The label 10 means the digit 0.

SVHN = (
    PublishedFile(
        "train_32x32.mat",
        "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
        "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
        182_040_794,
    ),
    PublishedFile(
        "test_32x32.mat",
        "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
        "md5:eb5a983be6a315427106f1b164d9cef3",
        64_275_384,
    ),
)
"""Training and test set."""

IMAGE_SHAPE = (32, 32, 3)
DIGITS = tuple("0123456789")


def read_svhn(
    files: tuple[PublishedFile, PublishedFile],
    folder: Path,
    *,
    allow_download: bool = False,
    progress: DownloadProgress | None = None,
) -> ImageSet:
    """Read SVHN from a folder with its two files.

    Parameters
    ----------
    files : tuple of PublishedFile
        `SVHN`.
    folder : Path
        The folder with the files.
    allow_download : bool
        Download missing files.
    progress : callable, optional
        Called during downloads.
    """
    if allow_download:
        for file in files:
            download_file(file, folder, progress=progress)
    for file in files:
        if not (folder / file.name).exists():
            problem = f"svhn is missing: {folder} holds no {file.name} ({file.source})"
            raise MissingFile(problem, hint=DOWNLOAD_HINT)
    (images, labels), (test_images, test_labels) = (_read_mat(folder / file.name) for file in files)
    return ImageSet("svhn", images, labels, DIGITS, test_images, test_labels)


def _read_mat(path: Path) -> tuple[ImageArray, IntArray]:
    from scipy.io import loadmat

    with reading(str(path)):
        arrays: dict[str, AnyArray] = loadmat(str(path), variable_names=("X", "y"))
    for name in ("X", "y"):
        if name not in arrays:
            raise InvalidData(f"{path} holds no array {name}", hint="it is not one of SVHN's files of cropped digits.")
    # MATLAB drops a last dimension of 1: one image alone is 32x32x3.
    images = arrays["X"][..., None] if arrays["X"].ndim == 3 else arrays["X"]
    if images.shape[:3] != IMAGE_SHAPE or images.ndim != 4 or images.dtype != np.uint8:
        hint = "cropped digits are 32x32x3xN uint8."
        raise InvalidData(f"X of {path} has shape {arrays['X'].shape} and type {images.dtype}", hint=hint)
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2)), _digit_labels(path, arrays["y"].ravel(), images.shape[3])


def _digit_labels(path: Path, labels: AnyArray, n_images: int) -> IntArray:
    if len(labels) != n_images:
        hint = "there must be one for each."
        raise InvalidData(f"y of {path} has {len(labels)} labels for {n_images} images", hint=hint)
    invalid = np.flatnonzero(~np.isin(labels, range(1, 11)))
    if len(invalid):
        hint = "labels go from 1 to 10, which is the digit 0."
        raise InvalidData(f"y of {path} holds {labels[invalid[0]]} at position {invalid[0]}", hint=hint)
    return labels.astype(np.int64) % 10


# Files of a published collection: as they were unpacked, or inside their tar archive.


def read_archive(path: Path, required: Collection[str], optional: Collection[str]) -> dict[str, bytes]:
    """The contents of files in a compressed tar archive, by the last part of their path.

    They are read into memory, so that paths in the archive are harmless. Links and devices are ignored.
    """
    wanted = {*required, *optional}
    contents: dict[str, bytes] = {}
    with reading(str(path)), tarfile.open(path, "r:gz") as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            file = archive.extractfile(member) if member.isfile() and name in wanted - contents.keys() else None
            if file is not None:
                contents[name] = file.read()
    missing = next((name for name in required if name not in contents), None)
    if missing is not None:
        raise InvalidData(f"{path} holds no {missing}", hint="it is not the published archive, or only a part of it.")
    return contents


SIDE = 32
N_PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True, slots=True)
class CifarFiles:
    """The files of CIFAR-10 or CIFAR-100."""

    name: str
    archive: PublishedFile
    folder: str
    """The folder in the archive."""
    train: tuple[str, ...]
    test: str
    n_label_bytes: int
    """Bytes of labels before the pixels of a record; the last one is used."""
    names_file: str
    classes: tuple[str, ...]
    """Used if the file of class names is missing; empty if that file is required."""
    pickled: tuple[str, ...]
    """Names of the archive and the folder of the Python version."""

    @property
    def required(self) -> tuple[str, ...]:
        return (*self.train, self.test, *(() if self.classes else (self.names_file,)))


CIFAR10 = CifarFiles(
    name="cifar10",
    archive=PublishedFile(
        "cifar-10-binary.tar.gz",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "md5:c32a1d4ab5d03f1284b67883e8d87530",
        170_052_171,
    ),
    folder="cifar-10-batches-bin",
    train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    test="test_batch.bin",
    n_label_bytes=1,
    names_file="batches.meta.txt",
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    pickled=("cifar-10-python.tar.gz", "cifar-10-batches-py"),
)

CIFAR100 = CifarFiles(
    name="cifar100",
    archive=PublishedFile(
        "cifar-100-binary.tar.gz",
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "md5:03b5dce01913d631647c71ecec9e9cb8",
        168_513_733,
    ),
    folder="cifar-100-binary",
    train=("train.bin",),
    test="test.bin",
    n_label_bytes=2,
    names_file="fine_label_names.txt",
    classes=(),
    pickled=("cifar-100-python.tar.gz", "cifar-100-python"),
)


def read_cifar(
    collection: CifarFiles, folder: Path, *, allow_download: bool = False, progress: DownloadProgress | None = None
) -> ImageSet:
    """Read CIFAR-10 or CIFAR-100 from a folder with the unpacked files or the archive.

    Parameters
    ----------
    collection : CifarFiles
        `CIFAR10` or `CIFAR100`.
    folder : Path
        Contains the archive or the unpacked folder, or is the unpacked folder.
    allow_download : bool
        Download the archive if neither exists.
    progress : callable, optional
        Called during the download.
    """
    files, where = _find_files(collection, folder, allow_download, progress)
    classes = _class_names(files[collection.names_file]) if collection.names_file in files else collection.classes
    parts = [
        _records(files[name], f"{name} of {where}", collection.n_label_bytes, len(classes)) for name in collection.train
    ]
    test_images, test_labels = _records(
        files[collection.test], f"{collection.test} of {where}", collection.n_label_bytes, len(classes)
    )
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return ImageSet(collection.name, images, labels, classes, test_images, test_labels)


def _find_files(
    collection: CifarFiles, folder: Path, allow_download: bool, progress: DownloadProgress | None
) -> tuple[dict[str, bytes], Path]:
    """The contents of the collection's files, and where they were found."""
    folders = (folder / collection.folder, folder)
    unpacked = next((path for path in folders if all((path / name).is_file() for name in collection.required)), None)
    if unpacked is not None:
        contents = {}
        for name in (*collection.required, collection.names_file):
            if (unpacked / name).is_file():
                with reading(str(unpacked / name)):
                    contents[name] = (unpacked / name).read_bytes()
        return contents, unpacked
    archive = folder / collection.archive.name
    if allow_download:
        archive = download_file(collection.archive, folder, progress=progress)
    if not archive.exists():
        _raise_missing(collection, folder)
    return read_archive(archive, collection.required, (collection.names_file,)), archive


def _raise_missing(collection: CifarFiles, folder: Path) -> NoReturn:
    for path in (folder, *(folder / name for name in collection.pickled)):
        pickled = next((each for each in (CIFAR10, CIFAR100) if path.name in each.pickled), None)
        if pickled is not None and path.exists():
            raise InvalidArgument(
                f"{path} is the Python version of {pickled.name}, which is made of pickles, and dubito never unpickles",
                hint=f"get the binary version instead: {pickled.archive.name} ({pickled.archive.source}).",
            )
    if (folder / collection.folder).is_dir():
        inner = folder / collection.folder
        missing = next(name for name in collection.required if not (inner / name).is_file())
        raise MissingFile(f"{inner} holds no {missing}", hint=f"unpack all of {collection.archive.name} there.")
    raise MissingFile(
        f"{collection.name} is missing: {folder} holds neither {collection.archive.name} nor {collection.folder}/ "
        f"({collection.archive.source})",
        hint=DOWNLOAD_HINT,
    )


def _records(data: bytes, where: str, n_label_bytes: int, n_classes: int) -> tuple[ImageArray, IntArray]:
    """Images (n, 32, 32, 3) and labels (n,) of one file."""
    length = n_label_bytes + N_PIXELS
    if not data or len(data) % length:
        problem = f"{where} has {len(data):,} bytes, which is not a multiple of the {length:,} of a record"
        raise InvalidData(problem, hint="it is truncated, or of another kind.")
    records = np.frombuffer(data, dtype=np.uint8).reshape(-1, length)
    labels = records[:, n_label_bytes - 1].astype(np.int64)
    invalid = np.flatnonzero(labels >= n_classes)
    if len(invalid):
        problem = (
            f"{where} has the label {labels[invalid[0]]} in record {invalid[0]}, and there are {n_classes} classes"
        )
        raise InvalidData(problem, hint="it is damaged or of another kind.")
    planes = records[:, n_label_bytes:].reshape(-1, 3, SIDE, SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels


def _class_names(data: bytes) -> tuple[str, ...]:
    return tuple(line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip())


cifar10, cifar100, svhn = partial(read_cifar, CIFAR10), partial(read_cifar, CIFAR100), partial(read_svhn, SVHN)
"""Readers that `dubito.experiments.load_images` finds by these names."""
