"""Which columns of a table are classes of a model, where they have the name of something else."""

from collections.abc import Sequence

import numpy as np

from dubito.files.entries import Source
from dubito.matrix import BoolArray, FloatArray
from dubito.names.columns import DOUBTS

MOST_ROWS = 10_000
"""What columns are judged on."""
SUM_TOLERANCE = 1e-3


def classes_among(source: Source, role: str, free: Sequence[str], doubtful: Sequence[str]) -> list[str]:
    """The doubtful columns, such as ``y``, that are classes by what they hold.

    For logits those with fractions, since whole numbers look like labels; for probabilities those with which the rows
    sum to 1, where they do not without them.
    """
    numbers = [name for name in doubtful if _holds_numbers(source, name)]
    if source.columns is None or not numbers or not all(_holds_numbers(source, name) for name in free):
        return []
    names = [*free, *numbers]
    sample = np.asarray(source.columns(names)[:MOST_ROWS], dtype=np.float64)
    values = dict(zip(names, sample.T, strict=True))
    fractions = [name for name in numbers if _has_fractions(values[name])]
    if role == "logits":
        return [name for name in fractions if name.lower() not in DOUBTS or not _is_share(values[name])]
    sets = [[], numbers, fractions, *([name] for name in numbers)]
    return next((more for more in sets if _sum_to_one([values[name] for name in [*free, *more]])), [])


def _holds_numbers(source: Source, name: str) -> bool:
    entry = source.entries[name]
    return entry.ndim == 1 and entry.content == "numbers"


def _has_fractions(values: FloatArray) -> bool:
    return bool((np.isfinite(values) & (values != np.round(values))).any())


def _is_share(values: FloatArray) -> bool:
    """Whether all are from 0 to 1, as doubt is."""
    known: BoolArray = np.isfinite(values)
    return bool(((values >= 0) & (values <= 1))[known].all())


def _sum_to_one(columns: Sequence[FloatArray]) -> bool:
    if len(columns) < 2:
        return False
    sums = np.sum(columns, axis=0)
    return bool((np.abs(sums[np.isfinite(sums)] - 1) <= SUM_TOLERANCE).all())
