"""``digits``: scikit-learn's 1,797 handwritten digits."""

from functools import lru_cache

from dubito.experiments.datasets.dataset import Dataset, make_dataset


def digits(seed: int) -> Dataset:
    """8 × 8 pixels between 0 and 1 in ten classes, the same for every seed."""
    return _read_once()


@lru_cache(maxsize=1)
def _read_once() -> Dataset:
    from sklearn.datasets import load_digits

    data = load_digits()
    return make_dataset("digits", data.data / 16.0, data.target)
