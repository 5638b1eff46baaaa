from collections.abc import Callable
from math import e, exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from dubito import theory
from dubito.doubt import doubt_from_logits, softmax
from dubito.errors import InvalidArgument
from dubito.matrix import FloatArray
from dubito.theory import LARGEST

distances = st.floats(1e-3, 20.0)
shares = st.floats(0.0, 1.0)
lambdas = st.floats(1e-3, 20.0)
anything = st.floats(0.0, LARGEST)
any_lambda = st.floats(5e-324, LARGEST)


def confidence(logits: FloatArray) -> float:
    return float(1.0 - doubt_from_logits(logits[None])[0])


@given(distances, shares, lambdas, lambdas)
def test_the_beta_bound_is_one_less_the_exponential_of_the_integrated_log_error(
    delta: float, z: float, lambda_c: float, lambda_epsilon: float
) -> None:
    r_0 = delta * z
    a = lambda_c * lambda_epsilon
    # r = t³ tames the singularity at 0: t²·ln t is smooth enough for quadrature.
    integral, _ = quad(lambda t: 3.0 * t**2 * log(a * t**6), r_0 ** (1 / 3), delta ** (1 / 3), epsabs=1e-10)
    assert theory.log_error_product(delta, r_0, lambda_c, lambda_epsilon) == pytest.approx(integral, abs=1e-8)
    expected = min(max(1.0 - exp(min(integral, 1.0)), 0.0), 1.0)
    assert theory.beta_lower_bound(delta, r_0, lambda_c, lambda_epsilon) == pytest.approx(expected, abs=1e-8)


@given(st.floats(0.05, 3.0), st.floats(0.05, 1.0), st.floats(0.1, 5.0), st.floats(0.1, 5.0))
def test_claim_3_and_4_equal_their_printed_forms(delta: float, z: float, lambda_c: float, lambda_e: float) -> None:
    r_0 = delta * z
    product = exp(float(theory.log_error_product(delta, r_0, lambda_c, lambda_e)))
    square = (delta**delta / r_0**r_0) ** 2
    claim_3 = (lambda_c * lambda_e) ** (delta - r_0) / exp(delta - r_0) ** 2 * square
    base = delta * sqrt(lambda_c * lambda_e) / e
    claim_4 = (base ** (1 - z) / z**z) ** (2 * delta)
    assert product == pytest.approx(claim_3, rel=1e-9)
    assert product == pytest.approx(claim_4, rel=1e-9)


@given(st.floats(0.0, 50.0), st.floats(1e-6, 1e6))
def test_the_integral_of_log_a_x_squared_equals_quadrature(x: float, a: float) -> None:
    # With t = x·u the singular part is ln u, which QUADPACK takes as a weight.
    integral, _ = quad(lambda u: x * log(a), 0.0, 1.0)
    if x > 0.0:
        integral += quad(lambda u: 2.0 * x * log(x), 0.0, 1.0)[0]
        integral += quad(lambda u: 2.0 * x, 0.0, 1.0, weight="alg-loga", wvar=(0.0, 0.0))[0]
    assert theory.log_square_integral(x, a) == pytest.approx(integral, rel=1e-9, abs=1e-9)


@given(distances, shares, lambdas, lambdas)
def test_the_error_product_is_the_difference_of_two_integrals(
    delta: float, z: float, lambda_c: float, lambda_epsilon: float
) -> None:
    a = lambda_c * lambda_epsilon
    difference = theory.log_square_integral(delta, a) - theory.log_square_integral(delta * z, a)
    assert theory.log_error_product(delta, delta * z, lambda_c, lambda_epsilon) == pytest.approx(
        difference, rel=1e-9, abs=1e-9
    )


@given(st.floats(1e-9, 1e9), shares, st.floats(1e-9, 1e9), st.floats(1e-9, 1e9))
def test_equations_10_and_11_agree(delta: float, z: float, lambda_c: float, lambda_epsilon: float) -> None:
    plain = theory.log_error_product(delta, delta * z, lambda_c, lambda_epsilon)
    scaled = theory.scaled_log_error_product(delta, z, lambda_c, lambda_epsilon)
    assert plain == pytest.approx(scaled, rel=1e-9, abs=1e-12 * delta)
    beta = theory.beta_lower_bound(delta, delta * z, lambda_c, lambda_epsilon)
    scaled_beta = theory.scaled_beta_lower_bound(delta, z, lambda_c, lambda_epsilon)
    assert beta == pytest.approx(scaled_beta, abs=1e-9 * max(1.0, delta))


@given(st.floats(0.0, 0.999), lambdas, lambdas)
def test_delta_star_is_where_beta_falls_to_zero(z: float, lambda_c: float, lambda_epsilon: float) -> None:
    star = float(theory.delta_star(z, lambda_c, lambda_epsilon))
    assert theory.scaled_log_error_product(star, z, lambda_c, lambda_epsilon) == pytest.approx(0.0, abs=1e-12 * star)
    assert theory.scaled_beta_lower_bound(star * 0.999, z, lambda_c, lambda_epsilon) > 0.0
    assert theory.scaled_beta_lower_bound(star * 1.001, z, lambda_c, lambda_epsilon) == 0.0


@given(shares, lambdas, lambdas)
def test_delta_star_lies_between_its_limits(z: float, lambda_c: float, lambda_epsilon: float) -> None:
    unit = 1.0 / sqrt(lambda_c * lambda_epsilon)
    star = float(theory.delta_star(z, lambda_c, lambda_epsilon))
    assert unit * (1 - 1e-12) <= star <= e * unit * (1 + 1e-12)


def test_delta_star_reaches_its_limits_smoothly() -> None:
    assert theory.delta_star([0.0, 1e-300, 1e-12], 4.0, 1.0) == pytest.approx(e / 2.0)
    assert theory.delta_star([1.0, 1.0 - 1e-16, 1.0 - 1e-9], 4.0, 1.0) == pytest.approx(0.5)


def test_beta_has_its_limits_at_no_distance_no_doubt_and_full_doubt() -> None:
    assert theory.scaled_beta_lower_bound([0.0, 1e-300], 0.3, 1.0, 1.0) == pytest.approx(0.0)
    assert theory.scaled_beta_lower_bound(1.0, [0.0, 1e-300], 1.0, 1.0) == pytest.approx(1.0 - exp(-2.0))
    assert theory.scaled_beta_lower_bound(0.5, [1.0, 1.0 - 1e-15], 1.0, 1.0) == pytest.approx(0.0)
    assert theory.beta_lower_bound(0.0, 0.0, 1.0, 1.0) == 0.0


@given(anything, shares, any_lambda, any_lambda)
def test_every_result_is_finite_and_every_probability_in_its_range(
    delta: float, z: float, lambda_c: float, lambda_epsilon: float
) -> None:
    probabilities = [
        theory.beta_lower_bound(delta, delta * z, lambda_c, lambda_epsilon),
        theory.scaled_beta_lower_bound(delta, z, lambda_c, lambda_epsilon),
        theory.doubt_bound(delta, lambda_c),
    ]
    others = [
        theory.delta_star(z, lambda_c, lambda_epsilon),
        theory.error_bound(delta, lambda_c, lambda_epsilon),
        theory.log_square_integral(delta, lambda_c),
        theory.scaled_radius(delta, z),
        theory.scaled_radius_bound(delta, lambda_c),
        theory.core_set_loss_order(delta, 10, 3),
        theory.quadratic_core_set_loss_order(delta, 10, 3, lambda_c),
        theory.greedy_radius_bound(delta),
    ]
    assert np.isfinite([float(value) for value in probabilities + others]).all()
    assert all(0.0 <= float(value) <= 1.0 for value in probabilities)


@given(distances, lambdas)
def test_the_scaled_radius_is_quadratic_below_one_over_lambda_and_linear_above(r: float, lambda_c: float) -> None:
    bound = float(theory.scaled_radius_bound(r, lambda_c))
    assert bound == pytest.approx(r * r * lambda_c if r * lambda_c < 1.0 else r)
    assert bound == pytest.approx(float(theory.scaled_radius(r, theory.doubt_bound(r, lambda_c))))


def test_the_quadratic_loss_equals_the_linear_one_outside_its_regime_only() -> None:
    delta = np.array([0.1, 0.5, 1.0, 3.0])
    quadratic = theory.quadratic_core_set_loss_order(delta, n=400, c=10, lambda_c=1.0)
    linear = theory.core_set_loss_order(delta, n=400, c=10)
    assert (quadratic < linear).tolist() == [True, True, False, False]
    assert quadratic.tolist() == pytest.approx([0.15, 2.55, 10.05, 30.05])


def test_the_error_bound_is_the_product_of_the_bounds_on_doubt_and_error_rate() -> None:
    assert theory.error_bound([0.0, 2.0], lambda_c=0.25, lambda_epsilon=8.0).tolist() == [0.0, 8.0]


def test_arguments_broadcast() -> None:
    delta, z = np.linspace(0.1, 2.0, 4)[:, None], np.linspace(0.0, 1.0, 3)
    betas = theory.scaled_beta_lower_bound(delta, z, 1.0, 1.0)
    assert betas.shape == theory.beta_lower_bound(delta, delta * z, 1.0, 1.0).shape == (4, 3)
    assert betas[2, 1] == theory.scaled_beta_lower_bound(delta[2, 0], z[1], 1.0, 1.0)
    assert theory.delta_star(z, np.ones((4, 1)), 1.0).shape == (4, 3)


def test_the_first_figure_of_beta_is_reproduced_at_its_landmarks() -> None:
    delta = np.linspace(0.01, 3.0, 300)
    beta = theory.scaled_beta_lower_bound(delta, 0.0, 1.0, 1.0)
    assert delta[np.argmax(beta)] == pytest.approx(1.0, abs=0.02)
    assert beta[delta > e].max() == 0.0


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 5), st.floats(0.1, 10.0))
def test_head_lipschitz_bounds_every_observed_slope_of_confidence(seed: int, c: int, d: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    W, bias = rng.normal(size=(c, d)) * size, rng.normal(size=c)
    x = rng.normal(size=(40, d))
    y = x + rng.normal(size=(40, d)) * 10.0 ** rng.uniform(-4, 1, size=(40, 1))
    change = np.abs(doubt_from_logits(x @ W.T + bias) - doubt_from_logits(y @ W.T + bias))
    slope = change / np.linalg.norm(x - y, axis=1)
    assert slope.max() <= theory.head_lipschitz(W) * (1 + 1e-6)


@given(st.integers(2, 12), st.integers(0, 10_000))
def test_confidence_never_rises_faster_than_its_constant_in_the_logits(c: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40, c)) * 3.0
    y = x + rng.normal(size=(40, c)) * 10.0 ** rng.uniform(-4, 1, size=(40, 1))
    change = np.abs(doubt_from_logits(x) - doubt_from_logits(y))
    assert (change <= theory.confidence_lipschitz_logits() * np.linalg.norm(x - y, axis=1) * (1 + 1e-6)).all()


def test_the_constants_are_reached_where_two_classes_share_all_probability() -> None:
    tied = np.array([0.0, 0.0, -60.0])
    nudge = np.array([1.0, -1.0, 0.0]) * 1e-4
    slope = (confidence(tied + nudge) - confidence(tied)) / np.linalg.norm(nudge)
    assert slope == pytest.approx(theory.confidence_lipschitz_logits(), rel=1e-4)
    assert theory.head_lipschitz(np.eye(3)) == pytest.approx(theory.confidence_lipschitz_logits())


@pytest.mark.parametrize("c", [3, 4, 10, 100])
def test_softmax_is_steeper_than_sener_and_savarese_say_for_more_than_two_classes(c: int) -> None:
    tied = np.full((1, c), -60.0)
    tied[0, :2] = 0.0
    nudge = np.zeros((1, c))
    nudge[0, :2] = 1e-4, -1e-4
    moved = np.linalg.norm(softmax(tied + nudge) - softmax(tied)) / np.linalg.norm(nudge)
    assert moved == pytest.approx(0.5, rel=1e-4)
    assert moved > theory.sener_lipschitz(c)


@pytest.mark.parametrize("c", [7, 10, 100])
def test_confidence_alone_is_steeper_than_that_from_seven_classes_on(c: int) -> None:
    tied = np.full(c, -60.0)
    tied[:2] = 0.0
    nudge = np.zeros(c)
    nudge[:2] = 1e-4, -1e-4
    slope = (confidence(tied + nudge) - confidence(tied)) / np.linalg.norm(nudge)
    assert slope > theory.sener_lipschitz(c)


def test_sener_lipschitz_is_right_for_two_classes() -> None:
    assert theory.sener_lipschitz(2) == 0.5
    assert theory.sener_lipschitz([2, 5, 10]).tolist() == [0.5, 0.4, 0.3]


def test_head_lipschitz_of_huge_and_of_equal_rows_is_finite() -> None:
    assert theory.head_lipschitz([[1e200, 0.0], [0.0, 0.0]]) == pytest.approx(2.5e199)
    assert theory.head_lipschitz(np.zeros((3, 4))) == 0.0


@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(1, 3))
def test_the_greedy_radius_is_at_most_twice_the_optimal_one(seed: int, n: int, budget: int) -> None:
    rng = np.random.default_rng(seed)
    points, references = rng.normal(size=(n, 2)), rng.normal(size=(1, 2))
    centers = references
    for _ in range(min(budget, n)):
        nearest = np.linalg.norm(points[:, None] - centers, axis=2).min(axis=1)
        centers = np.vstack([centers, points[np.argmax(nearest)]])
    optimal = theory.optimal_radius(points, references, min(budget, n))
    greedy = theory.covering_radius(points, centers)
    assert optimal - 1e-12 <= greedy <= float(theory.greedy_radius_bound(optimal)) + 1e-12


def test_the_optimal_radius_beats_the_greedy_one_where_greed_is_wrong() -> None:
    line = [[float(i)] for i in range(1, 8)]
    assert theory.covering_radius(line, [[0.0], [7.0]]) == 3.0
    assert theory.optimal_radius(line, [[0.0]], budget=1) == 2.0
    assert theory.optimal_radius(line, [[0.0]], budget=7) == 0.0


bad_calls: list[tuple[str, Callable[[], object]]] = [
    (r"delta=-1.0 cannot be used; pass delta >= 0", lambda: theory.doubt_bound(1.0, 1.0) + theory.scaled_radius(-1, 0)),
    (r"doubt holds 1.5 at \[1\], which cannot be used; pass doubt <= 1", lambda: theory.scaled_radius(1.0, [0.0, 1.5])),
    (r"z=-0.5 cannot be used; pass z >= 0", lambda: theory.delta_star(-0.5, 1.0, 1.0)),
    (r"lambda_c=0.0 cannot be used; pass lambda_c > 0", lambda: theory.delta_star(0.5, 0.0, 1.0)),
    (r"lambda_epsilon=-2.0 .* lambda_epsilon > 0", lambda: theory.beta_lower_bound(1.0, 0.5, 1.0, -2.0)),
    (r"r_0=2.0 cannot be used; pass r_0 <= delta", lambda: theory.beta_lower_bound(1.0, 2.0, 1.0, 1.0)),
    (r"r holds nan at \[0, 1\], which cannot be used; pass finite", lambda: theory.doubt_bound([[0.0, np.nan]], 1.0)),
    (r"a=0.0 cannot be used; pass a > 0", lambda: theory.log_square_integral(1.0, 0.0)),
    (r"n=0.0 cannot be used; pass n >= 1", lambda: theory.core_set_loss_order(1.0, 0, 3)),
    (r"c=1.0 cannot be used; pass c >= 2", lambda: theory.sener_lipschitz(1)),
    (r"delta_opt=inf", lambda: theory.greedy_radius_bound(np.inf)),
    (r"r cannot be read as numbers", lambda: theory.doubt_bound("far", 1.0)),
    (r"W has shape \(3,\); pass \(c, d\)", lambda: theory.head_lipschitz([1.0, 2.0, 3.0])),
    (r"W has shape \(1, 2\).*binary head", lambda: theory.head_lipschitz([[1.0, 2.0]])),
    (r"W holds inf at \[0, 0\]", lambda: theory.head_lipschitz([[np.inf, 2.0], [0.0, 0.0]])),
    (r"budget=3 exceeds the 2 points", lambda: theory.optimal_radius([[1.0], [2.0]], [[0.0]], 3)),
    (r"budget=50 of 100 points", lambda: theory.optimal_radius(np.eye(100), np.zeros((1, 100)), 50)),
]


@pytest.mark.parametrize(("message", "call"), bad_calls, ids=[message for message, _ in bad_calls])
def test_a_bad_argument_is_named_with_its_value_and_the_hint(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgument, match=message):
        call()
