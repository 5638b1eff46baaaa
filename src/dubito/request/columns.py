"""Conventional names of columns and arrays, such as ids, labels and masks."""

import re
from collections.abc import Collection, Sequence

import numpy as np

from dubito.errors import InvalidArgument, named
from dubito.matrix import AnyArray

IDS = ("ids", "id")
LABELS = ("labels", "classes", "label", "class", "target", "targets", "y")
LABELED = ("labeled", "labelled", "is_labeled", "is_labelled")
UNLABELED = ("unlabeled", "unlabelled", "is_unlabeled", "is_unlabelled")
DRAWN = ("drawn",)
"""Which labeled rows were drawn at random; only in files of labels."""
SPLITS = ("split", "fold", "subset", "partition")
"""Data splits, which are neither used nor features."""
DOUBTS = ("probabilities", "logits", "doubt")
CANDIDATES = ("candidates",)

FIRST_COLUMN = re.compile(r"|Unnamed: 0(\.\d+)*")
"""An unnamed index in a CSV file as pandas writes it, and as pandas reads it back."""
INDEX_LEVEL = re.compile(r"__index_level_\d+__")
"""An unnamed index in a Parquet file written by pandas."""
ROW = "index"
"""The name that pandas gives to an index turned into a column; in dubito's own tables, the row number."""


def refuse_two_sources(given: Collection[str]) -> None:
    """Raise if more than one of the arguments in `DOUBTS` is given."""
    if len(given) > 1:
        names = " and ".join(map(named, given))
        raise InvalidArgument(f"{names} are two sources of doubt", hint="pass only one of them.")


def find_name(names: Sequence[str], wanted: Collection[str]) -> str | None:
    """The first of the wanted names that occurs in ``names``; exact matches first, then case-insensitive ones.

    Examples
    --------
    >>> find_name(["x", "ID"], IDS), find_name(["x", "id", "ids"], IDS), find_name(["x"], IDS)
    ('ID', 'ids', None)
    """
    exact = next((name for name in wanted if name in names), None)
    return exact or next((name for name in names if name.lower() in wanted), None)


def label_name(names: Sequence[str]) -> str | None:
    """The column of labels, by its conventional name; a ``y`` is a coordinate if there is an ``x``.

    Examples
    --------
    >>> label_name(["a", "y"]), label_name(["x", "y"]), label_name(["x", "y", "Target"])
    ('y', None, 'Target')
    """
    return find_name([name for name in names if not is_coordinate(name, names)], LABELS)


def is_coordinate(name: str, names: Collection[str]) -> bool:
    return name.lower() == "y" and chr(ord(name) - 1) in names


def non_features(names: Sequence[str]) -> list[str]:
    """The columns that are not features, by name: labels, masks, doubt, splits.

    Examples
    --------
    >>> non_features(["a", "Label", "fold", "is_labeled", "y"]), non_features(["x", "y"])
    (['Label', 'fold', 'is_labeled', 'y'], [])
    """
    claimed = {*LABELS, *LABELED, *UNLABELED, *SPLITS, *DOUBTS, *CANDIDATES}
    return [name for name in names if name.lower() in claimed and not is_coordinate(name, names)]


def index_names(names: Sequence[str]) -> list[str]:
    """The columns that hold a pandas index, by name.

    Examples
    --------
    >>> index_names(["", "a", "index"]), index_names(["a", "", "__index_level_0__"])
    (['', 'index'], ['__index_level_0__'])
    """
    first = [name for name in names[:1] if FIRST_COLUMN.fullmatch(name)]
    return first + [name for name in names if INDEX_LEVEL.fullmatch(name) or name.lower() == ROW]


def could_be_index(name: str, values: AnyArray) -> bool:
    """Whether a column of that name holds an index; ``index`` may also be a feature, such as a refractive index.

    Examples
    --------
    >>> could_be_index("index", np.array([5.0, 9.0])), could_be_index("index", np.array([1.31, 1.52]))
    (True, False)
    """
    if name.lower() != ROW:
        return True
    is_whole = values.dtype.kind not in "fb" or (values.dtype.kind == "f" and bool((values == np.round(values)).all()))
    return is_whole and len(np.unique(values.astype(np.str_))) == len(values)
