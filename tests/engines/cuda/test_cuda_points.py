"""Points on a device compared with NumPy, on a GPU if there is one."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from dubito.core import distances
from dubito.core.problem import Metric, Problem, Scaling
from dubito.doubt import beam_scores
from dubito.matrix import FloatArray

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
bounds = import_module("dubito.engines.cuda.bounds")
device_kernels = import_module("dubito.engines.cuda.solver")
memory = import_module("dubito.engines.cuda.memory")
places = import_module("dubito.engines.cuda.points")
shapes = import_module("dubito.engines.cuda.points")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Tensor = Any


def there(array: object) -> Tensor:
    return torch.tensor(np.asarray(array), device=DEVICE)


def here(tensor: Tensor) -> FloatArray:
    return np.asarray(tensor.double().cpu().numpy())


@pytest.mark.parametrize("d", [1, 2, 5, 64])
def test_unit_rows_have_the_bits_of_numpy(d: int) -> None:
    rng = np.random.default_rng(d)
    block = rng.standard_normal((40, d)) * 10.0 ** rng.integers(-300, 139, (40, 1))
    block[0] = 5e-324
    assert here(places.unit_rows(there(block))).tobytes() == distances.unit_rows(block.copy()).tobytes()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize(("n", "d", "step"), [(7, 1, 3), (1024, 1, 5000), (2500, 3, 700), (3000, 2, 2048)])
def test_distances_from_the_mean_have_the_bits_of_numpy(metric: Metric, n: int, d: int, step: int) -> None:
    pool = np.random.default_rng(n).standard_normal((n, d)) + 3.0
    before, rows = pool.copy(), np.arange(0, n, 3)
    for resident in (True, False):
        points = places.DevicePoints(places.DeviceSource(pool, DEVICE, is_resident=resident), metric)
        every = places.scaled_sq_distances_from_mean(points, slice(0, None), step)
        some = places.scaled_sq_distances_from_mean(points, there(rows), step)
        assert pool.tobytes() == before.tobytes()
        assert every.tobytes() == distances.scaled_sq_distances_from_mean(pool, np.arange(n), metric).tobytes()
        assert some.tobytes() == distances.scaled_sq_distances_from_mean(pool, rows, metric).tobytes()


@pytest.mark.parametrize(
    ("dtype", "scale", "offset", "is_raw"),
    [
        ("float32", 1.0, 0.0, True),
        ("float16", 1.0, 0.0, True),
        ("float64", 1.0, 0.0, False),
        ("float32", 1.0, 1000.0, False),
        ("float16", 1.0, 1000.0, False),
        ("float32", 1e-8, 0.0, False),
        ("float32", 1e8, 0.0, False),
        ("float64", 1e60, 0.0, False),
    ],
)
def test_centered_features_are_multiplied_unchanged(dtype: str, scale: float, offset: float, is_raw: bool) -> None:
    sample = np.random.default_rng(0).standard_normal((500, 6)) * scale + offset
    shape = shapes.choose_transform(there(sample), getattr(torch, dtype), float(np.abs(sample).max()))
    assert (shape.center is None) is is_raw
    assert shape.is_exact is (is_raw and dtype == "float16")
    assert shape.precision == ("ieee" if shape.is_exact else "tf32x3")
    assert 0.0 < shape.slack <= shape.loose < 0.01
    shaped = here(shape.apply(there(sample.astype(dtype) if is_raw else sample)))
    assert np.abs(shaped).max() < (6.0 if is_raw else 2.0)
    assert np.log2(shape.scale) == round(np.log2(shape.scale))


def test_features_of_two_types_are_stored_in_a_type_that_represents_both() -> None:
    pool, labeled = np.ones((4, 2), dtype=np.float16), np.full((3, 2), 1.0 + 2.0**-20, dtype=np.float32)
    points = places.DevicePoints(places.DeviceSource(pool, DEVICE, is_resident=True), "euclidean")
    references = shapes.DeviceReferences(labeled, points, 2, 2.0, DEVICE)
    references.add(points.exact(there([0])))
    assert (references.count, references.exact.dtype) == (4, torch.float32)
    assert here(references.exact[:4])[:, 0].tolist() == [1.0 + 2.0**-20] * 3 + [1.0]


def test_a_pool_of_more_rows_than_float32_can_count_is_sampled() -> None:
    pool = np.broadcast_to(np.float32(1.0), (2**24 + 4, 1))
    points = places.DevicePoints(places.DeviceSource(pool, DEVICE, is_resident=False), "euclidean")
    assert shapes.DeviceReferences(np.zeros((0, 1)), points, 1, 1.0, DEVICE).count == 0


# Functions for beams


@pytest.mark.parametrize("scaling", ["respective", "acquired"])
@pytest.mark.parametrize("autocast", [False, True])
def test_bounds_by_the_farthest_first_pick_are_valid(scaling: Scaling, autocast: bool) -> None:
    rng = np.random.default_rng(0)
    pool = (rng.standard_normal((30, 6)) * 300.0).astype(np.float32)
    doubt, picks = rng.choice([0.0, 0.5, 0.7], 30), np.array([4, 9, 20])
    problem = Problem(
        pool, pool[:0], np.arange(30), 5, doubt, doubt**2, beam_scores(doubt), scaling=scaling, beam_width=3
    )
    with torch.autocast(DEVICE, torch.float16, enabled=autocast):
        found = on_device(problem).farthest_bounds(picks)
    wide = pool.astype(np.float64)
    squared = np.array([distances.exact_sq_distances(wide, wide[pick]) for pick in picks])
    scales = (doubt > 0.0) * doubt[picks, None] ** 2 if scaling == "acquired" else doubt**2
    true = (squared * scales).max(axis=0)
    assert (found >= true).all()
    assert (found <= 1.1 * true + 0.02 * (wide**2).sum(axis=1).max()).all()


def test_distances_in_a_front_are_within_their_error_bounds() -> None:
    pool = np.random.default_rng(0).standard_normal((30, 6)) * 1e-3 + 1e4
    problem = Problem(pool, pool[:2], np.arange(30), 5, largest=1.1e4)
    rows = np.array([1, 5, 8, 20])
    front = on_device(problem).front(rows)
    exact = np.array([distances.exact_sq_distances(pool[rows], row) for row in pool[rows]])
    slack = (front.error[:, None] + front.error) * front.unit
    assert (np.abs(front.squared * front.unit - exact) <= slack).all()
    assert front.points.tobytes() == pool[rows].tobytes()


def on_device(problem: Problem) -> Any:
    points = places.DevicePoints(places.DeviceSource(problem.pool, DEVICE, is_resident=True), problem.metric)
    largest = float(np.abs(np.asarray(problem.pool[:])).max())
    references = shapes.DeviceReferences(problem.references, points, problem.budget, largest, DEVICE)
    return device_kernels.DeviceKernels(bounds.DeviceBounds(problem, points, references, memory.DeviceSizes(rows=7)))
