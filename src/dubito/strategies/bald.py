"""BALD and BatchBALD: mutual information of labels and posterior samples (Houlsby 2011, Kirsch 2019)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core.problem import Request
from dubito.doubt.posterior import Labelings, information_gain, posterior_rows, unlabeled
from dubito.matrix import READ_BYTES, FloatArray, IntArray, Matrix, blocks
from dubito.request.arrays import check_integer
from dubito.strategies.base import Choice, PerGroup, check_per_group, pick_one_by_one, rank_by, require_posterior

FIRST_LOOK = 64
"""Number of candidates that are scored again at first; then twice as many, and so on."""


@dataclass(frozen=True, slots=True)
class Bald:
    """The largest mutual information between a point's label and the posterior samples first.

    Needs probabilities (n, k, c) of k samples of the posterior, such as passes with dropout or members of an
    ensemble. Each point is scored alone, so a batch may contain near-duplicates. O(n·k·c + n log n) time.

    Parameters
    ----------
    per_group : str
        As in `dubito.strategies.Margin`.
    """

    name: ClassVar[str] = "bald"
    uses_engine: ClassVar[bool] = False
    needs_samples: ClassVar[bool] = True
    picks_groups: ClassVar[bool] = True
    per_group: PerGroup = "max"

    def __post_init__(self) -> None:
        check_per_group(self.per_group)

    def plan(self, request: Request) -> None:
        require_posterior(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are the mutual information in nats."""
        probabilities = require_posterior(request, self.name)
        scores = np.zeros(probabilities.shape[0])
        scores[request.candidates] = _gains(probabilities, request.candidates, unlabeled(int(probabilities.shape[1])))
        return rank_by(request, scores, self.per_group)


@dataclass(frozen=True, slots=True)
class BatchBald:
    """Greedy picks by the mutual information of the whole batch, to which a point that repeats another adds little.

    Needs probabilities (n, k, c), like `Bald`. The joint entropy is computed over all labelings of the batch while
    there are at most ``samples`` of them (with 10 classes and 1,024 samples, for the first four picks), and then over a
    random sample of this size, as in the original. While it is exact, the batch has at least 1 - 1/e of the largest
    possible information.

    The information that a point adds never increases with the batch, so a point is scored again only if its last score
    could still be the largest. With all labelings this changes no pick; with a sample, a point may be missed that is
    better by less than the sampling error.

    O(b·n·k·c·`samples`) time at most, usually far less. A batch has at most ln k nats: near that, further picks add
    nothing, and more posterior samples are needed. Ties, to 12 decimals, go to the lowest index.

    Parameters
    ----------
    samples : int
        Maximum number of labelings of a batch.
    """

    name: ClassVar[str] = "batchbald"
    uses_engine: ClassVar[bool] = False
    needs_samples: ClassVar[bool] = True
    samples: int = 1024

    def __post_init__(self) -> None:
        check_integer("samples", self.samples, least=1)

    def plan(self, request: Request) -> None:
        require_posterior(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are the information in nats that each pick adds; their sum is that of the batch."""
        picking = _Picking(request, require_posterior(request, self.name), self.samples)
        return pick_one_by_one(request, picking.pick)


class _Picking:
    """BatchBALD's greedy steps."""

    def __init__(self, request: Request, probabilities: Matrix, samples: int) -> None:
        self.probabilities, self.candidates, self.samples = probabilities, request.candidates, samples
        self.labelings = unlabeled(int(probabilities.shape[1]))
        self.gains = np.full(len(self.candidates), np.inf)
        """(n,) the information that each candidate would add when it was last scored; negative once picked."""
        self.is_fresh = np.zeros(len(self.candidates), dtype=np.bool_)
        self.rng = np.random.default_rng(request.seed)

    def pick(self) -> tuple[int, float]:
        """Position and priority of the next pick."""
        best = self._best()
        gain = float(self.gains[best])
        (chosen,) = posterior_rows(self.probabilities, self.candidates[[best]])
        self.labelings = extend(self.labelings, chosen, self.samples, self.rng)
        self.gains[best] = -1.0
        # A gain of 0 stays 0.
        self.is_fresh = self.gains <= 0.0
        return best, gain

    def _best(self) -> int:
        """The candidate that adds most. Old gains are upper bounds: the largest are computed again."""
        size = FIRST_LOOK
        while not self.is_fresh[best := int(self.gains.argmax())]:
            least = self.gains[self.is_fresh].max(initial=0.0)
            stale = np.flatnonzero(~self.is_fresh & (self.gains >= least))
            if len(stale) > size and self.gains[best] < np.inf:
                stale = stale[np.argpartition(-self.gains[stale], size)[:size]]
            self.gains[stale] = _gains(self.probabilities, self.candidates[stale], self.labelings)
            self.is_fresh[stale] = True
            size *= 2
        return best


def _gains(probabilities: Matrix, rows: IntArray, labelings: Labelings) -> FloatArray:
    """Information gains of some rows, block by block."""
    n_classes, largest = int(probabilities.shape[2]), max(labelings.posterior.shape)
    step = max(1, READ_BYTES // (8 * n_classes * largest))
    parts = [information_gain(posterior_rows(probabilities, rows[span]), labelings) for span in blocks(len(rows), step)]
    return np.concatenate(parts)


def extend(labelings: Labelings, probabilities: FloatArray, most: int, rng: np.random.Generator) -> Labelings:
    """Labelings of a batch with one more point.

    All possible ones if they are at most ``most``; otherwise ``most`` of them by stratified sampling, in proportion to
    their probabilities.

    Parameters
    ----------
    labelings : Labelings
        Of the batch without the point.
    probabilities : array (k, c)
        Of the new point.
    """
    chances = labelings.posterior @ probabilities
    joint = labelings.weights[:, None] * chances
    parents, labels = np.nonzero(joint > 0.0)
    weights = joint[parents, labels]
    if len(weights) > most:
        steps = np.cumsum(weights)
        draws = (np.arange(most) + rng.random(most)) / most * steps[-1]
        # Rounding may raise the last draw to the total.
        drawn = np.minimum(np.searchsorted(steps, draws, side="right"), len(steps) - 1)
        parents, labels, weights = parents[drawn], labels[drawn], np.ones(most)
    posterior = labelings.posterior[parents] * probabilities.T[labels]
    return Labelings(weights / weights.sum(), posterior / posterior.sum(axis=1, keepdims=True))
