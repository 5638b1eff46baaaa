"""BADGE's sampling where the features are on a GPU: k-means++ over gradients that stay there.

Sums are float64, added in the device's own order: picks are those of the host up to rounding.
"""

from typing import TYPE_CHECKING

import numpy as np

from dubito.matrix import FloatArray, IntArray, OnDevice
from dubito.problem import Metric

if TYPE_CHECKING:
    import torch


class DeviceSampling:
    """K-means++ over gradients of the last layer, one pick at a time.

    A gradient is the outer product of an error and of features; products of these factors give squared distances. One
    pass over the features and one wait for the host a pick.

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
    rng : numpy.random.Generator
        Draws the picks.
    """

    def __init__(
        self, pool: OnDevice, rows: IntArray, errors: FloatArray, metric: Metric, rng: np.random.Generator
    ) -> None:
        import torch

        device = pool.tensor.device
        self.features = pool.tensor.index_select(0, torch.from_numpy(rows).to(device)).double()
        if metric == "cosine":
            self.features /= self.features.norm(dim=1, keepdim=True)
        self.errors = torch.from_numpy(errors).to(device)
        self.squared_lengths = (self.errors**2).sum(dim=1) * (self.features**2).sum(dim=1)
        self.tolerance = (self.errors.shape[1] + self.features.shape[1] + 8) * 4e-16
        self.nearest: torch.Tensor | None = None
        """(n,) squared distance to the nearest picked gradient; None before the first."""
        self.is_left = np.ones(len(rows), dtype=np.bool_)
        self.rng = rng

    def pick(self) -> tuple[int, float]:
        """Position and priority of the next pick."""
        squared = self.squared_lengths if self.nearest is None else self.nearest
        position, found = self._first(squared) if self.nearest is None else self._draw(squared)
        distances = self.squared_distances(position)
        self.is_left[position] = False
        self.nearest = distances if self.nearest is None else distances.minimum(self.nearest)
        self.nearest[position] = 0.0
        return position, found**0.5

    def squared_distances(self, position: int) -> "torch.Tensor":
        """(n,) from every gradient to that at a position, zero where only rounding tells them apart."""
        products = (self.errors @ self.errors[position]) * (self.features @ self.features[position])
        sums = self.squared_lengths + self.squared_lengths[position]
        squared = sums - 2.0 * products
        return squared.where(squared > self.tolerance * sums, 0.0)

    def _first(self, squared: "torch.Tensor") -> tuple[int, float]:
        position = int(squared.argmax())
        return position, float(squared[position])

    def _draw(self, squared: "torch.Tensor") -> tuple[int, float]:
        import torch

        chance = self.rng.bit_generator.state
        steps = squared.cumsum(dim=0)
        # The first step above the draw: never one of height zero, so nothing is picked twice.
        position = torch.searchsorted(steps, steps[-1:] * self.rng.random(), right=True).clamp_(max=len(steps) - 1)
        place, found, total = torch.cat([position.double(), squared[position], steps[-1:]]).tolist()
        if total > 0.0:
            return int(place), found
        self.rng.bit_generator.state = chance  # As if nothing had been drawn.
        return int(self.rng.choice(np.flatnonzero(self.is_left))), 0.0
