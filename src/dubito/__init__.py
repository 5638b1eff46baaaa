"""dubito: which of my unlabeled data should I label next?

`select` picks a batch from a pool of features, `embed` makes such a pool of pictures or texts, `Pool` picks round after
round, `fit` learns from the labels so far, `estimate` tells the cost first, and `diagnose` reads the theory on your
data.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dubito.api import select
from dubito.core.problem import Configuration, Interrupted, Selection
from dubito.errors import (
    DubitoError,
    InvalidArgument,
    InvalidData,
    InvalidIds,
    MemoryLimit,
    MissingExtra,
    MissingFile,
    OutputExists,
    SolverFailed,
)

if TYPE_CHECKING:
    from dubito.api import Estimate, estimate
    from dubito.diagnosis import Diagnosis, diagnose
    from dubito.embedding import Embedded, embed
    from dubito.models.fit import Fit, fit
    from dubito.pool import Pool
    from dubito.sharding.shards import Shards

__version__ = "0.2.0"

__all__ = [
    "Configuration",
    "Diagnosis",
    "DubitoError",
    "Embedded",
    "Estimate",
    "Fit",
    "Interrupted",
    "InvalidArgument",
    "InvalidData",
    "InvalidIds",
    "MemoryLimit",
    "MissingExtra",
    "MissingFile",
    "OutputExists",
    "Pool",
    "Selection",
    "Shards",
    "SolverFailed",
    "diagnose",
    "embed",
    "estimate",
    "fit",
    "select",
]

_LAZY = {
    "Diagnosis": "dubito.diagnosis",
    "diagnose": "dubito.diagnosis",
    "Embedded": "dubito.embedding",
    "embed": "dubito.embedding",
    "Estimate": "dubito.api",
    "estimate": "dubito.api",
    "Fit": "dubito.models.fit",
    "fit": "dubito.models.fit",
    "Pool": "dubito.pool",
    "Shards": "dubito.sharding.shards",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'dubito' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
