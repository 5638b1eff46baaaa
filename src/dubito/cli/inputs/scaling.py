"""Whether features are standardised: columns of a table have units of their own, an embedding's do not."""

from typing import Literal, get_args

import numpy as np

from dubito.checks import check_choice
from dubito.files import Columns, open_source, split_spec
from dubito.files.choosing import choose
from dubito.matrix import Matrix, len_of
from dubito.scales import measure_scale, told_dominant

When = Literal["auto", "yes", "no"]


def read_when(text: str) -> When:
    """``auto``, ``yes`` or ``no``."""
    known: When = check_choice("standardise", text, get_args(When))
    return known


def is_wanted(when: When, feature_names: tuple[str, ...]) -> bool:
    """Whether to standardise: as asked, or for columns that stand side by side in a table.

    A single array and a column of lists are embeddings: their numbers share a unit, and their scale is the model's.
    """
    return when == "yes" or (when == "auto" and len(feature_names) > 1)


def columns_of(spec: str, columns: Columns) -> tuple[str, ...]:
    """The columns of a table that stand side by side as features; none for a single array. Only headers are read."""
    path, key = split_spec(spec)
    source = open_source(path).without(columns.ignore)
    chosen = choose(source, "features", key, columns)
    return tuple(chosen) if source.is_table and source.entry(chosen[0]).ndim == 1 else ()


def told_scale(when: When, feature_names: tuple[str, ...], features: Matrix) -> str | None:
    """The note for who did not ask: that columns are standardised, and what would have dominated."""
    if when != "auto" or not is_wanted(when, feature_names) or not len_of(features):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        scale = measure_scale(features)
    if not (np.isfinite(scale.mean).all() and np.isfinite(scale.share).all()):
        return None  # What is missing, infinite or too large is refused in a moment, in words of its own.
    because = told_dominant(scale, feature_names)
    mend = "--standardise no takes them as they are"
    if because:
        return f"columns are standardised (as they are, {because}); {mend}"
    return f"columns are standardised (mean 0 and standard deviation 1 each); {mend}"
