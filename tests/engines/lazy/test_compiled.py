"""The C extension computes the same intervals, picks, priorities and configurations as NumPy."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import dubito
from dubito import native as compiled
from dubito.core.distances import squared_radii
from dubito.core.problem import Problem, Selection
from dubito.doubt import beam_scores, scaling_weights
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.lazy.beam import CommonPicks
from dubito.engines.lazy.front import Front, FrontPicking, Threshold
from dubito.matrix import AnyArray, IntArray

pytestmark = pytest.mark.skipif(compiled.steps is None, reason="there was no C compiler to build the steps with")


def random_front(rng: np.random.Generator, n_rows: int, *, error: float, by_pick: bool) -> Front:
    """Points on a coarse grid, so that many distances are equal."""
    points = rng.integers(0, 6, (n_rows, 3)).astype(np.float64)
    squared = ((points[:, None] - points) ** 2).sum(axis=2)
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], n_rows)
    return Front(points, squared, np.full(n_rows, error), float(rng.choice([1.0, 0.25])), weights, by_pick)


@pytest.mark.parametrize("error", [0.0, 1e-9, 0.6])
@pytest.mark.parametrize("by_pick", [False, True])
@pytest.mark.parametrize("n_rows", [1, 7, 64, 65, 200])
def test_greedy_picks_are_those_of_numpy(error: float, by_pick: bool, n_rows: int) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        front = random_front(rng, n_rows, error=error, by_pick=by_pick)
        start, rows = rng.choice([0.0, 2.0, 9.0, 40.0], n_rows), np.arange(n_rows) * 3
        threshold = Threshold(float(rng.choice([-1.0, 0.0, 2.0])), int(rng.integers(0, 3 * n_rows)))
        limit = int(rng.integers(1, n_rows + 1))
        ours, theirs = FrontPicking(front, start), FrontPicking(front, start)
        ours.run(rows, threshold, limit)
        theirs.run(rows, threshold, limit, stop=lambda place: False)
        assert ours.picks == theirs.picks
        assert (ours.pick_priorities, ours.is_exact) == (theirs.pick_priorities, theirs.is_exact)
        assert ours.high.tolist() == theirs.high.tolist()
        assert ours.low.tolist() == theirs.low.tolist()


def chosen(pool: AnyArray, doubt: AnyArray, width: int, budget: int) -> Selection:
    return dubito.select(
        pool, budget, labeled=pool[:3] + 0.25, doubt=doubt, beam_width=width, strategy="doubt-coreset", engine="cpu"
    )


@pytest.mark.parametrize("kind", ["smooth", "level", "few doubts"])
@pytest.mark.parametrize("width", [2, 5, 20, 70])
def test_a_beam_is_that_of_numpy(kind: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(width)
    pool, doubt = rng.standard_normal((400, 12)), rng.random(400)
    if kind == "level":
        pool = np.round(pool)
    if kind == "few doubts":
        doubt = rng.choice([0.25, 0.5, 1.0], 400)
    budget = 120 if width < 20 else 40
    ours = chosen(pool, doubt, width, budget)
    monkeypatch.setattr(compiled, "steps", None)
    theirs = chosen(pool, doubt, width, budget)
    for mine, other in zip(ours.configurations, theirs.configurations, strict=True):
        assert mine.indices.tolist() == other.indices.tolist()
        assert mine.priorities.tobytes() == other.priorities.tobytes()
        assert mine.radius == other.radius


def test_arrays_of_the_wrong_size_are_refused() -> None:
    assert compiled.steps is not None
    one, short = np.zeros(1), np.zeros(0)
    with pytest.raises(ValueError, match="array 1 has 0 bytes, not 8"):
        compiled.steps.pick_greedily((one, short, one), 1, 1, 0, 1.0, False, 0.0, 0)
    with pytest.raises(IndexError):
        compiled.steps.pick_greedily((one,), 1, 1, 0, 1.0, False, 0.0, 0)


def beam_arrays(positions: list[int], order: list[int]) -> tuple[Any, ...]:
    """A list of four candidates and one configuration, of a width of 2 and up to 3 steps."""
    m, width, steps = 4, 2, 3
    common, rows = np.full(m, 9.0), np.arange(m)
    highs, logs = np.tile([4.0, 3.0, 2.0, 1.0], (width, 1)), (np.empty((steps, width), np.int32) for _ in range(2))
    return (
        *(common, common, np.zeros((m, m)), np.full((m, m), 9.0), np.ones(m, np.int64), np.array(positions), rows),
        *(highs.copy(), highs, np.tile(np.array(order, np.int32), (width, 1)), np.zeros((width, 1), np.uint64)),
        *(np.zeros(width, np.int64), *logs, np.empty((steps, width)), np.empty((steps, width), np.bool_)),
        np.empty(width, np.int64),
    )


def test_a_beam_stays_inside_its_arrays() -> None:
    assert compiled.steps is not None
    numbers = 4, 2, 1, 1, 3, -1.0, -1
    assert compiled.steps.step_beam(beam_arrays([0, 7, 63, 3], [0, 1, 2, 3]), *numbers)[1] > 0
    for positions, order in (
        ([0, 64, 2, 3], [0, 1, 2, 3]),
        ([0, -1, 2, 3], [0, 1, 2, 3]),
        ([0, 1, 2, 3], [0, 1, 2, 4]),
    ):
        with pytest.raises(IndexError, match="row number out of range"):
            compiled.steps.step_beam(beam_arrays(positions, order), *numbers)
    with pytest.raises(ValueError, match="no more configurations than the width"):
        compiled.steps.step_beam(beam_arrays([0, 1, 2, 3], [0, 1, 2, 3]), 4, 2, 1, 3, 3, -1.0, -1)


def test_arrays_of_the_wrong_type_are_refused() -> None:
    assert compiled.steps is not None
    bound, rows = np.array([1.0, 2.0]), np.zeros(1, dtype=np.int64)
    assert compiled.steps.first_in_order((bound, rows[:0], rows), 2, 0, 1, False, 1) == (1, 1.0, 0)
    for wrong in (bound.view(np.int64), bound.astype(">f8"), bound.astype(np.complex64)):
        with pytest.raises(TypeError, match="array 0 has items of the type"):
            compiled.steps.first_in_order((wrong, rows[:0], rows), 2, 0, 1, False, 1)
    with pytest.raises(ValueError, match="not C-contiguous"):
        compiled.steps.first_in_order((np.empty(4)[::2], rows[:0], rows), 2, 0, 1, False, 1)
    shifted = np.zeros(17, dtype=np.uint8)[1:].view(np.float64)
    with pytest.raises(ValueError, match="not aligned"):
        compiled.steps.first_in_order((shifted, rows[:0], rows), 2, 0, 1, False, 1)


def test_sizes_that_no_array_has_are_refused() -> None:
    assert compiled.steps is not None
    none = np.empty(0, dtype=np.float32)
    for sizes in ((-1, -4, 1), (2**40, 2**40, 0), (2**62, 0, 0)):
        with pytest.raises(ValueError, match="too large"):
            compiled.steps.multiply_rows((none, none, none), *sizes, 1)
    with pytest.raises(ValueError, match="numbers have 2, 4 or 8 bytes"):
        compiled.steps.magnitude((np.zeros(4, np.uint8),), 4, 1, 1)


def test_the_c_extension_is_optional() -> None:
    code = "from dubito import native as compiled; print(compiled.steps)"
    without = os.environ | {"DUBITO_COMPILED": "0"}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=without)
    assert said.stdout == "None\n"


def test_an_installation_without_c_warns_once() -> None:
    code = """
import sys, warnings
sys.modules["dubito.native._steps"] = None  # The import fails, as where it was not built.
import numpy as np, dubito
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for strategy in ("coreset", "coverage", "coreset"):
        dubito.select(np.eye(5), 2, strategy=strategy, engine="cpu")
print([f"{each.category.__name__}: {each.message}" for each in caught])
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("['SlowWarning: dubito runs without its C extension")
    assert said.stdout.count("SlowWarning") == 1
    assert "without a C compiler" in said.stdout


@pytest.mark.parametrize("is_done", [False, True])
def test_ctrl_c_while_picks_become_common_loses_none(is_done: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C before and after the picks are added: the covering radius is that of the picks returned."""
    real, n_calls = CommonPicks.add, 0

    def interrupted(self: CommonPicks, picks: IntArray) -> None:
        nonlocal n_calls
        n_calls += 1
        if is_done or n_calls != 2:
            real(self, picks)
        if n_calls == 2:
            raise KeyboardInterrupt

    rng = np.random.default_rng(4)
    pool, labeled, doubt = rng.standard_normal((3000, 8)), rng.standard_normal((5, 8)), rng.random(3000)
    problem = Problem(
        *(pool, labeled, np.arange(3000), 400, doubt, scaling_weights(doubt, 1.0), beam_scores(doubt)),
        beam_width=8,
        largest=float(np.abs(pool).max()),
    )
    monkeypatch.setattr(CommonPicks, "add", interrupted)
    solution = CpuEngine().solve(problem)
    first = solution.configurations[0]
    assert not solution.complete
    assert 0 < len(first.indices) < 400
    assert problem.weights is not None
    left = np.setdiff1d(problem.candidates, first.indices)
    squared = squared_radii(pool[left], np.concatenate([labeled, pool[first.indices]])) * problem.weights[left]
    assert first.radius == np.sqrt(squared.max())
