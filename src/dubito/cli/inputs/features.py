"""What a person should know of an experiment's features before it runs: which they are, and how they are scaled."""

from collections.abc import Iterator

import numpy as np

from dubito.cli.inputs.scaling import When, told_scale
from dubito.cli.inputs.suspects import told_features
from dubito.cli.printing.messages import say
from dubito.experiments.datasets.dataset import Dataset
from dubito.experiments.plans.experiment import Data
from dubito.files import open_source, read_pool, split_spec
from dubito.files.gaps import keeping_gaps
from dubito.matrix import AnyArray

UNEQUAL = 100.0
"""Spreads of columns that differ by more than this are told: distances would see the widest columns alone."""
SAMPLED_ROWS = 10_000


def tell(settings: Data, data: Dataset | None = None, when: When = "no", *, quiet: bool) -> None:
    """Say on stderr which columns are features, which looks like an id, that scales differ or were made equal."""
    for note in () if quiet else notes(settings, data, when):
        say(note, quiet=quiet)


def notes(settings: Data, data: Dataset | None = None, when: When = "no") -> Iterator[str]:
    """The sentences; of data that is not at hand yet, only of a table, which is read for them."""
    features = None if data is None else data.features
    if settings.path is not None and open_source(split_spec(settings.path)[0]).is_table:
        with keeping_gaps():  # Whoever reads it in earnest counts them.
            pool = read_pool(settings.path, columns=settings.columns)
        if pool.feature_names:
            yield from told_features(pool, settings.columns)
        features = np.asarray(pool.features[:SAMPLED_ROWS])
        told = told_scale(when, pool.feature_names, pool.features if data is None else data.features)
        yield from [] if told is None else [told]
    if features is not None and not settings.standardise and are_unequal(features):
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
