"""dubito: which of my unlabeled data should I label next?

`select` picks a batch from a pool of features, `embed` makes such a pool of pictures or texts, `Pool` picks round after
round, `fit` learns from the labels so far, `estimate` tells the cost first, and `diagnose` reads the theory on your
data.
"""

TYPE_CHECKING = False
"""Type checkers take it for True. Importing `typing` would take longer than all of this module."""

if TYPE_CHECKING:
    from dubito.api import Estimate, estimate, select
    from dubito.core.problem import Configuration, Interrupted, Selection
    from dubito.diagnosis import Diagnosis, diagnose
    from dubito.embedding.api import embed
    from dubito.embedding.source import Embedded
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

_MODULES = {
    "Configuration": "dubito.core.problem",
    "Diagnosis": "dubito.diagnosis",
    "diagnose": "dubito.diagnosis",
    "Embedded": "dubito.embedding.source",
    "embed": "dubito.embedding.api",
    "Estimate": "dubito.api",
    "estimate": "dubito.api",
    "Fit": "dubito.models.fit",
    "fit": "dubito.models.fit",
    "Interrupted": "dubito.core.problem",
    "Pool": "dubito.pool",
    "select": "dubito.api",
    "Selection": "dubito.core.problem",
    "Shards": "dubito.sharding.shards",
}
"""All others are errors. They are imported when they are used, so that `dubito.__main__` handles Ctrl-C meanwhile."""


def __getattr__(name: str) -> object:
    if name in __all__:
        from importlib import import_module

        globals()[name] = found = getattr(import_module(_MODULES.get(name, "dubito.errors")), name)
        return found
    raise AttributeError(f"module 'dubito' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
