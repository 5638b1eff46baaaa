"""BADGE's gradients where the features are on a GPU, and stay there.

Products are float64, added in the device's own order: distances are those of the host up to rounding.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dubito.core.problem import Metric
from dubito.matrix import FloatArray, IntArray, OnDevice, blocks
from dubito.strategies.gradients import rounding

if TYPE_CHECKING:
    import torch

    Factors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    """Errors (k, c), features (k, d) and squared lengths (k,) of some gradients."""

BLOCK_BYTES = 64 << 20
"""Features widened to float64 at once, and their products."""


class DeviceGradients:
    """Gradients of the last layer's weights at some rows of a pool on a device, kept as their two factors.

    A gradient is the outer product of an error and of features; products of these factors give squared distances.
    Beyond the pool it holds n·(c + 2) numbers on the device, and blocks of features while they are multiplied.

    Parameters
    ----------
    pool : OnDevice
        All features.
    rows : array (n,)
        The candidates.
    errors : array (n, c)
        Probabilities less the most probable label.
    metric : str
        ``cosine`` makes the features unit vectors.
    """

    def __init__(self, pool: OnDevice, rows: IntArray, errors: FloatArray, metric: Metric) -> None:
        import torch

        self.tensor, self.metric = pool.tensor, metric
        self.rows = torch.tensor(rows, device=self.tensor.device)
        self.errors = torch.tensor(errors, device=self.tensor.device)
        lengths = [(block * block).sum(dim=1) for _, block in self._read()]
        self.lengths = (self.errors * self.errors).sum(dim=1) * torch.cat(lengths)
        self.squared_lengths: FloatArray = self.lengths.cpu().numpy()
        """(n,) on the host."""

    def among(self, positions: IntArray) -> FloatArray:
        """(k, k) squared distances of the gradients at some positions."""
        some = self._at(positions)
        return np.asarray(squared_distances(some, some).cpu().numpy())

    def to_nearest(self, positions: IntArray) -> FloatArray:
        """(n,) squared distance of every gradient to the nearest at some positions: one wait for the device."""
        import torch

        picked, parts = self._at(positions), list[torch.Tensor]()
        for span, features in self._read(len(positions)):
            some = self.errors[span], features, self.lengths[span]
            parts.append(squared_distances(some, picked).amin(dim=1))
        return np.asarray(torch.cat(parts).cpu().numpy())

    def _at(self, positions: IntArray) -> "Factors":
        import torch

        places = torch.tensor(positions, device=self.rows.device)
        return self.errors[places], self._widened(self.rows[places]), self.lengths[places]

    def _read(self, n_others: int = 1) -> Iterator[tuple[slice, "torch.Tensor"]]:
        """Blocks of features, to be multiplied with others."""
        for span in blocks(len(self.rows), max(1, BLOCK_BYTES // (8 * max(self.tensor.shape[1], n_others)))):
            yield span, self._widened(self.rows[span])

    def _widened(self, rows: "torch.Tensor") -> "torch.Tensor":
        block = self.tensor.index_select(0, rows).double()
        if self.metric == "cosine":
            block /= block.abs().amax(dim=1, keepdim=True)  # First, so that squares neither overflow nor vanish.
            block /= block.norm(dim=1, keepdim=True)
        return block


def squared_distances(some: "Factors", others: "Factors") -> "torch.Tensor":
    """(k, l) between gradients, zero where only rounding tells them apart."""
    errors, features, lengths = some
    sums = lengths[:, None] + others[2]
    squared = features @ others[1].T
    squared *= errors @ others[0].T
    squared *= -2.0
    squared += sums
    sums *= rounding(errors.shape[1], features.shape[1])
    return squared.masked_fill_(squared <= sums, 0.0)
