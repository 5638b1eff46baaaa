"""The Triton kernel for exact squared distances: float64, with the bits of `dubito.core.distances.exact_sq_distances`.

It adds in the same order, without fused multiply-add.
"""

from functools import cache

import torch
import triton
import triton.language as tl

from dubito.engines.cuda.points import Tensor

EXACT_VALUES = 2048
"""Number of features that one program holds."""


@triton.jit(do_not_specialize=["n_pairs"])
def _exact(
    x, y, x_rows, y_rows, order, numbers, weights, out, n_pairs, d,
    LOWERS: tl.constexpr, BY_PICK: tl.constexpr, SLOTS: tl.constexpr, LEVELS: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    pairs = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    is_pair = pairs < n_pairs
    features = tl.load(order + tl.arange(0, SLOTS))
    mask = is_pair[:, None] & (features >= 0)[None, :]
    x_row = tl.load(x_rows + pairs, mask=is_pair, other=0)
    y_row = tl.load(y_rows + pairs, mask=is_pair, other=0)
    left, right = x_row.to(tl.int64)[:, None] * d, y_row.to(tl.int64)[:, None] * d
    terms = tl.load(x + left + features[None, :], mask=mask, other=0.0).to(tl.float64)
    terms = terms - tl.load(y + right + features[None, :], mask=mask, other=0.0).to(tl.float64)
    terms = terms * terms
    for level in tl.static_range(LEVELS):
        halves = tl.permute(tl.reshape(terms, (PAIRS, 2, SLOTS >> (level + 1))), (0, 2, 1))
        lower, upper = tl.split(halves)
        terms = lower + upper
    squared = tl.reshape(terms, (PAIRS,))
    if LOWERS:
        number = tl.load(numbers + x_row, mask=is_pair, other=0)
        if BY_PICK:
            weight = tl.load(weights + y_row, mask=is_pair, other=0.0)
        else:
            weight = tl.load(weights + number, mask=is_pair, other=0.0)
        tl.atomic_min(out + number, squared * weight, mask=is_pair)
    else:
        tl.store(out + pairs, squared, mask=is_pair)


def exact_sq_distances(x: Tensor, y: Tensor, pairs: tuple[Tensor, Tensor]) -> Tensor:
    """Squared distances of pairs of rows, with the bits of `dubito.core.distances.exact_sq_distances`."""
    out = torch.empty(len(pairs[0]), dtype=torch.float64, device=x.device)
    _launch(x, y, pairs, out, out, out, lowers=False, by_pick=False)
    return out


def lower_priorities(
    x: Tensor, y: Tensor, pairs: tuple[Tensor, Tensor], rows: Tensor, priorities: Tensor, weights: Tensor,
    *, by_pick: bool,
) -> None:  # fmt: skip
    """Lower the squared priorities (n,) of ``rows``, the points x, by the distances of pairs.

    ``weights`` belong to the candidates (n,), or with ``by_pick`` to the points y.
    """
    _launch(x, y, pairs, rows, weights, priorities, lowers=True, by_pick=by_pick)


def _launch(
    x: Tensor, y: Tensor, pairs: tuple[Tensor, Tensor], numbers: Tensor, weights: Tensor, out: Tensor,
    *, lowers: bool, by_pick: bool,
) -> None:  # fmt: skip
    order, n_pairs = _slots(x.shape[1], x.device), len(pairs[0])
    per_program = max(1, EXACT_VALUES // len(order))
    if n_pairs:
        _exact[(triton.cdiv(n_pairs, per_program),)](
            x, y, *pairs, order, numbers, weights, out, n_pairs, x.shape[1],
            lowers, by_pick, len(order), len(order).bit_length() - 1, per_program, enable_fp_fusion=False,
        )  # fmt: skip


@cache
def _slots(d: int, device: object) -> Tensor:
    """The feature in each slot of a binary summation tree; -1 for slots without a feature.

    In each step, `dubito.core.distances.sums_by_halving` adds the upper features to the lower (width + 1) // 2. The
    bits of a feature's slot are 1 for the steps in which it is among the upper ones. So adding the upper half of the
    slots to the lower half adds the same numbers in the same order, and zeros.
    """
    n_levels = (d - 1).bit_length()
    position, slot, width = torch.arange(d), torch.zeros(d, dtype=torch.int64), d
    for level in range(n_levels):
        width = (width + 1) // 2
        is_upper = position >= width
        slot += is_upper.long() << (n_levels - 1 - level)
        position -= is_upper.long() * width
    order = torch.full((1 << n_levels,), -1, dtype=torch.int32)
    order[slot] = torch.arange(d, dtype=torch.int32)
    return order.to(device)
