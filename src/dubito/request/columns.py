"""The usual names of columns and arrays: ids, labels, what is labelled, and what is no feature by its name."""

import re
from collections.abc import Collection, Sequence

import numpy as np

from dubito.matrix import AnyArray

IDS = ("ids", "id")
LABELS = ("labels", "classes", "label", "class", "target", "targets", "y")
LABELLED = ("labelled", "labeled", "is_labelled", "is_labeled")
UNLABELLED = ("unlabelled", "unlabeled", "is_unlabelled", "is_unlabeled")
SPLITS = ("split", "fold", "subset", "partition")
"""Which part of the data a row belongs to: of no use here, and no feature."""
DOUBTS = ("probabilities", "logits", "doubt")
CANDIDATES = ("candidates",)

FIRST_COLUMN = re.compile(r"|Unnamed: 0(\.\d+)*")
"""How pandas writes an index that has no name into a CSV file, and how it reads such a file."""
INDEX_LEVEL = re.compile(r"__index_level_\d+__")
"""How pandas writes it into Parquet."""
ROW = "index"
"""How pandas calls an index made a column; and in dubito's own tables, the number of a row."""


def usual(names: Sequence[str], wanted: Collection[str]) -> str | None:
    """The first of the wanted names that is there, as it is written or in other letters.

    Examples
    --------
    >>> usual(["x", "ID"], IDS), usual(["x", "id", "ids"], IDS), usual(["x"], IDS)
    ('ID', 'ids', None)
    """
    exact = next((name for name in wanted if name in names), None)
    return exact or next((name for name in names if name.lower() in wanted), None)


def label_name(names: Sequence[str]) -> str | None:
    """The column of labels by its usual name; a ``y`` beside an ``x`` is a coordinate.

    Examples
    --------
    >>> label_name(["a", "y"]), label_name(["x", "y"]), label_name(["x", "y", "Target"])
    ('y', None, 'Target')
    """
    return usual([name for name in names if not is_coordinate(name, names)], LABELS)


def is_coordinate(name: str, names: Collection[str]) -> bool:
    """Whether a ``y`` stands beside an ``x``."""
    return name.lower() == "y" and chr(ord(name) - 1) in names


def no_features(names: Sequence[str]) -> list[str]:
    """The columns that are no features by their name: labels, what is labelled, doubt, splits.

    Examples
    --------
    >>> no_features(["a", "Label", "fold", "is_labeled", "y"]), no_features(["x", "y"])
    (['Label', 'fold', 'is_labeled', 'y'], [])
    """
    claimed = {*LABELS, *LABELLED, *UNLABELLED, *SPLITS, *DOUBTS, *CANDIDATES}
    return [name for name in names if name.lower() in claimed and not is_coordinate(name, names)]


def index_names(names: Sequence[str]) -> list[str]:
    """The columns in which pandas keeps an index, by their names.

    Examples
    --------
    >>> index_names(["", "a", "index"]), index_names(["a", "", "__index_level_0__"])
    (['', 'index'], ['__index_level_0__'])
    """
    first = [name for name in names[:1] if FIRST_COLUMN.fullmatch(name)]
    return first + [name for name in names if INDEX_LEVEL.fullmatch(name) or name.lower() == ROW]


def could_be_index(name: str, values: AnyArray) -> bool:
    """Whether a column of that name is an index: one called ``index`` may be a feature, such as that of refraction.

    Examples
    --------
    >>> could_be_index("index", np.array([5.0, 9.0])), could_be_index("index", np.array([1.31, 1.52]))
    (True, False)
    """
    if name.lower() != ROW:
        return True
    is_whole = values.dtype.kind not in "fb" or (values.dtype.kind == "f" and bool((values == np.round(values)).all()))
    return is_whole and len(np.unique(values.astype(np.str_))) == len(values)
