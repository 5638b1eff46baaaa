"""How the GPU engine shares out the memory of its device."""

from dataclasses import dataclass

from dubito.errors import MemoryLimit, named

STATE_BYTES = 48
"""For each candidate: bound, weight, number, what was seen, and the copies that a search for the first makes."""
SMALLEST_FRONT = 64
SHARE = 0.9
"""Of the free memory, which others may want too."""


@dataclass(frozen=True, slots=True)
class DeviceSizes:
    """Rows and pairs at a time."""

    front: int = 4096
    """Candidates decided together."""
    rows: int = 1 << 16
    """Candidates brought up to date together."""
    pairs: int = 1 << 28
    """Pairs looked through at a time, all of which may be near."""

    def smaller(self) -> "DeviceSizes":
        """Sizes that need about a quarter of the memory."""
        return DeviceSizes(self.front // 4, self.rows // 4, self.pairs // 16)

    def working_bytes(self, d: int) -> int:
        """What blocks in the making hold: points in up to three types, and the pairs that are usually near."""
        return 24 * d * max(self.rows, 2 * self.front) + 64 * self.front * min(self.front, 256) + (1 << 24)


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """Sizes, and whether the pool is brought to the device whole or a block at a time."""

    sizes: DeviceSizes
    is_resident: bool


def plan_memory(shape: tuple[int, int], itemsize: int, n_references: int, free: int, *, is_there: bool) -> DevicePlan:
    """A plan for a pool (n, d) within free bytes; MemoryLimit where even the smallest blocks do not fit.

    ``is_there`` says that the pool is on the device already.
    """
    n, d = shape
    sizes, kept = DeviceSizes(), STATE_BYTES * n + n_references * d * (itemsize + 4)
    pool = 0 if is_there else n * d * itemsize
    while kept + sizes.working_bytes(d) > free and sizes.front > SMALLEST_FRONT:
        sizes = sizes.smaller()
    needed = kept + sizes.working_bytes(d)
    if needed > free:
        raise out_of_memory(shape, n_references, needed, free)
    return DevicePlan(sizes, is_there or needed + pool <= free)


def plan_bytes(plan: DevicePlan, shape: tuple[int, ...], itemsize: int, n_references: int, *, is_there: bool) -> int:
    """What a plan uses of the device, beyond what is there already."""
    n, d = shape
    kept = STATE_BYTES * n + n_references * d * (itemsize + 4)
    pool = n * d * itemsize if plan.is_resident and not is_there else 0
    return kept + plan.sizes.working_bytes(d) + pool


def out_of_memory(shape: tuple[int, int], n_references: int, needed: int, free: int) -> MemoryLimit:
    """The error, with the estimate and the fix."""
    return MemoryLimit(
        f"{shape[0]} rows of {shape[1]} features with {n_references} references and picks need {_megabytes(needed)} MB "
        f"of GPU memory beside the pool, and {_megabytes(free)} MB may be used",
        hint=f"free some, raise {named('memory_limit')}, pass float16 features, or pass {named('engine', 'cpu')}.",
    )


def _megabytes(size: int) -> int:
    return -(-size // 10**6)
