"""Whether picks are right: equal to a float64 run, parted from it only where float32 rounds, or certified in blocks."""

import numpy as np
from workloads import Array, Floats, Ints, Task

SAME = "same picks, same order"


class Disagreement(Exception):
    """Picks that are not a core-set's: nothing may be timed, or kept."""


def assert_identical(found: Ints, expected: Ints, what: str) -> str:
    """Equal in order, or a Disagreement that says where not."""
    if np.array_equal(found, expected):
        return SAME
    first = first_difference(found, expected)
    raise Disagreement(f"{what}: pick {first} is {found[first : first + 1]}, not {expected[first : first + 1]}")


def first_difference(found: Ints, expected: Ints) -> int:
    """How many picks are the same before two orders part."""
    if len(found) != len(expected):
        raise Disagreement(f"{len(found)} picks, not {len(expected)}")
    return int(np.argmin(np.append(found == expected, False)))


def compare_with(task: Task, found: Ints, expected: Ints) -> str:
    """As `assert_identical`, but a peer may part where the rounding of float32 products can mislead it.

    It then says by how much, relative to the distance, its first different pick lies nearer than the right one.
    """
    shared = first_difference(found, expected)
    if shared == len(expected):
        return SAME
    rivals = np.array([found[shared], expected[shared]])
    points = task.workload.pool[rivals].astype(np.float64)
    references = np.concatenate([task.workload.labeled, task.workload.pool[expected[:shared]]]).astype(np.float64)
    weights = np.ones(2) if task.weights is None else task.weights[rivals]
    priorities = squared_distances(points, references).min(axis=1) * weights
    sizes = np.einsum("ij,ij->i", points, points) + np.einsum("ij,ij->i", references, references).max()
    slack = (points.shape[1] + 32) * 2.0**-24 * float((sizes * weights).sum())
    if abs(priorities[0] - priorities[1]) > slack:
        raise Disagreement(f"pick {shared} is row {rivals[0]} at {priorities[0]}, not {rivals[1]} at {priorities[1]}")
    common, apart = len(np.intersect1d(found, expected)), abs(1.0 - np.sqrt(priorities[0] / priorities[1]))
    return f"first {shared} the same, then one {apart:.1g} nearer; {common} of {len(expected)} in common"


def squared_distances(points: Floats, others: Floats) -> Floats:
    """(r, s) by one product."""
    sizes = np.einsum("ij,ij->i", points, points)[:, None] + np.einsum("ij,ij->i", others, others)
    return np.asarray(np.maximum(sizes - 2.0 * (points @ others.T), 0.0))


def certify(task: Task, picks: Ints, priorities: Floats, n_rows: int = 10_000, block: int = 1_000) -> str:
    """Replay picks against a sample of the pool in float64: no sampled row may ever come before the pick made.

    The picks are part of the sample, so that their own priorities are proved too. Costs (rows + b)·(m + b)
    distances, whatever the pool's size; where the sample is the pool, it proves the run.
    """
    n = len(task.workload.pool)
    rng = np.random.default_rng(0)
    sample = np.arange(n) if n <= n_rows else np.sort(rng.choice(n, n_rows, replace=False))
    rows = np.union1d(sample, picks)
    chosen = task.workload.pool[picks].astype(np.float64)
    turn = np.full(n, len(picks))
    turn[picks] = np.arange(len(picks))
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        _certify_block(task, part, chosen, turn[part], priorities**2)
    whole = "every row" if len(sample) == n else f"{len(sample):,} random rows"
    return f"certified in float64 against {whole}"


def _certify_block(task: Task, rows: Ints, chosen: Floats, turns: Ints, expected: Floats) -> None:
    points = task.workload.pool[rows].astype(np.float64)
    standing = np.empty((len(rows), len(chosen)))
    standing[:, 0] = nearest_labeled(points, task.workload.labeled)
    standing[:, 1:] = squared_distances(points, chosen[:-1])
    np.minimum.accumulate(standing, axis=1, out=standing)
    if task.weights is not None:
        standing *= task.weights[rows, None]
    steps = np.arange(len(chosen))
    is_left = steps <= turns[:, None]
    if (np.where(is_left, standing, 0.0) > expected * (1.0 + 1e-9)).any():
        raise Disagreement("a row of the pool should have come before the pick made")
    own = turns < len(chosen)
    if not np.allclose(standing[own, turns[own]], expected[turns[own]], rtol=1e-9, atol=0.0):
        raise Disagreement("a pick's priority is not its distance")


def nearest_labeled(points: Floats, labeled: Array, block: int = 8_192) -> Floats:
    """(r,) squared distances to the nearest labeled point."""
    nearest = np.full(len(points), np.inf)
    for start in range(0, len(labeled), block):
        others = labeled[start : start + block].astype(np.float64)
        np.minimum(nearest, squared_distances(points, others).min(axis=1), out=nearest)
    return nearest
