"""`select` and `Selection`: the call, and what it gives back."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import dubito
from dubito.core.distances import unit_rows
from dubito.matrix import FloatArray
from dubito.strategies import DoubtCoreset

LINE = np.array([[0.0], [1.0], [4.0], [9.0]])
LINE_DOUBT = [0.5, 0.25, 1.0, 0.125]

Digits = tuple[FloatArray, FloatArray]


def call(**arguments: object) -> dubito.Selection:
    chooser: Callable[..., dubito.Selection] = dubito.select
    return chooser(**arguments)


@pytest.fixture(scope="module")
def digits() -> Digits:
    """Real handwritten digits, and the probabilities of a model that saw the first hundred."""
    pool, labels = load_digits(return_X_y=True)
    model = LogisticRegression(max_iter=300).fit(pool[:100] / 16, labels[:100])
    return pool, model.predict_proba(pool / 16)


# Properties


@st.composite
def pools(draw: st.DrawFn) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A pool without ties, what is labeled, and doubts."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n, m, d = draw(st.integers(2, 25)), draw(st.integers(0, 4)), draw(st.integers(1, 4))
    return rng.standard_normal((n, d)), rng.standard_normal((m, d)), rng.uniform(0.01, 1.0, n)


CASES = pools()


@given(CASES, st.data())
def test_picks_are_distinct_candidates_in_the_number_asked(
    case: tuple[FloatArray, FloatArray, FloatArray], data: st.DataObject
) -> None:
    pool, labeled, doubt = case
    candidates = sorted(data.draw(st.sets(st.sampled_from(range(len(pool))), min_size=1)))
    budget = data.draw(st.integers(1, len(candidates)))
    width = data.draw(st.integers(1, 3))
    allowed = np.isin(np.arange(len(pool)), candidates)  # In a pool of two, 0 and 1 might be a mask.
    picked = dubito.select(pool, budget, labeled=labeled, doubt=doubt, candidates=allowed, beam_width=width)
    assert len(set(picked.indices.tolist())) == budget == len(picked)
    assert set(picked.indices.tolist()) <= set(candidates)
    assert picked.indices.dtype == np.int64
    assert np.flatnonzero(picked.mask).tolist() == sorted(picked.indices.tolist())
    assert len(picked.mask) == len(pool)


@given(CASES, st.sampled_from(["respective", "acquired"]), st.sampled_from([0.0, 0.5, 1.0, 0.7]))
def test_greedy_priorities_never_rise(
    case: tuple[FloatArray, FloatArray, FloatArray], scaling: str, strength: float
) -> None:
    pool, labeled, doubt = case
    strategy = DoubtCoreset(strength, scaling="acquired" if scaling == "acquired" else "respective")
    picked = dubito.select(pool, len(pool), labeled=labeled, doubt=doubt, strategy=strategy)
    assert (np.diff(picked.priorities[1:]) <= 0).all()
    assert picked.priorities[0] >= picked.priorities[-1]
    assert picked.radius == 0.0


@given(CASES)
def test_a_smaller_budget_is_a_prefix_and_its_radius_the_next_priority(
    case: tuple[FloatArray, FloatArray, FloatArray],
) -> None:
    pool, labeled, doubt = case
    whole = dubito.select(pool, len(pool), labeled=labeled, doubt=doubt, strategy="doubt-coreset")
    for budget in range(1, len(pool)):
        part = dubito.select(pool, budget, labeled=labeled, doubt=doubt, strategy="doubt-coreset")
        assert part.indices.tolist() == whole.indices[:budget].tolist()
        assert part.priorities.tolist() == whole.priorities[:budget].tolist()
        assert part.radius == whole.priorities[budget]


@given(CASES)
def test_the_radius_never_grows_as_the_budget_grows(case: tuple[FloatArray, FloatArray, FloatArray]) -> None:
    pool, labeled, doubt = case
    runs = [
        dubito.select(pool, b, labeled=labeled, doubt=doubt, strategy="doubt-coreset") for b in range(1, len(pool) + 1)
    ]
    assert (np.diff([run.covering_radius() for run in runs]) <= 0).all()
    assert (np.diff([run.radius or 0.0 for run in runs]) <= 0).all()
    assert runs[-1].covering_radius() == 0.0


@given(CASES)
def test_full_doubt_everywhere_is_the_plain_core_set(case: tuple[FloatArray, FloatArray, FloatArray]) -> None:
    pool, labeled, _ = case
    labeled = labeled if len(labeled) else pool[:1] + 0.25
    plain = dubito.select(pool, len(pool), labeled=labeled, strategy="coreset")
    for scaling in ("respective", "acquired"):
        strategy = DoubtCoreset(scaling="acquired" if scaling == "acquired" else "respective")
        scaled = dubito.select(pool, len(pool), labeled=labeled, doubt=np.ones(len(pool)), strategy=strategy)
        assert scaled.indices.tolist() == plain.indices.tolist()
        assert scaled.priorities.tolist() == plain.priorities.tolist()


@given(CASES)
def test_strength_nothing_is_the_plain_core_set(case: tuple[FloatArray, FloatArray, FloatArray]) -> None:
    pool, labeled, doubt = case
    plain = dubito.select(pool, len(pool), labeled=labeled, strategy="coreset")
    tempered = dubito.select(pool, len(pool), labeled=labeled, doubt=doubt, strength=0, strategy="doubt-coreset")
    assert tempered.indices.tolist() == plain.indices.tolist()


@given(CASES, st.integers(0, 2**31), st.integers(1, 3))
def test_picks_follow_the_rows_wherever_they_stand(
    case: tuple[FloatArray, FloatArray, FloatArray], seed: int, width: int
) -> None:
    pool, labeled, doubt = case
    order = np.random.default_rng(seed).permutation(len(pool))
    budget = (len(pool) + 1) // 2
    one = dubito.select(pool, budget, labeled=labeled, doubt=doubt, beam_width=width, strategy="doubt-coreset")
    other = dubito.select(
        pool[order], budget, labeled=labeled, doubt=doubt[order], beam_width=width, strategy="doubt-coreset"
    )
    assert order[other.indices].tolist() == one.indices.tolist()
    assert other.priorities.tolist() == one.priorities.tolist()


@given(st.integers(0, 2**31), st.sampled_from(["float16", "float32", "float64", "int16"]), st.integers(1, 3))
def test_picks_do_not_depend_on_how_the_numbers_are_kept(seed: int, dtype: str, width: int) -> None:
    rng = np.random.default_rng(seed)
    pool, doubt = rng.integers(-9, 10, (30, 3)), rng.choice([0.0, 0.25, 0.5, 1.0], 30)
    one = dubito.select(pool, 12, doubt=doubt, beam_width=width, strategy="doubt-coreset")
    for kept in (pool.astype(dtype), np.asfortranarray(pool.astype(dtype)), pool.astype(dtype).tolist()):
        other = dubito.select(kept, 12, doubt=doubt, beam_width=width, strategy="doubt-coreset")
        assert other.indices.tolist() == one.indices.tolist()
        assert other.priorities.tolist() == one.priorities.tolist()


@pytest.mark.parametrize("width", [1, 4])
def test_the_cpu_engine_picks_real_digits_as_the_reference_does(digits: Digits, width: int) -> None:
    pool, probabilities = digits
    runs = [
        dubito.select(
            pool,
            60,
            labeled=range(100),
            probabilities=probabilities,
            beam_width=width,
            engine=engine,
            strategy="doubt-coreset",
        )
        for engine in ("cpu", "reference")
    ]
    for ours, oracle in zip(*(run.configurations for run in runs), strict=True):
        assert ours.indices.tolist() == oracle.indices.tolist()
        assert ours.priorities.tolist() == oracle.priorities.tolist()
        assert (ours.radius, ours.uncertainty) == (oracle.radius, oracle.uncertainty)
    assert [run.engine for run in runs] == ["cpu", "reference"]


def test_picks_do_not_depend_on_the_number_of_threads(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, probabilities = digits
    found = []
    for threads in (1, 2):
        monkeypatch.setenv("DUBITO_THREADS", str(threads))
        found.append(
            dubito.select(pool, 300, labeled=range(100), probabilities=probabilities, strategy="doubt-coreset")
        )
    assert found[0].indices.tolist() == found[1].indices.tolist()
    assert found[0].priorities.tolist() == found[1].priorities.tolist()


# What is labeled, and where it comes from


def test_labeled_rows_are_never_picked_and_equal_their_features() -> None:
    by_rows = dubito.select(LINE, 3, labeled=[1], doubt=LINE_DOUBT, strategy="doubt-coreset")
    by_mask = dubito.select(LINE, 3, labeled=[False, True, False, False], doubt=LINE_DOUBT, strategy="doubt-coreset")
    by_features = dubito.select(
        LINE, 3, labeled=LINE[1:2], candidates=[0, 2, 3], doubt=LINE_DOUBT, strategy="doubt-coreset"
    )
    assert by_rows.indices.tolist() == by_mask.indices.tolist() == by_features.indices.tolist() == [2, 3, 0]


def test_a_cold_start_takes_the_largest_doubt_first_at_an_infinite_priority() -> None:
    picked = dubito.select(LINE, 2, doubt=LINE_DOUBT, strategy="doubt-coreset")
    assert picked.indices.tolist() == [2, 0]
    assert picked.priorities.tolist() == [np.inf, 2.0]


def test_a_cold_start_without_doubt_takes_the_point_nearest_the_mean_first() -> None:
    assert dubito.select(LINE, 2, strategy="coreset").indices.tolist() == [2, 3]


@pytest.mark.parametrize(
    "given_",
    [
        {"doubt": [0.5, 0.25, 0.125, 0.0]},
        {"probabilities": [[0.5, 0.5], [0.25, 0.75], [0.875, 0.125], [1.0, 0.0]]},
        {"probabilities": np.array([[[0.5, 0.5]], [[0.25, 0.75]], [[0.875, 0.125]], [[1.0, 0.0]]])},
        {"logits": np.log([[0.5, 0.5], [0.25, 0.75], [0.875, 0.125], [1.0, 1e-300]])},
        {"probabilities": torch.tensor([[0.5, 0.5], [0.25, 0.75], [0.875, 0.125], [1.0, 0.0]], dtype=torch.bfloat16)},
    ],
)
def test_every_source_of_doubt_means_the_same(given_: dict[str, object]) -> None:
    picked = call(
        pool=LINE, budget=4, labeled=[[0.0]], strategy="doubt-coreset", **given_
    )  # row 0 is a duplicate of what is labeled
    assert picked.indices.tolist() == [2, 1, 0, 3]


def test_bfloat16_probabilities_may_miss_one_by_what_bfloat16_loses() -> None:
    rows = torch.softmax(torch.randn(200, 50, generator=torch.Generator().manual_seed(0)), dim=1).to(torch.bfloat16)
    picked = dubito.select(torch.randn(200, 4, generator=torch.Generator().manual_seed(1)), 5, probabilities=rows)
    assert len(picked) == 5


def test_the_cosine_distance_is_the_euclidean_one_between_unit_vectors() -> None:
    rng = np.random.default_rng(0)
    pool, labeled, doubt = rng.standard_normal((30, 4)) * 7, rng.standard_normal((2, 4)), rng.random(30)
    chord = dubito.select(pool, 9, labeled=labeled, doubt=doubt, metric="cosine", strategy="doubt-coreset")
    plain = dubito.select(unit_rows(pool), 9, labeled=unit_rows(labeled), doubt=doubt, strategy="doubt-coreset")
    assert chord.indices.tolist() == plain.indices.tolist()
    assert chord.priorities.tolist() == plain.priorities.tolist()


POOL = np.random.default_rng(3).standard_normal((20, 3))


@pytest.mark.parametrize(
    "wrap",
    [
        torch.tensor,
        lambda pool: torch.tensor(pool, requires_grad=True),
        pd.DataFrame,
        lambda pool: pl.DataFrame(pool, schema=["a", "b", "c"]),
        lambda pool: pa.array(pool.tolist(), pa.list_(pa.float64(), 3)),
        lambda pool: pa.chunked_array([pool[:7].tolist(), pool[7:].tolist()]),
        lambda pool: pool.tolist(),
    ],
)
def test_the_pool_may_be_of_any_kind(wrap: Callable[[FloatArray], object]) -> None:
    plain = dubito.select(POOL, 6, labeled=POOL[:2] + 1, strategy="coreset")
    other = dubito.select(wrap(POOL), 6, labeled=wrap(POOL[:2] + 1), strategy="coreset")
    assert other.indices.tolist() == plain.indices.tolist()
    assert other.ids is None


def test_the_index_of_a_frame_gives_the_ids() -> None:
    frame = pd.DataFrame(LINE, index=["a", "b", "c", "d"])
    picked = dubito.select(frame, 2, labeled=[0], doubt=pd.Series(LINE_DOUBT), strategy="doubt-coreset")
    assert picked.ids is not None
    assert picked.ids.tolist() == ["c", "d"]
    assert picked.columns()["id"] == ["c", "d"]
