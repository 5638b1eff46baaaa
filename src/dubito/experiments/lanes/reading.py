"""What a network makes of the whole data, read on the device: features, probabilities, and how far points lie."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dubito.experiments.models.networks.split import Weights
from dubito.matrix import FloatArray, IntArray

if TYPE_CHECKING:
    import torch

READ_ROWS = 2500
"""Rows that go through a network at once; the last block is filled up, so that all are of one size."""
NEAR_ROWS = 8192
"""Rows whose distances are reckoned at once."""
SETTLED = 64
"""Rows of the largest distances, which are settled in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What a trained network makes of a seed's data."""

    features: "torch.Tensor"
    """(n, e) float32 on the device: inputs of the head for the training part."""
    probabilities: FloatArray
    """(n, c) for the training part, in float64."""
    tested: FloatArray
    """(t, c) for the test set."""


def read_all(
    answer: Callable[..., "tuple[torch.Tensor, torch.Tensor]"],
    weights: Weights,
    rows: "torch.Tensor",
    tests: "torch.Tensor",
) -> Reading:
    """Put all rows through a network."""
    features, logits = read_rows(answer, weights, rows)
    _, tested = read_rows(answer, weights, tests)
    return Reading(features, probabilities(logits), probabilities(tested))


def read_rows(
    answer: Callable[..., "tuple[torch.Tensor, torch.Tensor]"], weights: Weights, rows: "torch.Tensor"
) -> "tuple[torch.Tensor, torch.Tensor]":
    """(n, e) features and (n, c) logits."""
    import torch

    seen, told = list[torch.Tensor](), list[torch.Tensor]()
    size = min(READ_ROWS, len(rows))
    with torch.no_grad():
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            n = len(block)
            if n < size:
                block = torch.cat([block, block[:1].expand(size - n, *block.shape[1:])])
            features, logits = answer(weights, block)
            seen.append(features[:n].flatten(1))
            told.append(logits[:n])
    return torch.cat(seen), torch.cat(told)


def probabilities(logits: "torch.Tensor") -> FloatArray:
    """(n, c) softmax in float64, on the host."""
    return np.asarray(logits.double().softmax(dim=1).cpu().numpy())


def nearest_squared(features: "torch.Tensor", labelled: IntArray) -> "torch.Tensor":
    """(n,) squared distance to the nearest labelled row, in float32; 0 for a labelled one.

    Θ(n·m·e), in blocks of rows.
    """
    import torch

    centred = features - features.mean(dim=0)  # Large coordinates would drown the differences.
    rows = torch.from_numpy(labelled).to(features.device)
    references = centred.index_select(0, rows)
    lengths, squares = (references * references).sum(dim=1), (centred * centred).sum(dim=1)
    parts = [
        torch.addmm(lengths, centred[start : start + NEAR_ROWS], references.T, alpha=-2.0).amin(dim=1)
        for start in range(0, len(features), NEAR_ROWS)
    ]
    nearest = (torch.cat(parts) + squares).clamp_min(0.0)
    nearest[rows] = 0.0
    return nearest


def largest_distance(
    features: "torch.Tensor", labelled: IntArray, nearest: "torch.Tensor", doubt: FloatArray | None = None
) -> float:
    """δ, the largest distance to the nearest labelled row; or δ̂, that of distance times doubt.

    Found in float32 and settled in float64.

    Examples
    --------
    >>> import torch
    >>> line = torch.tensor([[0.0], [1.0], [5.0]])
    >>> known = np.array([0])
    >>> near = nearest_squared(line, known)
    >>> largest_distance(line, known, near), largest_distance(line, known, near, np.array([0.0, 1.0, 0.1]))
    (5.0, 1.0)
    """
    import torch

    weights = torch.ones_like(nearest, dtype=torch.float64)
    if doubt is not None:
        weights = torch.from_numpy(doubt).to(features.device) ** 2
    top = (nearest.double() * weights).topk(min(SETTLED, len(nearest))).indices
    references = features[torch.from_numpy(labelled).to(features.device)].double()
    exact = torch.cdist(features[top].double(), references, compute_mode="donot_use_mm_for_euclid_dist").amin(dim=1)
    return float((exact * weights[top].sqrt()).max())
