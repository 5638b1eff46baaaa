"""How a run on a device begins where nothing is labelled, and so no distance is known."""

import numpy as np
import torch

from dubito.engines.cuda.bounds import DeviceBounds
from dubito.engines.cuda.points import Tensor, distance_from_mean, to_device
from dubito.engines.lazy.rounding import FLOOR
from dubito.matrix import FloatArray, IntArray, blocks


def cold_order(bounds: DeviceBounds, n_first: int) -> IntArray:
    """The first of `dubito.reference.cold_order`: most doubt, or nearest the mean; of equals the lowest number."""
    coldness = _coldness(bounds)
    return np.array([np.argmin(coldness)]) if n_first == 1 else np.argsort(coldness, kind="stable")[:n_first]


def _coldness(bounds: DeviceBounds) -> FloatArray:
    """(n,) by which a cold start takes candidates, smallest first."""
    problem = bounds.problem
    if problem.weights is not None and problem.doubt is not None:
        return -problem.doubt[problem.candidates]
    rows = slice(0, None) if bounds.numbers is None else bounds.numbers
    return distance_from_mean(bounds.points, rows, bounds.sizes.rows)


def farthest(bounds: DeviceBounds, picks: IntArray) -> Tensor:
    """(n,) upper bounds on what the farthest of these candidates leaves to each."""
    rows = to_device(picks, bounds.device)
    return farthest_from(bounds, bounds.exact(rows), bounds.weights[rows])


def farthest_from(bounds: DeviceBounds, exact: Tensor, weights: Tensor) -> Tensor:
    """The same of points (r, d), wherever they lie, with their own weights (r,)."""
    shape, others = bounds.references.shape, bounds.references.shape_of(exact)
    own = (bounds.weights > 0.0).double()[:, None] * weights if bounds.by_pick else None
    parts = []
    for span in blocks(len(bounds.value), bounds.sizes.rows):
        points = bounds.references.shape_of(bounds.exact(span))
        sizes = points.lengths.double().square()[:, None] + others.lengths.double().square()
        squared = (1.0 + shape.loose) * sizes + FLOOR - 2.0 * (points.points.double() @ others.points.double().T)
        scales = bounds.weights[span, None] if own is None else own[span]
        parts.append((squared.clamp(min=0.0) / shape.scale**2 * scales).amax(dim=1))
    return torch.cat(parts)
