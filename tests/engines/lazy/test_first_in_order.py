"""The first candidates by bound equal those of a sort, with and without a sample and the C extension."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dubito import native as compiled
from dubito.engines.lazy.bounds import MANY, SAMPLED, first_in_order
from dubito.engines.lazy.front import Threshold
from dubito.matrix import FloatArray

LEVELS = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1e300, 1e-300])


def by_sorting(bound: FloatArray, size: int) -> tuple[list[int], Threshold]:
    order = np.lexsort((np.arange(len(bound)), -bound))
    order = order[bound[order] >= 0.0]
    if len(order) <= size:
        return sorted(order.tolist()), Threshold(-1.0, -1)
    return sorted(order[:size].tolist()), Threshold(float(bound[order[size]]), int(order[size]))


def found(bound: FloatArray, size: int) -> tuple[list[int], Threshold]:
    rows, threshold = first_in_order(bound, size)
    return rows.tolist(), threshold


@pytest.fixture(params=["C", "NumPy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "NumPy":
        monkeypatch.setattr(compiled, "steps", None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LEVELS | st.floats(0.0, 2.0), max_size=40), st.integers(0, 45))
@pytest.mark.usefixtures("way")
def test_the_first_in_order_equal_a_sort(bound: list[float], size: int) -> None:
    values = np.array(bound, dtype=np.float64)
    assert found(values, size) == by_sorting(values, size)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(LEVELS, st.booleans()), max_size=40), st.integers(0, 45))
@pytest.mark.usefixtures("way")
def test_the_first_of_a_subset_equal_a_sort(bounds: list[tuple[float, bool]], size: int) -> None:
    values, is_among = np.array([bound for bound, _ in bounds]), np.array([own for _, own in bounds], dtype=np.bool_)
    rows, threshold = first_in_order(values, size, np.flatnonzero(is_among))
    assert (rows.tolist(), threshold) == by_sorting(np.where(is_among, values, -1.0), size)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("n_levels", [1, 3, 1000, 10**9])
@pytest.mark.parametrize("picked", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("size", [0, 1, 300, 5000])
def test_filtering_by_a_sample_changes_nothing(n_levels: int, picked: float, size: int) -> None:
    rng, n = np.random.default_rng(size), MANY * max(size, SAMPLED * SAMPLED) + 7
    bound = np.floor(rng.random(n) * n_levels)
    bound[rng.random(n) < picked] = -1.0
    assert found(bound, size) == by_sorting(bound, size)
    bound.sort()
    assert found(bound, size) == by_sorting(bound, size)


@pytest.mark.parametrize("share", [0.001, 0.5, 1.0])
@pytest.mark.usefixtures("way")
def test_nan_bounds_do_not_crash(share: float) -> None:
    """The result is undefined, but it is a row."""
    rng = np.random.default_rng(3)
    bound = rng.random(40_000)
    bound[rng.random(40_000) < share] = np.nan
    for size in (0, 1, 300):
        rows, _ = first_in_order(bound, size)
        assert len(rows) <= 40_000
        assert ((rows >= 0) & (rows < 40_000)).all()
