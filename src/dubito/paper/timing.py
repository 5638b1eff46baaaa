"""The timing statement: seconds for a core-set of 5,000 with 5,000 to 15,000 points labeled, and for more picks."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dubito.api import select
from dubito.experiments.built_in_data import feature_pool
from dubito.matrix import AnyArray, FloatArray, IntArray
from dubito.paper.verdicts import Verdict
from dubito.request.arrays import check_integer

NAMES = ("coreset", "doubt-coreset")
PAPER_SIZES, PAPER_SECONDS = (5_000, 15_000), (25.0, 50.0)
"""Core-set sizes and the seconds they took on the paper's NVIDIA Titan."""


@dataclass(frozen=True, slots=True)
class TimingStudy:
    """A generated pool of ``n`` × ``d``, ``budget`` picks, and as many labeled as each of ``sizes``."""

    n: int = 50_000
    """Labeled and unlabeled together: with 5,000 labeled, 45,000 are left to pick from."""
    d: int = 512
    budget: int = 5_000
    sizes: tuple[int, ...] = (5_000, 10_000, 15_000)
    repeats: int = 3
    budgets: tuple[int, ...] = ()
    """Picks, with the first of ``sizes`` labeled: the other way to read "core-set sizes"."""
    engine: str = "cpu"
    """One for every row: with ``"auto"`` that which the largest of them takes."""

    def __post_init__(self) -> None:
        for name in ("n", "d", "budget", "repeats"):
            check_integer(name, getattr(self, name), least=1)

    def measure(self, seed: int) -> "Timing":
        """Sizes and core-sets take turns, so that other work on the machine slows all alike; warmed up before."""
        pool, likely = feature_pool(seed, self.n, self.d)
        asked = [(size, self.budget) for size in self.sizes] + [(self.sizes[0], budget) for budget in self.budgets]
        engine = self._engine(pool, likely, asked)
        for name in NAMES:
            _time(pool, likely, name, self.sizes[0], min(50, self.budget), engine)
        seconds = {name: np.empty((len(asked), self.repeats)) for name in NAMES}
        for turn in range(self.repeats):
            for at, (size, budget) in enumerate(asked):
                for name, taken in seconds.items():
                    taken[at, turn] = _time(pool, likely, name, size, budget, engine)
        cut = len(self.sizes)
        return Timing(
            sizes=np.array(self.sizes, dtype=np.int64),
            seconds={name: taken[:cut] for name, taken in seconds.items()},
            n=self.n,
            d=self.d,
            budget=self.budget,
            budgets=np.array(self.budgets, dtype=np.int64),
            picking={name: taken[cut:] for name, taken in seconds.items()},
            engine=engine,
        )

    def _engine(self, pool: AnyArray, likely: FloatArray, asked: list[tuple[int, int]]) -> str:
        """The name of the engine that all rows are timed on."""
        if self.engine != "auto":
            return self.engine
        size, budget = max(asked, key=lambda each: (self.n - each[0]) * sum(each))
        picked = select(pool, budget, labeled=np.arange(size), probabilities=likely, strategy=NAMES[0])
        return str(picked.engine)


def _time(pool: AnyArray, likely: FloatArray, name: str, size: int, budget: int, engine: str) -> float:
    """Seconds of one selection."""
    started = time.perf_counter()
    select(pool, budget, labeled=np.arange(size), probabilities=likely, strategy=name, engine=engine)
    return time.perf_counter() - started


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """Seconds of every run."""

    sizes: IntArray
    seconds: dict[str, FloatArray]
    """(sizes, repeats) for each strategy."""
    n: int
    d: int
    budget: int
    budgets: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    picking: dict[str, FloatArray] = field(default_factory=dict)
    """(budgets, repeats) for each strategy, with the first of the sizes labeled."""
    engine: str = "cpu"
    """What every run was timed on."""

    @property
    def device(self) -> str:
        """Where that engine runs."""
        return "GPU" if self.engine == "cuda" else "CPU"

    def verdict(self) -> Verdict:
        """The least of the runs: no slower than the paper size by size, at most linear, and no dearer when scaled."""
        plain, scaled = (self.seconds[name].min(axis=1) for name in NAMES)
        dearer = float((scaled / plain).max())
        is_quick = _is_quick(self.sizes, self.seconds) and _is_quick(self.budgets, self.picking)
        is_linear = _is_linear(self.sizes, self.seconds) and _is_linear(self.budgets, self.picking)
        pairs = zip(self.sizes, plain, scaled, strict=True)
        numbers = {
            f"seconds at {size:,} labelled, {name}": float(value)
            for size, *both in pairs
            for name, value in zip(("core-set", "scaled"), both, strict=True)
        }
        numbers["scaled over plain"] = dearer
        sentence = (
            f"{self.budget:,} picks from {self.n:,} × {self.d} take {_span(scaled)} scaled and {_span(plain)} plain "
            f"with {self.sizes[0]:,} to {self.sizes[-1]:,} labeled, on this {self.device} (the paper: 25 to 50 s on a "
            f"Titan); scaling costs {dearer:.2f} times the plain core-set at most{self._picks_described()}"
        )
        return Verdict(is_quick and is_linear and dearer <= 1.1, numbers | self._picks_numbers(), sentence)

    def _picks_described(self) -> str:
        if not len(self.budgets):
            return ""
        plain, scaled = (self.picking[name].min(axis=1) for name in NAMES)
        return (
            f"; {self.budgets[0]:,} to {self.budgets[-1]:,} picks with {self.sizes[0]:,} labeled take {_span(scaled)} "
            f"scaled and {_span(plain)} plain"
        )

    def _picks_numbers(self) -> dict[str, float]:
        return {
            f"seconds for {budget:,} picks, {shown}": float(self.picking[name][at].min())
            for at, budget in enumerate(self.budgets)
            for name, shown in zip(NAMES, ("core-set", "scaled"), strict=True)
        }


def _span(seconds: FloatArray) -> str:
    """From the first to the last."""
    if seconds[-1] < 1.0:
        return f"{1e3 * seconds[0]:.0f} to {1e3 * seconds[-1]:.0f} ms"
    return f"{seconds[0]:.2f} to {seconds[-1]:.2f} s"


def _is_quick(sizes: IntArray, seconds: Mapping[str, FloatArray]) -> bool:
    """No slower than the paper, size by size."""
    allowed = np.interp(sizes, PAPER_SIZES, PAPER_SECONDS)
    return all(bool((taken.min(axis=1) <= allowed).all()) for taken in seconds.values() if len(sizes))


def _is_linear(sizes: IntArray, seconds: Mapping[str, FloatArray]) -> bool:
    """Growing no faster than what is asked for."""
    least = [taken.min(axis=1) for taken in seconds.values() if len(sizes)]
    return all(bool(each[-1] / each[0] <= sizes[-1] / sizes[0]) for each in least)
