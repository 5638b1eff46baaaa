"""A Parquet file with a column of pictures, as bytes or records that hold them, and one of labels (extra ``files``)."""

import os

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.experiments.datasets.images.pictures import Picture, Size, check_size, read_pictures
from dubito.experiments.datasets.images.record import ImageSet
from dubito.files import Source, open_source, read_array, split_spec
from dubito.files.formats.parquet import read_bytes
from dubito.matrix import AnyArray, IntArray

IMAGE_COLUMNS = ("image", "img")
"""The names tried, in this order."""


def read_table(spec: str, *, test: str | None = None, size: Size | None = None) -> ImageSet:
    """Read pictures and labels from a Parquet file.

    Parameters
    ----------
    spec : str
        ``path``, or ``path::column`` to name the column of labels, which is else ``label`` or one of its like. The
        pictures are in ``image`` or ``img``, or in the only column that could hold them.
    test : str, optional
        A second file with the test set; its labels are in the column of the same name.
    size : tuple (height, width), optional
        Resize every picture to this; without it all must be of one size.
    """
    check_size(size)
    path, key = split_spec(spec)
    pictures, names = _read(path, key)
    values, codes = np.unique(names, return_inverse=True)
    classes = tuple(str(value) for value in values.tolist())
    others: list[Picture] = []
    test_labels = np.empty(0, dtype=np.int64)
    if test is not None:
        test_path, test_key = split_spec(test)
        others, test_names = _read(test_path, test_key or key)
        test_labels = _codes(test_path, test_names, classes)
    pixels = read_pictures(pictures + others, size)
    name = os.path.splitext(os.path.basename(path))[0]
    n_train = len(pictures)
    return ImageSet(name, pixels[:n_train], codes.astype(np.int64), classes, pixels[n_train:], test_labels)


def _read(path: str, label_column: str | None) -> tuple[list[Picture], AnyArray]:
    source = open_source(path)
    if not path.lower().endswith(".parquet"):
        raise InvalidArgument(f"{path} is no Parquet file", mend="pictures are read from files that end in .parquet.")
    contents = read_bytes(path, _image_column(source))
    if not contents:
        raise InvalidData(f"{path} holds no rows.")
    try:
        names = read_array(path if label_column is None else f"{path}::{label_column}", "labels")
    except MissingFile:
        problem = f"{path} has no column of labels, or several that could be; it holds {source.listing()}"
        raise MissingFile(problem, mend=f"name one with {path}::NAME.") from None
    return [Picture(f"the picture in row {row} of {path}", content) for row, content in enumerate(contents)], names


def _image_column(source: Source) -> str:
    usual = [name for name in IMAGE_COLUMNS if name in source.names]
    fitting = usual or [name for name, entry in source.entries.items() if entry.content == "other"]
    if usual or len(fitting) == 1:
        return fitting[0]
    raise MissingFile(
        f"{source.path} has no column called {' or '.join(IMAGE_COLUMNS)}, and {len(fitting) or 'none'} that "
        "could hold pictures",
        mend=f"it holds {source.listing()}. Call the one with the pictures image.",
    )


def _codes(path: str, names: AnyArray, classes: tuple[str, ...]) -> IntArray:
    place = {name: code for code, name in enumerate(classes)}
    texts = [str(value) for value in names.tolist()]
    unknown = next((text for text in texts if text not in place), None)
    if unknown is not None:
        raise InvalidData(f"{path} holds the class {unknown!r}, which the file to learn from never shows.")
    return np.array([place[text] for text in texts], dtype=np.int64)
