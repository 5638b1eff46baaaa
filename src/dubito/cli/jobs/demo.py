"""``dubito demo --round-trip``: from a folder of pictures to labels and back, by the commands a user types."""

import csv
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

from dubito.cli.output import program_name, put
from dubito.errors import DubitoError
from dubito.registry import require

BUDGET = 50
DIGITS = 1000
SIDE = 64
"""Pixels across of a picture: digits of eight, enlarged for people."""


def play(folder: Path) -> None:
    """Embed, select, have the labels filled in, select again, and say where it stands."""
    require("pyarrow", extra="files")
    answers = write_pictures(folder / "pictures")
    pool, first, second = (folder / name for name in ("pool.parquet", "batch-1.csv", "batch-2.csv"))
    for each in (pool, first, second):
        each.unlink(missing_ok=True)
    put([f"{len(answers):,} pictures of digits in {folder / 'pictures'}; no embeddings, no model, no labels."])
    type_in("embed", folder / "pictures", "-o", pool)
    type_in("select", pool, "--budget", BUDGET, "-o", first)
    fill_in(first, answers)
    type_in("select", pool, "--budget", BUDGET, "--labeled", first, "-o", second)
    fill_in(second, answers)
    type_in("status", pool, "--labeled", first, "--labeled", second)


def write_pictures(folder: Path) -> dict[str, int]:
    """Scikit-learn's digits as pictures that tell nothing by their names; what each of them shows."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits, classes = load_digits(return_X_y=True)
    folder.mkdir(parents=True, exist_ok=True)
    answers = {}
    for number, (digit, shown) in enumerate(zip(digits[:DIGITS], classes.tolist(), strict=False)):
        pixels = (255 - digit.reshape(8, 8) * 15.9).astype(np.uint8)
        name = f"digit-{number:04d}.png"
        Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(folder / name)
        answers[name] = shown
    return answers


def type_in(*words: object) -> None:
    """Show a command and run it, as this very program; what it says goes where ours does."""
    given = [str(word) for word in words]
    put(["", f"$ {program_name()} {shlex.join(given)}"])
    sys.stdout.flush()
    if subprocess.run([sys.executable, "-m", "dubito", *given], check=False).returncode:
        raise DubitoError(f"dubito {given[0]} failed", hint="see what it said above.")


def fill_in(batch: Path, answers: dict[str, int]) -> None:
    """Do what people do between two rounds: write a label beside every pick."""
    with batch.open(newline="", encoding="utf-8") as file:
        picks = list(csv.DictReader(file))
    with batch.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [*picks[0], "label"])
        table.writeheader()
        table.writerows({**pick, "label": answers[pick["id"]]} for pick in picks)
    put([f"({len(picks)} labels filled in for you, in a column label of {batch})"])
