"""Each kernel of the cuda engine compared with a few lines of NumPy, on a GPU or interpreted."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from dubito.core import distances
from dubito.engines.lazy.front import Threshold
from dubito.matrix import BoolArray, FloatArray, IntArray

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
fronts = import_module("dubito.engines.cuda.bounds")
kernels = import_module("dubito.engines.cuda.programs.pairs")
places = import_module("dubito.engines.cuda.points")
rounds = import_module("dubito.engines.cuda.programs.rounds")
exact = import_module("dubito.engines.cuda.programs.exact")
shapes = import_module("dubito.engines.cuda.points")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SetConstant = Callable[[str, float], None]
Tensor = Any


@pytest.fixture(autouse=True)
def small(set_constant: SetConstant) -> None:
    """Tiles so small that a problem has several."""
    if DEVICE == "cpu":
        sizes = {"ROWS": 16, "REFERENCES": 16, "PAIRS": 256, "EXACT_VALUES": 1 << 13, "FULL_GRID": 4}
        for name, value in sizes.items():
            set_constant(name, value)


def there(array: object, dtype: object = None) -> Tensor:
    return torch.tensor(np.asarray(array), dtype=dtype, device=DEVICE)


def here(tensor: Tensor) -> FloatArray:
    return np.asarray(tensor.double().cpu().numpy())


# Exact distances


@pytest.mark.parametrize("d", [*range(1, 34), 100, 512])
def test_exact_distances_have_the_bits_of_numpy(d: int) -> None:
    rng = np.random.default_rng(d)
    x, y = rng.standard_normal((9, d)), rng.standard_normal((7, d)) * 1e3
    left, right = rng.integers(0, 9, 20), rng.integers(0, 7, 20)
    found = exact.exact_sq_distances(there(x), there(y), (there(left, torch.int32), there(right, torch.int32)))
    assert here(found).tobytes() == distances.exact_sq_distances(x[left], y[right]).tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_exact_distances_use_narrow_features_unchanged(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 5)).astype(dtype)
    left, right = np.arange(6), np.arange(6)[::-1]
    found = exact.exact_sq_distances(there(x), there(x), (there(left, torch.int32), there(right.copy(), torch.int32)))
    wide = x.astype(np.float64)
    assert here(found).tobytes() == distances.exact_sq_distances(wide[left], wide[right]).tobytes()


def test_no_pairs_have_no_distances() -> None:
    none = torch.empty(0, dtype=torch.int32, device=DEVICE)
    assert len(exact.exact_sq_distances(there(np.ones((2, 3))), there(np.ones((2, 3))), (none, none))) == 0


@pytest.mark.parametrize("by_pick", [False, True])
def test_exact_distances_of_pairs_lower_the_priorities_of_their_rows(by_pick: bool) -> None:
    rng = np.random.default_rng(1)
    x, y, rows = rng.standard_normal((8, 5)), rng.standard_normal((6, 5)), rng.permutation(12)[:8]
    weights, start = rng.random(6 if by_pick else 12), rng.random(12) * 4.0
    left, right = rng.integers(0, 8, 40), rng.integers(0, 6, 40)
    found = there(start)
    pairs = there(left, torch.int32), there(right, torch.int32)
    exact.lower_priorities(there(x), there(y), pairs, there(rows), found, there(weights), by_pick=by_pick)
    expected = start.copy()
    scale = weights[right] if by_pick else weights[rows[left]]
    np.minimum.at(expected, rows[left], distances.exact_sq_distances(x[left], y[right]) * scale)
    assert here(found).tobytes() == expected.tobytes()


# Bounds by products

LAYOUTS: dict[str, tuple[str, float, float]] = {
    "as they are": ("float32", 1.0, 0.0),
    "halves": ("float16", 1.0, 0.0),
    "centered": ("float32", 1.0, 1000.0),
    "float64": ("float64", 1e-3, 1e6),
    "tiny": ("float64", 1e-20, 0.0),
    "huge": ("float64", 1e60, 0.0),
}


class Shaped:
    """Points and references in the form that the kernels read, and their true squared distances."""

    def __init__(self, layout: str, n: int = 20, m: int = 37, d: int = 5) -> None:
        dtype, scale, offset = LAYOUTS[layout]
        self.rng = np.random.default_rng(len(layout))
        x = (self.rng.standard_normal((n, d)) * scale + offset).astype(dtype)
        y = (self.rng.standard_normal((m, d)) * scale + offset).astype(dtype)
        source = places.DeviceSource(x, DEVICE, is_resident=True)
        largest = float(max(np.abs(x).max(), np.abs(y).max()))
        references = shapes.DeviceReferences(y, places.DevicePoints(source, "euclidean"), 3, largest, DEVICE)
        self.shape, self.constants = references.transform, references.transform.constants(DEVICE)
        self.x, self.y = references.prepare(source.rows(slice(0, n))), references.prepared[:m]
        self.squared = np.array([distances.exact_sq_distances(y.astype(float), row) for row in x.astype(float)])
        self.own = np.array([distances.exact_sq_distances(x.astype(float), row) for row in x.astype(float)])
        lengths, others = here(self.x.lengths), here(self.y.lengths)
        self.sizes = (lengths[:, None] ** 2 + others**2) / self.shape.scale**2
        self.own_sizes = (lengths[:, None] ** 2 + lengths**2) / self.shape.scale**2
        self.floor = 2.0 * shapes.FLOOR / self.shape.scale**2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tightened_bounds_are_never_too_low_and_not_much_too_high(layout: str) -> None:
    made = Shaped(layout)
    weights = made.rng.random(20)
    bound = there(np.full(20, np.inf))
    kernels.tighten(made.x, made.y, bound, there(weights), made.constants)
    found, true = here(bound), made.squared.min(axis=1) * weights
    assert (found >= true).all()
    room = (2.0 * made.shape.loose + 1e-6) * made.sizes + made.floor
    assert (found <= (made.squared + room).min(axis=1) * weights * (1 + 1e-6)).all()


def test_a_bound_that_is_lower_already_is_not_raised() -> None:
    made = Shaped("centered")
    bound = there(np.full(20, -1.0))
    kernels.tighten(made.x, made.y, bound, there(np.ones(20)), made.constants)
    assert (here(bound) == -1.0).all()


def test_rows_are_tightened_by_the_references_not_applied_yet() -> None:
    made = Shaped("as they are")
    rows = made.rng.permutation(50)[:20]
    starts = np.zeros(50, dtype=np.int32)
    starts[rows] = np.sort(made.rng.choice([0, 16, 33, 37], 20))
    bound, weights = there(np.full(50, np.inf)), made.rng.random(50)
    with np.errstate(invalid="ignore"):  # A program without any reference multiplies infinity, and keeps nothing of it.
        kernels.tighten(made.x, made.y, bound, there(weights), made.constants, there(rows), there(starts))
    found = here(bound)
    assert np.isinf(np.delete(found, rows)).all()
    for place, row in enumerate(rows):
        late = made.squared[place, starts[row] :]
        assert found[row] >= made.squared[place].min() * weights[row]
        most = (late + 0.01 * made.sizes[place, starts[row] :]).min(initial=np.inf) * weights[row]
        assert found[row] <= most


def test_rows_are_tightened_without_a_copy() -> None:
    made = Shaped("halves")
    rows, weights = there(made.rng.permutation(20)[:9]), there(made.rng.random(20))
    copied, found = there(np.full(20, np.inf)), there(np.full(20, np.inf))
    starts = torch.zeros(20, dtype=torch.int32, device=DEVICE)
    kernels.tighten(made.x[rows], made.y, copied, weights, made.constants, rows, starts)
    kernels.tighten(made.x, made.y, found, weights, made.constants, rows, starts, rows)
    assert here(found).tobytes() == here(copied).tobytes()
    assert np.isinf(here(found)).sum() == 11


def as_set(pairs: tuple[Tensor, Tensor]) -> set[tuple[int, int]]:
    found = list(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))
    assert len(set(found)) == len(found)
    return set(found)


def index_pairs(mask: BoolArray) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for i, j in np.argwhere(mask)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("by_pick", [False, True])
def test_no_reference_that_may_lower_a_priority_is_missed(layout: str, by_pick: bool) -> None:
    made = Shaped(layout)
    rows, weights = made.rng.permutation(30)[:20], made.rng.random(30) + 0.01
    y_weights = made.rng.random(37) if by_pick else None
    scales = weights[rows][:, None] if y_weights is None else y_weights[None, :]
    left = made.squared * scales
    priorities = np.zeros(30)
    # Some of the priorities after a reference is added, so that some pairs are exactly at the limit.
    priorities[rows] = np.sort(left, axis=1)[np.arange(20), made.rng.integers(0, 6, 20)]
    found = as_set(
        kernels.near_pairs(
            made.x, made.y, there(rows), there(priorities), there(weights), made.constants, made.shape.precision,
            None if y_weights is None else there(y_weights), there(np.zeros(30, dtype=np.int32)),
        )
    )  # fmt: skip
    height = priorities[rows][:, None]
    assert found >= index_pairs(left <= height)
    room = (2.0 * made.shape.slack + 1e-6) * made.sizes + made.floor
    assert found <= index_pairs((made.squared - room) * scales <= height * (1 + 1e-6))


def test_blocks_of_seen_references_are_skipped() -> None:
    made = Shaped("as they are")
    rows, seen = np.arange(20), np.full(20, 116, dtype=np.int32)
    if DEVICE == "cuda":
        seen[:] = 100 + kernels.REFERENCES
    found = as_set(
        kernels.near_pairs(
            made.x, made.y, there(rows), there(np.full(20, np.inf)), there(np.ones(20)), made.constants,
            made.shape.precision, None, there(seen), offset=100,
        )
    )  # fmt: skip
    first = 37 if DEVICE == "cuda" else 16
    assert found == {(i, j) for i in range(20) for j in range(first, 37)}


@pytest.mark.parametrize("layout", ["as they are", "centered"])
@pytest.mark.parametrize("by_pick", [False, True])
def test_each_pair_of_a_front_counts_once_if_either_may_lower_the_other(layout: str, by_pick: bool) -> None:
    made = Shaped(layout, n=35)
    weights = made.rng.random(35)
    to_row = made.own * (weights[None, :] if by_pick else weights[:, None])
    priorities = np.sort(to_row, axis=1)[np.arange(35), made.rng.integers(1, 5, 35)]
    found = as_set(
        kernels.near_pairs(
            made.x, made.x, there(np.arange(35)), there(priorities), there(weights), made.constants,
            made.shape.precision, there(weights) if by_pick else None,
        )
    )  # fmt: skip
    lowers = to_row <= priorities[:, None]
    assert found >= index_pairs(np.triu(lowers | lowers.T, 1))
    assert all(left < right for left, right in found)
    assert len(found) < 35 * 34 // 2


def test_a_search_is_repeated_if_pairs_exceed_the_capacity(set_constant: SetConstant) -> None:
    set_constant("FIRST_CAPACITY", 3)
    made = Shaped("as they are")
    pairs = kernels.near_pairs(
        made.x, made.x, there(np.arange(20)), there(np.full(20, np.inf)), there(np.ones(20)), made.constants,
        made.shape.precision,
    )  # fmt: skip
    assert as_set(pairs) == {(i, j) for i in range(20) for j in range(i + 1, 20)}


# Deciding a front


def pick_one_by_one(
    squared: FloatArray, weights: FloatArray, start: FloatArray, rows: IntArray, threshold: Threshold, by_pick: bool
) -> tuple[list[int], FloatArray]:
    """Algorithm 2, one pick at a time; the priorities of picks are those when they were picked."""
    now, final, picks = start.copy(), start.copy(), list[int]()
    while True:
        best = int(np.argmax(now))
        if now[best] <= 0.0 or not threshold.admits(float(now[best]), int(rows[best])):
            return picks, np.where(now < 0.0, final, now)
        final[best] = now[best]
        picks.append(best)
        is_left = now >= 0.0
        left = squared[best] * (weights[best] if by_pick else weights)
        now[is_left] = np.minimum(now, left)[is_left]
        now[best] = -1.0


@pytest.mark.parametrize("seed", range(8))
def test_a_front_is_decided_as_if_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, by_pick = int(rng.integers(1, 30)), bool(seed % 2)
    points = rng.integers(-2, 3, (n, 2)) if seed < 6 else rng.standard_normal((n, 2))
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2).astype(np.float64)
    weights = rng.choice([0.25, 0.5, 1.0], n)
    start = rng.integers(1, 12, n).astype(np.float64) / 2.0
    rows = np.sort(rng.permutation(3 * n)[:n])
    threshold = Threshold(float(rng.integers(0, 5)) / 2.0, int(rng.integers(-1, 3 * n)))
    left, right = np.triu_indices(n, 1)
    priorities = there(start)
    pairs = there(left, torch.int32), there(right, torch.int32)
    found = rounds.decide(
        pairs, there(squared[left, right]), there(weights), there(rows), threshold, priorities, by_pick=by_pick
    )
    picks, expected = pick_one_by_one(squared, weights, start, rows, threshold, by_pick)
    assert np.flatnonzero(here(found)).tolist() == sorted(picks)
    assert here(priorities).tobytes() == expected.tobytes()


@pytest.mark.parametrize("seed", range(30))
def test_the_first_in_order_are_those_before_the_threshold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bound = rng.integers(-1, int(rng.choice([1, 2, 5, 50])), int(rng.integers(1, 25))).astype(np.float64)
    size = int(rng.integers(1, 12))
    rows, threshold = fronts.first_in_order(there(bound), size)
    order = np.lexsort((np.arange(len(bound)), -bound))
    order = order[bound[order] > 0.0]
    if len(order) <= size:
        assert (rows.tolist(), threshold) == (sorted(order.tolist()), Threshold(0.0, -1))
        return
    assert 0 < len(rows) <= size
    assert rows.tolist() == sorted(order[: len(rows)].tolist())
    assert threshold == Threshold(bound[order[len(rows)]], order[len(rows)])
