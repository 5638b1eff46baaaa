"""Readers of CIFAR-10 and CIFAR-100 (from the official *binary* archives) and of SVHN.

A CIFAR record is a label byte (CIFAR-100: the coarse label, then the fine one, which is used) and 3,072 pixel bytes:
the red, green and blue planes of 32 rows.
"""

import tarfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.experiments.images import DownloadProgress, ImageArray, ImageSet
from dubito.io.source import reading
from dubito.matrix import AnyArray, IntArray
from dubito.paper.downloads import HOW_TO_GET, PublishedFile, download_file

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

IMAGE = (32, 32, 3)
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
            raise MissingFile(problem, hint=HOW_TO_GET)
    (images, labels), (test_images, test_labels) = (_read_mat(folder / file.name) for file in files)
    return ImageSet("svhn", images, labels, DIGITS, test_images, test_labels)


def _read_mat(path: Path) -> tuple[ImageArray, IntArray]:
    from scipy.io import loadmat

    with reading(str(path)):
        held: dict[str, AnyArray] = loadmat(str(path), variable_names=("X", "y"))
    for name in ("X", "y"):
        if name not in held:
            raise InvalidData(f"{path} holds no array {name}", hint="it is not one of SVHN's files of cropped digits.")
    # MATLAB drops a last dimension of 1: one image alone is 32x32x3.
    images = held["X"][..., None] if held["X"].ndim == 3 else held["X"]
    if images.shape[:3] != IMAGE or images.ndim != 4 or images.dtype != np.uint8:
        hint = "cropped digits are 32x32x3xN uint8."
        raise InvalidData(f"X of {path} has shape {held['X'].shape} and type {images.dtype}", hint=hint)
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2)), _digits(path, held["y"].ravel(), images.shape[3])


def _digits(path: Path, labels: AnyArray, n_images: int) -> IntArray:
    if len(labels) != n_images:
        hint = "there must be one for each."
        raise InvalidData(f"y of {path} has {len(labels)} labels for {n_images} images", hint=hint)
    odd = np.flatnonzero(~np.isin(labels, range(1, 11)))
    if len(odd):
        hint = "labels go from 1 to 10, which is the digit 0."
        raise InvalidData(f"y of {path} holds {labels[odd[0]]} at position {odd[0]}", hint=hint)
    return labels.astype(np.int64) % 10


# Files of a published collection: as they were unpacked, or inside their tar archive.


def unpacked(folders: Collection[Path], required: Collection[str]) -> Path | None:
    """The first folder that holds every required file, or None."""
    return next((folder for folder in folders if all((folder / name).is_file() for name in required)), None)


def read_archive(path: Path, required: Collection[str], optional: Collection[str]) -> dict[str, bytes]:
    """The contents of files in a compressed tar archive, by the last part of their path.

    They are read into memory, so that paths in the archive are harmless. Links and devices are ignored.
    """
    wanted = {*required, *optional}
    found: dict[str, bytes] = {}
    with reading(str(path)), tarfile.open(path, "r:gz") as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            content = archive.extractfile(member) if member.isfile() and name in wanted - found.keys() else None
            if content is not None:
                found[name] = content.read()
    missing = next((name for name in required if name not in found), None)
    if missing is not None:
        raise InvalidData(f"{path} holds no {missing}", hint="it is not the published archive, or only a part of it.")
    return found


SIDE = 32
N_PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one of the two collections."""

    name: str
    archive: PublishedFile
    folder: str
    """The folder in the archive."""
    train: tuple[str, ...]
    test: str
    n_label_bytes: int
    """The last one is used."""
    names_file: str
    classes: tuple[str, ...]
    """Used if the file of names is missing; empty if that file is required."""
    pickled: tuple[str, ...]
    """Archive and folder of the Python version."""

    @property
    def required(self) -> tuple[str, ...]:
        return (*self.train, self.test, *(() if self.classes else (self.names_file,)))


CIFAR10 = Layout(
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

CIFAR100 = Layout(
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
    layout: Layout, folder: Path, *, allow_download: bool = False, progress: DownloadProgress | None = None
) -> ImageSet:
    """Read CIFAR-10 or CIFAR-100 from a folder with the unpacked files or the archive.

    Parameters
    ----------
    layout : Layout
        `CIFAR10` or `CIFAR100`.
    folder : Path
        Contains the archive or the unpacked folder, or is the unpacked folder.
    allow_download : bool
        Download the archive if neither is there.
    progress : callable, optional
        Called during the download.
    """
    files, where = _find_files(layout, folder, allow_download, progress)
    classes = _class_names(files[layout.names_file]) if layout.names_file in files else layout.classes
    parts = [_records(files[name], f"{name} of {where}", layout.n_label_bytes, len(classes)) for name in layout.train]
    test_images, test_labels = _records(
        files[layout.test], f"{layout.test} of {where}", layout.n_label_bytes, len(classes)
    )
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return ImageSet(layout.name, images, labels, classes, test_images, test_labels)


def refuse_pickles(path: Path, layouts: Sequence[Layout] = (CIFAR10, CIFAR100)) -> None:
    """Raise if the path has the name of the Python version of a collection."""
    for layout in layouts:
        if path.name in layout.pickled:
            raise InvalidArgument(
                f"{path} is the Python version of {layout.name}, which is made of pickles, and dubito never unpickles",
                hint=f"get the binary version instead: {layout.archive.name} ({layout.archive.source}).",
            )


def _find_files(
    layout: Layout, folder: Path, allow_download: bool, progress: DownloadProgress | None
) -> tuple[dict[str, bytes], Path]:
    """The contents of the collection's files, and where they were found."""
    found_in = unpacked((folder / layout.folder, folder), layout.required)
    if found_in is not None:
        found = {}
        for name in (*layout.required, layout.names_file):
            if (found_in / name).is_file():
                with reading(str(found_in / name)):
                    found[name] = (found_in / name).read_bytes()
        return found, found_in
    archive = folder / layout.archive.name
    if allow_download:
        archive = download_file(layout.archive, folder, progress=progress)
    if not archive.exists():
        _refuse_missing(layout, folder)
    return read_archive(archive, layout.required, (layout.names_file,)), archive


def _refuse_missing(layout: Layout, folder: Path) -> NoReturn:
    for path in (folder, *(folder / name for name in layout.pickled)):
        if path.exists():
            refuse_pickles(path)
    if (folder / layout.folder).is_dir():
        inner = folder / layout.folder
        missing = next(name for name in layout.required if not (inner / name).is_file())
        raise MissingFile(f"{inner} holds no {missing}", hint=f"unpack all of {layout.archive.name} there.")
    raise MissingFile(
        f"{layout.name} is missing: {folder} holds neither {layout.archive.name} nor {layout.folder}/ "
        f"({layout.archive.source})",
        hint=HOW_TO_GET,
    )


def _records(data: bytes, where: str, n_label_bytes: int, n_classes: int) -> tuple[ImageArray, IntArray]:
    """Images (n, 32, 32, 3) and labels (n,) of one file."""
    length = n_label_bytes + N_PIXELS
    if not data or len(data) % length:
        problem = f"{where} has {len(data):,} bytes, which is not a multiple of the {length:,} of a record"
        raise InvalidData(problem, hint="it is truncated, or of another kind.")
    records = np.frombuffer(data, dtype=np.uint8).reshape(-1, length)
    labels = records[:, n_label_bytes - 1].astype(np.int64)
    odd = np.flatnonzero(labels >= n_classes)
    if len(odd):
        problem = f"{where} has the label {labels[odd[0]]} in record {odd[0]}, and there are {n_classes} classes"
        raise InvalidData(problem, hint="it is damaged or of another kind.")
    planes = records[:, n_label_bytes:].reshape(-1, 3, SIDE, SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels


def _class_names(data: bytes) -> tuple[str, ...]:
    return tuple(line.strip() for line in data.decode("utf-8", "replace").splitlines() if line.strip())


cifar10, cifar100, svhn = partial(read_cifar, CIFAR10), partial(read_cifar, CIFAR100), partial(read_svhn, SVHN)
"""Readers that `dubito.experiments.load_images` finds by these names."""
