"""Features on the pool's own scale, where that is asked for; a word where it is not and few columns decide."""

import warnings
from typing import NamedTuple

import numpy as np

from dubito.checks.frames import feature_names
from dubito.checks.rows import check_finite
from dubito.checks.which import Labelled
from dubito.errors import InvalidArgument, ScaleWarning
from dubito.matrix import Matrix, Rows
from dubito.scales import Scale, largest_scaled, measure_scale, on_scale, told_dominant

NEARLY_ALL = 0.99
"""Columns of a frame that make so much of the distances are worth a warning."""


class Standardised(NamedTuple):
    """A pool and what is labelled, on the pool's scale."""

    pool: Matrix
    labelled: Labelled
    largest: float
    """Of the pool."""
    scale: Scale


def standardise_points(pool: Matrix, labelled: Labelled) -> Standardised:
    """Both with the pool's means taken away and divided by its standard deviations; nothing is copied."""
    scale = measure_scale(pool)
    scaled = on_scale(pool, scale)
    references = labelled.references
    if isinstance(references, Rows) and references.matrix is pool:
        seen = labelled._replace(references=Rows(scaled, references.rows))
    else:
        other = on_scale(references, scale)
        seen = labelled._replace(references=other, largest=check_finite("labelled", other))
    return Standardised(scaled, seen, largest_scaled(pool, scale), scale)


def check_standardise(standardise: object) -> bool | None:
    """True, False, or None where nothing was said."""
    if standardise is not None and not isinstance(standardise, bool | np.bool_):
        raise InvalidArgument("is not allowed", argument="standardise", value=standardise, mend="pass True or False.")
    return None if standardise is None else bool(standardise)


def warn_of_scales(pool: object, matrix: Matrix, stacklevel: int) -> None:
    """A warning where the features are a frame's named columns and very few of them make nearly all of a distance."""
    names = feature_names(pool)
    if len(names) != matrix.shape[1] or len(names) < 2:
        return
    dominant = told_dominant(measure_scale(matrix), names, NEARLY_ALL, most=max(1, len(names) // 4))
    if dominant:
        warnings.warn(
            f"{dominant} between rows of pool; pass standardise=True to give every column the same weight, or "
            "standardise=False to keep them as they are.",
            ScaleWarning,
            stacklevel=stacklevel + 1,
        )
