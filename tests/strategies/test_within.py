"""Costs, quotas and spending, compared with plain greedy loops that check them at every pick."""

from typing import Literal

import numpy as np
import pytest

import dubito
from dubito.core import coverage_reference as coverage
from dubito.core.distances import exact_sq_distances
from dubito.core.problem import Progress, Quotas, Selection
from dubito.doubt import margin_doubt
from dubito.engines.cpu.coverage.engine import CpuCoverage
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.reference_engine import CoverageReference, ReferenceEngine
from dubito.errors import InvalidArgument
from dubito.matrix import FloatArray, IntArray
from dubito.strategies import Coreset, DoubtCoreset, DoubtCoverage, Strategy
from levels import examples

Name = Literal["coreset", "doubt-coreset", "coverage", "doubt-coverage"]
NAMES: tuple[Name, ...] = ("coreset", "doubt-coreset", "coverage", "doubt-coverage")

ENGINES = (CpuEngine, CpuCoverage, ReferenceEngine, CoverageReference)


@pytest.fixture
def unaware(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines of other packages that do not support quotas."""
    for kind in ENGINES:
        monkeypatch.setattr(kind, "keeps_quotas", False)


@pytest.fixture(params=["by the engine", "one solution after another"])
def kept(request: pytest.FixtureRequest) -> None:
    """Quotas enforced by engines, and around engines that do not support them."""
    if request.param != "by the engine":
        request.getfixturevalue("unaware")


class Case:
    """A small pool with labeled rows, probabilities, costs and quotas; whole numbers, so that there are ties."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.n = int(rng.integers(8, 60))
        self.pool = rng.integers(-4, 5, (self.n, 3)).astype(np.float64)
        self.labeled = np.sort(rng.permutation(self.n)[: rng.choice([0, 1, 4])])
        self.probabilities = rng.dirichlet(np.full(4, 0.4), self.n)
        self.costs = None if rng.random() < 0.3 else rng.choice([0.5, 1.0, 2.0, 7.0], self.n)
        self.limits = rng.integers(0, 9, 4)
        self.limits[rng.integers(4)] = self.n
        self.classes = self.probabilities.argmax(axis=1)
        self.candidates = np.setdiff1d(np.arange(self.n), self.labeled)
        room = np.minimum(np.bincount(self.classes[self.candidates], minlength=4), self.limits).sum()
        self.budget = int(rng.integers(1, room + 1)) if room else 0

    def select(self, name: Name, engine: str, spend: float | None = None) -> Selection:
        return dubito.select(
            self.pool,
            self.budget,
            labeled=self.labeled,
            probabilities=self.probabilities,
            strategy=name,
            engine=engine,
            costs=self.costs,
            spend=spend,
            quotas=dict(enumerate(self.limits.tolist())),
        )

    def allowed(self, picks: list[int]) -> IntArray:
        """Candidates that may come next."""
        room = self.limits - np.bincount(self.classes[picks], minlength=4)
        left = np.setdiff1d(self.candidates, picks)
        return np.asarray(left[room[self.classes[left]] > 0])


def plain_core_set(case: Case, by_doubt: bool) -> tuple[list[int], list[float], float]:
    """Picks, priorities and the radius: a priority is distance times doubt over cost."""
    doubt = 1.0 - case.probabilities.max(axis=1)
    costs = np.ones(case.n) if case.costs is None else case.costs
    weights = (doubt * doubt if by_doubt else np.ones(case.n)) / (costs * costs)
    nearest = np.full(case.n, np.inf)
    for row in case.labeled:
        nearest = np.minimum(nearest, exact_sq_distances(case.pool, case.pool[row]))
    picks, priorities = list[int](), list[float]()
    while len(picks) < case.budget:
        allowed = case.allowed(picks)
        if not picks and not len(case.labeled):
            center = np.square(case.n * case.pool - case.pool.sum(axis=0)).sum(axis=1) * costs * costs
            best = int(allowed[np.argmax((doubt / costs)[allowed]) if by_doubt else np.argmin(center[allowed])])
            priorities.append(np.inf)
        else:
            squared = nearest[allowed] * weights[allowed]
            best = int(allowed[np.argmax(squared)])
            priorities.append(float(np.sqrt(squared.max())))
        picks.append(best)
        nearest = np.minimum(nearest, exact_sq_distances(case.pool, case.pool[best]))
    left = case.allowed(picks)
    return picks, priorities, float(np.sqrt((nearest[left] * weights[left]).max(initial=0.0)))


def plain_cover(case: Case, weights: FloatArray, reach: float) -> tuple[list[int], list[float], list[float]]:
    """Picks, priorities and what is covered after each; a priority is what a pick adds over its cost."""
    costs = np.ones(case.n) if case.costs is None else case.costs
    weights = weights.copy()
    weights[case.labeled] = 0.0
    kernels = np.stack([coverage.kernel(exact_sq_distances(case.pool, row), reach * reach) for row in case.pool])
    cover = kernels[case.labeled].max(axis=0, initial=0.0)
    picks, priorities, covered = list[int](), list[float](), list[float]()
    while len(picks) < case.budget:
        allowed = case.allowed(picks)
        gained = coverage.gains(kernels[allowed], cover, weights) / costs[allowed]
        best = int(allowed[np.argmax(gained)])
        picks.append(best)
        priorities.append(float(gained.max()))
        cover = np.maximum(cover, kernels[best])
        covered.append(float((weights * cover).sum() / weights.sum()))
    return picks, priorities, covered


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("name", ["coreset", "doubt-coreset"])
def test_a_core_set_within_quotas_is_what_a_plain_loop_picks(name: Name, engine: str) -> None:
    for seed in range(max(24, examples(120))):
        case = Case(seed)
        if not case.budget:
            continue
        found = case.select(name, engine)
        picks, priorities, radius = plain_core_set(case, name == "doubt-coreset")
        assert found.indices.tolist() == picks, seed
        # A doubt of 1 - max p and one that adds the others up differ in the last digits.
        assert found.priorities == pytest.approx(priorities, rel=1e-9)
        assert found.radius == pytest.approx(radius, rel=1e-9), seed
        assert found.complete


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("name", ["coverage", "doubt-coverage"])
def test_coverage_within_quotas_is_what_a_plain_loop_picks(name: Name, engine: str) -> None:
    for seed in range(max(24, examples(120))):
        case = Case(seed)
        if not case.budget:
            continue
        found = case.select(name, engine)
        weights = margin_doubt(case.probabilities) if name == "doubt-coverage" else np.ones(case.n)
        assert found.reach is not None
        assert found.covered is not None
        picks, priorities, covered = plain_cover(case, weights, found.reach)
        assert found.indices.tolist() == picks, seed
        assert found.priorities.tolist() == priorities, seed
        assert found.covered == pytest.approx(covered, rel=1e-9), seed
        assert found.radius is None


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", NAMES)
def test_quotas_that_bind_nothing_change_nothing(name: Name) -> None:
    rng = np.random.default_rng(1)
    pool, probabilities = rng.standard_normal((80, 3)), rng.dirichlet(np.ones(3), 80)
    free = dubito.select(pool, 20, labeled=[0, 1], probabilities=probabilities, strategy=name)
    bound = dubito.select(pool, 20, labeled=[0, 1], probabilities=probabilities, strategy=name, quotas=20)
    assert bound.indices.tolist() == free.indices.tolist()
    assert bound.priorities.tolist() == free.priorities.tolist()
    assert (bound.radius, bound.reach, bound.uncertainty) == (free.radius, free.reach, free.uncertainty)
    if free.covered is not None:
        assert bound.covered is not None
        assert bound.covered.tolist() == free.covered.tolist()


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", NAMES)
def test_a_class_may_have_no_picks_at_all_and_others_are_free(name: Name) -> None:
    rng = np.random.default_rng(1)
    pool, classes = rng.standard_normal((60, 2)), np.array(["cat", "dog", "elk"])[rng.integers(3, size=60)]
    doubt = rng.random(60)
    found = dubito.select(pool, 25, doubt=doubt, strategy=name, quotas={"cat": 0, "dog": 4}, classes=classes)
    counts = {each: int((classes[found.indices] == each).sum()) for each in ("cat", "dog", "elk")}
    assert counts["cat"] == 0
    assert counts["dog"] <= 4
    assert sum(counts.values()) == 25


def test_none_means_every_other_class() -> None:
    rng = np.random.default_rng(2)
    pool, classes = rng.standard_normal((60, 2)), rng.integers(3, size=60)
    found = dubito.select(pool, 9, strategy="coverage", quotas={None: 2, 1: 5}, classes=classes)
    assert np.bincount(classes[found.indices], minlength=3).tolist() == [2, 5, 2]


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", NAMES)
def test_spending_ends_the_picks_before_the_sum_passes_it(name: Name) -> None:
    for seed in range(max(12, examples(40))):
        case = Case(seed)
        if not case.budget or case.costs is None:
            continue
        whole = case.select(name, "cpu")
        spend = float(case.costs[whole.indices].max()) * 2.0
        found = case.select(name, "cpu", spend)
        affordable = case.costs <= spend
        assert affordable[whole.indices].all()
        n = len(found)
        sums = np.cumsum(case.costs[whole.indices])
        if affordable[case.candidates].all():
            assert found.indices.tolist() == whole.indices[:n].tolist()
            assert found.priorities.tolist() == whole.priorities[:n].tolist()
            assert n == len(whole) or sums[n] > spend
        assert found.spent == case.costs[found.indices].sum() <= spend
        assert 1 <= n <= case.budget


def test_at_the_spending_limit_the_radius_is_the_next_priority() -> None:
    pool, costs = np.array([[0.0], [1.0], [5.0], [12.0]]), [1.0, 1.0, 1.0, 1.0]
    found = dubito.select(pool, 3, labeled=[0], strategy="coreset", costs=costs, spend=2.5)
    assert (found.indices.tolist(), found.priorities.tolist(), found.radius) == ([3, 2], [12.0, 5.0], 1.0)
    assert found.spent == 2.0
    assert "spent=2" in repr(found)


def test_rows_that_cost_more_than_the_limit_are_skipped() -> None:
    pool = np.array([[0.0], [1.0], [5.0], [12.0]])
    found = dubito.select(pool, 3, labeled=[0], strategy="coreset", costs=[1, 1, 1, 9], spend=2.0)
    assert found.indices.tolist() == [2, 1]


def test_a_cost_divides_a_priority() -> None:
    pool = np.array([[0.0], [3.0], [10.0]])
    found = dubito.select(pool, 2, labeled=[0], strategy="coreset", costs=[1.0, 0.5, 4.0])
    assert (found.indices.tolist(), found.priorities.tolist()) == ([1, 2], [6.0, 7.0 / 4.0])


def test_a_cold_start_begins_with_what_is_near_the_mean_for_its_cost() -> None:
    pool, doubt = np.array([[0.0], [2.0], [3.0], [10.0]]), [0.1, 0.2, 0.3, 0.4]
    assert dubito.select(pool, 1, strategy="coreset").indices.tolist() == [2]
    assert dubito.select(pool, 1, strategy="coreset", costs=[1, 1, 3, 1]).indices.tolist() == [1]
    assert dubito.select(pool, 1, strategy="coreset", costs=[1, 1, 3, 1], doubt=doubt).indices.tolist() == [1]
    assert dubito.select(pool, 1, doubt=doubt, costs=[1, 1, 1, 2], strategy="doubt-coreset").indices.tolist() == [2]


@pytest.mark.parametrize("name", NAMES)
def test_uncertainty_is_reported_with_costs_as_without(name: Name) -> None:
    rng = np.random.default_rng(3)
    pool, probabilities = rng.standard_normal((40, 3)), rng.dirichlet(np.ones(3), 40)
    plain = dubito.select(pool, 6, labeled=[0], probabilities=probabilities, strategy=name)
    priced = dubito.select(pool, 6, labeled=[0], probabilities=probabilities, strategy=name, costs=np.full(40, 2.0))
    assert priced.indices.tolist() == plain.indices.tolist()
    assert priced.priorities.tolist() == (plain.priorities / 2.0).tolist()
    assert priced.uncertainty == plain.uncertainty


@pytest.mark.usefixtures("unaware")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stop_at", [1, 2])
def test_an_interruption_within_quotas_leaves_a_prefix(name: Name, stop_at: int) -> None:
    rng = np.random.default_rng(5)
    pool, probabilities = rng.standard_normal((400, 3)), rng.dirichlet(np.ones(4), 400)
    described = list[int]()

    def interrupt(done: int, total: int, radius: float | None, seconds: float) -> None:
        assert 0 <= done <= total <= 140
        assert described == sorted(described)
        described.append(done)
        if len(described) == stop_at:
            raise KeyboardInterrupt

    def run(progress: Progress | None = None) -> Selection:
        return dubito.select(
            pool,
            140,
            labeled=[0, 1],
            probabilities=probabilities,
            strategy=name,
            quotas={0: 10, 1: 20, 2: 40},
            progress=progress,
        )

    whole = run()
    with pytest.raises(dubito.Interrupted) as caught:
        run(interrupt)
    found = caught.value.selection
    assert found.indices.tolist() == whole.indices[: len(found)].tolist()
    assert found.priorities.tolist() == whole.priorities[: len(found)].tolist()
    if whole.covered is not None:
        assert found.covered is not None
        assert found.covered.tolist() == whole.covered[: len(found)].tolist()
    assert not found.complete


@pytest.mark.usefixtures("kept")
def test_progress_within_quotas_ends_at_the_last_pick() -> None:
    rng = np.random.default_rng(5)
    pool, probabilities = rng.standard_normal((100, 3)), rng.dirichlet(np.ones(3), 100)
    described = list[tuple[int, int]]()
    dubito.select(
        pool,
        40,
        probabilities=probabilities,
        strategy="coverage",
        quotas={0: 3, 1: 5},
        progress=lambda done, total, radius, seconds: described.append((done, total)),
    )
    assert described[-1] == (40, 40)
    assert [done for done, _ in described] == sorted(done for done, _ in described)
    assert described.count((40, 40)) == 1


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", NAMES)
def test_a_pool_keeps_within_limits_round_after_round(name: Name) -> None:
    rng = np.random.default_rng(6)
    features, probabilities = rng.standard_normal((120, 3)), rng.dirichlet(np.ones(3), 120)
    costs, quotas = rng.uniform(1.0, 5.0, 120), {0: 3, 1: 6}
    pool = dubito.Pool(features)
    pool.label(rows=[0, 1, 2])
    for _ in range(4):
        labeled = pool.labeled
        found = pool.select(12, probabilities=probabilities, strategy=name, costs=costs, quotas=quotas)
        expected = dubito.select(
            features, 12, labeled=labeled, probabilities=probabilities, strategy=name, costs=costs, quotas=quotas
        )
        assert found.indices.tolist() == expected.indices.tolist()
        assert found.radius == expected.radius
        pool.label(found)


def test_rows_are_within_quotas_until_their_class_is_full() -> None:
    rng = np.random.default_rng(0)
    classes, limits = rng.integers(5, size=200), np.array([0, 3, 10, 200, 40])
    rows, expected, room = rng.permutation(200), [], limits.copy()
    for each in classes[rows].tolist():
        expected.append(bool(room[each] > 0))
        room[each] -= 1
    quotas = Quotas(classes, limits)
    assert quotas.allowed(rows, quotas.limits).tolist() == expected
    assert quotas.allowed(rows[:0], quotas.limits).tolist() == []
    assert quotas.remaining(rows[:50]).tolist() == (limits - np.bincount(classes[rows[:50]], minlength=5)).tolist()


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ("margin", "costs is not supported by strategy='margin'; leave it out, or choose auto, coverage"),
        (DoubtCoreset(beam_width=3), "beam_width=3 cannot be combined with costs, quotas or groups"),
        (
            DoubtCoreset(scaling="acquired"),
            "scaling='acquired' cannot be combined with costs, quotas or groups; pass scaling=",
        ),
        (Coreset(beam_width=2), "beam_width=2 cannot be combined with"),
    ],
)
def test_what_does_not_go_with_costs_is_refused(strategy: str | Strategy, words: str) -> None:
    rng = np.random.default_rng(0)
    pool, probabilities = rng.standard_normal((9, 2)), rng.dirichlet(np.ones(3), 9)
    with pytest.raises(InvalidArgument, match=words):
        dubito.select(pool, 2, probabilities=probabilities, strategy=strategy, costs=np.ones(9))


def test_the_gpu_engines_say_that_they_take_no_costs() -> None:
    pool = np.random.default_rng(0).standard_normal((9, 2))
    for strategy in ("coreset", "coverage"):
        with pytest.raises(InvalidArgument, match="engine='cuda' cannot do this: it does not support costs"):
            dubito.select(pool, 2, strategy=strategy, engine="cuda", costs=np.ones(9))


def test_a_reach_can_be_repeated_to_the_last_bit() -> None:
    rng = np.random.default_rng(8)
    for scale in (1e-160, 1e-20, 1.0, 3e7, 1e120):
        pool = rng.standard_normal((50, 3)) * scale
        for labeled in ([], [0, 1, 2]):
            found = dubito.select(pool, 5, labeled=labeled, strategy="coverage")
            again = dubito.select(pool, 5, labeled=labeled, strategy=DoubtCoverage(radius=found.reach))
            assert found.reach == again.reach
            assert found.priorities.tolist() == again.priorities.tolist()
