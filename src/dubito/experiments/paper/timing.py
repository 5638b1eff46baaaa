"""The timing statement: seconds for a core-set of 5,000 with 5,000 to 15,000 points labelled."""

import time
from dataclasses import dataclass

import numpy as np

from dubito.checks import check_integer
from dubito.experiments.paper.verdicts import Verdict
from dubito.experiments.toys import feature_pool
from dubito.matrix import FloatArray, IntArray
from dubito.selecting import select

PAPER_SIZES, PAPER_SECONDS = (5_000, 15_000), (25.0, 50.0)
"""Core-set sizes and the seconds they took on the paper's NVIDIA Titan."""


@dataclass(frozen=True, slots=True)
class TimingStudy:
    """A generated pool of ``n`` × ``d``, ``budget`` picks, and as many labelled as each of ``sizes``."""

    n: int = 50_000
    """Labelled and unlabelled together: with 5,000 labelled, 45,000 are left to pick from."""
    d: int = 512
    budget: int = 5_000
    sizes: tuple[int, ...] = (5_000, 10_000, 15_000)
    repeats: int = 3

    def __post_init__(self) -> None:
        for name in ("n", "d", "budget", "repeats"):
            check_integer(name, getattr(self, name), least=1)

    def measure(self, seed: int) -> "Timing":
        """Sizes and core-sets take turns, so that other work on the machine slows all alike; warmed up before."""
        pool, likely = feature_pool(seed, self.n, self.d)
        select(pool, min(50, self.budget), labelled=np.arange(self.sizes[0]), probabilities=likely)
        seconds = {name: np.empty((len(self.sizes), self.repeats)) for name in ("coreset", "doubt-coreset")}
        for turn in range(self.repeats):
            for at, size in enumerate(self.sizes):
                for name, taken in seconds.items():
                    started = time.perf_counter()
                    select(pool, self.budget, labelled=np.arange(size), probabilities=likely, strategy=name)
                    taken[at, turn] = time.perf_counter() - started
        return Timing(np.array(self.sizes, dtype=np.int64), seconds, self.n, self.d, self.budget)


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """Seconds of every run."""

    sizes: IntArray
    seconds: dict[str, FloatArray]
    """(sizes, repeats) for each strategy."""
    n: int
    d: int
    budget: int

    def verdict(self) -> Verdict:
        """The least of the runs: no slower than the paper size by size, at most linear, and no dearer when scaled."""
        plain, scaled = (self.seconds[name].min(axis=1) for name in ("coreset", "doubt-coreset"))
        grows = float(self.sizes[-1] / self.sizes[0])
        dearer = float((scaled / plain).max())
        is_quick = bool((np.maximum(plain, scaled) <= np.interp(self.sizes, PAPER_SIZES, PAPER_SECONDS)).all())
        is_linear = bool(plain[-1] / plain[0] <= grows and scaled[-1] / scaled[0] <= grows)
        pairs = zip(self.sizes, plain, scaled, strict=True)
        numbers = {
            f"seconds at {size:,} labelled, {name}": float(value)
            for size, *both in pairs
            for name, value in zip(("core-set", "scaled"), both, strict=True)
        }
        numbers["scaled over plain"] = dearer
        sentence = (
            f"{self.budget:,} picks from {self.n:,} × {self.d} take {scaled[0]:.2f} to {scaled[-1]:.2f} s scaled and "
            f"{plain[0]:.2f} to {plain[-1]:.2f} s plain with {self.sizes[0]:,} to {self.sizes[-1]:,} labelled, on this "
            f"CPU (the paper: 25 to 50 s on a Titan); scaling costs {dearer:.2f} times the plain core-set at most"
        )
        return Verdict(is_quick and is_linear and dearer <= 1.1, numbers, sentence)
