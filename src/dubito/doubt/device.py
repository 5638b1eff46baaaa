"""Doubt of probabilities and logits (n, c) on a GPU, bitwise equal to that of `dubito.doubt.measures` on the host.

Sorting, sums in ascending order and quotients have the same bits in torch and NumPy. Exponentials differ in the last
bit, and are computed by NumPy on the host.
"""

from typing import Any

import numpy as np
import torch

from dubito.matrix import FloatArray, blocks

Tensor = Any
BLOCK_VALUES, BLOCK_ROWS = 1 << 22, 1 << 13
"""Maximum number of exponentials on the host at a time, and of rows that are added up together."""


def doubt_from_probabilities(probabilities: Tensor) -> FloatArray:
    """See `dubito.doubt.measures.doubt_from_probabilities`."""
    ascending, others = _sorted_sums(probabilities.double())
    return _to_host(others / (others + ascending[:, -1]))


def doubt_from_logits(logits: Tensor) -> FloatArray:
    """See `dubito.doubt.measures.doubt_from_logits`."""
    n, c = logits.shape
    doubt = np.empty(n)
    for span in blocks(n, max(1, BLOCK_VALUES // c)):
        ascending = torch.sort(logits[span].double(), dim=1).values
        below = _to_host((ascending[:, :-1] - ascending[:, -1:]).T.contiguous())
        for part in blocks(below.shape[1], BLOCK_ROWS):  # Small enough for the cache.
            exponentials, others = np.exp(below[:, part], out=below[:, part]), doubt[span][part]
            others[:] = 0.0
            for column in exponentials:
                others += column
            others /= others + 1.0
    return doubt


def margin_doubt(probabilities: Tensor) -> FloatArray:
    """See `dubito.doubt.measures.margin_doubt`."""
    ascending, others = _sorted_sums(probabilities.double())
    return _to_host((others + ascending[:, -2]) / (others + ascending[:, -1]))


def softmax(logits: Tensor) -> Tensor:
    """Probabilities (n, c) on the device; see `dubito.doubt.measures.softmax`."""
    n, c = logits.shape
    found = torch.empty((n, c), dtype=torch.float64, device=logits.device)
    for span in blocks(n, max(1, BLOCK_VALUES // c)):
        block = logits[span].double()
        exponentials = _to_host(block - block.amax(dim=1, keepdim=True))
        np.exp(exponentials, out=exponentials)
        sums = exponentials.sum(axis=1, keepdims=True)
        found[span] = _to_device(exponentials, logits) / _to_device(sums, logits)
    return found


def sum_to_one(probabilities: Tensor, tolerance: float) -> bool:
    """Whether no number is negative and every row sums to 1 within half of the tolerance."""
    wide = probabilities.double()
    return bool(((wide >= 0.0).all(dim=1) & ((wide.sum(dim=1) - 1.0).abs() <= 0.5 * tolerance)).all())


def _sorted_sums(probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """Rows in ascending order, and the sum of all but the last number of each row, added in that order."""
    ascending = torch.sort(probabilities, dim=1).values
    columns = ascending.T.contiguous()
    others = torch.zeros_like(columns[0])
    for column in columns[:-1]:
        others += column
    return ascending, others


def _to_host(tensor: Tensor) -> FloatArray:
    """A copy, through pinned memory if the tensor is on a GPU."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    found: FloatArray = host.copy_(tensor).numpy()
    return found


def _to_device(array: FloatArray, like: Tensor) -> Tensor:
    return torch.from_numpy(array).to(like.device)
