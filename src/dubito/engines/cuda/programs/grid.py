"""Programs that wait for each other: one launch does what otherwise would take one for every step.

All of them must run at once, so there are no more of them than multiprocessors.
"""

from functools import cache

import torch
import triton
import triton.language as tl

ARRIVED = tl.constexpr(0)
"""The first number of every ``control`` counts who has come to a meeting; the others are each program's own."""


@triton.jit
def meet(control, goal):
    """Wait until every program has come here."""
    tl.debug_barrier()
    tl.atomic_add(control + ARRIVED, 1, sem="release")
    while tl.atomic_add(control + ARRIVED, 0, sem="acquire") < goal:
        pass
    tl.debug_barrier()


@cache
def multiprocessors(device: torch.device) -> int:
    """1 where programs run one after another, on a CPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
