"""Real pictures and texts to embed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import dubito

embed = partial(dubito.embed, processes=1)
"""For a few pictures: more processes take longer to begin than to decode them."""
MakeDigits = Callable[..., Path]


@pytest.fixture
def make_digits(tmp_path: Path) -> MakeDigits:
    """Handwritten digits as PNG files, in a folder for each class or side by side."""

    def make(n: int, name: str = "digits", *, classes: bool = False) -> Path:
        folder = tmp_path / name
        features, labels = load_digits(return_X_y=True)
        for row in range(n):
            place = folder / str(labels[row]) if classes else folder
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray((features[row].reshape(8, 8) * 255 / 16).astype(np.uint8)).save(place / f"{row}.png")
        return folder

    return make


@pytest.fixture
def texts() -> list[str]:
    """Sixty short texts of three sorts."""
    sorts = ("my card has not arrived in {} days", "how do I top up {} euros", "the exchange rate of {} looks wrong")
    return [sorts[row % 3].format(row) for row in range(60)]
