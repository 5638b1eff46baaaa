"""Columns of different units on one scale: exact, by blocks, from the pool's facts alone."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import StandardScaler

import dubito
from dubito.core.problem import Metric
from dubito.errors import InvalidArgument, InvalidData, ScaleWarning
from dubito.matrix import AnyArray, FloatArray, OnDevice, Rows, Stack, blocks
from dubito.request.rows import check_labeled
from dubito.request.scaling import (
    Scaled,
    describe_dominant,
    dominant,
    largest_scaled,
    measure_scale,
    standardize_points,
    standardized,
)

UNITS = np.array([1.0, 1000.0, 0.01, 30.0])


def table(n: int = 300, seed: int = 0) -> FloatArray:
    """Four columns of very different units, far from zero."""
    values: FloatArray = (np.random.default_rng(seed).normal(size=(n, 4)) + 5.0) * UNITS
    return values


def by_hand(pool: FloatArray) -> FloatArray:
    scaled: FloatArray = (pool - pool.mean(axis=0)) / pool.std(axis=0)
    return scaled


# Facts


@given(arrays(np.float64, st.tuples(st.integers(2, 40), st.integers(1, 5)), elements=st.floats(-1e6, 1e6)))
def test_mean_and_deviation_are_those_of_numpy_and_a_constant_column_has_none(values: FloatArray) -> None:
    described = measure_scale(values)
    assert np.allclose(described.mean, values.mean(axis=0), rtol=1e-12, atol=1e-9)
    same = np.ptp(values, axis=0) == 0.0
    assert np.isinf(described.deviation[same]).all()
    varied = np.isfinite(described.deviation)
    assert np.allclose(described.deviation[varied], values.std(axis=0)[varied], rtol=1e-6)
    assert (values.std(axis=0)[~varied] <= 1e-14 * np.abs(values).max(axis=0)[~varied]).all()
    scaled = Scaled(values, described)[:]
    assert (scaled[:, same] == 0.0).all()
    assert largest_scaled(values, described) == np.abs(scaled).max()


def test_a_small_spread_far_from_zero_is_not_lost() -> None:
    values = 1e9 + np.random.default_rng(1).normal(size=(5000, 1))
    assert measure_scale(values).deviation[0] == pytest.approx(np.std(values - 1e9), rel=1e-9)


def test_a_spread_that_is_rounding_alone_counts_as_none() -> None:
    values = np.full((50, 2), 0.1)
    values[::2, 1] = np.nextafter(0.1, 1.0)
    assert np.isinf(measure_scale(values).deviation).all()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int32])
def test_shards_maps_and_arrays_of_the_same_rows_give_the_same_bits(kind: type, tmp_path: Path) -> None:
    values: AnyArray = table(2000).astype(kind)
    np.save(tmp_path / "pool.npy", values)
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    stacked = Stack([values[:7], values[7:1500], values[1500:]])
    fortran = np.asfortranarray(values)
    facts = [measure_scale(each) for each in (values, mapped, stacked, fortran)]
    whole = Scaled(values, facts[0])[:]
    for matrix, described in zip((values, mapped, stacked, fortran), facts, strict=True):
        assert all(np.array_equal(ours, theirs) for ours, theirs in zip(described, facts[0], strict=True))
        view = Scaled(matrix, described)
        parts = np.concatenate([view[span] for span in blocks(2000, 13)])
        assert np.array_equal(parts, whole)
        assert np.array_equal(view[np.array([5, 3, 5])], whole[[5, 3, 5]])
        assert view.dtype == whole.dtype == (np.float32 if kind in (np.float16, np.float32) else np.float64)


def test_a_tensor_on_a_device_is_scaled_there_to_the_same_bits() -> None:
    for kind in (torch.float16, torch.float32, torch.float64):
        tensor = torch.from_numpy(table(400)).to(kind)
        kept = tensor.clone()
        scale = measure_scale(OnDevice(tensor))
        there = standardized(OnDevice(tensor), scale)
        assert isinstance(there, OnDevice)
        assert np.array_equal(there[:], Scaled(tensor.numpy(), scale)[:])
        assert torch.equal(tensor, kept)


# Picks


@given(st.integers(0, 10_000), st.sampled_from(["euclidean", "cosine"]), st.sampled_from(["rows", "features", "none"]))
def test_picks_are_those_of_features_standardized_by_hand(seed: int, metric: str, seen: str) -> None:
    pool, rng = table(80, seed), np.random.default_rng(seed)
    doubt, foreign = rng.random(80), table(5, seed + 1)
    labeled = {"rows": [3, 9], "features": foreign, "none": None}[seen]
    scaled = {"rows": [3, 9], "features": (foreign - pool.mean(axis=0)) / pool.std(axis=0), "none": None}[seen]
    known: Metric = "cosine" if metric == "cosine" else "euclidean"
    ours = dubito.select(pool, 12, labeled=labeled, doubt=doubt, metric=known, standardize=True)
    hand = by_hand(pool)  # A Selection knows its covering radius while somebody holds the pool.
    theirs = dubito.select(hand, 12, labeled=scaled, doubt=doubt, metric=known)
    assert ours.indices.tolist() == theirs.indices.tolist()
    assert ours.priorities == pytest.approx(theirs.priorities, rel=1e-9)
    assert ours.covering_radius() == pytest.approx(theirs.covering_radius(), rel=1e-9)
    assert (ours.standardized, theirs.standardized) == (True, False)
    assert repr(ours).endswith("; standardized)")


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int64])
def test_every_engine_sees_the_same_standardized_points(kind: type, tmp_path: Path) -> None:
    pool: AnyArray = table(120).astype(kind)
    np.save(tmp_path / "pool.npy", pool)
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    doubt = np.random.default_rng(2).random(120)
    for strategy in ("doubt-coreset", "coreset"):
        picks = [
            dubito.select(each, 20, labeled=[0], doubt=doubt, strategy=strategy, standardize=True, engine=engine)
            for each in (pool, mapped)
            for engine in ("cpu", "reference")
        ]
        assert all(each.indices.tolist() == picks[0].indices.tolist() for each in picks)
        assert all(each.priorities.tolist() == picks[0].priorities.tolist() for each in picks)


def test_a_column_that_never_changes_counts_for_nothing() -> None:
    pool = np.column_stack([table(60), np.full(60, 0.1)])
    foreign = np.column_stack([table(3, seed=5), [1e6, 2e6, 3e6]])
    doubt = np.random.default_rng(0).random(60)
    ours = dubito.select(pool, 8, labeled=foreign, doubt=doubt, standardize=True)
    without = dubito.select(pool[:, :4], 8, labeled=foreign[:, :4], doubt=doubt, standardize=True)
    assert ours.indices.tolist() == without.indices.tolist()
    assert ours.priorities == pytest.approx(without.priorities, rel=1e-12)


def test_nothing_is_copied_and_nothing_handed_in_is_changed() -> None:
    pool = table(50)
    kept = pool.copy()
    pool.setflags(write=False)
    described = standardize_points(pool, check_labeled([1, 2], pool))
    assert isinstance(described.pool, Scaled)
    assert described.pool.matrix is pool
    assert isinstance(described.labeled.references, Rows)
    assert described.labeled.references.matrix is described.pool
    dubito.select(pool, 3, strategy="coreset", standardize=True)
    assert (pool == kept).all()


def test_without_it_the_widest_column_decides() -> None:
    pool, doubt = table(), np.ones(300)
    plain = dubito.select(pool, 10, labeled=[0], doubt=doubt, strategy="doubt-coreset")
    widest = dubito.select(pool[:, 1:2], 10, labeled=[0], doubt=doubt, strategy="doubt-coreset")
    scaled = dubito.select(pool, 10, labeled=[0], doubt=doubt, standardize=True, strategy="doubt-coreset")
    assert plain.indices[:3].tolist() == widest.indices[:3].tolist()
    assert scaled.indices.tolist() != plain.indices.tolist()
    assert (
        dubito.select(pool, 10, labeled=[0], doubt=doubt, standardize=False, strategy="doubt-coreset").indices.tolist()
        == plain.indices.tolist()
    )


def test_labeled_features_that_leave_the_pool_s_scale_altogether_are_refused() -> None:
    pool = table(20) * 1e-100
    with pytest.raises(InvalidData, match=r"labeled holds .* distances would overflow"):
        dubito.select(pool, 2, labeled=np.full((1, 4), 1e100), strategy="coreset", standardize=True)


@pytest.mark.parametrize("value", ["auto", 1, "yes"])
def test_standardize_is_true_or_false(value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"standardize=.* is not allowed; pass True or False"):
        dubito.select(table(), 2, standardize=value)  # type: ignore[arg-type]


def test_picks_saved_as_json_say_that_they_are_standardized(tmp_path: Path) -> None:
    for name, said in (("yes", True), ("no", False)):
        dubito.select(table(), 3, strategy="coreset", standardize=said).save(str(tmp_path / f"{name}.json"))
    described = [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("yes", "no")]
    assert described[0]["standardized"] is True
    assert "standardized" not in described[1]


# Pools and diagnoses


def test_a_pool_keeps_its_scale_over_rounds_and_in_its_file(tmp_path: Path) -> None:
    features, rng = table(), np.random.default_rng(4)
    ours, theirs = dubito.Pool(features, standardize=True), dubito.Pool(by_hand(features))
    for _ in range(3):
        doubt = rng.random(300)
        picked = ours.select(7, doubt=doubt)
        assert picked.indices.tolist() == theirs.select(7, doubt=doubt).indices.tolist()
        assert picked.standardized
        ours.label(picked)
        theirs.label(picked)
    assert repr(ours).endswith("standardized)")
    ours.save(str(tmp_path / "pool.npz"))
    again = dubito.Pool.load(str(tmp_path / "pool.npz"), features, standardize=True)
    assert again.select(5, doubt=doubt).indices.tolist() == ours.select(5, doubt=doubt).indices.tolist()
    with pytest.raises(InvalidData, match="on another scale"):
        dubito.Pool.load(str(tmp_path / "pool.npz"), features)


def test_a_diagnosis_of_standardized_features_is_that_of_features_and_head_scaled_by_hand() -> None:
    pool = np.column_stack([table(), np.ones(300)])
    head = np.random.default_rng(3).normal(size=(3, 5)) / np.append(UNITS, 1.0)
    logits = pool @ head.T
    described = dubito.diagnose(pool, labeled=np.arange(30), logits=logits, head=head, standardize=True)
    hand = dubito.diagnose(
        by_hand(pool[:, :4]), labeled=np.arange(30), logits=logits, head=head[:, :4] * pool[:, :4].std(axis=0)
    )
    assert described.delta == pytest.approx(hand.delta)
    assert described.lambda_c_head == pytest.approx(hand.lambda_c_head)
    assert described.lambda_c_data == pytest.approx(hand.lambda_c_data)
    assert described.advice == hand.advice


def test_scikit_learn_s_scaler_gives_the_same_picks() -> None:
    pool = table(500, seed=9)
    ours = dubito.select(pool, 30, strategy="coreset", standardize=True)
    theirs = dubito.select(StandardScaler().fit_transform(pool), 30, strategy="coreset")
    assert ours.indices.tolist() == theirs.indices.tolist()


# Words


def test_the_columns_that_dominate_are_named_with_their_share() -> None:
    described = measure_scale(table() * [1.0, 1.0, 1.0, 30.0])
    assert dominant(described) == [1, 3]
    assert describe_dominant(described, ["a", "b", "c", "d"]).startswith("b and d make over 99.9%")
    shares = measure_scale(np.array([[0.0, 0.0], [1.0, 3.0]]))
    assert describe_dominant(shares, ["a", "b"]) == "b makes 90.0% of the squared distances"
    assert describe_dominant(measure_scale(by_hand(table())), ["a", "b", "c", "d"]) == ""
    many = measure_scale(np.random.default_rng(0).normal(size=(99, 20)) * ([100.0] * 5 + [1.0] * 15))
    assert " and 2 more make" in describe_dominant(many, [f"x{place}" for place in range(20)])
    assert dominant(measure_scale(np.ones((3, 2)))) == []


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_whose_named_columns_are_dominated_warns_unless_something_was_said(frame: type) -> None:
    named = frame({"age": table()[:, 0], "income": table()[:, 1], "rate": table()[:, 2]})
    with pytest.warns(
        ScaleWarning, match="^income makes over 99.9% of the squared distances between rows of pool"
    ) as caught:
        dubito.select(named, 3, strategy="coreset")
    assert caught[0].filename == __file__
    with pytest.warns(ScaleWarning) as caught:
        dubito.Pool(named)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for said in (True, False):
            dubito.select(named, 3, strategy="coreset", standardize=said)
        dubito.select(table(), 3, strategy="coreset")
        dubito.select(pd.DataFrame(table()), 3, strategy="coreset")
        dubito.select(
            frame({"x": table()[:, 0], "y": table(seed=1)[:, 0], "z": table(seed=2)[:, 0]}), 3, strategy="coreset"
        )
        dubito.select(frame({"only": table()[:, 0]}), 3, strategy="coreset")
