"""A project to try: scikit-learn's real handwritten digits as pictures, offline."""

import os
from pathlib import Path

import numpy as np

from dubito.files.disk import naming_output

SIDE = 64
"""Pixels across of a picture: digits of eight, enlarged for people."""
CLASSES = tuple("0123456789")
GUIDELINES = "Which digit is it? Skip what you cannot read."


def demo_source(folder: str | None = None) -> str:
    """The folder of pictures, made where it is not there."""
    place = Path(folder or default_folder()) / "digits"
    if not (place / "digit-1796.png").exists():
        with naming_output(str(place)):
            place.mkdir(parents=True, exist_ok=True)
            write_digits(place)
    return str(place)


def default_folder() -> str:
    """Where a user's programs keep what they can make again."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "dubito", "label-demo")


def write_digits(folder: Path, n_most: int | None = None) -> dict[str, str]:
    """Pictures whose names tell nothing, and what each of them shows."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits, classes = load_digits(return_X_y=True)
    answers = {}
    for number, (digit, shown) in enumerate(zip(digits[:n_most], classes.tolist(), strict=False)):
        pixels = (255 - digit.reshape(8, 8) * 15.9).astype(np.uint8)
        name = f"digit-{number:04d}.png"
        Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(folder / name)
        answers[name] = str(shown)
    return answers
