"""Picking groups of rows: `dubito.select`, `Pool` and the contract of the engines."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dubito
from dubito.core.groups import greedy_coverage
from dubito.engines.base import Engine
from dubito.engines.cpu.coverage.engine import CpuCoverage
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.reference_engine import CoverageReference, ReferenceEngine
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import FloatArray, IntArray
from dubito.testing import check_groups, make_group_problem
from levels import examples


@pytest.mark.parametrize("first", [0, 100])
@pytest.mark.parametrize("engine", [CpuEngine(), CpuCoverage()], ids=lambda engine: type(engine).__name__)
def test_engines_pick_the_groups_of_the_reference(engine: Engine[Any], first: int) -> None:
    check_groups(engine, examples=examples(100), seed=first)


@pytest.mark.parametrize("engine", [ReferenceEngine(), CoverageReference()], ids=lambda engine: type(engine).__name__)
def test_reference_engines_pick_the_groups_of_the_reference(engine: Engine[Any]) -> None:
    check_groups(engine, examples=examples(50))


def test_coverage_with_little_memory_picks_the_groups_of_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dubito.engines.cpu.coverage.solver.most_pairs", lambda *_: 200)
    check_groups(CpuCoverage(), examples=examples(50))


def test_coverage_without_the_extension_picks_the_groups_of_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dubito.native.steps", None)
    check_groups(CpuCoverage(), examples=examples(50))


def blobs(n_groups: int = 40, seed: int = 0) -> tuple[FloatArray, IntArray, FloatArray]:
    """Points, groups of 1 to 9 of them, and doubt."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), rng.integers(1, 10, n_groups))
    return rng.standard_normal((len(groups), 5)), rng.permutation(groups), rng.random(len(groups))


def test_gain_of_a_group_is_the_joint_coverage_of_its_rows() -> None:
    # The pair covers both clusters, although its rows alone are no better than the single row of either.
    points = np.array([[0.0], [0.1], [10.0], [10.1], [0.05], [10.05]])
    picked = dubito.select(points, 1, groups=["a", "a", "b", "b", "both", "both"], strategy="coverage:radius=1")
    assert picked.groups is not None
    assert picked.groups.names.tolist() == ["both"]
    assert picked.indices.tolist() == [4, 5]
    assert picked.groups.priorities[0] == pytest.approx(picked.priorities.sum())


def test_gains_of_groups_never_grow() -> None:
    for seed in range(20):
        problem = make_group_problem(seed, covers=True)
        if problem.costs is None and problem.quotas is None:
            found = greedy_coverage(problem)  # type: ignore[arg-type]
            assert all(left >= right for left, right in pairwise(found.priorities.tolist()))


@pytest.mark.parametrize("strategy", ["coverage", "doubt-coverage", "coreset", "doubt-coreset", "least-confidence"])
def test_groups_of_one_row_are_picked_as_rows(strategy: str) -> None:
    points, _, doubt = blobs()
    names = [f"row {number}" for number in range(len(points))]
    rows = dubito.select(points, 20, doubt=doubt, labeled=[3], strategy=strategy)
    groups = dubito.select(points, 20, doubt=doubt, labeled=[3], strategy=strategy, groups=names)
    assert groups.indices.tolist() == rows.indices.tolist()
    assert groups.groups is not None
    assert groups.groups.names.tolist() == [names[row] for row in rows.indices]
    assert groups.groups.priorities.tolist() == rows.priorities.tolist()


def test_core_set_picks_the_group_whose_farthest_row_is_farthest() -> None:
    points, groups = np.array([[0.0], [1.0], [9.0], [2.0], [8.0], [7.0]]), [0, 1, 1, 2, 3, 3]
    picked = dubito.select(points, 2, labeled=[0], groups=groups, strategy="coreset")
    assert picked.groups is not None
    # Both rows of group 1 are references then: 2 is 1 away from 1, and 7 is 2 away from 9.
    assert picked.groups.names.tolist() == ["1", "3"]
    assert picked.groups.priorities.tolist() == [9.0, 2.0]
    assert picked.indices.tolist() == [2, 1, 5, 4]
    assert picked.priorities.tolist() == [9.0, 1.0, 2.0, 1.0]
    assert picked.radius == 1.0


@pytest.mark.parametrize(
    ("per_group", "order"), [("max", "bca"), ("mean", "bac"), ("sum", "cab"), ("top-2", "cab"), ("top-1", "bca")]
)
def test_scores_of_rows_are_combined_as_asked(per_group: str, order: str) -> None:
    doubt, groups = [0.5, 0.5, 0.8, 0.7, 0.45, 0.01, 0.01], list("aabcccc")
    picked = dubito.select(
        np.zeros((7, 1)), 3, doubt=doubt, groups=groups, strategy=f"least-confidence:per_group={per_group}"
    )
    assert picked.groups is not None
    assert "".join(picked.groups.names) == order


def test_more_rows_do_not_lower_the_margin_sum_of_a_group() -> None:
    probabilities = [[0.6, 0.4], [0.6, 0.4], [0.55, 0.45]]
    picked = dubito.select(
        np.zeros((3, 1)), 1, probabilities=probabilities, groups=["two", "two", "one"], strategy="margin:per_group=sum"
    )
    assert picked.groups is not None
    assert picked.groups.names.tolist() == ["two"]


def test_rows_that_earned_a_pick_come_first() -> None:
    points, groups, doubt = blobs()
    picked = dubito.select(points, 8, doubt=doubt, groups=groups, strategy="doubt-coverage")
    assert picked.groups is not None
    ends = np.cumsum(picked.groups.sizes)
    for start, end, name in zip(ends - picked.groups.sizes, ends, picked.groups.names, strict=True):
        assert (groups[picked.indices[start:end]] == int(name)).all()
        assert (np.diff(picked.priorities[start:end]) <= 0.0).all()
    assert picked.columns()["rank"] == np.repeat(np.arange(1, 9), picked.groups.sizes).tolist()


def test_labeled_rows_and_rows_that_are_no_candidates_take_no_part() -> None:
    points, groups, _ = blobs()
    labeled, candidates = np.flatnonzero(groups < 5)[::2], np.flatnonzero(groups < 20)
    left = np.setdiff1d(candidates, labeled)
    n_groups = len(np.unique(groups[left]))
    picked = dubito.select(points, n_groups, groups=groups, labeled=labeled, candidates=candidates)
    assert np.array_equal(np.sort(picked.indices), left)
    with pytest.raises(InvalidArgument, match=rf"budget={n_groups + 1} exceeds the {n_groups} candidates"):
        dubito.select(points, n_groups + 1, groups=groups, labeled=labeled, candidates=candidates)


@pytest.mark.parametrize("strategy", ["coverage", "coreset"])
def test_a_group_costs_the_sum_of_its_rows_or_its_price(strategy: str) -> None:
    points, groups, _ = blobs()
    costs = np.random.default_rng(1).uniform(1.0, 2.0, len(points))
    sums = np.bincount(groups, weights=costs)
    by_row = dubito.select(points, 40, groups=groups, costs=costs, spend=30.0, strategy=strategy)
    prices = {number: sums[number] for number in range(40)}
    by_group = dubito.select(points, 40, groups=groups, costs=prices, spend=30.0, strategy=strategy)
    assert by_row.groups is not None
    assert by_row.indices.tolist() == by_group.indices.tolist()
    assert by_row.spent == pytest.approx(sums[by_row.groups.names.astype(int)].sum())
    assert (by_row.spent or 0.0) <= 30.0
    with pytest.raises(InvalidArgument, match="no price of the group"):
        dubito.select(points, 3, groups=groups, costs={1: 2.0}, strategy=strategy)
    with pytest.raises(InvalidArgument, match="names no group"):
        dubito.select(points, 3, groups=groups, costs={"x": 2.0}, strategy=strategy)
    with pytest.raises(InvalidArgument, match="two prices of the group '7'"):
        dubito.select(points, 3, groups=groups, costs=prices | {"7": 2.0}, strategy=strategy)
    for price in (0, -1.0, float("nan"), float("inf"), None, "dear", [1]):
        with pytest.raises(InvalidData, match=r"costs holds the price .* of the group '7'; pass what it costs"):
            dubito.select(points, 3, groups=groups, costs={**prices, 7: price}, strategy=strategy)
    with pytest.raises(InvalidArgument, match="costs is a mapping, as for groups; pass groups"):
        dubito.select(points, 3, costs=prices, strategy=strategy)


@pytest.mark.parametrize("strategy", ["coverage", "coreset"])
def test_quotas_count_groups_by_the_class_of_most_of_their_rows(strategy: str) -> None:
    points, groups, _ = blobs()
    classes = np.array(["even", "odd"])[groups % 2]
    picked = dubito.select(points, 10, groups=groups, classes=classes, quotas={"odd": 2}, strategy=strategy)
    assert picked.groups is not None
    assert sum(int(name) % 2 for name in picked.groups.names) <= 2
    plain = dubito.select(points, 10, groups=groups, strategy=strategy)
    assert plain.groups is not None
    assert sum(int(name) % 2 for name in plain.groups.names) > 2


def test_random_picks_distinct_groups() -> None:
    points, groups, _ = blobs()
    picked = dubito.select(points, 40, groups=groups, strategy="random", seed=3)
    assert picked.groups is not None
    assert sorted(picked.groups.names.astype(int)) == list(range(40))
    assert np.array_equal(np.sort(picked.indices), np.arange(len(points)))


@pytest.mark.parametrize("strategy", ["coverage", "coreset", "doubt-coreset"])
def test_a_pool_picks_the_groups_of_select(strategy: str, tmp_path: Path) -> None:
    points, groups, doubt = blobs()
    pool, labeled = dubito.Pool(points, groups=groups), np.empty(0, dtype=np.int64)
    assert "40 groups" in repr(pool)
    for _ in range(3):
        again = dubito.select(points, 4, groups=groups, labeled=labeled, doubt=doubt, strategy=strategy)
        picked = pool.select(4, doubt=doubt, strategy=strategy)
        assert picked.indices.tolist() == again.indices.tolist()
        assert picked.priorities.tolist() == again.priorities.tolist()
        pool.label(picked)
        labeled = np.concatenate([labeled, picked.indices])
    pool.save(str(tmp_path / "pool.npz"))
    saved = dubito.Pool.load(str(tmp_path / "pool.npz"), points)
    picks = [each.select(4, doubt=doubt, strategy=strategy) for each in (pool, saved)]
    assert picks[0].indices.tolist() == picks[1].indices.tolist()
    assert picks[1].groups is not None
    assert not set(picks[1].groups.names.tolist()) & set(groups[labeled].astype(str).tolist())
    dubito.Pool.load(str(tmp_path / "pool.npz"), points, groups=groups)
    with pytest.raises(InvalidData, match="was saved with other groups"):
        dubito.Pool.load(str(tmp_path / "pool.npz"), points, groups=groups[::-1])
    left = pool.select(1).groups
    assert left is not None
    pool.label(groups=left.names.tolist())
    dubito.Pool(points, groups=groups).label(groups="17")
    assert (groups[pool.labeled] == int(left.names[0])).any()
    with pytest.raises(InvalidArgument, match="names no group"):
        pool.label(groups=["x"])
    with pytest.raises(InvalidArgument, match="without groups"):
        dubito.Pool(points).label(groups=["x"])


def test_a_pool_saves_long_names_of_groups_whole_or_not_at_all(tmp_path: Path) -> None:
    points, path = np.eye(3), str(tmp_path / "pool.npz")
    names = ["猫" * 300, "é\ud800" * 100, "b"]
    dubito.Pool(points, groups=names).save(path)
    picked = dubito.Pool.load(path, points).select(3).groups
    assert picked is not None
    assert sorted(picked.names.tolist()) == sorted(names)
    with pytest.raises(InvalidArgument, match=r"groups has names of 6,0.. bytes together.*; pass numbers or shorter"):
        dubito.Pool(points, groups=["a" * 6000, "b", "c"]).save(path)
    assert dubito.Pool.load(path, points).select(3).groups is not None


def test_an_interrupted_selection_has_the_first_groups() -> None:
    points, groups, _ = blobs(500)

    def interrupt(done: int, total: int, radius: float | None, seconds: float, /) -> None:
        raise KeyboardInterrupt

    for strategy in ("coverage", "coreset"):
        whole = dubito.select(points, 500, groups=groups, strategy=strategy)
        with pytest.raises(dubito.Interrupted) as stopped:
            dubito.select(points, 500, groups=groups, strategy=strategy, progress=interrupt)
        part = stopped.value.selection
        assert part.indices.tolist() == whole.indices.tolist()[: len(part)]


@pytest.mark.parametrize("strategy", ["auto", "coreset", "doubt-coreset"])
def test_estimate_takes_the_number_of_groups(strategy: str) -> None:
    rows, groups = (dubito.estimate(10_000, 64, 10, 100, strategy=strategy, groups=each) for each in (None, 1000))
    assert groups.engine == "cpu"
    assert groups.bytes >= rows.bytes / 2
    with pytest.raises(InvalidArgument, match="budget=100"):
        dubito.estimate(10_000, 64, 10, 100, groups=50)


def test_estimate_refuses_what_select_refuses() -> None:
    with pytest.raises(InvalidArgument, match="groups=300 exceeds n=200"):
        dubito.estimate(200, 4, 0, 10, groups=300)
    with pytest.raises(InvalidArgument, match="beam_width=4 cannot be combined with"):
        dubito.estimate(200, 4, 0, 10, groups=20, beam_width=4)
    for strategy in ("badge", "filter-then-cover", "largest-cluster"):
        with pytest.raises(InvalidArgument, match="groups is not supported by strategy"):
            dubito.estimate(200, 4, 0, 10, groups=20, strategy=strategy)


def test_bad_groups_raise() -> None:
    points, groups, doubt = blobs()
    with pytest.raises(InvalidArgument, match="groups has shape"):
        dubito.select(points, 3, groups=groups[:-1])
    for missing in ("", None, float("nan")):
        with pytest.raises(InvalidData, match="groups has no value at row 1"):
            dubito.select(points[:2], 1, groups=["a", missing])
    mixed = dubito.select(points[:4], 2, groups=[7, "7", 7.0, "a"]).groups
    assert mixed is not None
    assert sorted(mixed.names.tolist()) == ["7", "a"]
    with pytest.raises(InvalidArgument, match=r"per_group='sum' requires groups"):
        dubito.select(points, 3, doubt=doubt, strategy="least-confidence:per_group=sum")
    for strategy in ("typical", "kmeans", "badge"):
        if strategy in dubito.strategies.STRATEGIES.names():
            with pytest.raises(InvalidArgument, match="groups is not supported by strategy"):
                dubito.select(points, 3, groups=groups, strategy=strategy, probabilities=np.full((len(points), 2), 0.5))
    with pytest.raises(InvalidArgument, match="cannot be combined with costs, quotas or groups"):
        dubito.select(points, 3, groups=groups, doubt=doubt, strategy="doubt-coreset", beam_width=2)
    with pytest.raises(InvalidArgument, match="choose max, mean, sum, or top-K"):
        dubito.select(points, 3, groups=groups, doubt=doubt, strategy="least-confidence:per_group=median")
    with pytest.raises(InvalidArgument, match="does not pick groups"):
        dubito.select(points, 3, groups=groups, engine="cluster", strategy="coreset")
