"""How the GPU engine uses the memory of its device."""

from dataclasses import dataclass

from dubito.errors import MemoryLimit, named

STATE_BYTES = 56
"""For each candidate: bound, weight, number, length, reference counts, and temporary copies during searches."""
SMALLEST_FRONT = 64
USABLE = 0.9
"""The share of the free memory that the engine uses."""


@dataclass(frozen=True, slots=True)
class DeviceSizes:
    """Block sizes."""

    front: int = 4096
    """Number of candidates in a front."""
    rows: int = 1 << 16
    """Number of candidates that are refreshed together."""
    pairs: int = 1 << 28
    """Number of candidate-reference pairs that are searched at a time; all of them may be near."""

    def smaller(self) -> "DeviceSizes":
        """Sizes that need about a quarter of the memory."""
        return DeviceSizes(self.front // 4, self.rows // 4, self.pairs // 16)

    def working_bytes(self, d: int) -> int:
        """Temporary memory: blocks of points in up to three types, and the usual number of near pairs."""
        return 24 * d * max(self.rows, 2 * self.front) + 64 * self.front * min(self.front, 256) + (1 << 24)


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """Block sizes, and whether the whole pool is copied to the device or one block at a time."""

    sizes: DeviceSizes
    is_resident: bool


def plan_memory(shape: tuple[int, int], itemsize: int, n_references: int, free: int, *, on_device: bool) -> DevicePlan:
    """A plan for a pool (n, d) that fits into ``free`` bytes; raises MemoryLimit if there is none.

    ``on_device``: the pool is on the device already.
    """
    n, d = shape
    sizes, kept = DeviceSizes(), STATE_BYTES * n + n_references * d * (itemsize + 4)
    pool = 0 if on_device else n * d * itemsize
    while kept + sizes.working_bytes(d) > free and sizes.front > SMALLEST_FRONT:
        sizes = sizes.smaller()
    needed = kept + sizes.working_bytes(d)
    if needed > free:
        raise out_of_memory(shape, n_references, needed, free)
    return DevicePlan(sizes, on_device or needed + pool <= free)


def plan_bytes(plan: DevicePlan, shape: tuple[int, ...], itemsize: int, n_references: int, *, on_device: bool) -> int:
    """The memory that a plan uses, without a pool that is on the device already."""
    n, d = shape
    kept = STATE_BYTES * n + n_references * d * (itemsize + 4)
    pool = n * d * itemsize if plan.is_resident and not on_device else 0
    return kept + plan.sizes.working_bytes(d) + pool


def out_of_memory(shape: tuple[int, int], n_references: int, needed: int, free: int) -> MemoryLimit:
    """The error if memory is too small; it says how much is needed, and how to need less."""
    return MemoryLimit(
        f"{shape[0]} rows of {shape[1]} features with {n_references} references and picks need {_megabytes(needed)} MB "
        f"of GPU memory in addition to the pool, and {_megabytes(free)} MB may be used",
        hint=f"free some, raise {named('memory_limit')}, pass float16 features, or pass {named('engine', 'cpu')}.",
    )


def _megabytes(size: int) -> int:
    return -(-size // 10**6)
