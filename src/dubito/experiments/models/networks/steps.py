"""The steps of a turn: which rows are in each minibatch, and at which learning rate it is learned from.

One meaning for every network, trained alone on a CPU or side by side in the lanes of a GPU.
"""

import math
from typing import TYPE_CHECKING

from dubito.experiments.models.networks.training import Training
from dubito.matrix import IntArray

if TYPE_CHECKING:
    import torch


class Steps:
    """What a turn trains on, step by step.

    Parameters
    ----------
    rows : array (m,)
        The labelled rows.
    training : Training
        How to train.
    is_first : bool
        Whether nothing was trained before: then there are `Training.epochs` passes, else `Training.later_epochs`.
    seed : int
        The same seed gives the same minibatches, on every device.

    Examples
    --------
    >>> import numpy as np
    >>> steps = Steps(np.arange(12), Training(2, 1, 0.5, True, 8, "cpu"), is_first=True, seed=0)
    >>> steps.count, steps.order.shape, steps.rates.tolist()
    (3, torch.Size([3, 8]), [0.5, 0.375, 0.125])
    """

    def __init__(self, rows: IntArray, training: Training, *, is_first: bool, seed: int) -> None:
        epochs = training.epochs if is_first else training.later_epochs
        self.count = n_steps(len(rows), epochs, training.batch)
        self.order = minibatches(rows, epochs, training.batch, seed)
        """(steps, batch) the rows of every minibatch."""
        self.rates = learning_rates(self.count, training)
        """(steps,) the learning rate of every step."""


def n_steps(labels: int, epochs: int, batch: int) -> int:
    """Minibatches of a turn, at least one an epoch."""
    return max(epochs, epochs * labels // batch)


def minibatches(rows: IntArray, epochs: int, batch: int, seed: int) -> "torch.Tensor":
    """(steps, batch) rows in random order, epoch after epoch.

    Epochs follow one another without a gap: a minibatch may hold the end of one and the beginning of the next, and all
    are of one size. What is left of the last epoch, less than a minibatch, is passed over. Labels that are fewer than a
    minibatch are repeated in it.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    labelled = torch.from_numpy(rows)
    count = n_steps(len(rows), epochs, batch)
    passes = max(epochs, -(-count * batch // len(rows)))
    stream = torch.cat([labelled[torch.randperm(len(rows), generator=generator)] for _ in range(passes)])
    return stream[: count * batch].view(count, batch)


def learning_rates(count: int, training: Training) -> "torch.Tensor":
    """(steps,) the learning rate of every step: the same, or with ``decay`` falling to 0 along a cosine."""
    import torch

    places = torch.arange(count, dtype=torch.float64) / count
    falling = 0.5 * (1.0 + torch.cos(math.pi * places)) if training.decay else torch.ones_like(places)
    return (training.learning_rate * falling).float()
