"""BADGE: points whose gradients in the last layer are large and differ (Ash et al., 2020)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.doubt import mean_probabilities
from dubito.matrix import FloatArray, IntArray, Matrix, OnDevice, blocks, rows_per_read
from dubito.problem import Request
from dubito.strategies.base import Choice, need_probabilities
from dubito.strategies.gradients.device import DeviceGradients
from dubito.strategies.gradients.host import HostGradients
from dubito.strategies.plusplus import PointSet, sample
from dubito.strategies.sequence import pick_in_turn


@dataclass(frozen=True, slots=True)
class Badge:
    """K-means++ sampling among the gradients that the most probable label would give the last layer.

    The gradient of a point is the outer product of its error, probabilities less the most probable label, and its
    features. It is never formed: products of the factors give squared distances. The first pick has the largest
    gradient; each later one is drawn with probability proportional to its squared distance to the nearest picked
    gradient. Once all of these are zero (the rest repeats what is picked, or the model is certain), the rest of the
    budget is drawn uniformly. The seed decides. What is labelled plays no part, as in the original.

    O(b·n·(c + d)) time, all of it matrix products: up to 256 picks a pass over the candidates' features, which are
    read in blocks. Beyond the inputs it holds n·(c + 5) numbers. Features on a GPU stay there.
    """

    name: ClassVar[str] = "badge"
    uses_engine: ClassVar[bool] = False

    def plan(self, request: Request) -> None:
        """It needs probabilities, and no engine."""
        need_probabilities(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are distances to the nearest gradient picked before; the first pick's is its gradient's length."""
        errors = errors_of(need_probabilities(request, self.name), request.candidates)
        picks = sample(_gradients(request, errors), np.random.default_rng(request.seed))
        return pick_in_turn(request, lambda: next(picks))


def _gradients(request: Request, errors: FloatArray) -> PointSet:
    pool, rows = request.pool, request.candidates
    if isinstance(pool, OnDevice):
        return DeviceGradients(pool, rows, errors, request.metric)
    return HostGradients(pool, rows, errors, request.metric)


def errors_of(probabilities: Matrix, rows: IntArray) -> FloatArray:
    """`label_errors` of some rows, read in blocks."""
    spans = blocks(len(rows), rows_per_read(probabilities))
    return np.concatenate([label_errors(probabilities[rows[span]]) for span in spans])


def label_errors(probabilities: Matrix) -> FloatArray:
    """Probabilities less the most probable label, ties to the first class.

    The negative entry is the sum of the others: ``max - 1`` would lose every digit of a confident float32 row.

    Examples
    --------
    >>> label_errors(np.array([[0.25, 0.5, 0.25]])).tolist()
    [[0.25, -0.5, 0.25]]
    """
    errors = mean_probabilities(probabilities)
    errors = np.asarray(errors / errors.sum(axis=1, keepdims=True))
    every, likeliest = np.arange(len(errors)), errors.argmax(axis=1)
    errors[every, likeliest] = 0.0
    errors[every, likeliest] = -errors.sum(axis=1)
    return errors
