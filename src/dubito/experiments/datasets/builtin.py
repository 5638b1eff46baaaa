"""Data that needs no file, by the name that ``builtin =`` calls it.

A data set is a function of a seed that gives a `Dataset`: the same one always, or one that is drawn anew for each seed.
Other packages offer theirs by the entry-point group ``dubito.datasets``.
"""

from collections.abc import Callable

from dubito.experiments.datasets.dataset import Dataset
from dubito.experiments.datasets.digits import digits
from dubito.experiments.datasets.toys import clusters, overlapping, quadrants, separate, signed_line
from dubito.registry import Registry

DatasetMaker = Callable[[int], Dataset]

BUILT_IN: dict[str, DatasetMaker] = {
    "digits": digits,
    "quadrants": quadrants,
    "clusters": clusters,
    "clusters-apart": separate,
    "clusters-many": overlapping,
    "signed-line": signed_line,
}
DATASETS = Registry("dubito.datasets", BUILT_IN)


def builtin_dataset(name: str, seed: int) -> Dataset:
    """The data set of that name for a seed.

    Examples
    --------
    >>> builtin_dataset("digits", 0).features.shape
    (1797, 64)
    """
    return DATASETS.find("builtin", name)(seed)
