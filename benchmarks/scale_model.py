"""The cost model of docs/explanation/scale.md: what a run over shards takes, fitted to what `scale_runs.py` noted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

FRONT = 2048
ANCHORS = 64
CLOSER = 4
CELL_ROWS = 512
FEWEST = 16
UNEVEN = 0.25
STATE_BYTES = 40
"""For each row of a shard, beside its features."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A run: the pool, how it is cut, what is labeled and what is asked for. Features have two bytes."""

    rows: float
    width: float
    shards: float
    labeled: float
    budget: float

    @property
    def own(self) -> float:
        """Rows of a shard."""
        return self.rows / self.shards

    @property
    def closer(self) -> float:
        """Products of features for those candidates of a shard that are looked at closely at the start."""
        cell = min(CELL_ROWS, 2.0 * self.labeled / ANCHORS)
        share = min(1.0, 1.0 / self.shards + UNEVEN)
        return min(self.own, CLOSER * share * self.budget) * cell * self.width


def shape_of(run: dict[str, Any]) -> Shape:
    """That of a record."""
    return Shape(*(float(run[name]) for name in ("rows", "width", "shards", "labelled", "budget")))


Terms = Callable[[Shape, float], list[float]]
"""What a phase's seconds are a sum of, given a shape and its rounds."""

TERMS: dict[str, tuple[list[str], Terms]] = {
    "open": (["a feature read and checked"], lambda at, rounds: [at.own * at.width]),
    "start": (
        ["a run", "a feature of a shard's rows", "a product of the closer check", "a feature of the labeled rows"],
        lambda at, rounds: [1.0, at.own * at.width, at.closer, at.labeled * at.width],
    ),
    "advance": (
        ["a round", "a row in a round", "a reference of an updated candidate", "a feature of a pick"],
        lambda at, rounds: [
            rounds,
            rounds * at.own,
            at.budget / at.shards * (at.labeled + at.budget / 2.0),
            at.budget * at.width,
        ],
    ),
    "driver": (
        ["a shard in a round", "a row of a front that a pick is compared with", "a feature in a front's products"],
        lambda at, rounds: [
            rounds * at.shards,
            at.budget * min(FRONT, 2.0 * at.budget + 64.0),
            rounds * min(FRONT, 2.0 * at.budget + 64.0) ** 2 * at.width,
        ],
    ),
}


@dataclass(frozen=True, slots=True)
class Model:
    """Coefficients by phase, and those of rounds."""

    coefficients: dict[str, list[float]]
    rounds: tuple[float, float]

    def n_rounds(self, at: Shape) -> float:
        """A start, and fronts until the budget is met."""
        return self.rounds[0] + self.rounds[1] * at.budget / FRONT

    def seconds(self, at: Shape) -> dict[str, float]:
        """Processor seconds of a shard's phases and of the driver."""
        rounds = self.n_rounds(at)
        return {name: float(np.dot(self.coefficients[name], terms(at, rounds))) for name, (_, terms) in TERMS.items()}

    def total(self, at: Shape) -> float:
        """The sum of all phases, because driver and shards wait for each other."""
        return sum(self.seconds(at).values())


def fit(runs: list[dict[str, Any]]) -> Model:
    """Fit by least squares of relative errors, with coefficients of at least 0."""
    shapes = [shape_of(run) for run in runs]
    found: dict[str, list[float]] = {}
    for name, (_, terms) in TERMS.items():
        seconds = np.array([measured_of(run, name) for run in runs])
        rows = np.array([terms(at, float(run["rounds"])) for at, run in zip(shapes, runs, strict=True)])
        scale = rows.max(axis=0)
        found[name] = (nnls(rows / scale / seconds[:, None], np.ones(len(rows)))[0] / scale).tolist()
    rounds = np.array([float(run["rounds"]) for run in runs])
    terms_of_rounds = np.array([[1.0, at.budget / FRONT] for at in shapes])
    first, more = nnls(terms_of_rounds / rounds[:, None], np.ones(len(rounds)))[0].tolist()
    return Model(found, (first, more))


def measured_of(run: dict[str, Any], phase: str) -> float:
    """Seconds of a phase in a record, those of the slowest shard."""
    return float(run["driver"] if phase == "driver" else run["slowest"][phase])


def whole_of(run: dict[str, Any]) -> float:
    """All phases of a record."""
    return sum(measured_of(run, name) for name in TERMS)


def received(at: Shape, rounds: float) -> float:
    """Bytes from all shards: candidates, about twice as many as picks or a few of every shard, and levels."""
    described = max(2.0 * at.budget, FEWEST * at.shards * rounds)
    return described * (2.0 * at.width + 24.0) + rounds * at.shards * 64 * 16


def sent(at: Shape) -> float:
    """Bytes to every worker: what is labeled, and the picks."""
    return 2.0 * at.width * (at.labeled + at.budget)


def memory(at: Shape) -> float:
    """Bytes of a worker on a CPU."""
    return at.own * (2.0 * at.width + STATE_BYTES) + 0.3e9
