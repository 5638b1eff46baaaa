"""What is kept of the experiments on images, and how its numbers are shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dubito.experiments.plan import Experiment, parse_experiment
from dubito.experiments.records import Round
from dubito.experiments.statistics import Steady, area, shown_p
from dubito.experiments.summary import Summary
from dubito.matrix import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """What is kept of one experiment."""

    name: str
    held: dict
    rounds: list[Round]
    summary: Summary

    @property
    def experiment(self) -> Experiment:
        return parse_experiment(self.held["settings"])

    def accuracy(self, name: str) -> FloatArray:
        """(seeds, trainings)"""
        return self.summary.curves[self.summary.names.index(name)].accuracy

    def area(self, name: str) -> FloatArray:
        """(seeds,)"""
        return area(self.summary.curves[self.summary.names.index(name)])


Study = dict[str, Record]


def heads(names: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(names)} |"
    yield f"|{' --- |' * len(names)}"


def shown(described: object, digits: int = 2) -> str:
    """An interval in points."""
    estimate, low, high = (Steady(100 * getattr(described, key)) for key in ("estimate", "low", "high"))
    return f"{estimate:+.{digits}f}" + ("" if np.isnan(low) else f" [{low:+.{digits}f}, {high:+.{digits}f}]")


def bold_p(p: float) -> str:
    return f"**{shown_p(p)}**" if p < 0.05 else shown_p(p)
