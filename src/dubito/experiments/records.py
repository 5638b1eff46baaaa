"""Results of an experiment: a `Round` for each training, and a `Curve` for each strategy."""

import operator
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dubito.errors import InvalidArgument
from dubito.matrix import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Round:
    """One training of one strategy with one seed, and the rows picked afterwards."""

    strategy: str
    """The arm's name, such as ``doubt-coreset:strength=0.5``."""
    seed: int
    turn: int
    """0 is the training on the initial labels."""
    labels: int
    """Number of labels trained on."""
    test_accuracy: float
    train_accuracy: float
    recall: tuple[float | None, ...]
    """Share of correct test items for each class; None for a class without test items."""
    core_set_loss: float
    """Mean loss over the whole training set, labeled or not."""
    radius: float | None
    """δ: largest unscaled distance of a training item to its nearest labeled item, before this turn's picks."""
    scaled_radius: float | None
    """δ̂: largest distance times doubt (strength 1 for every strategy), before this turn's picks."""
    uncertainty: float | None
    """U(s) of this turn's picks; None in the last turn."""
    picked: tuple[int, ...]
    """Rows of the training data picked after this training; empty in the last turn."""
    train_seconds: float
    select_seconds: float

    def as_dict(self) -> dict[str, object]:
        """The round as a JSON-serializable dictionary."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_dict(cls, record: dict[str, object]) -> "Round":
        """Inverse of `as_dict`; unknown keys are ignored."""
        known: dict[str, Any] = {each.name: record[each.name] for each in fields(cls)}
        known["recall"] = tuple(known["recall"])
        known["picked"] = tuple(operator.index(row) for row in known["picked"])
        return cls(**known)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Accuracy of a strategy by number of labels, for all seeds."""

    name: str
    labels: IntArray
    """(r + 1,)"""
    accuracy: FloatArray
    """(seeds, r + 1) test accuracy."""

    @property
    def mean(self) -> FloatArray:
        """(r + 1,) mean over seeds."""
        return np.asarray(self.accuracy.mean(axis=0))

    @property
    def spread(self) -> FloatArray:
        """(r + 1,) one standard deviation over seeds; 0 for a single seed."""
        return np.asarray(self.accuracy.std(axis=0, ddof=1 if len(self.accuracy) > 1 else 0))


def curves(rounds: Iterable[Round]) -> tuple[Curve, ...]:
    """A curve for each strategy, in order of first appearance, over the seeds that all strategies finished.

    Unfinished seeds are left out, so that all curves cover the same seeds and turns.
    """
    by_strategy: dict[str, dict[int, list[Round]]] = {}
    for each in rounds:
        by_strategy.setdefault(each.strategy, {}).setdefault(each.seed, []).append(each)
    if not by_strategy:
        raise InvalidArgument("is empty: nothing was run yet", argument="rounds", hint="run the experiment first.")
    turns = max(len(run) for seeds in by_strategy.values() for run in seeds.values())
    finished = [{seed for seed, run in seeds.items() if len(run) == turns} for seeds in by_strategy.values()]
    seeds = sorted(set.intersection(*finished))
    if not seeds:
        raise InvalidArgument("no seed was finished by every strategy yet", hint="resume the experiment first.")
    result = []
    for name, by_seed in by_strategy.items():
        ordered = [sorted(by_seed[seed], key=lambda each: each.turn) for seed in seeds]
        labels = np.array([each.labels for each in ordered[0]], dtype=np.int64)
        accuracy = np.array([[each.test_accuracy for each in run] for run in ordered])
        result.append(Curve(name, labels, accuracy))
    return tuple(result)
