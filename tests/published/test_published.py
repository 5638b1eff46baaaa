"""The published strategies: each meets the contract, and equals what its paper defines, computed the slow way."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import dubito
from dubito.doubt import margin_doubt, mean_probabilities
from dubito.errors import InvalidArgument
from dubito.experiments.data import Dataset, make_dataset
from dubito.experiments.plan import Arm, Experiment, Schedule
from dubito.experiments.rounds import Turn
from dubito.experiments.runner import run_experiment
from dubito.matrix import AnyArray, FloatArray, IntArray
from dubito.published import flips, oracle
from dubito.published.bait import binary_factors, full_factors
from dubito.published.herding import Coverage, gaussian, purity_radius, smallest_distance, with_temperature
from dubito.published.typiclust import pick_typical
from dubito.strategies import build_strategy
from dubito.testing import check_strategy
from levels import examples

NAMES = (
    "alfamix",
    "bait",
    "bait:likelihood=binary",
    "dropquery",
    "max-herding",
    "probcover",
    "refine:batches=9,depth=2",
    "typiclust-published",
    "uncertainty-herding",
)
LABELED, BUDGET = 12, 6


class Case:
    """Three overlapping classes, and logistic regression on the first 12 rows."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.labels = np.concatenate([np.arange(LABELED) % 3, rng.integers(3, size=60)])
        self.points = rng.normal(size=(72, 4)) + 2.0 * np.eye(4)[self.labels]
        self.model = LogisticRegression(C=3.0).fit(self.points[:LABELED], self.labels[:LABELED])
        self.probabilities: FloatArray = self.model.predict_proba(self.points)
        self.unit = self.points / np.linalg.norm(self.points, axis=1, keepdims=True)

    def picks(self, strategy: str, budget: int = BUDGET) -> list[int]:
        found = dubito.select(
            self.points, budget, labeled=np.arange(LABELED), probabilities=self.probabilities, strategy=strategy
        )
        return list(found.indices.tolist())


@pytest.fixture(params=range(4))
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


@pytest.mark.parametrize("name", NAMES)
def test_a_published_strategy_meets_the_contract(name: str) -> None:
    check_strategy(build_strategy(name, {}), examples=examples(15))


def slow_coverage(similarity: FloatArray, weights: FloatArray, budget: int) -> list[int]:
    """Greedy coverage with all pairs for each pick; the first rows are labeled."""
    covered, picks = similarity[:LABELED].max(axis=0), list[int]()
    for _ in range(budget):
        gains = np.maximum(similarity - covered, 0.0)[:, LABELED:] @ weights[LABELED:]
        gains[[*range(LABELED), *picks]] = -1.0
        picks.append(int(gains.argmax()))
        covered = np.maximum(covered, similarity[picks[-1]])
    return picks


def distances(points: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(points[:, None] - points, axis=2))


def test_max_herding_covers_with_a_gaussian_of_width_one(case: Case) -> None:
    similarity = np.exp(-(distances(case.unit) ** 2))
    assert case.picks("max-herding") == slow_coverage(similarity, np.ones(72), BUDGET)


def test_uncertainty_herding_weights_by_margin_and_takes_the_least_distance_of_labels_as_width(case: Case) -> None:
    width = np.sort(distances(case.unit)[:LABELED, :LABELED][np.triu_indices(LABELED, 1)])[0]
    similarity = np.exp(-((distances(case.unit) / width) ** 2))
    assert case.picks("uncertainty-herding") == slow_coverage(similarity, margin_doubt(case.probabilities), BUDGET)
    warm = np.exp(case.model.decision_function(case.points) / 4.0)
    warm /= warm.sum(axis=1, keepdims=True)
    assert with_temperature(case.probabilities, 4.0) == pytest.approx(warm)
    assert case.picks("uncertainty-herding:temperature=4") == slow_coverage(similarity, margin_doubt(warm), BUDGET)


def test_probcover_takes_the_point_with_most_uncovered_neighbors(case: Case) -> None:
    similarity = np.asarray(distances(case.unit) < 0.4, dtype=np.float64)
    assert case.picks("probcover:delta=0.4", 3) == slow_coverage(similarity, np.ones(72), 3)


def test_the_pure_distance_is_the_largest_with_enough_pure_balls(case: Case) -> None:
    found, apart = purity_radius(case.points, case.labels, 0.8), distances(case.points)
    others = case.labels[:, None] != case.labels

    def purity(delta: float) -> float:
        return float(1.0 - ((apart < delta) & others).any(axis=1).mean())

    assert purity(found - 1e-9) >= 0.8 > purity(found + 1e-9)


def test_probcover_needs_the_number_of_classes() -> None:
    with pytest.raises(InvalidArgument, match="number of classes"):
        dubito.select(np.eye(4), 2, strategy="probcover")
    assert len(dubito.select(np.eye(4), 2, strategy="probcover:classes=2")) == 2


def test_lazy_coverage_computes_a_part_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    points, n_rows = rng.normal(size=(2000, 2)), list[int]()
    kernel = gaussian(0.1)

    def counting(squared: FloatArray) -> FloatArray:
        n_rows.append(len(squared))
        return kernel(squared)

    herd = Coverage(points, np.zeros(2000), np.ones(2000), counting)
    picks = [herd.pick()[0] for _ in range(40)]
    assert len(set(picks)) == 40
    assert sum(n_rows) < 4 * 2000


def test_the_smallest_distance_ignores_duplicates_and_is_one_without_pairs() -> None:
    assert smallest_distance(np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0]])) == 5.0
    assert smallest_distance(np.array([[1.0], [1.0]])) == smallest_distance(np.empty((0, 2))) == 1.0


# BAIT, with explicit matrices.


def slow_bait(case: Case, factors: FloatArray, budget: int) -> list[int]:
    rows = np.stack([np.kron(s, x) for s, x in zip(factors, case.points, strict=True)])
    told = np.einsum("nrd,nre->nde", rows, rows)
    n_known, weight = LABELED + budget, budget / (LABELED + budget)
    pool, known = told.mean(axis=0), np.eye(told.shape[1]) + told[:LABELED].sum(axis=0) / n_known

    def left(picks: list[int]) -> float:
        return float(np.trace(np.linalg.solve(known + weight * told[picks].sum(axis=0), pool)))

    picks = list[int]()
    for _ in range(2 * budget):
        others = [row for row in range(LABELED, len(rows)) if row not in picks]
        picks.append(min(others, key=lambda row: left([*picks, row])))
    while len(picks) > budget:
        picks.remove(min(picks, key=lambda row: left([each for each in picks if each != row])))
    return picks


@pytest.mark.parametrize(("likelihood", "make"), [("full", full_factors), ("binary", binary_factors)])
def test_bait_takes_what_leaves_the_least_trace(case: Case, likelihood: str, make: object) -> None:
    assert callable(make)
    assert case.picks(f"bait:likelihood={likelihood}", 4) == slow_bait(case, make(case.probabilities), 4)


def test_bait_takes_a_linear_model_where_labeled_points_have_no_probabilities(case: Case) -> None:
    rest = case.points[LABELED:]
    found = dubito.select(
        rest, 4, labeled=case.points[:LABELED], probabilities=case.probabilities[LABELED:], strategy="bait"
    )
    # The information of the pool has the labeled points either way.
    assert (found.indices + LABELED).tolist() == case.picks("bait", 4)


def test_bait_can_pick_from_a_subset(case: Case) -> None:
    assert len(set(case.picks("bait:subset=10", 8))) == 8
    assert case.picks("bait:subset=8", 8) != case.picks("bait", 8)


# Predictions that change.


def test_the_linear_head_is_the_model_that_gave_the_probabilities(case: Case) -> None:
    head = flips.linear_head(case.points, case.probabilities)
    moved = case.points + np.random.default_rng(0).normal(size=case.points.shape)
    assert head.probabilities(moved) == pytest.approx(case.model.predict_proba(moved))
    absent = np.insert(case.probabilities, 1, 0.0, axis=1)
    assert flips.linear_head(case.points, absent).probabilities(moved)[:, 1].max() == 0.0


def test_dropquery_keeps_candidates_whose_prediction_changes_with_dropped_features(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, points = np.random.default_rng(0), case.points[LABELED:]
    kept = [rng.random(points.shape) >= 0.75 for _ in range(3)]
    changed = sum((case.model.predict(points * mask / 0.25) != case.model.predict(points)).astype(int) for mask in kept)
    assert set(case.picks("dropquery", 2)) <= set((LABELED + np.flatnonzero(np.asarray(changed) > 0)).tolist())


def test_candidates_are_filled_up_at_random_if_no_prediction_changes() -> None:
    points = np.random.default_rng(0).normal(size=(30, 3)) + 50.0
    sure = np.tile([0.999, 0.001], (30, 1))
    for name in ("dropquery", "alfamix"):
        picked = dubito.select(points, 7, labeled=[0], probabilities=sure, strategy=name)
        assert len(set(picked.indices.tolist())) == 7


def test_alfamix_keeps_candidates_near_the_boundary() -> None:
    points = np.linspace(-5.0, 5.0, 101)[:, None]
    probabilities = np.column_stack([1.0 / (1.0 + np.exp(points[:, 0])), 1.0 / (1.0 + np.exp(-points[:, 0]))])
    picked = dubito.select(points, 3, labeled=[0, 100], probabilities=probabilities, strategy="alfamix")
    # The means of the classes are at ±5, and a fifth of the way there crosses 0 from points within ±5/4.
    assert np.abs(points[picked.indices]).max() <= 1.25


# TypiClust.


def test_typiclust_takes_large_clusters_without_labels_first_and_leaves_small_ones_out() -> None:
    line = np.arange(26.0)[:, None]
    cluster = np.repeat([0, 1, 2, 3], [9, 8, 6, 3])
    assert pick_typical(line, cluster, np.array([0, 0]), 5).tolist() == [11, 18, 2, 13, 20]


def test_typiclust_ends_with_small_clusters_if_nothing_else_is_left() -> None:
    picks = pick_typical(np.arange(9.0)[:, None], np.repeat([0, 1], [6, 3]), np.empty(0, dtype=np.int64), 9)
    assert sorted(picks.tolist()) == list(range(9))
    assert set(picks[:6].tolist()) == set(range(6))


def test_refine_herds_among_the_candidates_that_the_ensemble_prefers(case: Case) -> None:
    assert case.picks("refine:depth=0,batches=9") == case.picks("uncertainty-herding")
    assert set(case.picks("refine:depth=1,batches=9")) <= set(range(LABELED, 72))


# In experiments.


@pytest.fixture
def overlapping() -> Dataset:
    rng = np.random.default_rng(3)
    labels = rng.integers(4, size=400)
    points = rng.normal(size=(400, 4)) + 1.5 * np.eye(4)[labels]
    return make_dataset("overlapping", points, labels)


def accuracies(dataset: Dataset, tmp_path: object, *names: str) -> dict[str, FloatArray]:
    plan = Experiment("limit", tuple(build_arm(name) for name in names), schedule=Schedule(8, 8, 3), seeds=(0, 1))
    rounds = run_experiment(plan, tmp_path, dataset=dataset)  # type: ignore[arg-type]
    return {
        arm.name: np.array([each.test_accuracy for each in rounds if each.strategy == arm.name])
        for arm in plan.strategies
    }


def build_arm(text: str) -> Arm:
    from dubito.experiments.plan import parse_strategy

    return parse_strategy(text)


def test_the_oracle_is_far_above_random(overlapping: Dataset, tmp_path: AnyArray) -> None:
    found = accuracies(overlapping, tmp_path, "random", "oracle:batches=24")
    assert found["oracle:batches=24"].mean() > found["random"].mean() + 0.03


def test_the_oracle_takes_the_batch_after_which_accuracy_is_highest(
    overlapping: Dataset, tmp_path: AnyArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[list[float]] = []
    original = oracle.Oracle.in_simulation

    def watched(self: oracle.Oracle, turn: object, view: object) -> oracle._RoundOracle:
        of_round = original(self, turn, view)  # type: ignore[arg-type]
        assert isinstance(of_round, oracle._RoundOracle)
        judged.append([])

        def accuracy_after(batch: IntArray) -> float:
            judged[-1].append(of_round.accuracy_after(batch))
            return judged[-1][-1]

        return oracle._RoundOracle(of_round.oracle, accuracy_after, of_round.labels, of_round.labeled)

    monkeypatch.setattr(oracle.Oracle, "in_simulation", watched)
    found = accuracies(overlapping, tmp_path, "oracle:batches=24")["oracle:batches=24"]
    # What it promised is what the next training measures.
    assert found.reshape(2, 4)[:, 1:].ravel().tolist() == [max(each) for each in judged]
    assert all(len(set(each)) > 1 for each in judged)


def test_the_oracle_needs_an_experiment() -> None:
    with pytest.raises(InvalidArgument, match="only an experiment"):
        dubito.select(np.eye(4), 2, probabilities=np.eye(4), strategy="oracle")


def test_uncertainty_herding_fits_a_temperature_on_held_out_labels(
    overlapping: Dataset, tmp_path: AnyArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dubito.published import herding

    fitted: list[float] = []
    original = herding.held_out_temperature

    def watched(turn: Turn) -> float:
        fitted.append(original(turn))
        return fitted[-1]

    monkeypatch.setattr(herding, "held_out_temperature", watched)
    accuracies(overlapping, tmp_path, "uncertainty-herding", "uncertainty-herding:temperature=2")
    assert len(fitted) == 6
    assert len(set(fitted)) > 1
    assert min(fitted) >= 1.0


def test_the_calibration_error_has_a_bin_for_each_class() -> None:
    from dubito.published.herding import calibration_error

    probabilities = np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.8, 0.2]])
    # One bin of confidence above one half: 0.75 on average, and three of four are right.
    assert calibration_error(probabilities, np.array([0, 0, 1, 0])) == pytest.approx(0.0)
    assert calibration_error(probabilities, np.array([1, 1, 1, 1])) == pytest.approx(0.75)


def test_means_of_posterior_samples_are_taken_as_probabilities(case: Case) -> None:
    samples = np.stack([case.probabilities, np.roll(case.probabilities, 1, axis=1)], axis=1)
    both = dubito.select(case.points, 4, labeled=np.arange(LABELED), probabilities=samples, strategy="bait")
    mean = dubito.select(
        case.points, 4, labeled=np.arange(LABELED), probabilities=mean_probabilities(samples), strategy="bait"
    )
    assert both.indices.tolist() == mean.indices.tolist()
