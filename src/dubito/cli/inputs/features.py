"""What a person should know of an experiment's features before it runs: which they are, and how they are scaled."""

from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np

from dubito.cli.inputs.suspects import describe_features
from dubito.cli.output import say
from dubito.experiments.data_sources import DataSource
from dubito.experiments.plan import Data
from dubito.io import Columns, open_source, split_spec
from dubito.io.lookup import choose
from dubito.io.source import gather
from dubito.matrix import AnyArray, Matrix, len_of
from dubito.request.arrays import check_choice
from dubito.request.scaling import describe_dominant, measure_scale

# Whether features are standardized: columns of a table have units of their own, an embedding's do not.

When = Literal["auto", "yes", "no"]


def read_when(text: str) -> When:
    """``auto``, ``yes`` or ``no``."""
    known: When = check_choice("standardize", text, get_args(When))
    return known


def is_wanted(when: When, feature_names: tuple[str, ...]) -> bool:
    """Whether to standardize: as asked, or for columns that stand side by side in a table.

    A single array and a column of lists are embeddings: their numbers share a unit, and their scale is the model's.
    """
    return when == "yes" or (when == "auto" and len(feature_names) > 1)


def columns_of(spec: str, columns: Columns) -> tuple[str, ...]:
    """The columns of a table that stand side by side as features; none for a single array. Only headers are read."""
    path, key = split_spec(spec)
    source = open_source(path).without(columns.ignore)
    chosen = choose(source, "features", key, columns)
    return tuple(chosen) if source.is_table and source.entry(chosen[0]).ndim == 1 else ()


def with_scale(when: When, feature_names: tuple[str, ...], features: Matrix) -> bool:
    """Whether to standardize; a note says so if the user did not ask for it."""
    advice = describe_scale(when, feature_names, features)
    gather([] if advice is None else [advice])
    return is_wanted(when, feature_names)


def describe_scale(when: When, feature_names: tuple[str, ...], features: Matrix) -> str | None:
    """The note for who did not ask: that columns are standardized, and what would have dominated."""
    if when != "auto" or not is_wanted(when, feature_names) or not len_of(features):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        scale = measure_scale(features)
    if not (np.isfinite(scale.mean).all() and np.isfinite(scale.share).all()):
        return None  # What is missing, infinite or too large is refused in a moment, in words of its own.
    because = describe_dominant(scale, feature_names)
    hint = "--standardize no takes them as they are"
    if because:
        return f"columns are standardized (as they are, {because}); {hint}"
    return f"columns are standardized (mean 0 and standard deviation 1 each); {hint}"


UNEQUAL = 100.0
"""Spreads of columns that differ by more than this are reported: distances would see the widest columns alone."""
SAMPLED_ROWS = 10_000


def tell(settings: Data, source: DataSource, when: When = "no", *, quiet: bool) -> None:
    """Say on stderr which columns are features, which looks like an id, that scales differ or were made equal."""
    for note in () if quiet else notes(settings, source, when):
        say(note, quiet=quiet)


def notes(settings: Data, source: DataSource, when: When = "no") -> Iterator[str]:
    """The sentences about a file, which is read now if it was not yet."""
    if source.file is None:
        return
    pool, features = source.file.pool, source.file.dataset.features
    if pool.source.is_table:
        if pool.feature_names:
            yield from describe_features(pool, settings.columns)
        advice = describe_scale(when, pool.feature_names, features)
        yield from [] if advice is None else [advice]
    if not settings.standardize and are_unequal(features):
        yield (
            f"the widest feature has over {UNEQUAL:.0f} times the spread of a quarter of the others; "
            "if their units differ pass --standardize yes (standardize = true in [data])"
        )


def are_unequal(features: AnyArray) -> bool:
    """Whether the widest column hides a quarter of the others; constant ones and all but the first rows aside.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = rng.normal(size=(50, 3))
    >>> are_unequal(table), are_unequal(table * [1.0, 1.0, 1000.0])
    (False, True)
    """
    if features.ndim != 2:
        return False
    spreads = np.asarray(features[:SAMPLED_ROWS], dtype=np.float64).std(axis=0)
    spreads = spreads[spreads > 0]
    return bool(len(spreads) and spreads.max() > UNEQUAL * np.quantile(spreads, 0.25, method="lower"))
