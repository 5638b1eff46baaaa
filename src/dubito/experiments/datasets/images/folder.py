"""A folder of pictures, a folder for each class: ``train/CLASS/*.png`` and ``test/CLASS/*.png``, or ``CLASS/*.png``."""

import os
from pathlib import Path
from typing import NoReturn

import numpy as np

from dubito.errors import InvalidData, MissingFile
from dubito.experiments.datasets.images.pictures import SUFFIXES, Picture, Size, check_size, read_pictures
from dubito.experiments.datasets.images.record import ImageSet
from dubito.files.entries import natural_order, reading
from dubito.matrix import IntArray


def read_folder(path: Path, *, size: Size | None = None) -> ImageSet:
    """Read pictures whose folders are their classes.

    Classes go in natural order (2 before 10), and so do the pictures of each, those of inner folders too. Hidden files
    and folders and files that are no pictures by their suffix are left alone.

    Parameters
    ----------
    path : Path
        Holds ``train`` and ``test``, each with the folders of the classes; or those folders, and then there is no test
        set.
    size : tuple (height, width), optional
        Resize every picture to this; without it all must be of one size.
    """
    check_size(size)
    with reading(str(path)):
        inner = {name for name in ("train", "test") if (path / name).is_dir()}
        if len(inner) == 1:
            _refuse_half(path, *inner)
        train = _class_folders(path / "train" if inner else path)
        test = _class_folders(path / "test") if inner else {}
    unknown = next((folder for name, folder in test.items() if name not in train), None)
    if unknown is not None:
        raise InvalidData(
            f"{unknown} is a class that {path / 'train'} does not have", mend=f"the classes are {_list(train)}."
        )
    classes = tuple(train)
    pictures, labels = _gather(train, classes)
    test_pictures, test_labels = _gather(test, classes)
    pixels = read_pictures(pictures + test_pictures, size)
    n_train = len(pictures)
    return ImageSet(path.resolve().name, pixels[:n_train], labels, classes, pixels[n_train:], test_labels)


def _refuse_half(path: Path, there: str) -> NoReturn:
    other = "test" if there == "train" else "train"
    raise MissingFile(
        f"{path} has a folder {there} and none called {other}",
        mend=f"add it, or pass {path / there} to read that alone.",
    )


def _class_folders(path: Path) -> dict[str, Path]:
    """The folders of the classes by name, at least two."""
    names = [entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith((".", "_"))]
    if len(names) < 2:
        raise InvalidData(
            f"{path} holds {len(names) or 'no'} folder{'s' if not names else ''}",
            mend="it must hold one for each of at least two classes, with that class's pictures inside.",
        )
    return {name: path / name for name in sorted(names, key=natural_order)}


def _gather(folders: dict[str, Path], classes: tuple[str, ...]) -> tuple[list[Picture], IntArray]:
    pictures: list[Picture] = []
    labels: list[int] = []
    for name, folder in folders.items():
        found = _pictures_below(folder)
        pictures += found
        labels += [classes.index(name)] * len(found)
    return pictures, np.array(labels, dtype=np.int64)


def _pictures_below(folder: Path) -> list[Picture]:
    paths = [
        os.path.join(place, name)
        for place, _, names in os.walk(folder)
        for name in names
        if not name.startswith(".") and name.lower().endswith(SUFFIXES)
    ]
    if not paths:
        raise InvalidData(f"{folder} holds no pictures ({', '.join(SUFFIXES)})", mend="add some, or remove the folder.")
    return [Picture(path, Path(path)) for path in sorted(paths, key=natural_order)]


def _list(names: dict[str, Path]) -> str:
    shown = list(names)[:12]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
