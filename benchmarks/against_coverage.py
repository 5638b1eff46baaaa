"""Coverage without dubito: a float64 run that proves its picks, the dense greedy in NumPy, and scikit-activeml's.

The float64 run shares no code with dubito. It finds every pair that can matter by products in float64, a block of rows
at a time, and picks by a heap of sums: products in float64 are off by some 1e-12, far less than picks are apart.
"""

import heapq
from dataclasses import dataclass
from importlib import import_module

import numpy as np
from workloads import Array, Floats, Ints

BLOCK = 1_024
FACTOR = 1.4
SAMPLE = 4_096


@dataclass(frozen=True, slots=True)
class CoverTask:
    """Rows to cover with their weights, what is labeled, and how many to pick."""

    title: str
    pool: Array
    labeled: Array
    weights: Floats
    budget: int

    def head(self, n_pool: int, n_labeled: int, budget: int) -> "CoverTask":
        """The first rows of each."""
        return CoverTask(self.title, self.pool[:n_pool], self.labeled[:n_labeled], self.weights[:n_pool], budget)

    def describe(self) -> dict[str, object]:
        """For the record."""
        (n, d), m = self.pool.shape, len(self.labeled)
        return {"data": self.title, "n": n, "d": d, "m": m, "budget": self.budget}


def squared_distances(left: Floats, right: Floats) -> Floats:
    """(r, s) by one product."""
    sizes = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)
    return np.asarray(np.maximum(sizes - 2.0 * (left @ right.T), 0.0))


def nearest_labeled(task: CoverTask, dtype: type = np.float64) -> Floats:
    """(n,) squared distances."""
    labeled = task.labeled.astype(dtype)
    blocks = [task.pool[start : start + BLOCK].astype(dtype) for start in range(0, len(task.pool), BLOCK)]
    return np.concatenate([squared_distances(block, labeled).min(axis=1) for block in blocks])


def squared_reach(nearest: Floats) -> float:
    """As the documentation has it: the lower median of an even sample, copies aside."""
    n_rows = min(SAMPLE, len(nearest))
    sample = np.sort(nearest[np.arange(n_rows) * len(nearest) // n_rows])
    sample = sample[sample > 0.0]
    return float(FACTOR**2 * sample[(len(sample) - 1) // 2])


class Float64Run:
    """Every pair that can add something, in float64, by candidate."""

    def __init__(self, task: CoverTask) -> None:
        self.task = task
        nearest = nearest_labeled(task)
        self.reach = squared_reach(nearest)
        self.cover = np.maximum(1.0 - nearest / self.reach, 0.0) ** 2
        limits, pool = np.minimum(nearest, self.reach), task.pool.astype(np.float64)
        self.rows: list[Ints] = []
        self.kernels: list[Floats] = []
        for start in range(0, len(pool), BLOCK):
            squared = squared_distances(pool[start : start + BLOCK], pool)
            squared[np.arange(len(squared)), start + np.arange(len(squared))] = 0.0
            is_near = squared < limits
            for place in range(len(squared)):
                found = np.flatnonzero(is_near[place])
                self.rows.append(found)
                self.kernels.append(np.maximum(1.0 - squared[place, found] / self.reach, 0.0) ** 2)

    def gain(self, candidate: int) -> float:
        """What a candidate adds now."""
        rows = self.rows[candidate]
        return float(self.task.weights[rows] @ np.maximum(self.kernels[candidate] - self.cover[rows], 0.0))

    def solve(self) -> tuple[Ints, Floats]:
        """Picks and what each adds."""
        heap = [(-self.gain(candidate), candidate, 0) for candidate in range(len(self.rows))]
        heapq.heapify(heap)
        picks, gains = list[int](), list[float]()
        while len(picks) < self.task.budget:
            value, candidate, seen = heap[0]
            if seen < len(picks):
                heapq.heapreplace(heap, (-self.gain(candidate), candidate, len(picks)))
                continue
            heapq.heappop(heap)
            rows = self.rows[candidate]
            self.cover[rows] = np.maximum(self.cover[rows], self.kernels[candidate])
            picks.append(candidate)
            gains.append(-value)
        return np.array(picks), np.array(gains)


def dense_greedy(task: CoverTask) -> Ints:
    """The obvious way, carefully: the n × n kernel in float32 once, then one pass over all of it for every pick."""
    pool, nearest = task.pool.astype(np.float32), nearest_labeled(task, np.float32)
    reach = np.float32(squared_reach(nearest.astype(np.float64)))
    kernels = np.empty((len(pool), len(pool)), dtype=np.float32)
    for start in range(0, len(pool), BLOCK):
        near = squared_distances(pool[start : start + BLOCK], pool)
        near /= -reach
        near += 1.0
        np.maximum(near, 0.0, out=near)
        np.multiply(near, near, out=kernels[start : start + BLOCK])
    cover = np.maximum(1.0 - nearest / reach, 0.0) ** 2
    weights, picks = task.weights.astype(np.float32), list[int]()
    gains, part = np.empty(len(pool), dtype=np.float32), np.empty((BLOCK, len(pool)), dtype=np.float32)
    for _ in range(task.budget):
        for start in range(0, len(pool), BLOCK):
            rows = kernels[start : start + BLOCK]
            above = np.subtract(rows, cover, out=part[: len(rows)])
            np.maximum(above, 0.0, out=above)
            gains[start : start + BLOCK] = above @ weights
        gains[picks] = -1.0
        picks.append(int(np.argmax(gains)))
        cover = np.maximum(cover, kernels[picks[-1]])
    return np.array(picks)


def max_herding(task: CoverTask) -> Ints:
    """scikit-activeml's MaxHerding: a Gaussian kernel, n × n; it has no doubt."""
    found = import_module("skactiveml.pool").MaxHerding(random_state=0, metric_dict={"gamma": 1.0})
    features = np.concatenate([task.pool, task.labeled])
    labels = np.concatenate([np.full(len(task.pool), np.nan), np.zeros(len(task.labeled))])
    return np.asarray(found.query(features, labels, batch_size=task.budget), dtype=np.int64)
