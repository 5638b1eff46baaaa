"""SVHN, cropped digits: ``train_32x32.mat`` and ``test_32x32.mat``, in which the label 10 stands for the digit 0."""

from pathlib import Path

import numpy as np

from dubito.errors import InvalidData, MissingFile
from dubito.experiments.datasets.images.record import ImageArray, ImageSet
from dubito.experiments.published.downloads import BOTH_MENDS, DownloadProgress, PublishedFile, download
from dubito.files.entries import reading
from dubito.matrix import AnyArray, IntArray

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
"""For training and for testing."""

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
        Holds them.
    allow_download : bool
        Bring those that are not there.
    progress : callable, optional
        Told of the downloads.
    """
    if allow_download:
        for file in files:
            download(file, folder, progress=progress)
    for file in files:
        if not (folder / file.name).exists():
            problem = f"svhn is missing: {folder} holds no {file.name} ({file.source})"
            raise MissingFile(problem, mend=BOTH_MENDS)
    (images, labels), (test_images, test_labels) = (_read_mat(folder / file.name) for file in files)
    return ImageSet("svhn", images, labels, DIGITS, test_images, test_labels)


def _read_mat(path: Path) -> tuple[ImageArray, IntArray]:
    from scipy.io import loadmat

    with reading(str(path)):
        held: dict[str, AnyArray] = loadmat(str(path), variable_names=("X", "y"))
    for name in ("X", "y"):
        if name not in held:
            raise InvalidData(f"{path} holds no array {name}", mend="it is not one of SVHN's files of cropped digits.")
    # MATLAB drops a last dimension of 1: one image alone is 32x32x3.
    images = held["X"][..., None] if held["X"].ndim == 3 else held["X"]
    if images.shape[:3] != IMAGE or images.ndim != 4 or images.dtype != np.uint8:
        raise InvalidData(
            f"X of {path} has shape {held['X'].shape} and type {images.dtype}",
            mend="cropped digits are 32x32x3xN uint8.",
        )
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2)), _digits(path, held["y"].ravel(), images.shape[3])


def _digits(path: Path, labels: AnyArray, n_images: int) -> IntArray:
    if len(labels) != n_images:
        raise InvalidData(
            f"y of {path} has {len(labels)} labels for {n_images} images", mend="there must be one for each."
        )
    odd = np.flatnonzero(~np.isin(labels, range(1, 11)))
    if len(odd):
        raise InvalidData(
            f"y of {path} holds {labels[odd[0]]} at place {odd[0]}",
            mend="labels go from 1 to 10, which is the digit 0.",
        )
    return labels.astype(np.int64) % 10
