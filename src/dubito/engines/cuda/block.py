"""Steps of a beam inside a front, in one block of threads: for beams no wider than a block has warps.

The threads of a block meet in a fraction of the time that programs across a GPU take, and have memory of their own.
`programs/block/` has the program; a front may be larger here than there.
"""

import ctypes
from ctypes import c_int, c_void_p
from pathlib import Path
from typing import Any

import torch

from dubito.engines.cuda.board import DeviceBoard, StepsTaken
from dubito.engines.cuda.points import Tensor
from dubito.engines.cuda.programs import native

SLOTS = 128
"""Candidates on the short list."""
PITCH = SLOTS + 1
"""Numbers from one configuration's keys to the next one's: a column of them does not lie in one bank of memory."""
MOST_OWN = SLOTS // 2
"""Picks of some configurations alone, in all, that there is room for on the list."""
WIDEST_BLOCK = 32
LEAST_WARPS = 16
"""Narrow beams have helpers that draw the list."""
WARP = 32
BUCKETS = 512
"""Into which keys are sorted in search of the highest."""
SHARED_BYTES, DRAWING_BYTES = 8784, 6144
"""Room for `Shared` and `Drawing`, whose sizes the compiler checks."""
CHILD_BYTES = 16
LARGEST_BLOCK_FRONT = SLOTS * SLOTS
"""Keys of a whole front lie for a while where later each pair on the list has one."""
STUCK = 2
SOURCES = tuple(
    Path(native.__file__).parent / "block" / f"{name}.cu" for name in ("state", "list", "children", "steps")
)
CONSTANTS = tuple(
    f"{name}={value}"
    for name, value in {
        "SLOTS": SLOTS, "PITCH": PITCH, "WIDEST": WIDEST_BLOCK, "MOST_OWN": MOST_OWN, "BUCKETS": BUCKETS,
        "SHARED_BYTES": SHARED_BYTES, "DRAWING_BYTES": DRAWING_BYTES,
    }.items()
)  # fmt: skip


class BlockTask(ctypes.Structure):
    """What the program takes: `Task` of ``state.cu``."""

    _fields_ = (
        *((name, c_void_p) for name in ("start", "starts", "others", "left", "bar", "gains", "own", "is_held")),
        *((name, c_void_p) for name in ("totals", "base", "keys", "last_totals", "past", "control")),
        *((name, c_int) for name in ("n", "n_keys", "n_own", "n_live", "width", "limit")),
    )


def block_program(device: Any) -> Any:
    """The program on a device; None where it cannot be had."""
    if device.type != "cuda":
        return None
    return native.native_program(SOURCES, "make_block_steps", CONSTANTS, device.index or 0)


def shared_bytes(width: int, n: int) -> int:
    """Of shared memory, for a front of n candidates."""
    # What is needed while a list is drawn lies where keys of configurations, and children, lie in between.
    n_either = max(-(-width * PITCH // 4) * 16, DRAWING_BYTES) + max(CHILD_BYTES * width * width, n)
    return SHARED_BYTES + 4 * SLOTS * SLOTS + n_either


def largest_front(most_shared: int, width: int) -> int:
    """Candidates in a front, at most; 0 where the beam is too wide, or the device's blocks too small for it."""
    if width > WIDEST_BLOCK or shared_bytes(width, 0) > most_shared:
        return 0
    return min(LARGEST_BLOCK_FRONT, most_shared - shared_bytes(width, 0) + CHILD_BYTES * width * width)


def run_in_block(
    program: Any, board: DeviceBoard, own: Tensor, is_held: Tensor, totals: Tensor, width: int, limit: int
) -> tuple[StepsTaken, bool]:
    """See `dubito.engines.cuda.tables.run_steps`; and whether the list was too short to go on."""
    n, n_live, device = len(board.start), len(totals), totals.device
    base, control = torch.empty(n, dtype=torch.int32, device=device), torch.empty(3, dtype=torch.int32, device=device)
    keys = torch.empty((width, n), dtype=torch.int32, device=device)
    last_totals = torch.empty(width, dtype=torch.int64, device=device)
    # Ranks that no configuration has name the first one as their parent.
    past = torch.zeros((limit, width, 4), dtype=torch.int32, device=device)
    own, held, totals = own.contiguous(), is_held.contiguous(), totals.contiguous()
    tensors = (
        board.start, *board.by_pick(), board.bar, board.gains, own, held,
        totals, base, keys, last_totals, past, control,
    )  # fmt: skip
    task = BlockTask(*(each.data_ptr() for each in tensors), n, board.n_keys, len(own), n_live, width, limit)
    program.run(task, WARP * max(width, LEAST_WARPS), shared_bytes(width, n))
    made, n_live, outcome = control.tolist()
    parents, picks, heights, _ = past[:made].unbind(dim=2)
    steps = StepsTaken(keys[:n_live], last_totals[:n_live], parents, picks, heights)
    return steps, outcome == STUCK
