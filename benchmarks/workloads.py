"""What is timed: pools of features with labeled points and doubts, seeded, built outside every timing.

A pool from a file is real; where none is given, a generated one stands in. The generated features are a low-rank
mixture of ten classes through a ReLU. Their zeros (72%), lengths, nearest distances and share of variance along the
leading directions follow those of CIFAR-10 in a fine-tuned VGG16; half of the doubts are under 1e-5, as they are there.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dubito.doubt import doubt_from_logits

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

WIDTH = 512
RANK = 48
CLASSES = 10
BLOCK = 10_000


@dataclass(frozen=True, slots=True)
class Workload:
    """Features and doubts, before a budget is named."""

    title: str
    pool: Array
    """(n, d) float32, or a float16 memory map."""
    labeled: Array
    """(m, d) of the pool's type."""
    doubt: Floats
    """(n,)"""

    def head(self, n_pool: int, n_labeled: int) -> "Workload":
        """The first rows of each, in float32."""
        pool, labeled = self.pool[:n_pool].astype(np.float32), self.labeled[:n_labeled].astype(np.float32)
        return replace(self, pool=pool, labeled=labeled, doubt=self.doubt[:n_pool])


@dataclass(frozen=True, slots=True)
class Task:
    """A workload, how many to pick, and whether doubt scales the distances."""

    workload: Workload
    budget: int
    is_scaled: bool
    beam_width: int = 1

    @property
    def weights(self) -> Floats | None:
        """(n,) squared doubts; None where distances are not scaled."""
        return self.workload.doubt**2 if self.is_scaled else None

    def small(self) -> "Task":
        """A few picks from a corner of the same data: enough to warm a contestant up."""
        return replace(self, workload=self.workload.head(2_000, 100), budget=min(self.budget, 5))

    def describe(self) -> dict[str, object]:
        """For the record."""
        (n, d), m = self.workload.pool.shape, len(self.workload.labeled)
        return {
            "data": self.workload.title,
            "type": str(self.workload.pool.dtype),
            "n": n,
            "d": d,
            "m": m,
            "budget": self.budget,
            "is_scaled": self.is_scaled,
        }


def read_workload(path: Path) -> Workload:
    """A real pool: an .npz with features (N, d), logits (N, c) and labeled, the rows that are."""
    with np.load(path) as file:
        features, logits, rows = file["features"].astype(np.float32), file["logits"], file["labelled"]
    is_labeled = np.zeros(len(features), dtype=np.bool_)
    is_labeled[rows] = True
    doubt = doubt_from_logits(logits[~is_labeled])
    return Workload(path.name, features[~is_labeled], features[is_labeled], doubt)


class Mixture:
    """Ten classes in a few dozen directions, the same for every seed of the points drawn from it."""

    def __init__(self) -> None:
        rng = np.random.default_rng(20)
        self.centers = (9.5 * rng.standard_normal((CLASSES, WIDTH))).astype(np.float32)
        fall = np.arange(1, RANK + 1) ** -0.9
        self.directions = (3.5 * fall[:, None] * rng.standard_normal((RANK, WIDTH))).astype(np.float32)
        self.bias = (7.5 * rng.standard_normal(WIDTH) - 7.0).astype(np.float32)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.float32], Floats]:
        """Features (n, d) and doubts (n,): the doubtful lie between two classes, and farther from their like."""
        margin = np.abs(rng.normal(11.5, 9.0, n))
        share = 0.5 / (1.0 + margin / 6.0)
        first, step = rng.integers(CLASSES, size=n), rng.integers(1, CLASSES, size=n)
        blend = np.zeros((n, CLASSES), dtype=np.float32)
        blend[np.arange(n), first] = 1.0 - share
        blend[np.arange(n), (first + step) % CLASSES] = share
        along = rng.standard_normal((n, RANK), dtype=np.float32) * (0.6 + 1.6 * share).astype(np.float32)[:, None]
        features = blend @ self.centers + along @ self.directions + self.bias
        features += np.float32(1.5) * rng.standard_normal((n, WIDTH), dtype=np.float32)
        features *= np.exp(0.22 * rng.standard_normal(n)).astype(np.float32)[:, None]
        return np.maximum(features, 0.0), 1.0 / (1.0 + np.exp(margin))


def draw_blocks(n: int, seed: int) -> Iterator[tuple[slice, npt.NDArray[np.float32], Floats]]:
    """Blocks of a generated pool; a row depends on its number and the seed, not on n."""
    mixture = Mixture()
    for start in range(0, n, BLOCK):
        features, doubt = mixture.draw(BLOCK, np.random.default_rng([seed, start]))
        span = slice(start, min(start + BLOCK, n))
        yield span, features[: span.stop - start], doubt[: span.stop - start]


def generate_workload(n_pool: int, n_labeled: int, seed: int = 0) -> Workload:
    """A generated pool in memory, in float32 but of float16 values, as a file of features would hold."""
    blocks = [(features.astype(np.float16), doubt) for _, features, doubt in draw_blocks(n_pool + n_labeled, seed)]
    features = np.concatenate([features for features, _ in blocks]).astype(np.float32)
    doubt = np.concatenate([doubt for _, doubt in blocks])[:n_pool]
    return Workload("generated", features[:n_pool], features[n_pool:], doubt)


def write_workload(folder: Path, n_pool: int, n_labeled: int, seed: int = 1) -> None:
    """A generated pool as float16 files, written block by block."""
    for name, n, offset in (("pool", n_pool, 0), ("labelled", n_labeled, 1)):
        features = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float16, (n, WIDTH))
        doubts = np.empty(n)
        for span, block, doubt in draw_blocks(n, seed + offset):
            features[span], doubts[span] = block, doubt
        features.flush()
        del features
        np.save(folder / f"{name}_doubt.npy", doubts)
    # Written pages are still dirty: on their way to the disk they would disturb what is timed next.
    os.sync()


def open_workload(folder: Path) -> Workload:
    """The files of `write_workload`, the features as read-only memory maps."""
    pool, labeled = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("pool", "labelled"))
    return Workload("generated", pool, labeled, np.load(folder / "pool_doubt.npy"))
