"""Data that needs no file."""

from collections.abc import Callable
from functools import lru_cache

from dubito.errors import InvalidArgument
from dubito.experiments.datasets.dataset import Dataset, make_dataset
from dubito.experiments.datasets.toys import TOYS


def builtin_dataset(name: str, seed: int) -> Dataset:
    """A dataset that needs no file: scikit-learn's ``digits``, or a toy drawn with the seed."""
    makers = builtin_datasets()
    if name not in makers:
        raise InvalidArgument(f"builtin={name!r} is not known; choose from {', '.join(sorted(makers))}.")
    return makers[name](seed)


def builtin_datasets() -> dict[str, Callable[[int], Dataset]]:
    """What `builtin_dataset` can make, by name."""
    return {"digits": lambda seed: _digits(), **TOYS}


@lru_cache(maxsize=1)
def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    data = load_digits()
    return make_dataset("digits", data.data / 16.0, data.target)
