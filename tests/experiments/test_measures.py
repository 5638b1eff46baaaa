import numpy as np
import pytest

import dubito
from dubito.experiments import rounds as measures
from dubito.experiments.rounds import NearestLabeled
from dubito.matrix import AnyArray


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that little data goes the way of much."""
    for name, value in {
        "SMALL_PROBLEM": 0,
        "FIRST_COMPARED": 16,
        "GROWTH": 2,
        "BLOCK_ROWS": 32,
        "PAIRS_BYTES": 4096,
    }.items():
        monkeypatch.setattr(measures, name, value)


def largest(features: AnyArray, labeled: int) -> float:
    """δ by a plain look at all pairs."""
    wide = features.astype(np.float64)
    return float(np.sqrt(((wide[:, None] - wide[None, :labeled]) ** 2).sum(axis=2).min(axis=1)).max())


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_the_radius_is_the_engines_own_to_the_last_bit_as_labels_come(kind: type, shift: float) -> None:
    rng = np.random.default_rng(0)
    features: AnyArray = (rng.normal(size=(300, 20)) + shift).astype(kind)
    doubt = rng.random(300)
    nearest, pool = NearestLabeled(features), dubito.Pool(features)
    for start in (0, 60, 120):
        nearest.add(np.arange(start, start + 60))
        pool.label(rows=np.arange(start, start + 60))
        assert nearest.largest() == pool.select(1, strategy="coreset").priorities[0]
        assert nearest.copy().largest(doubt) == pool.select(1, doubt=doubt, strategy="doubt-coreset").priorities[0]


def test_half_precision_and_whole_numbers_are_measured_in_full() -> None:
    features = np.random.default_rng(1).integers(-200, 200, (90, 6))
    for kind in (np.float16, np.int64):
        nearest = NearestLabeled(features.astype(kind))
        nearest.add(np.arange(30))
        assert nearest.largest() == largest(features, 30)


def test_squares_that_overflow_a_float32_are_settled_in_float64() -> None:
    features = (np.random.default_rng(2).normal(size=(80, 5)) * 1e25).astype(np.float32)
    nearest = NearestLabeled(features)
    nearest.add(np.arange(40))
    assert nearest.largest() == pytest.approx(largest(features, 40), rel=1e-12)


def test_copies_of_labeled_rows_lie_nowhere_far() -> None:
    nearest = NearestLabeled(np.repeat(np.eye(3, dtype=np.float32), 40, axis=0))
    nearest.add(np.array([0, 50, 100]))
    assert nearest.largest() == 0.0
