"""What a person should know of an experiment's features before it runs: which they are, and how they are scaled."""

from collections.abc import Iterator

import numpy as np

from dubito.cli.inputs.scaling import When, told_scale
from dubito.cli.inputs.suspects import told_features
from dubito.cli.printing.messages import say
from dubito.experiments.cells.sources import DataSource
from dubito.experiments.plans.experiment import Data
from dubito.matrix import AnyArray

UNEQUAL = 100.0
"""Spreads of columns that differ by more than this are told: distances would see the widest columns alone."""
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
            yield from told_features(pool, settings.columns)
        advice = told_scale(when, pool.feature_names, features)
        yield from [] if advice is None else [advice]
    if not settings.standardise and are_unequal(features):
        yield (
            f"the widest feature has over {UNEQUAL:.0f} times the spread of a quarter of the others; "
            "if their units differ pass --standardise yes (standardise = true in [data])"
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
