"""Images with their classes: folders of pictures, Parquet files, and published collections by name.

Packages register collections in the entry-point group ``dubito.images``: `dubito.paper.images` has CIFAR-10, CIFAR-100
and SVHN. Nothing is ever unpickled.
"""

import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dubito.errors import PASS, DubitoError, InvalidArgument, InvalidData, MissingFile, by_interface, named
from dubito.experiments.data import Dataset
from dubito.io import Source, open_source, read_array, split_spec
from dubito.io.durable import NotRegularFile, open_regular
from dubito.io.formats.parquet import read_bytes
from dubito.io.limits import PICTURE_FORMATS, MemoryBudget, memory_budget
from dubito.io.opening import PICTURE_SUFFIXES
from dubito.io.source import did_you_mean, natural_order, reading
from dubito.matrix import AnyArray, IntArray
from dubito.registry import Registry

ImageArray = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class ImageSet:
    """Images in 8-bit color and the class of each, with or without a test set.

    Examples
    --------
    >>> gray = np.full((4, 2, 2, 3), 128, dtype=np.uint8)
    >>> flags = ImageSet("flags", gray, np.array([0, 1, 0, 1]), ("red", "blue"), gray[:0], np.array([], dtype=np.int64))
    >>> flags.size, flags.has_test
    ((2, 2), False)
    """

    name: str
    images: ImageArray
    """(n, h, w, 3), red, green and blue last."""
    labels: IntArray
    """(n,) class codes: indices into `classes`."""
    classes: tuple[str, ...]
    test_images: ImageArray
    """(t, h, w, 3); t = 0 if there is no test set."""
    test_labels: IntArray
    """(t,)"""

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise InvalidData(f"{self.name} has only one class ({self.classes[:1]})", hint="add another class.")
        if not len(self.images):
            raise InvalidData(f"{self.name} has no images.")
        _check_part(self, f"the images of {self.name}", self.images, self.labels)
        _check_part(self, f"the test images of {self.name}", self.test_images, self.test_labels)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of every image."""
        return self.images.shape[1], self.images.shape[2]

    @property
    def has_test(self) -> bool:
        """Whether there is a test set."""
        return len(self.test_labels) > 0

    def as_dataset(self) -> Dataset:
        """The same arrays, not copied, as a data set for experiments."""
        return Dataset(self.name, self.images, self.labels, self.classes, self.test_images, self.test_labels)


def _check_part(images: ImageSet, what: str, pixels: ImageArray, labels: IntArray) -> None:
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (*images.size, 3):
        hint = "pass (n, height, width, 3) uint8, with the same size in the test set."
        raise InvalidData(f"{what} have shape {pixels.shape} and type {pixels.dtype}", hint=hint)
    if labels.shape != (len(pixels),):
        problem = f"{what} are {len(pixels)}, and their labels have shape {labels.shape}"
        raise InvalidData(problem, hint="pass one label per image.")
    n_classes = len(images.classes)
    invalid = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(invalid):
        raise InvalidData(
            f"{what} have the label {labels[invalid[0]]} at number {invalid[0]}, and there are {n_classes} classes",
            hint=f"labels go from 0 to {n_classes - 1}.",
        )


# Decoding of pictures to arrays of one size, with Pillow.

SUFFIXES = PICTURE_SUFFIXES
"""Files of a folder that count as pictures."""

BATCH = 1024
"""Maximum number of decoded pictures waiting to be copied to the array."""

Size = tuple[int, int]
"""Height and width."""


class Picture(NamedTuple):
    """A picture that has not been decoded."""

    name: str
    """The name in messages."""
    content: Path | bytes


SIZE_OPTION = by_interface("size=(height, width)", toml="size = [height, width]")


def read_pictures(pictures: Sequence[Picture], size: Size | None = None) -> ImageArray:
    """Decode one or more pictures into an array (n, h, w, 3), resized to ``size``; by default all must have one size.

    Gray becomes RGB, transparency is dropped, and pictures are rotated as their EXIF data says.
    """
    check_size(size)
    allowed = memory_budget()
    decode = partial(_decode, size=size, allowed=allowed)
    first = decode(pictures[0])
    allowed.reserve(f"the array of {len(pictures):,} pictures", "", len(pictures) * first.nbytes)
    pixels = np.empty((len(pictures), *first.shape), dtype=np.uint8)
    pixels[0] = first
    with ThreadPoolExecutor() as threads:
        for start in range(1, len(pictures), BATCH):
            batch = pictures[start : start + BATCH]
            for row, (picture, image) in enumerate(zip(batch, threads.map(decode, batch), strict=True), start):
                if image.shape != first.shape:
                    raise InvalidData(
                        f"{picture.name} is {image.shape[0]} pixels high and {image.shape[1]} wide, and "
                        f"{pictures[0].name} {first.shape[0]} and {first.shape[1]}",
                        hint=f"all must have the same size, or {PASS} {SIZE_OPTION} to resize them.",
                    )
                pixels[row] = image
    return pixels


def check_size(size: object) -> None:
    """Raise if this is neither None nor a height and width."""
    if size is None:
        return
    if not isinstance(size, tuple) or len(size) != 2 or not all(type(side) is int and side > 0 for side in size):
        hint = f"{PASS} two integers, height and width, such as 32 and 32."
        raise InvalidArgument("is not a height and width in pixels", argument="size", value=size, hint=hint)


def _decode(picture: Picture, size: Size | None, allowed: MemoryBudget) -> ImageArray:
    from PIL import Image, ImageOps, UnidentifiedImageError

    content = picture.content
    try:
        with (
            io.BytesIO(content) if isinstance(content, bytes) else open_regular(content) as file,
            Image.open(file, formats=PICTURE_FORMATS) as opened,
        ):
            allowed.check_unpacking(picture.name, 4 * opened.width * opened.height)
            if opened.mode.startswith(("I", "F")):
                raise InvalidData(f"{picture.name} has more than 8 bits per channel", hint="save it with 8.")
            upright = ImageOps.exif_transpose(opened)
            # Via RGBA, as Pillow warns about converting a palette with transparency to RGB directly.
            rgb = upright.convert("RGBA").convert("RGB") if upright.mode in ("P", "PA") else upright.convert("RGB")
            return np.asarray(rgb if size is None else rgb.resize(size[::-1], Image.Resampling.BILINEAR))
    except DubitoError:
        raise
    except NotRegularFile as error:
        raise InvalidData(f"{picture.name} {error}", hint="remove it, or put a picture in its place.") from error
    except UnidentifiedImageError as error:
        raise InvalidData(f"{picture.name} is not a picture of a known format", hint="fix or remove it.") from error
    except Exception as error:
        # Deliberately broad: for a damaged picture, the decoders raise many unrelated types of exceptions.
        detail = " ".join(str(error).split()) or type(error).__name__
        raise InvalidData(f"{picture.name} cannot be read as a picture ({detail})", hint="fix or remove it.") from error


# Folders of pictures with one folder per class: ``train/CLASS/*.png`` and ``test/CLASS/*.png``, or ``CLASS/*.png``.


def read_folder(path: Path, *, size: Size | None = None) -> ImageSet:
    """Read pictures from one folder per class, or from ``train`` and ``test`` with one folder per class each.

    Classes, and the pictures of a class including subfolders, are in natural order (2 before 10). Hidden files and
    folders, and files without the suffix of a picture, are ignored.
    """
    check_size(size)
    with reading(str(path)):
        parts = [name for name in ("train", "test") if (path / name).is_dir()]
        if len(parts) == 1:
            missing = "test" if parts == ["train"] else "train"
            hint = f"add it, or pass {path / parts[0]} to read that alone."
            raise MissingFile(f"{path} has a folder {parts[0]} and none called {missing}", hint=hint)
        train = _class_folders(path / "train" if parts else path)
        test = _class_folders(path / "test") if parts else {}
    unknown = next((folder for name, folder in test.items() if name not in train), None)
    if unknown is not None:
        shown = list(train)[:12]
        more = f" and {len(train) - len(shown)} more" if len(train) > len(shown) else ""
        hint = f"the classes are {', '.join(shown)}{more}."
        raise InvalidData(f"{unknown} is a class that {path / 'train'} does not have", hint=hint)
    classes = tuple(train)
    pictures, labels = _list_pictures(train, classes)
    test_pictures, test_labels = _list_pictures(test, classes)
    pixels = read_pictures(pictures + test_pictures, size)
    n_train = len(pictures)
    return ImageSet(path.resolve().name, pixels[:n_train], labels, classes, pixels[n_train:], test_labels)


def _class_folders(path: Path) -> dict[str, Path]:
    """The folders of the classes by name, at least two."""
    names = [entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith((".", "_"))]
    if len(names) < 2:
        hint = "it must have one folder of pictures for each of at least two classes."
        raise InvalidData(f"{path} holds {len(names) or 'no'} folder{'s' if not names else ''}", hint=hint)
    return {name: path / name for name in sorted(names, key=natural_order)}


def _list_pictures(folders: dict[str, Path], classes: tuple[str, ...]) -> tuple[list[Picture], IntArray]:
    """The pictures in the folders of the classes and below, and their class codes."""
    pictures: list[Picture] = []
    labels: list[int] = []
    for class_name, folder in folders.items():
        paths = [
            os.path.join(parent, name)
            for parent, _, names in os.walk(folder)
            for name in names
            if not name.startswith(".") and name.lower().endswith(SUFFIXES)
        ]
        if not paths:
            hint = "add some, or remove the folder."
            raise InvalidData(f"{folder} has no pictures ({', '.join(SUFFIXES)})", hint=hint)
        pictures += [Picture(path, Path(path)) for path in sorted(paths, key=natural_order)]
        labels += [classes.index(class_name)] * len(paths)
    return pictures, np.array(labels, dtype=np.int64)


# Parquet files with a column of pictures (bytes, or records with bytes) and a column of labels (extra ``files``).

IMAGE_COLUMNS = ("image", "img")
"""Column names of pictures, in order of preference."""


def read_table(spec: str, *, test: str | None = None, size: Size | None = None) -> ImageSet:
    """Read pictures and labels from a Parquet file, and optionally a test set from a second one.

    ``path::column`` names the column of labels, by default ``label`` or a similar name. The pictures are in ``image``
    or ``img``, or in the only column that could contain them.
    """
    check_size(size)
    path, label_column = split_spec(spec)
    pictures, names = _read_columns(path, label_column)
    values, codes = np.unique(names, return_inverse=True)
    classes = tuple(str(value) for value in values.tolist())
    test_pictures: list[Picture] = []
    test_labels = np.empty(0, dtype=np.int64)
    if test is not None:
        test_path, test_label_column = split_spec(test)
        test_pictures, test_names = _read_columns(test_path, test_label_column or label_column)
        code_of = {name: code for code, name in enumerate(classes)}
        texts = [str(value) for value in test_names.tolist()]
        unknown = next((text for text in texts if text not in code_of), None)
        if unknown is not None:
            raise InvalidData(f"{test_path} has the class {unknown!r}, which the training file does not have.")
        test_labels = np.array([code_of[text] for text in texts], dtype=np.int64)
    pixels = read_pictures(pictures + test_pictures, size)
    name = os.path.splitext(os.path.basename(path))[0]
    n_train = len(pictures)
    return ImageSet(name, pixels[:n_train], codes.astype(np.int64), classes, pixels[n_train:], test_labels)


def _read_columns(path: str, label_column: str | None) -> tuple[list[Picture], AnyArray]:
    """The pictures and labels of a Parquet file."""
    source = open_source(path)
    if not path.lower().endswith(".parquet"):
        raise InvalidArgument(f"{path} is not a Parquet file", hint="pass a file that ends in .parquet.")
    contents = read_bytes(path, _image_column(source))
    if not contents:
        raise InvalidData(f"{path} holds no rows.")
    try:
        names = read_array(path if label_column is None else f"{path}::{label_column}", "labels")
    except MissingFile:
        problem = f"{path} has no column of labels, or several that could be; it holds {source.listing()}"
        raise MissingFile(problem, hint=f"name one with {path}::NAME.") from None
    return [Picture(f"the picture in row {row} of {path}", content) for row, content in enumerate(contents)], names


def _image_column(source: Source) -> str:
    named_image = [name for name in IMAGE_COLUMNS if name in source.names]
    columns = named_image or [name for name, entry in source.entries.items() if entry.content == "other"]
    if named_image or len(columns) == 1:
        return columns[0]
    raise MissingFile(
        f"{source.path} has no column called {' or '.join(IMAGE_COLUMNS)}, and {len(columns) or 'none'} that "
        "could hold pictures",
        hint=f"it holds {source.listing()}. Rename the column of pictures to image.",
    )


# The folder of published collections.

DATA_VARIABLE = "DUBITO_DATA"
"""Environment variable: the folder of published files."""


def default_folder() -> Path:
    """The default folder of published collections: ``DUBITO_DATA``, else ``dubito`` in the user's cache."""
    if folder := os.environ.get(DATA_VARIABLE):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "dubito")


def data_folder(data_dir: str | os.PathLike[str] | None, download: bool) -> Path:
    """The folder of published files, or the default one. Raises if it does not exist and ``download`` is false."""
    if data_dir is None:
        return default_folder()
    folder = Path(data_dir).expanduser()
    if folder.exists() and not folder.is_dir():
        hint = "pass the folder that holds it."
        raise InvalidArgument("is a file", argument="data_dir", value=str(folder), hint=hint)
    if not folder.exists() and not download:
        raise MissingFile("does not exist", argument="data_dir", value=str(folder), hint="check the path.")
    return folder


class DownloadProgress(Protocol):
    """Called during a download."""

    def __call__(self, name: str, done: int, total: int, /) -> None:
        """Receive the name of the file, the bytes downloaded so far, and the total."""


# Images by name or path.


class ImageReader(Protocol):
    """Reads a published collection; registered in the entry-point group ``dubito.images``."""

    def __call__(
        self, folder: Path, /, *, allow_download: bool = ..., progress: DownloadProgress | None = ...
    ) -> ImageSet:
        """Read it from a folder, into which missing files may be downloaded."""


BUILT_IN: dict[str, ImageReader] = {}
COLLECTIONS = Registry("dubito.images", BUILT_IN)
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
        ``cifar10``, ``cifar100``, ``svhn`` or another published collection; a folder with one folder of pictures per
        class, or with ``train`` and ``test`` of this kind; or a ``.parquet`` file with columns ``image`` and ``label``.
    data_dir : str or path, optional
        The folder with the files of a published collection, as an archive or unpacked. Default: `default_folder`.
    download : bool
        Download missing files of a published collection from their official address. An interrupted download is
        resumed, and its checksum is verified; files that already exist are not checked.
    test : str, optional
        A second Parquet file, with the test set.
    size : tuple (height, width), optional
        Resize the pictures of a folder or a Parquet file. By default, all must have the same size.
    progress : callable, optional
        Called during a download with the name of the file, the bytes so far, and the total.

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
    """Implementation of `load_images`; ``argument`` is the argument that error messages name."""
    path, is_published = Path(split_spec(name)[0]), name in COLLECTIONS.names()
    not_applicable = {
        "data_dir": (data_dir is not None and not is_published, "for published collections"),
        "download": (download and not is_published, "for published collections"),
        "size": (size is not None and is_published, "for pictures in a folder or a Parquet file"),
        "test": (test is not None and not is_table(name), "for Parquet files"),
    }
    for option, (is_given, purpose) in not_applicable.items():
        if is_given:
            raise InvalidArgument(
                f"is {purpose}, not for {named(argument, name)}", argument=option, hint="leave it out."
            )
    if is_published:
        read = COLLECTIONS.find(argument, name)
        return read(data_folder(data_dir, download), allow_download=download, progress=progress)
    if is_table(name):
        return read_table(name, test=test, size=size)
    if path.is_dir():
        return read_folder(path, size=size)
    if path.exists():
        problem = "is neither a folder nor a .parquet file"
        raise InvalidArgument(problem, argument=argument, value=name, hint="pass one of these.")
    problem = f"is neither a path nor a published collection ({', '.join(COLLECTIONS.names())})"
    hint = did_you_mean(name, COLLECTIONS.names()).strip() or "check the path."
    raise MissingFile(problem, argument=argument, value=name, hint=hint)


def is_table(source: str) -> bool:
    """Whether this is the path of a Parquet file, with or without a column.

    Examples
    --------
    >>> is_table("birds.parquet::species"), is_table("birds")
    (True, False)
    """
    return split_spec(source)[0].lower().endswith(".parquet")
