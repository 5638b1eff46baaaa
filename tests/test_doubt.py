from fractions import Fraction
from math import log

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dubito.doubt import (
    beam_scores,
    doubt_from_logits,
    doubt_from_probabilities,
    entropy,
    log_confidence,
    margin,
    scaling_weights,
    softmax,
    uncertainty,
)
from dubito.doubt.reading import check_doubt, check_probabilities, read_doubt
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import AnyArray, FloatArray

DOUBTS = arrays(np.float64, 8, elements=st.floats(0.0, 1.0))


def softmax_rows(seed: int, n: int = 20, c: int = 5, sharpness: float = 3.0) -> FloatArray:
    return softmax(np.random.default_rng(seed).standard_normal((n, c)) * sharpness)


@given(st.lists(st.lists(st.integers(0, 64), min_size=4, max_size=4).filter(any), min_size=1, max_size=5))
def test_doubt_is_the_share_of_all_but_one_largest(rows: list[list[int]]) -> None:
    exact = [float(Fraction(sum(row) - max(row), sum(row))) for row in rows]
    assert doubt_from_probabilities(np.array(rows) / 64.0).tolist() == exact


def test_doubt_of_a_confident_float32_row_keeps_its_digits() -> None:
    row = np.array([[1.0, 3e-12, 2e-12]], dtype=np.float32)
    assert doubt_from_probabilities(row)[0] == pytest.approx(5e-12, rel=1e-6)


def test_doubt_does_not_depend_on_the_order_of_classes_or_memory() -> None:
    rows = softmax_rows(0)
    doubt = doubt_from_probabilities(rows)
    assert doubt_from_probabilities(rows[:, ::-1]).tobytes() == doubt.tobytes()
    assert doubt_from_probabilities(np.asfortranarray(rows)).tobytes() == doubt.tobytes()


def test_posterior_samples_are_averaged() -> None:
    samples = np.stack([softmax_rows(seed) for seed in range(4)], axis=1)
    assert doubt_from_probabilities(samples).tolist() == doubt_from_probabilities(samples.mean(axis=1)).tolist()


@given(st.integers(0, 2**31), st.sampled_from([0.0, 1.0, 1e4, -1e8]))
def test_logits_mean_their_softmax_whatever_their_offset(seed: int, offset: float) -> None:
    logits = np.random.default_rng(seed).standard_normal((6, 4)) * 3 + offset
    assert doubt_from_logits(logits) == pytest.approx(doubt_from_probabilities(softmax(logits)), rel=1e-9)


def test_doubt_from_logits_keeps_what_probabilities_lose() -> None:
    assert doubt_from_logits(np.array([[600.0, 0.0]]))[0] == pytest.approx(np.exp(-600.0), rel=1e-12)


@given(DOUBTS)
def test_log_confidence_has_a_floor(doubt: FloatArray) -> None:
    found = log_confidence(doubt)
    assert (found >= log(1e-12)).all()
    assert (found <= 0).all()
    far = doubt < 0.999
    assert found[far] == pytest.approx(np.log(1 - doubt[far]), abs=1e-12)


@given(DOUBTS)
def test_a_set_has_one_score_whatever_its_order(doubt: FloatArray) -> None:
    scores = beam_scores(doubt)
    assert scores.dtype == np.int64
    assert scores[::-1].sum() == scores.sum()
    assert scores.sum() / 2**32 / len(doubt) == pytest.approx(uncertainty(doubt), abs=1e-9)


@given(DOUBTS, st.sampled_from([0.0, 0.25, 0.5, 0.7, 1.0, 1.5, 2.0]))
def test_weights_are_doubt_to_twice_the_strength(doubt: FloatArray, strength: float) -> None:
    assert scaling_weights(doubt, strength) == pytest.approx(doubt ** (2 * strength), rel=1e-12, abs=1e-300)


def test_nothing_to_the_power_of_nothing_is_one() -> None:
    assert scaling_weights(np.zeros(2), 0.0).tolist() == [1.0, 1.0]


@given(st.integers(0, 2**31))
def test_entropy_and_margin_agree_with_their_definitions(seed: int) -> None:
    rows = softmax_rows(seed)
    assert entropy(rows) == pytest.approx([-sum(p * log(p) for p in row) for row in rows.tolist()])
    assert margin(rows) == pytest.approx([sorted(row)[-1] - sorted(row)[-2] for row in rows.tolist()])


def test_nothing_given_is_no_doubt() -> None:
    assert read_doubt(3) == (None, None)


def test_doubt_alone_brings_no_probabilities() -> None:
    probabilities, doubt = read_doubt(2, doubt=[0, 1])
    assert probabilities is None
    assert doubt is not None
    assert doubt.tolist() == [0.0, 1.0]


def test_logits_bring_probabilities() -> None:
    probabilities, doubt = read_doubt(1, logits=[[0.0, 0.0]])
    assert probabilities is not None
    assert doubt is not None
    assert (probabilities[:].tolist(), doubt.tolist()) == ([[0.5, 0.5]], [0.5])


def test_doubt_handed_in_cannot_be_changed() -> None:
    mine = np.array([0.5, 0.25])
    with pytest.raises(ValueError, match="read-only"):
        check_doubt(mine, 2)[0] = 1.0
    mine[0] = 0.75


@pytest.mark.parametrize(("dtype", "miss"), [("float16", 0.01), ("float32", 5e-4), ("float64", 5e-5)])
def test_rows_may_miss_one_by_what_their_type_loses(dtype: str, miss: float) -> None:
    rows = np.array([[0.5, 0.5 + miss]], dtype=dtype)
    assert check_probabilities(rows, 1)[:].tolist() == rows.tolist()
    with pytest.raises(InvalidData, match=r"probabilities sum to 1\.\d+ at row 0; pass rows that sum to 1"):
        check_probabilities(np.array([[0.5, 0.5 + 10 * miss]], dtype=dtype), 1)


@pytest.mark.parametrize(
    ("rows", "hint"),
    [
        ([[0.33, 0.33, 0.33], [0.19, 0.76, 0.06]], "these look rounded, so divide each row by its sum"),
        ([[18.54, 75.79, 5.67], [79.92, 20.05, 0.02]], "these look like percent, so divide each row by its sum"),
        ([[33, 33, 33], [20, 20, 60]], "these look like percent, so divide each row by its sum"),
        ([[0.33, 0.33, 0.33], [0.5, 0.2, 0.1]], "pass raw scores as logits"),
        ([[2.0, 3.0, 5.0], [20.0, 20.0, 60.0]], "pass raw scores as logits"),
    ],
)
def test_rows_that_miss_one_are_reported_what_they_look_like(rows: list[list[float]], hint: str) -> None:
    with pytest.raises(InvalidData, match=hint) as caught:
        check_probabilities(np.array(rows), 2)
    assert ("logits" in str(caught.value)) == ("logits" in hint)


SAMPLES = np.full((2, 3, 2), 0.5)
BAD_SAMPLES = SAMPLES.copy()
BAD_SAMPLES[1, 2] = [0.5, 0.7]


@pytest.mark.parametrize(
    ("given_", "kind", "message"),
    [
        ({"probabilities": [[0.5, 0.5]]}, InvalidArgument, r"probabilities has shape \(1, 2\).*shape \(2, classes\)"),
        ({"probabilities": [0.5, 0.5]}, InvalidArgument, r"probabilities has shape \(2,\)"),
        ({"probabilities": [[1.0], [1.0]]}, InvalidArgument, r"shape \(2, 1\); pass one row of at least two classes"),
        ({"probabilities": np.ones((2, 0, 2))}, InvalidArgument, r"shape \(2, 0, 2\)"),
        ({"probabilities": [[0.5, 0.5], [1.5, -0.5]]}, InvalidData, r"probabilities holds -0.5 at row 1; pass numbers"),
        ({"probabilities": [[0.5, 0.5], [0.5, 0.6]]}, InvalidData, r"probabilities sum to 1.1 at row 1"),
        ({"probabilities": BAD_SAMPLES}, InvalidData, r"probabilities sum to 1.2 at row 1"),
        ({"probabilities": [[0.5, 0.5], [np.nan, 1]]}, InvalidData, r"probabilities holds nan at row 1, column 0"),
        ({"logits": [[0.0, 1.0], [0.0, np.inf]]}, InvalidData, r"logits holds inf at row 1, column 1"),
        ({"logits": np.zeros((2, 3, 2))}, InvalidArgument, r"logits has shape \(2, 3, 2\)"),
        ({"doubt": [0.5, 1.5]}, InvalidData, r"doubt holds 1.5 at row 1; pass numbers from 0 to 1"),
        ({"doubt": [-0.5, 0.5]}, InvalidData, r"doubt holds -0.5 at row 0"),
        ({"doubt": [0.5, np.nan]}, InvalidData, r"doubt holds nan at row 1"),
        ({"doubt": [0.5]}, InvalidArgument, r"doubt has shape \(1,\); pass one number per pool row, shape \(2,\)"),
        ({"doubt": ["a", "b"]}, InvalidData, r"doubt holds text instead of numbers"),
        ({"doubt": [0, 1], "logits": [[0, 1]]}, InvalidArgument, r"logits and doubt are two sources .*only one"),
    ],
)
def test_a_bad_source_of_doubt_is_named_with_its_hint(
    given_: dict[str, AnyArray], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        read_doubt(2, given_.get("probabilities"), given_.get("logits"), given_.get("doubt"))


@pytest.mark.parametrize(("whole", "words"), [(1, "are probabilities"), (100, "are percent")])
@pytest.mark.parametrize("digits", [2, 12])
def test_logits_that_are_none_are_refused(whole: int, words: str, digits: int) -> None:
    shares = (whole * np.random.default_rng(1).dirichlet(np.ones(4), 50)).round(digits)
    with pytest.raises(InvalidData, match=words) as caught:
        read_doubt(50, logits=shares)
    divided = ", divided by 100" * (whole == 100)
    assert str(caught.value).endswith(f"pass them as probabilities={divided}.")
    assert read_doubt(50, logits=np.log(shares + 1e-3))[1] is not None
    shares[0, 0] += 0.2 * whole
    assert read_doubt(50, logits=shares)[1] is not None


def test_a_column_that_is_no_class_is_named_by_place_or_name() -> None:
    shares = np.random.default_rng(1).dirichlet(np.ones(3), 50)
    more = np.column_stack([shares, np.full(50, 2024.0)])
    with pytest.raises(InvalidData, match="without column 3, and not with it; leave that column out"):
        read_doubt(50, probabilities=more)
    with pytest.raises(InvalidData, match="without column 'year', and not with it; leave that column out"):
        read_doubt(50, probabilities=pd.DataFrame(more, columns=["a", "b", "c", "year"]))
