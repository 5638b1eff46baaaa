"""`diagnose`: radii, bounds on λ_c, and λ_ε from outcomes."""

from dataclasses import replace
from typing import get_args

import numpy as np

from dubito import theory
from dubito.checks import (
    check_candidates,
    check_choice,
    check_labelled,
    check_pool,
    check_standardise,
    refuse_zero_rows,
    standardise_points,
)
from dubito.diagnosis.advice import advise, caveats
from dubito.diagnosis.arguments import check_head, check_outcomes, head_on_scale
from dubito.diagnosis.record import QUANTILES, Diagnosis, Outcomes, Regime
from dubito.diagnosis.relation import relate
from dubito.distances import squared_radii
from dubito.doubt.reading import DOUBT_SOURCES, read_doubt
from dubito.errors import InvalidArgument
from dubito.matrix import BoolArray, FloatArray, IntArray, Rows, len_of
from dubito.problem import Metric

FEWEST_IN_GROUP = 50
"""Checked points in a group of like distance: fewer cannot show an error rate of a few percent."""
MOST_GROUPS = 10


def diagnose(
    pool: object,
    *,
    labelled: object,
    probabilities: object = None,
    logits: object = None,
    doubt: object = None,
    head: object = None,
    checked: object = None,
    wrong: object = None,
    ids: object = None,
    metric: Metric = "euclidean",
    standardise: bool | None = None,
) -> Diagnosis:
    """Read the theory on a pool: how far it lies from its labels, and what doubt can be expected to add.

    Θ(n·m·d) time, as Algorithm 3; O(n) memory beyond the inputs.

    Parameters
    ----------
    pool : array (n, d)
        Features, as `select` takes them.
    labelled : array
        What the model trained on: rows of ``pool`` (integers or a mask), or features (m, d). At least one.
    probabilities, logits, doubt : array
        One of them, a row for each pool row, as `select` takes them.
    head : array (c, d), optional
        Weights of a linear last layer on these features, for the upper bound on λ_c.
    checked : array (k,), optional
        Pool rows, or a mask, whose labels are known and which the model has **not** trained on: at best a random
        sample, else the batch just labelled, before the model trains on it. At least 50. They stay pool points.
    wrong : array (k,) of bool, optional
        Whether the model's answer to each of them was wrong; for a mask, in ascending order of rows.
    ids : sequence (n,), optional
        What the pool's rows are called, as `select` takes it: ``labelled`` and ``checked`` may name rows by it.
    metric : {"euclidean", "cosine"}
        As `select`. The head's bound holds for Euclidean distances alone.
    standardise : bool, optional
        As `select`. The head is one on the features as they are given, and is brought to the same scale.

    Examples
    --------
    >>> told = diagnose([[0.0], [1.0], [2.0]], labelled=[0], doubt=[0.0, 0.1, 0.25], head=[[0.0], [1.0]])
    >>> told.delta, told.delta_hat, told.lambda_c_head, told.lambda_c_data, told.regime
    (2.0, 0.5, 0.25, 0.125, 'quadratic')
    """
    known_metric: Metric = check_choice("metric", metric, get_args(Metric))
    wanted = check_standardise(standardise)
    (matrix, _), names = check_pool(pool, ids)
    seen = check_labelled(labelled, matrix, names)
    references, labelled_rows = seen.references, seen.rows
    points = check_candidates(None, len_of(matrix), labelled_rows)
    if not len_of(references) or not len(points):
        problem = f"names {len_of(references)} points and leaves {len(points)} of the pool's {len_of(matrix)}"
        mend = "pass at least one labelled and leave at least one unlabelled."
        raise InvalidArgument(problem, argument="labelled", mend=mend)
    classes, all_doubt = read_doubt(len_of(matrix), probabilities, logits, doubt, names=names)
    if all_doubt is None:
        raise InvalidArgument("no doubt was given", mend=f"pass {DOUBT_SOURCES}.")
    weights = check_head(head, matrix.shape[1], classes, known_metric)
    outcomes = check_outcomes(checked, wrong, len_of(matrix), labelled_rows, names)
    if wanted:
        matrix, (references, _, _), _, scale = standardise_points(matrix, seen)
        weights = None if weights is None else head_on_scale(weights, scale)
    if known_metric == "cosine":
        refuse_zero_rows("pool", matrix)
        refuse_zero_rows("labelled", references)
    radii = np.sqrt(squared_radii(Rows(matrix, points), references, known_metric))
    lambda_c_head = None if weights is None else theory.head_lipschitz(weights)
    found = _measure(radii, all_doubt[points], lambda_c_head, len_of(references), matrix.shape[1])
    if len(labelled_rows):
        found = replace(found, labelled_doubt=float(all_doubt[labelled_rows].max()))
    if outcomes is not None:
        found = _with_outcomes(found, np.searchsorted(points, outcomes[0]), outcomes[1])
    return replace(found, advice=advise(found), notes=tuple(caveats(found)))


def _measure(radii: FloatArray, doubt: FloatArray, lambda_c_head: float | None, m: int, d: int) -> Diagnosis:
    """All that can be told without outcomes."""
    delta, delta_hat = float(radii.max()), float(theory.scaled_radius(radii, doubt).max())
    apart = radii > 0.0
    lambda_c_data = float((doubt[apart] / radii[apart]).max(initial=0.0))
    return Diagnosis(
        advice="",
        delta_over_delta_star=None,
        regime=_regime(delta, lambda_c_head, lambda_c_data),
        n=len(radii),
        m=m,
        d=d,
        delta=delta,
        delta_hat=delta_hat,
        z=delta_hat / delta if delta > 0.0 else 0.0,
        radius_quantiles=tuple(np.quantile(radii, QUANTILES).tolist()),
        doubt_quantiles=tuple(np.quantile(doubt, QUANTILES).tolist()),
        labelled_doubt=None,
        lambda_c_head=lambda_c_head,
        lambda_c_data=lambda_c_data,
        share_quadratic_head=None if lambda_c_head is None else float((radii * lambda_c_head < 1.0).mean()),
        share_quadratic_data=float((radii * lambda_c_data < 1.0).mean()),
        outcomes=None,
        lambda_epsilon=None,
        delta_star=None,
        share_below_delta_star=None,
        beta=None,
        relation=relate(radii, doubt),
        notes=(),
        radii=radii,
        doubt=doubt,
    )


def _regime(delta: float, lambda_c_head: float | None, lambda_c_data: float) -> Regime:
    """What both bounds say; the data can rule the quadratic regime out alone, but not claim it."""
    by_data = delta * lambda_c_data < 1.0
    by_head = None if lambda_c_head is None else delta * lambda_c_head < 1.0
    if by_data and by_head:
        return "quadratic"
    return "undecided" if by_data or by_head else "linear"


def _with_outcomes(found: Diagnosis, checked: IntArray, wrong: BoolArray) -> Diagnosis:
    radii, doubt = found.radii[checked], found.doubt[checked]
    epsilon, lambda_epsilon = error_rate_given_doubt(radii, doubt, wrong)
    found = replace(
        found,
        outcomes=Outcomes(len(checked), float(wrong.mean()), float(doubt.mean()), epsilon),
        lambda_epsilon=lambda_epsilon,
    )
    if lambda_epsilon is None or found.lambda_c == 0.0:
        return found
    star = float(theory.delta_star(found.z, found.lambda_c, lambda_epsilon))
    own_star = theory.delta_star(found.doubt, found.lambda_c, lambda_epsilon)
    return replace(
        found,
        delta_star=star,
        delta_over_delta_star=found.delta / star,
        share_below_delta_star=float((found.radii < own_star).mean()),
        beta=float(theory.scaled_beta_lower_bound(found.delta, found.z, found.lambda_c, lambda_epsilon)),
    )


def error_rate_given_doubt(
    radii: FloatArray, doubt: FloatArray, wrong: BoolArray
) -> tuple[tuple[float | None, ...], float | None]:
    """ε = P(wrong)/I of groups of points from near to far, and λ_ε, the largest ε per distance among them.

    The paper assumes P(wrong) = I·ε(r) with ε(r) <= λ_ε·r (equation 9), so a group's Σ wrong is at most λ_ε·Σ I·r. One
    point shows nothing and a mean hides the worst, hence groups: at most 10, of equal size, of at least 50 points. The
    largest of some noisy ratios leans high, which is the cautious side. λ_ε is None where no point was wrong, or
    where a whole group without doubt or distance was wrong at times: no finite λ_ε explains that.

    Examples
    --------
    >>> radii, doubt = np.full(100, 2.0), np.full(100, 0.25)
    >>> error_rate_given_doubt(radii, doubt, wrong=np.arange(100) % 2 == 0)
    ((2.0, 2.0), 1.0)
    """
    groups = np.array_split(np.argsort(radii, kind="stable"), np.clip(len(radii) // FEWEST_IN_GROUP, 1, MOST_GROUPS))
    errors = np.array([wrong[group].sum() for group in groups], dtype=np.float64)
    doubts = np.array([doubt[group].sum() for group in groups])
    reach = np.array([(doubt[group] * radii[group]).sum() for group in groups])
    epsilon = tuple(float(k / total) if total > 0.0 else None for k, total in zip(errors, doubts, strict=True))
    if not errors.any() or (errors[reach == 0.0] > 0.0).any():
        return epsilon, None
    return epsilon, float((errors[reach > 0.0] / reach[reach > 0.0]).max())
