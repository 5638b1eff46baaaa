"""The linear solver: the optimum that scikit-learn finds, whatever the shape, and models of several folds at once."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from dubito.models.estimators import ROUGH, principal_coordinates, solve
from dubito.models.held_out import Share, log_loss, stratified_folds, training_masks

DIGITS, ANSWERS = load_digits(return_X_y=True)


def everything(m: int) -> np.ndarray:
    return np.ones((1, m), dtype=np.bool_)


@pytest.mark.parametrize(("m", "penalty"), [(300, 5.0), (40, 0.5), (40, 200.0)])
def test_the_weights_are_scikit_learns_optimum(m: int, penalty: float) -> None:
    rows, codes = DIGITS[:m] / 16.0 - 0.3, ANSWERS[:m].astype(np.int64)
    theirs = LogisticRegression(C=1.0 / penalty, max_iter=20000, tol=1e-9).fit(rows, codes)
    span = principal_coordinates(rows)
    ours = solve(span, codes, penalty, everything(m))
    slopes = (span.directions @ ours.slopes[0]).T
    np.testing.assert_allclose(slopes, theirs.coef_, atol=2e-4)
    logits = ours.logits(0, span.coordinates)
    expected = rows @ theirs.coef_.T + theirs.intercept_
    np.testing.assert_allclose(
        logits - logits.mean(axis=1, keepdims=True), expected - expected.mean(axis=1, keepdims=True), atol=2e-3
    )


def test_models_found_together_are_those_found_alone() -> None:
    rows, codes = DIGITS[:120] / 16.0, ANSWERS[:120].astype(np.int64)
    span, kept = principal_coordinates(rows), training_masks(stratified_folds(codes))
    together = solve(span, codes, 3.0, kept)
    for model, mask in enumerate(kept):
        alone = solve(span, codes, 3.0, mask[None])
        np.testing.assert_allclose(
            together.logits(model, span.coordinates), alone.logits(0, span.coordinates), atol=2e-3
        )
    rough = solve(span, codes, 3.0, kept, None, ROUGH, np.float32)
    apart = log_loss(rough.logits(0, span.coordinates), codes) - log_loss(together.logits(0, span.coordinates), codes)
    assert abs(apart) < 0.01


def test_a_start_elsewhere_ends_at_the_same_place() -> None:
    rows, codes = DIGITS[:60] / 16.0, ANSWERS[:60].astype(np.int64)
    span = principal_coordinates(rows)
    far = solve(span, codes, 0.1, everything(60))
    again, fresh = solve(span, codes, 4.0, everything(60), far), solve(span, codes, 4.0, everything(60))
    np.testing.assert_allclose(again.slopes, fresh.slopes, atol=1e-4)


@pytest.mark.parametrize("shape", [(5, 30), (30, 5), (12, 12)])
def test_coordinates_keep_every_distance_and_drop_what_is_no_direction(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).normal(size=shape)
    rows[-1] = rows[0] + rows[1]
    span = principal_coordinates(rows)
    np.testing.assert_allclose(span.coordinates @ span.coordinates.T, rows @ rows.T, atol=1e-9)
    np.testing.assert_allclose(span.coordinates @ span.directions.T, rows, atol=1e-6)
    assert span.coordinates.shape[1] == np.linalg.matrix_rank(rows)


def test_every_class_is_left_whichever_fold_is_held_out() -> None:
    rng = np.random.default_rng(1)
    for m in (2, 7, 21, 90, 230):
        codes = np.unique(rng.integers(0, 12, m), return_inverse=True)[1].astype(np.int64)
        folds = stratified_folds(codes)
        counts = np.bincount(codes)
        assert ((folds == -1) == (counts[codes] == 1)).all()
        for mask in training_masks(folds):
            assert set(codes[mask]) == set(codes)


def test_intervals_are_wilsons() -> None:
    from scipy.stats import binomtest

    for right, of in ((0, 7), (3, 7), (7, 7), (90, 100)):
        theirs = binomtest(right, of).proportion_ci(method="wilson")
        np.testing.assert_allclose(Share(right, of).interval, (theirs.low, theirs.high), atol=1e-12)
