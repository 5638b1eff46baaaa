"""How long it takes until dubito is there: its import, ``--version``, ``--help`` and the demo, each beside a yardstick.

A ratio of two times in one run means the same on a slow machine and on a quick one, and on a busy one.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

NUMPY = ("-c", "import numpy")
TRAININGS = (
    "-c",
    "from sklearn.datasets import load_digits\n"
    "from sklearn.linear_model import LogisticRegression\n"
    "features, labels = load_digits(return_X_y=True)\n"
    "for first in range(100):\n"
    "    LogisticRegression(max_iter=1000).fit(features[first : first + 300] / 16, labels[first : first + 300])\n",
)


class Promise(NamedTuple):
    """What is timed, beside what, and how many times as long it may take; nothing is promised of None."""

    words: str
    ours: Sequence[str]
    yardstick: Sequence[str]
    most: float | None
    repeats: int


PROMISES = (
    Promise("import dubito, beside import numpy", ("-c", "import dubito"), NUMPY, 3.0, 9),
    Promise("dubito --version, beside import numpy", ("-m", "dubito", "--version"), NUMPY, 6.0, 9),
    Promise("dubito --help, beside import numpy", ("-m", "dubito", "--help"), NUMPY, 8.0, 9),
    Promise("dubito demo, beside a hundred trainings", ("-m", "dubito", "demo", "-q"), TRAININGS, None, 3),
)


def main() -> int:
    """Measure every promise; the quick way leaves the demo out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds: without the demo")
    given, _ = parser.parse_known_args()  # The options of other benchmarks reach all of them.
    promises = [each for each in PROMISES if not (given.quick and "demo" in each.ours)]
    print("| what | ratio | at most | seconds | |\n| --- | --- | --- | --- | --- |")
    for promise in promises:
        print(line_of(promise), flush=True)
    return 0


def line_of(promise: Promise) -> str:
    """A row of the table: the ratio of the medians, runs in turn."""
    pairs = [(seconds_of(promise.yardstick), seconds_of(promise.ours)) for _ in range(promise.repeats)]
    yardstick, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = ours / yardstick
    most, verdict = ("", "") if promise.most is None else (f"{promise.most:g}", verdict_on(ratio, promise.most))
    return f"| {promise.words} | {ratio:.1f} | {most} | {ours:.2f} | {verdict} |"


def verdict_on(ratio: float, most: float) -> str:
    """In a word."""
    return "met" if ratio <= most else "missed"


def seconds_of(command: Sequence[str]) -> float:
    """One run of Python, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run([sys.executable, *command], cwd=folder, check=True, capture_output=True)
        return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
