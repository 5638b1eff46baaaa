"""BALD and BatchBALD: labels that tell the samples of a model's posterior apart (Houlsby 2011, Kirsch 2019)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dubito.core.problem import Request
from dubito.doubt.posterior import Labelings, information_gain, posterior_rows, unlabeled
from dubito.matrix import READ_BYTES, FloatArray, IntArray, Matrix, blocks
from dubito.request.arrays import check_integer
from dubito.strategies.base import Choice, pick_one_by_one, rank_by, require_posterior

FIRST_LOOK = 64
"""Candidates scored again before looking who could still be best; then twice as many, and so on."""


@dataclass(frozen=True, slots=True)
class Bald:
    """The largest mutual information between a point's label and the posterior samples first.

    Needs probabilities (n, k, c) of k samples of the posterior, such as passes with dropout or members of an
    ensemble. Each point is scored alone: a batch may hold the same thing many times. O(n·k·c + n log n) time.
    """

    name: ClassVar[str] = "bald"
    uses_engine: ClassVar[bool] = False
    needs_samples: ClassVar[bool] = True

    def plan(self, request: Request) -> None:
        """It needs posterior samples, and no engine."""
        require_posterior(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are mutual informations in nats."""
        probabilities = require_posterior(request, self.name)
        scores = np.zeros(probabilities.shape[0])
        scores[request.candidates] = _gains(probabilities, request.candidates, unlabeled(int(probabilities.shape[1])))
        return rank_by(request, scores)


@dataclass(frozen=True, slots=True)
class BatchBald:
    """Greedy picks by the mutual information of the whole batch: a point that repeats another adds little.

    Needs probabilities (n, k, c), as `Bald` does. The joint entropy runs over all labelings of the batch while
    there are at most ``samples`` of them (with 10 classes and 1,024, for the first four picks), and beyond over so
    many drawn by the seed, as the original does. While it is exact, the batch has at least 1 - 1/e of the largest
    information there is.

    What a point adds never grows with the batch, so a point is scored again only where its last score could still be
    the largest. With all labelings that changes no pick; with a sample of them, a point may be passed over that is
    better by less than the sample errs.

    O(b·n·k·c·`samples`) time at most, a pass over all candidates and labelings a pick; far less as a rule. No batch
    tells more than ln k: near that, further picks add nothing, and more posterior samples are wanted. Ties, to 12
    decimals, go to the lowest index.

    Parameters
    ----------
    samples : int
        Labelings of a batch that are held.
    """

    name: ClassVar[str] = "batchbald"
    uses_engine: ClassVar[bool] = False
    needs_samples: ClassVar[bool] = True
    samples: int = 1024

    def __post_init__(self) -> None:
        check_integer("samples", self.samples, least=1)

    def plan(self, request: Request) -> None:
        """It needs posterior samples, and no engine."""
        require_posterior(request, self.name)

    def choose(self, request: Request) -> Choice:
        """Priorities are the information in nats that each pick adds; their sum is the batch's."""
        picking = _Picking(request, require_posterior(request, self.name), self.samples)
        return pick_one_by_one(request, picking.pick)


class _Picking:
    """BatchBALD's greedy steps."""

    def __init__(self, request: Request, probabilities: Matrix, samples: int) -> None:
        self.probabilities, self.candidates, self.samples = probabilities, request.candidates, samples
        self.labelings = unlabeled(int(probabilities.shape[1]))
        self.gains = np.full(len(self.candidates), np.inf)
        """(n,) what each would add, or would have added when it was last asked; below 0 once picked."""
        self.is_fresh = np.zeros(len(self.candidates), dtype=np.bool_)
        self.rng = np.random.default_rng(request.seed)

    def pick(self) -> tuple[int, float]:
        """Position and priority of the next pick."""
        best = self._best()
        gain = float(self.gains[best])
        (chosen,) = posterior_rows(self.probabilities, self.candidates[[best]])
        self.labelings = extend(self.labelings, chosen, self.samples, self.rng)
        self.gains[best] = -1.0
        # What adds nothing now never will.
        self.is_fresh = self.gains <= 0.0
        return best, gain

    def _best(self) -> int:
        """The candidate that adds most. Old gains are too large if anything: those on top are brought up to date."""
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

    All that can happen, while they are no more than ``most``; beyond, ``most`` of them drawn in proportion to their
    probability, a draw for each equal share of it: once drawn, a labeling goes on with a label of its own.

    Parameters
    ----------
    labelings : Labelings
        Of the batch before.
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
        # Rounding may put the last draw on the end.
        drawn = np.minimum(np.searchsorted(steps, draws, side="right"), len(steps) - 1)
        parents, labels, weights = parents[drawn], labels[drawn], np.ones(most)
    posterior = labelings.posterior[parents] * probabilities.T[labels]
    return Labelings(weights / weights.sum(), posterior / posterior.sum(axis=1, keepdims=True))
