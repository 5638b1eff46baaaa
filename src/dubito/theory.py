"""The paper's equations, one function each, in its notation.

The numbers are those of the published paper: 1 to 12 in the text, 13 to 17 in the appendix (13 and 17 repeat 10).
Two of them are elsewhere: equation 5, U(s), is `dubito.doubt.uncertainty`, and the radii of Algorithm 3 are
`dubito.core.distances.core_set_radii`.

δ is a distance to the nearest labeled point, λ_c the Lipschitz constant of confidence, λ_ε that of the error rate
given doubt. Arguments broadcast; scalars give a scalar. Every result is finite: overflow gives the largest float64.
Products of probabilities are computed as logarithms.
"""

from itertools import combinations
from math import comb, log, sqrt

import numpy as np
import numpy.typing as npt

from dubito.core.distances import squared_radii
from dubito.errors import InvalidArgument, named
from dubito.matrix import BoolArray, FloatArray, len_of
from dubito.request.arrays import check_budget, check_features

Numbers = npt.ArrayLike
LARGEST = float(np.finfo(np.float64).max)


def log_lambdas(lambda_c: Numbers, lambda_epsilon: Numbers) -> FloatArray:
    """ln(λ_c·λ_ε)."""
    return np.log(check_positive("lambda_c", lambda_c)) + np.log(check_positive("lambda_epsilon", lambda_epsilon))


def x_log_x(x: FloatArray) -> FloatArray:
    """x·ln x, which is 0 at x = 0."""
    return x * np.log(np.where(x > 0.0, x, 1.0))


def one_minus_exp(log_product: FloatArray) -> FloatArray:
    """1 - exp(log_product) clipped to [0, 1]; expm1 keeps small results precise."""
    return np.abs(np.expm1(np.minimum(log_product, 0.0)))


def product(left: Numbers, right: Numbers) -> FloatArray:
    """Left times right, clipped to finite float64."""
    with np.errstate(over="ignore", under="ignore"):
        # Adding 0.0 turns -0.0 into 0.0.
        return np.clip(np.multiply(left, right, dtype=np.float64), -LARGEST, LARGEST) + 0.0


def check_at_least(name: str, value: Numbers, least: float) -> FloatArray:
    """Check that all numbers are at least ``least``."""
    return reject_where(name, numbers := as_numbers(name, value), numbers < least, f"{name} >= {least:g}")


def check_positive(name: str, value: Numbers) -> FloatArray:
    """Check that all numbers are above 0."""
    return reject_where(name, numbers := as_numbers(name, value), numbers <= 0.0, f"{name} > 0")


def check_fraction(name: str, value: Numbers) -> FloatArray:
    """Check that all numbers are in [0, 1]."""
    return reject_where(name, numbers := check_at_least(name, value, 0.0), numbers > 1.0, f"{name} <= 1")


def as_numbers(name: str, value: Numbers) -> FloatArray:
    """Convert to float64; raises InvalidArgument unless all numbers are finite."""
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        problem = f"cannot be read as numbers ({error})"
        raise InvalidArgument(problem, argument=name, hint="pass numbers.") from error
    return reject_where(name, numbers, ~np.isfinite(numbers), "finite numbers")


def reject_where(name: str, numbers: FloatArray, bad: BoolArray, hint: str) -> FloatArray:
    """The numbers; raises InvalidArgument with the first bad one and its position."""
    if not np.any(bad):
        return numbers
    where = [int(i) for i in np.argwhere(bad)[0]]
    number = f"{numbers[tuple(where)]:g}"
    if where:
        problem = f"holds {number} at {where}, which cannot be used"
        raise InvalidArgument(problem, argument=name, hint=f"pass {hint}.")
    raise InvalidArgument("cannot be used", argument=name, value=numbers.item(), hint=f"pass {hint}.")


MOST_SETS = 200_000
"""Maximum number of sets of picks that `optimal_radius` tries."""
MOST_POINTS = 500


def core_set_loss_order(delta: Numbers, n: Numbers, c: Numbers) -> FloatArray:
    """C·δ + sqrt(1/n), the order of the core-set loss (equation 1, without the generalization error ζ_n).

    The paper gives orders, O(Cδ) and O(sqrt(1/n)); their unknown factors are set to 1, so only trends are meaningful.

    Examples
    --------
    >>> float(core_set_loss_order(delta=0.5, n=100, c=10))
    5.1
    """
    covering = product(check_at_least("c", c, 1.0), check_at_least("delta", delta, 0.0))
    return covering + np.sqrt(1.0 / check_at_least("n", n, 1.0))


def scaled_radius(delta: Numbers, doubt: Numbers) -> FloatArray:
    """δ̂_i = δ_i · I(x_i), the distance scaled by doubt (equation 2).

    I(x) itself is `dubito.doubt.doubt_from_probabilities`.

    Examples
    --------
    >>> scaled_radius([4.0, 4.0], [0.5, 0.0]).tolist()
    [2.0, 0.0]
    """
    return check_at_least("delta", delta, 0.0) * check_fraction("doubt", doubt)


def covering_radius(points: Numbers, centers: Numbers) -> float:
    """δ = max_i min_j Δ(x_i, x_j), the largest distance from a point (n, d) to its nearest center (m, d).

    With the greedy picks and the labeled points as centers this is δ_g (equation 4).

    Examples
    --------
    >>> covering_radius([[0.0], [4.0]], [[1.0], [9.0]])
    3.0
    """
    rows, others = check_features("points", points).matrix, check_features("centers", centers).matrix
    return float(np.sqrt(squared_radii(rows, others).max()))


def optimal_radius(points: Numbers, references: Numbers, budget: int) -> float:
    """δ_OPT, the smallest covering radius that ``budget`` picks can reach (equation 3), by trying every set.

    For small pools: at most 500 points and 200,000 sets; ``strategy="optimal-coreset"`` handles larger ones.

    Examples
    --------
    >>> optimal_radius([[1.0], [2.0], [9.0]], [[0.0]], budget=1)
    2.0
    """
    rows, others = check_features("points", points).matrix, check_features("references", references).matrix
    n = len_of(rows)
    budget = check_budget(budget, n, n)
    if budget and (n > MOST_POINTS or comb(n, budget) > MOST_SETS):
        hint = f"use {named('strategy', 'optimal-coreset')}."
        raise InvalidArgument(
            f"of {n} points has too many sets to try them all", argument="budget", value=budget, hint=hint
        )
    between = np.stack([squared_radii(rows, rows[i : i + 1]) for i in range(n)])
    nearest = squared_radii(rows, others)
    sets = combinations(range(n), budget)
    return sqrt(min(float(np.minimum(nearest, between[list(picks)].min(axis=0)).max()) for picks in sets))


def greedy_radius_bound(delta_opt: Numbers) -> FloatArray:
    """2·δ_OPT, which the greedy radius δ_g never exceeds (equation 4).

    Examples
    --------
    >>> float(greedy_radius_bound(1.5))
    3.0
    """
    return product(2.0, check_at_least("delta_opt", delta_opt, 0.0))


def sener_lipschitz(c: Numbers) -> FloatArray:
    """sqrt(c-1)/c, the constant of Sener & Savarese for softmax over c classes; for reference, not used.

    It is too small. As a vector, softmax has slope 1/2 in the logits at p = (1/2, 1/2, 0, ...), which exceeds this
    constant for every c > 2; its largest component has slope sqrt(2)/4 there, which exceeds it for every c >= 7.

    Examples
    --------
    >>> float(sener_lipschitz(10))
    0.3
    """
    c = check_at_least("c", c, 2.0)
    return np.sqrt(c - 1.0) / c


def confidence_lipschitz_logits() -> float:
    """sqrt(2)/4, the largest slope of the largest probability in the logits, for every number of classes.

    The slope of p_k is p_k·‖e_k - p‖ <= p_k·(1 - p_k)·sqrt(2), and p·(1 - p) is at most 1/4.

    Examples
    --------
    >>> round(confidence_lipschitz_logits(), 4)
    0.3536
    """
    return sqrt(2.0) / 4.0


def head_lipschitz(W: Numbers) -> float:
    """λ_c of a linear head W (c, d) on the features: 1/4 · max_ij ‖W_i - W_j‖₂.

    The slope of p_k in the features is p_k·Σ_j p_j (W_k - W_j), no longer than p_k·(1 - p_k) times the longest
    difference. Θ(c²·d) time, O(c·d) memory.

    Examples
    --------
    >>> head_lipschitz([[3.0, 0.0], [0.0, 4.0]])
    1.25
    """
    weights = as_numbers("W", W)
    if weights.ndim != 2 or len(weights) < 2:
        hint = (
            "pass (c, d) with a row for each of c >= 2 classes (for a binary head of one row w: np.vstack([0 * w, w]))."
        )
        raise InvalidArgument(f"has shape {weights.shape}", argument="W", hint=hint)
    scale = float(np.abs(weights).max(initial=0.0)) or 1.0
    weights = weights / scale
    longest = max(float(((weights[i:] - weights[i]) ** 2).sum(axis=1).max()) for i in range(len(weights)))
    return float(product(scale, sqrt(longest) / 4.0))


def doubt_bound(r: Numbers, lambda_c: Numbers) -> FloatArray:
    """I(r) <= min(1, r·λ_c), the largest possible doubt at distance r from a training point (equation 6).

    Examples
    --------
    >>> doubt_bound([0.0, 1.0, 4.0], lambda_c=0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.minimum(1.0, product(check_at_least("r", r, 0.0), check_at_least("lambda_c", lambda_c, 0.0)))


def scaled_radius_bound(delta: Numbers, lambda_c: Numbers) -> FloatArray:
    """δ̂ <= δ where δ·λ_c >= 1, else δ²·λ_c (equation 7).

    Examples
    --------
    >>> scaled_radius_bound([1.0, 4.0], lambda_c=0.5).tolist()
    [0.5, 4.0]
    """
    return check_at_least("delta", delta, 0.0) * doubt_bound(delta, lambda_c)


def quadratic_core_set_loss_order(delta: Numbers, n: Numbers, c: Numbers, lambda_c: Numbers) -> FloatArray:
    """C·δ̂ + sqrt(1/n), which is C·δ²·λ_c + sqrt(1/n) only where δ·λ_c < 1 (equation 8); elsewhere linear in δ.

    As in `core_set_loss_order` the orders' unknown factors are 1.

    Examples
    --------
    >>> quadratic_core_set_loss_order([0.5, 2.0], n=100, c=10, lambda_c=1.0).tolist()
    [2.6, 20.1]
    """
    return core_set_loss_order(scaled_radius_bound(delta, lambda_c), n, c)


def error_bound(r: Numbers, lambda_c: Numbers, lambda_epsilon: Numbers) -> FloatArray:
    """P_err(r) = I(r)·ε(r) <= λ_c·λ_ε·r² (equation 9), not capped at 1, since δ* depends on larger values.

    Examples
    --------
    >>> error_bound([0.5, 2.0], lambda_c=1.0, lambda_epsilon=1.0).tolist()
    [0.25, 4.0]
    """
    r = check_at_least("r", r, 0.0)
    doubt = product(check_at_least("lambda_c", lambda_c, 0.0), r)
    return product(doubt, product(check_at_least("lambda_epsilon", lambda_epsilon, 0.0), r))


def beta_lower_bound(delta: Numbers, r_0: Numbers, lambda_c: Numbers, lambda_epsilon: Numbers) -> FloatArray:
    """β >= 1 - (λ_cλ_ε)^(δ-r₀) / exp(δ-r₀)² · (δ^δ / r₀^r₀)², for 0 <= r₀ <= δ (equations 10 and 13; Claim 1).

    A lower bound on the probability that a point without error lies between r₀ and δ; 0 where the bound is vacuous.
    The product integral has a length in its exponent, so β depends on the units of the features.

    Examples
    --------
    >>> beta_lower_bound([0.0, 1.0, 9.0], r_0=0.0, lambda_c=1.0, lambda_epsilon=1.0).round(4).tolist()
    [0.0, 0.8647, 0.0]
    """
    return one_minus_exp(log_error_product(delta, r_0, lambda_c, lambda_epsilon))


def scaled_beta_lower_bound(delta: Numbers, z: Numbers, lambda_c: Numbers, lambda_epsilon: Numbers) -> FloatArray:
    """β >= 1 - ((δ·sqrt(λ_cλ_ε)/e)^(1-z) / z^z)^(2δ), with r₀ = δ·z (equation 11); z is the doubt, as r₀ = δ̂.

    Examples
    --------
    >>> scaled_beta_lower_bound(1.0, [0.0, 0.5, 1.0], lambda_c=1.0, lambda_epsilon=1.0).round(4).tolist()
    [0.8647, 0.2642, 0.0]
    """
    return one_minus_exp(scaled_log_error_product(delta, z, lambda_c, lambda_epsilon))


def delta_star(z: Numbers, lambda_c: Numbers, lambda_epsilon: Numbers) -> FloatArray:
    """δ* = e·z^(z/(1-z)) / sqrt(λ_cλ_ε), the distance beyond which the bound on β is vacuous (equation 12).

    From e/sqrt(λ_cλ_ε) at z = 0 down to 1/sqrt(λ_cλ_ε) at z = 1.

    Examples
    --------
    >>> delta_star([0.0, 0.5, 1.0], lambda_c=1.0, lambda_epsilon=1.0).round(4).tolist()
    [2.7183, 1.3591, 1.0]
    """
    z = check_fraction("z", z)
    # z·ln z / (1-z) tends to -1 as z tends to 1.
    power = np.divide(x_log_x(z), 1.0 - z, out=np.full(z.shape, -1.0), where=z < 1.0)
    logarithm = 1.0 + power - 0.5 * log_lambdas(lambda_c, lambda_epsilon)
    star: FloatArray = np.exp(np.minimum(logarithm, log(LARGEST)))
    return star


def log_square_integral(x: Numbers, a: Numbers) -> FloatArray:
    """x·ln(a·x²) - 2x, the integral of ln(a·x²) from 0 to x >= 0 (Claim 2); 0 at x = 0.

    Examples
    --------
    >>> log_square_integral([0.0, 1.0], a=1.0).tolist()
    [0.0, -2.0]
    """
    x = check_at_least("x", x, 0.0)
    return product(x, np.log(check_positive("a", a)) + 2.0 * np.log(np.where(x > 0.0, x, 1.0)) - 2.0)


def log_error_product(delta: Numbers, r_0: Numbers, lambda_c: Numbers, lambda_epsilon: Numbers) -> FloatArray:
    """Logarithm of the product of P_err(r)^dr from r₀ to δ, the integral of ln(λ_cλ_ε·r²) (equations 14 to 17).

    Claim 3 writes it as (δ-r₀)·(ln(λ_cλ_ε) - 2) + 2·(δ·ln δ - r₀·ln r₀). The code uses an equivalent form without
    cancellation, (δ-r₀)·(ln(λ_cλ_ε·δ²) - 2) - 2·r₀·ln(r₀/δ).

    Examples
    --------
    >>> float(log_error_product(1.0, 0.0, lambda_c=1.0, lambda_epsilon=1.0))
    -2.0
    """
    delta, r_0 = np.broadcast_arrays(check_at_least("delta", delta, 0.0), check_at_least("r_0", r_0, 0.0))
    reject_where("r_0", r_0, r_0 > delta, "r_0 <= delta")
    scale = np.where(delta > 0.0, delta, 1.0)
    log_end = log_lambdas(lambda_c, lambda_epsilon) + 2.0 * np.log(scale)
    return product(delta, (delta - r_0) / scale * (log_end - 2.0) - 2.0 * x_log_x(r_0 / scale))


def scaled_log_error_product(delta: Numbers, z: Numbers, lambda_c: Numbers, lambda_epsilon: Numbers) -> FloatArray:
    """`log_error_product` with r₀ = δ·z: 2δ·((1-z)·ln(δ·sqrt(λ_cλ_ε)/e) - z·ln z) (Claim 4).

    Examples
    --------
    >>> scaled_log_error_product(1.0, [0.0, 1.0], lambda_c=1.0, lambda_epsilon=1.0).tolist()
    [-2.0, 0.0]
    """
    delta, z = check_at_least("delta", delta, 0.0), check_fraction("z", z)
    log_base = np.log(np.where(delta > 0.0, delta, 1.0)) + 0.5 * log_lambdas(lambda_c, lambda_epsilon) - 1.0
    return product(delta, 2.0 * ((1.0 - z) * log_base - x_log_x(z)))
