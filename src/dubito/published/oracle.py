"""An oracle like BoSS (Huseljic et al., 2025): of many candidate batches, the one whose labels help most.

It trains the model with the true labels of every candidate batch and measures the accuracy on the test set, so it only
runs in experiments. No strategy is expected to reach its accuracy: it is a practical upper bound for one batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dubito.core.distances import read_rows
from dubito.core.problem import Request
from dubito.errors import InvalidArgument
from dubito.matrix import IntArray
from dubito.published.refine import ENSEMBLE, batches_of
from dubito.request.arrays import check_integer
from dubito.strategies import Auto, Coreset, Strategy
from dubito.strategies.base import Choice, without_distances

if TYPE_CHECKING:
    from dubito.experiments.rounds import Turn, View

AccuracyAfter = Callable[[IntArray], float]
"""The test accuracy after labeling a batch."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """The batch after which the test accuracy is highest, of batches of eleven strategies and batches by true classes.

    Takes the time of ``batches`` selections from at most ``subset`` candidates and as many trainings.

    Parameters
    ----------
    batches : int
        The number of candidate batches.
    subset : int
        Each batch is selected from this many candidates, drawn at random.
    """

    name: ClassVar[str] = "oracle"
    uses_engine: ClassVar[bool] = False
    batches: int = 100
    subset: int = 2500

    def __post_init__(self) -> None:
        check_integer("batches", self.batches, least=1)
        check_integer("subset", self.subset, least=1)

    def plan(self, request: Request) -> None:
        """Outside experiments the labels are unknown."""
        problem = "needs the labels of the whole pool and of a test set, which only an experiment has"
        raise InvalidArgument(problem, argument="strategy", value=self.name, hint="name it in an experiment.")

    def choose(self, request: Request) -> Choice:
        self.plan(request)
        raise AssertionError

    def in_simulation(self, turn: "Turn", view: "View") -> Strategy:
        """The oracle of this round, which knows the labels."""
        from dataclasses import replace

        from dubito.experiments.rounds import accuracy

        data, model = turn.seed_data.data, turn.experiment.model
        state = {} if turn.experiment.schedule.from_scratch or not model.continues else view.state

        def accuracy_after(batch: IntArray) -> float:
            next_turn = replace(turn, number=turn.number + 1, rows=np.sort(np.concatenate([turn.rows, batch])))
            fitted = model.fit(next_turn.train_set(state))
            return accuracy(fitted.predict_proba(data.test_features), data.test_labels)

        return _RoundOracle(self, accuracy_after, data.labels, turn.rows)


@dataclass(frozen=True, slots=True, eq=False)
class _RoundOracle:
    """The oracle of one round, with the labels of the pool and the accuracy that a batch leads to."""

    oracle: Oracle
    accuracy_after: AccuracyAfter
    labels: IntArray
    labeled: IntArray
    name: ClassVar[str] = "oracle"
    uses_engine: ClassVar[bool] = False

    def choose(self, request: Request) -> Choice:
        """The priority of all picks is the accuracy after labeling them."""
        rng = np.random.default_rng(request.seed)
        ensemble = (*ENSEMBLE, Auto(), Coreset(), Balanced(self.labels, self.labeled))
        best, best_accuracy = request.candidates[: request.budget], -1.0
        for batch in batches_of(ensemble, request, self.oracle.batches, self.oracle.subset, rng):
            if (accuracy := self.accuracy_after(batch)) > best_accuracy:
                best, best_accuracy = batch, accuracy
        return without_distances(request, best, np.full(len(best), best_accuracy))


@dataclass(frozen=True, slots=True, eq=False)
class Balanced:
    """Pick in turn from the class with the fewest labels: the candidate nearest the mean of its class."""

    labels: IntArray
    labeled: IntArray
    name: ClassVar[str] = "balanced"
    uses_engine: ClassVar[bool] = False

    def choose(self, request: Request) -> Choice:
        """Priorities are NaN."""
        points, classes = read_rows(request.pool, request.candidates, request.metric), self.labels[request.candidates]
        n_classes = int(self.labels.max()) + 1
        counts, queues = np.bincount(self.labels[self.labeled], minlength=n_classes), dict[int, list[int]]()
        for code in np.unique(classes).tolist():
            members = np.flatnonzero(classes == code)
            distances = np.linalg.norm(points[members] - points[members].mean(axis=0), axis=1)
            queues[code] = members[np.argsort(distances, kind="stable")].tolist()
        picks = list[int]()
        while len(picks) < request.budget:
            rarest = min(queues, key=lambda code: (counts[code], code))
            picks.append(queues[rarest].pop(0))
            counts[rarest] += 1
            if not queues[rarest]:
                del queues[rarest]
        return without_distances(request, request.candidates[picks], np.full(request.budget, np.nan))
