"""Posterior samples split into what can be learned and what cannot, against the formulas written out."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dubito
from dubito.doubt import learnable_doubt, split_posterior
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import FloatArray
from dubito.strategies import DoubtCoreset, DoubtCoverage, FilterThenCover, PowerSampling

NAMES = ("doubt-coreset", "doubt-coverage", "filter-then-cover", "power")


def entropy(row: FloatArray) -> float:
    present = row[row > 0]
    return float(-(present * np.log(present)).sum())


@given(st.integers(0, 2**31))
def test_the_parts_are_the_formulas_and_add_up_to_the_entropy_of_the_mean(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k, c = int(rng.integers(1, 9)), int(rng.integers(1, 6)), int(rng.integers(2, 6))
    posterior = rng.dirichlet(np.full(c, rng.choice([0.05, 0.5, 3.0])), (n, k))
    posterior[rng.random((n, k)) < 0.2] = np.eye(c)[0]
    learnable, unlearnable = split_posterior(posterior)
    whole = np.array([entropy(rows.mean(axis=0)) for rows in posterior])
    noise = np.array([np.mean([entropy(row) for row in rows]) for rows in posterior])
    assert unlearnable == pytest.approx(noise, abs=1e-11)
    assert learnable == pytest.approx(whole - noise, abs=1e-11)
    assert (learnable >= 0).all()
    if k == 1:
        assert learnable.tolist() == [0.0] * n
    else:
        assert learnable_doubt(posterior) == pytest.approx((whole - noise) / np.log(min(k, c)), abs=1e-11)
        assert ((learnable_doubt(posterior) >= 0) & (learnable_doubt(posterior) <= 1)).all()


def test_blocks_and_half_precision_do_not_matter() -> None:
    posterior = np.random.default_rng(0).dirichlet(np.ones(10), (30_000, 4))
    learnable, unlearnable = split_posterior(posterior)
    few = split_posterior(posterior[20_000:20_010])
    assert few.learnable.tolist() == learnable[20_000:20_010].tolist()
    assert few.unlearnable.tolist() == unlearnable[20_000:20_010].tolist()
    half = split_posterior(posterior[:50].astype(np.float16))
    assert half.learnable == pytest.approx(learnable[:50], abs=2e-3)


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 2, 3, 1), (5, 2, 1)])
def test_what_is_no_posterior_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgument, match="probabilities has shape"):
        split_posterior(np.full(shape, 1.0 / shape[-1]))
    with pytest.raises(InvalidData, match="probabilities sum to 2"):
        split_posterior(np.ones((4, 3, 2)))


@pytest.mark.parametrize("strategy", [DoubtCoreset(doubt="learnable"), DoubtCoverage(doubt="learnable")])
def test_learnable_doubt_is_taken_as_that_doubt_handed_in_would_be(strategy: DoubtCoreset | DoubtCoverage) -> None:
    rng = np.random.default_rng(3)
    pool, posterior = rng.standard_normal((60, 3)), rng.dirichlet(np.ones(4), (60, 5))
    found = dubito.select(pool, 10, labeled=[0, 1], probabilities=posterior, strategy=strategy)
    handed = dubito.select(pool, 10, labeled=[0, 1], doubt=learnable_doubt(posterior), strategy=strategy.name)
    mean = dubito.select(pool, 10, labeled=[0, 1], probabilities=posterior, strategy=strategy.name)
    assert found.indices.tolist() == handed.indices.tolist()
    assert found.priorities.tolist() == handed.priorities.tolist()
    assert found.indices.tolist() != mean.indices.tolist()


def test_noise_on_which_all_samples_agree_does_not_attract() -> None:
    pool = np.array([[0.0], [5.0], [9.0]])
    disagree, undecided = [[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]
    posterior = np.array([undecided, disagree, undecided])
    by_mean = dubito.select(pool, 1, labeled=[0], probabilities=posterior, strategy="doubt-coreset")
    by_learnable = dubito.select(
        pool, 1, labeled=[0], probabilities=posterior, strategy="doubt-coreset:doubt=learnable"
    )
    assert (by_mean.indices.tolist(), by_learnable.indices.tolist()) == ([2], [1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(20, 3), (20, 1, 3)])
def test_one_model_has_nothing_to_disagree_with(name: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    one: Any = rng.dirichlet(np.ones(3), shape[:-1])
    with pytest.raises(InvalidArgument, match=f"strategy='{name}:doubt=learnable' needs .* k >= 2 posterior samples"):
        dubito.select(rng.standard_normal((20, 2)), 2, probabilities=one, strategy=f"{name}:doubt=learnable")
    with pytest.raises(InvalidArgument, match=f"or strategy='{name}:doubt=margin', which needs one model."):
        dubito.select(rng.standard_normal((20, 2)), 2, probabilities=one, strategy=f"{name}:doubt=learnable")


def test_a_strategy_says_when_it_asks_a_committee() -> None:
    for kind in (DoubtCoreset, DoubtCoverage, FilterThenCover, PowerSampling):
        asking, alone = kind(doubt="learnable"), kind()
        assert (asking.needs_samples, alone.needs_samples) == (True, False)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", ["doubt-coreset", "doubt-coverage", "margin", "doubt-coreset:doubt=margin"])
def test_other_doubts_take_the_mean_of_samples(name: str, k: int) -> None:
    rng = np.random.default_rng(4)
    pool, posterior = rng.standard_normal((30, 2)), rng.dirichlet(np.ones(3), (30, k))
    found = dubito.select(pool, 5, probabilities=posterior, strategy=name)
    mean = dubito.select(pool, 5, probabilities=posterior.mean(axis=1), strategy=name)
    assert found.indices.tolist() == mean.indices.tolist()
