"""A pool whose classes are known, and the commands of dubito on it."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

CLASSES = ("ant", "bee", "cat", "dog")
TESTS = Path(__file__).parents[1]


def write_pool(path: Path, n_rows: int) -> None:
    """Four heaps that overlap; a text, an id and 16 numbers a row."""
    rng = np.random.default_rng(11)
    centers = 2.0 * rng.normal(size=(len(CLASSES), 16))
    points = centers[np.arange(n_rows) % len(CLASSES)] + 1.5 * rng.normal(size=(n_rows, 16))
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "text", *(f"f{column}" for column in range(16))])
        for row, numbers in enumerate(points):
            table.writerow([f"t{row:05d}", f"the text of item {row}", *(f"{each:.6g}" for each in numbers)])


def truth(name: str) -> str:
    return CLASSES[int(name[1:]) % len(CLASSES)]


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def environment(url: str, token: str) -> dict[str, str]:
    return {**os.environ, "LABEL_STUDIO_URL": url, "LABEL_STUDIO_API_KEY": token, "OMP_NUM_THREADS": "1"}


def start(*words: object, url: str, token: str, tasks: int = 1000) -> subprocess.Popen[str]:
    """dubito, with as many tasks a request."""
    command = [sys.executable, "-m", "label_studio_live.bridge", str(tasks), *map(str, words)]
    return subprocess.Popen(command, cwd=TESTS, env=environment(url, token), stderr=subprocess.PIPE, text=True)


def run(*words: object, url: str = "", token: str = "") -> str:
    """The same, to its end; what it said."""
    process = start(*words, url=url, token=token)
    said = process.communicate()[1]
    assert process.returncode == 0, said
    return said
