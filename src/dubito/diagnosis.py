"""`diagnose`: evaluate the paper's theory on a pool.

λ_c, the Lipschitz constant of confidence, is bounded from above by a linear head and from below by the data. λ_ε, that
of the error rate given doubt, can be estimated only from labeled points that the model has not trained on; without
them there is no δ* and no β.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from statistics import median
from typing import Literal, get_args

import numpy as np

from dubito import theory
from dubito.core.distances import squared_radii
from dubito.core.problem import Metric
from dubito.doubt.reading import DOUBT_SOURCES, read_doubt
from dubito.errors import InvalidArgument, InvalidData, american_keywords, named
from dubito.matrix import AnyArray, BoolArray, FloatArray, IntArray, Matrix, Rows, len_of
from dubito.request.arrays import as_array, check_bool, check_choice, check_finite, refuse_zero_rows
from dubito.request.ids import NO_IDS, RowIds, check_pool
from dubito.request.rows import check_candidates, check_labeled, rows_in_order
from dubito.request.scaling import standardize_points

FEWEST_CHECKED = 50


def check_head(head: object, n_features: int, probabilities: Matrix | None, metric: Metric) -> AnyArray | None:
    """(c, d) finite weights that fit the features and the classes."""
    if head is None:
        return None
    if metric != "euclidean":
        problem = f"bounds the slope over Euclidean distances, not {named('metric', metric)}"
        raise InvalidArgument(problem, argument="head", hint="leave one out.")
    weights = as_array("head", head)
    classes = "classes" if probabilities is None else str(probabilities.shape[-1])
    fits = weights.ndim == 2 and weights.shape[1] == n_features and len(weights) >= 2
    if not fits or classes not in ("classes", str(len(weights))):
        hint = (
            f"pass one row of weights for each class, shape ({classes}, {n_features}) "
            "(for a binary model's single row w: np.vstack([0 * w, w]))."
        )
        raise InvalidArgument(f"has shape {weights.shape}", argument="head", hint=hint)
    check_finite("head", weights)
    return weights


def check_outcomes(
    checked: object, wrong: object, n_pool: int, labeled_rows: IntArray, pool_ids: RowIds = NO_IDS
) -> tuple[IntArray, BoolArray] | None:
    """Rows of the pool, ascending, and whether the model was wrong on each; None if no outcomes were given."""
    if checked is None and wrong is None:
        return None
    if checked is None or wrong is None:
        given, other = ("wrong", "checked") if checked is None else ("checked", "wrong")
        raise InvalidArgument(f"was given without {other}", argument=given, hint="pass both, or neither.")
    named_rows = rows_in_order("checked", checked, n_pool, pool_ids)
    rows = np.unique(named_rows)
    _check_checked_rows(rows, labeled_rows)
    if len(rows) < len(named_rows):
        problem = f"names {len(named_rows) - len(rows)} rows twice"
        raise InvalidArgument(problem, argument="checked", hint="pass each row once.")
    return rows, _check_wrong(wrong, len(rows))[np.argsort(named_rows)]


def _check_checked_rows(rows: IntArray, labeled_rows: IntArray) -> None:
    """Raise if there are too few rows, or rows that the model has trained on."""
    if len(rows) < FEWEST_CHECKED:
        problem = f"names {len(rows)} rows, too few to estimate an error rate"
        raise InvalidArgument(problem, argument="checked", hint=f"pass at least {FEWEST_CHECKED}, or none.")
    seen = np.intersect1d(rows, labeled_rows)
    if len(seen):
        hint = "pass only rows that the model has not trained on."
        raise InvalidArgument(f"names row {seen[0]}, which is labeled", argument="checked", hint=hint)


def _check_wrong(wrong: object, n_checked: int) -> BoolArray:
    answers = as_array("wrong", wrong)
    if answers.shape != (n_checked,):
        hint = f"pass one value per checked row, shape ({n_checked},)."
        raise InvalidArgument(f"has shape {answers.shape}", argument="wrong", hint=hint)
    if not np.isin(answers, (0, 1)).all():
        stray = answers[~np.isin(answers, (0, 1))][0]
        hint = "pass True where the model was wrong and False elsewhere."
        raise InvalidData(f"holds {stray:g}", argument="wrong", hint=hint)
    return answers.astype(np.bool_)


Regime = Literal["quadratic", "linear", "undecided"]

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The model's results on the checked points."""

    n: int
    error_rate: float
    mean_doubt: float
    """The error rate that a calibrated model would have."""
    epsilon: tuple[float | None, ...]
    """The error rate given doubt, P(wrong)/I, of groups from near to far; None where a group has no doubt."""


@dataclass(frozen=True, slots=True)
class Relation:
    """How doubt and distance are related over the unlabeled points."""

    first: int
    """The number of points that are compared: a tenth of all, at most 100."""
    far: int
    """How many of the first points by scaled distance are among the first by distance."""
    doubted: int
    """How many of the first points by scaled distance are among the first by doubt."""
    correlation: float | None
    """Spearman's rank correlation of doubt and distance; None if either is constant."""
    tail: float | None
    """The largest distance divided by the median distance; None if that is 0."""
    sure: float
    """The fraction of points with doubt below 0.05."""
    far_doubt: float
    """Median doubt of the farthest points."""
    doubt: float
    """Median doubt of all."""


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """The theory evaluated on a pool. None means that a value cannot be computed from the arguments.

    Read ``advice`` first, then ``delta_over_delta_star``, which does not depend on the features' units.
    """

    advice: str
    """What doubt-scaling would do on this pool, and what the theory predicts for it."""
    delta_over_delta_star: float | None
    """δ/δ*: from 1 on, the theory makes no statement about doubt-scaling."""
    regime: Regime
    """Quadratic if δ·λ_c is below 1 with both bounds on λ_c, linear if with neither."""
    n: int
    """Unlabeled pool points."""
    m: int
    d: int
    delta: float
    """δ, the largest distance from a pool point to its nearest labeled point."""
    delta_hat: float
    """δ̂, the largest of those distances scaled by doubt."""
    z: float
    """δ̂/δ, the doubt at which δ* and β are evaluated."""
    radius_quantiles: tuple[float, ...]
    """Quantiles of the distances to the nearest labeled point, at `QUANTILES`."""
    doubt_quantiles: tuple[float, ...]
    labeled_doubt: float | None
    """Largest doubt of a labeled point; the theory assumes 0. Known only if ``labeled`` is row numbers."""
    lambda_c_head: float | None
    """Upper bound on λ_c, from the head."""
    lambda_c_data: float
    """Lower bound on λ_c: the largest ratio of doubt to distance."""
    share_quadratic_head: float | None
    """The fraction of the pool with r·λ_c < 1, for the head's λ_c."""
    share_quadratic_data: float
    outcomes: Outcomes | None
    lambda_epsilon: float | None
    """Largest error rate given doubt per distance, over groups of the checked points."""
    delta_star: float | None
    share_below_delta_star: float | None
    """The fraction of the pool that is nearer to a labeled point than the δ* of its doubt."""
    beta: float | None
    """Lower bound on β at δ and z. It depends on the units of the features."""
    relation: Relation
    notes: tuple[str, ...]
    """Caveats for these numbers."""
    radii: FloatArray = field(repr=False)
    """(n,) distance of each unlabeled pool point to its nearest labeled one; not in `to_dict`."""
    doubt: FloatArray = field(repr=False)
    """(n,) doubt of each; not in `to_dict`."""

    @property
    def lambda_c(self) -> float:
        """The larger bound on λ_c, used for δ* and β. Without a head it is a lower bound; then both are optimistic."""
        return max(self.lambda_c_data, self.lambda_c_head or 0.0)

    def to_dict(self) -> dict[str, object]:
        """All values except the arrays per point, ready for strict JSON."""
        hidden = ("radii", "doubt")
        record = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in hidden}
        for name in ("radius_quantiles", "doubt_quantiles"):
            record[name] = {f"{q:g}": value for q, value in zip(QUANTILES, record[name], strict=True)}
        outcomes = None if self.outcomes is None else asdict(self.outcomes) | {"epsilon": [*self.outcomes.epsilon]}
        return record | {"outcomes": outcomes, "relation": asdict(self.relation), "notes": [*self.notes]}


# The relation of doubt and distance

FIRST_FRACTION, MAX_FIRST = 0.1, 100
"""The first points to compare: this fraction of all points, and at most this number."""
SURE = 0.05
"""The model is sure of points with a smaller doubt."""


def relate(radii: FloatArray, doubt: FloatArray) -> Relation:
    """Compare the first points by scaled distance with the first by distance and the first by doubt.

    Ties go to the lowest index. O(n log n) time.

    Examples
    --------
    >>> result = relate(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.1, 0.2, 0.3, 0.4]))
    >>> result.first, result.far, result.doubted, result.correlation, result.tail
    (1, 1, 1, 1.0, 1.6)
    """
    first = int(np.clip(FIRST_FRACTION * len(radii), 1, MAX_FIRST))
    farthest, scaled, doubted = (_largest(values, first) for values in (radii, radii * doubt, doubt))
    middle = float(np.median(radii))
    return Relation(
        first=first,
        far=len(np.intersect1d(scaled, farthest)),
        doubted=len(np.intersect1d(scaled, doubted)),
        correlation=rank_correlation(radii, doubt),
        tail=float(radii.max()) / middle if middle > 0.0 else None,
        sure=float((doubt < SURE).mean()),
        far_doubt=float(np.median(doubt[farthest])),
        doubt=float(np.median(doubt)),
    )


def _largest(values: FloatArray, count: int) -> AnyArray:
    return np.argsort(-values, kind="stable")[:count]


def rank_correlation(ours: FloatArray, theirs: FloatArray) -> float | None:
    """Spearman's rank correlation; None if either is constant.

    Examples
    --------
    >>> rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([3.0, 2.0, 1.0]))
    -1.0
    """
    ranks = [mean_ranks(values) for values in (ours, theirs)]
    centered = [values - values.mean() for values in ranks]
    spread = float(np.sqrt((centered[0] ** 2).sum() * (centered[1] ** 2).sum()))
    return float(np.clip((centered[0] * centered[1]).sum() / spread, -1.0, 1.0)) if spread > 0.0 else None


def mean_ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1; equal values get their mean rank.

    Examples
    --------
    >>> mean_ranks(np.array([5.0, 7.0, 5.0])).tolist()
    [1.5, 3.0, 1.5]
    """
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[group.ravel()])


# Advice and caveats as text

COMPARE = "compare both on labeled rows (dubito simulate) before you rely on it."
NOTABLE_DOUBT = 0.05
"""A larger doubt of a labeled point contradicts the assumptions of the theory."""
MOSTLY = 2 / 3
"""If this fraction of the first points agrees, scaling selects nearly the same points as a simpler method."""
NOTABLE_TREND = 0.2
"""A rank correlation at least this far from 0 is reported as a trend."""
NOTABLE_TAIL = 5.0
"""The farthest point is an outlier if it is this many times as far as the median one."""
NOTABLE_SURE = 0.5
NOTABLE_RATIO = 1.5
"""A caveat is added from this ratio of errors to doubt, or of errors near and far."""


def advise(found: Diagnosis) -> str:
    """What doubt-scaling would do, and what the theory predicts, which comes first if it predicts a gain."""
    if found.delta == 0.0:
        return "Every pool point equals a labeled one, so a core-set has nothing left to cover."
    if found.delta_hat == 0.0:
        return "The model has no doubt about points that differ from labeled ones, so there is nothing to scale by."
    prediction = _prediction(found)
    if prediction is not None:
        return f"{prediction} {_describe_first_points(found.relation)}"
    return f"{_describe_first_points(found.relation)} {_describe_lack_of_prediction(found)}"


def _prediction(found: Diagnosis) -> str | None:
    """What the theory predicts, or None."""
    ratio = found.delta_over_delta_star
    if ratio is not None and ratio >= 1.0:
        return None
    if found.regime == "quadratic":
        certainty = "δ/δ* is unknown without checked outcomes" if ratio is None else f"δ/δ* = {ratio:.3g} < 1"
        return f"Doubt-scaling can be expected to help now: {_slopes(found)}, both below 1, and {certainty}."
    if ratio is None:
        return None
    return (
        f"Doubt-scaling can be expected to do no worse than the plain core-set (δ/δ* = {ratio:.3g} < 1), "
        f"but the theory does not predict a quadratic gain ({_slopes(found)})."
    )


def _describe_lack_of_prediction(found: Diagnosis) -> str:
    ratio = found.delta_over_delta_star
    if ratio is not None:
        return f"The theory predicts no gain here (δ/δ* = {ratio:.3g}; it needs less than 1): {COMPARE}"
    outcome = "no quadratic gain" if found.regime == "linear" else "neither a quadratic gain nor its absence"
    return f"The theory predicts {outcome} ({_slopes(found)}; it needs less than 1 by both): {COMPARE}"


def _describe_first_points(relation: Relation) -> str:
    """A sentence on whether distance or doubt determines the first points."""
    of = f"of its first {relation.first} points, " if relation.first > 1 else "of its first point, "
    far, doubted = f"{relation.far} are among the farthest", f"{relation.doubted} among the most doubted"
    enough = MOSTLY * relation.first
    if relation.far >= enough and relation.doubted >= enough:
        begin = "Distance and doubt select the same points here, with or without scaling"
    elif relation.far >= enough:
        begin = "Doubt-scaling selects nearly the same points as the plain core-set here"
    elif relation.doubted >= enough:
        begin = "Doubt-scaling selects nearly the same points as least-confidence here"
    else:
        begin = "Doubt-scaling balances distance and doubt here"
    return f"{begin}: {of}{far} and {doubted}{_trend(relation.correlation)}."


def _trend(correlation: float | None) -> str:
    """Whether doubt increases or decreases with distance."""
    if correlation is None:
        return ""
    trend = "rises" if correlation >= NOTABLE_TREND else "falls" if correlation <= -NOTABLE_TREND else "hardly changes"
    return f"; doubt {trend} with distance (rank correlation {correlation:+.2f})"


def caveats(found: Diagnosis) -> Iterator[str]:
    """Missing arguments, and contradictions between the data and the theory's assumptions."""
    if found.lambda_c_head is None:
        yield "No head was given, so λ_c has only a lower bound, and a quadratic regime cannot be claimed."
    elif found.lambda_c_data > found.lambda_c_head:
        yield "Doubt rises more steeply than the head allows: labeled points have doubt, or it is another model's."
    if found.labeled_doubt is not None and found.labeled_doubt > NOTABLE_DOUBT:
        yield f"The model doubts a labeled point by {found.labeled_doubt:.2g}; the theory assumes no doubt there."
    yield from _relation_caveats(found.relation)
    yield from _outcome_caveats(found)


def _relation_caveats(relation: Relation) -> Iterator[str]:
    if relation.tail is not None and relation.tail >= NOTABLE_TAIL:
        yield (
            f"The farthest point is {relation.tail:.3g} times as far from labeled points as the median one: a plain "
            f"core-set selects such outliers first, whose median doubt is {relation.far_doubt:.2g} (all points: "
            f"{relation.doubt:.2g}). If columns have different units, standardize them."
        )
    if relation.sure >= NOTABLE_SURE:
        yield f"The model is sure of {relation.sure:.0%} of the points (doubt below 0.05); scaling skips them."


def _outcome_caveats(found: Diagnosis) -> Iterator[str]:
    if found.outcomes is None:
        yield "No outcomes were given, so λ_ε, δ* and β cannot be reported."
        return
    error_rate, mean_doubt = found.outcomes.error_rate, found.outcomes.mean_doubt
    if error_rate == 0.0:
        yield f"The model was right on all {found.outcomes.n} checked points, so λ_ε cannot be estimated."
    elif found.lambda_epsilon is None:
        yield "The model was wrong on points without doubt or distance, which no λ_ε explains."
    if error_rate > NOTABLE_RATIO * mean_doubt:
        yield (
            f"The model is overconfident: wrong on {error_rate:.1%} of the checked points, with a mean doubt of "
            f"{mean_doubt:.1%}; a strength below 1 relies less on its doubt."
        )
    near, far = _halves(found.outcomes.epsilon)
    if near > NOTABLE_RATIO * far:
        yield (
            f"Errors per doubt fall with distance, from about {near:.3g} near the labels to {far:.3g} far from them; "
            "the theory assumes that they start at 0 and rise."
        )
    if found.beta is not None:
        yield "β depends on the units of the features; δ/δ* does not."


def _slopes(found: Diagnosis) -> str:
    """The values of δ·λ_c for both bounds."""
    by_data = f"δ·λ_c is {found.delta * found.lambda_c_data:.3g} by the data"
    if found.lambda_c_head is None:
        return f"{by_data}, unknown by the head"
    return f"{by_data} and {found.delta * found.lambda_c_head:.3g} by the head"


def _halves(epsilon: tuple[float | None, ...]) -> tuple[float, float]:
    """Median ε of the nearer and of the farther half of the groups; (0, 0) if there is only one group."""
    known = [value for value in epsilon if value is not None]
    middle = len(known) // 2
    return (median(known[:middle]), median(known[-middle:])) if middle else (0.0, 0.0)


FEWEST_IN_GROUP = 50
"""Minimum number of checked points per group: fewer cannot show an error rate of a few percent."""
MOST_GROUPS = 10


@american_keywords
def diagnose(
    pool: object,
    *,
    labeled: object,
    probabilities: object = None,
    logits: object = None,
    doubt: object = None,
    head: object = None,
    checked: object = None,
    wrong: object = None,
    ids: object = None,
    metric: Metric = "euclidean",
    standardize: bool | None = None,
) -> Diagnosis:
    """Evaluate the theory on a pool: its distances to the labeled points, and what doubt-scaling can add.

    Takes Θ(n·m·d) time, like Algorithm 3, and O(n) memory.

    Parameters
    ----------
    pool : array (n, d)
        Features, as for `select`.
    labeled : array
        What the model trained on: rows of ``pool`` (integers or a mask), or features (m, d). At least one.
    probabilities, logits, doubt : array
        One of them, with a row for each pool row, as for `select`.
    head : array (c, d), optional
        Weights of a linear last layer on these features, for the upper bound on λ_c.
    checked : array (k,), optional
        Pool rows, or a mask, whose labels are known and which the model has **not** trained on: ideally a random
        sample, otherwise the batch that was just labeled. At least 50. They still count as pool points.
    wrong : array (k,) of bool, optional
        Whether the model was wrong on each of them; for a mask, in ascending order of rows.
    ids : sequence (n,), optional
        Ids of the pool's rows, as for `select`; ``labeled`` and ``checked`` may then contain ids.
    metric : {"euclidean", "cosine"}
        As for `select`. The head's bound holds only for Euclidean distances.
    standardize : bool, optional
        As for `select`. The head applies to the original features, and is rescaled.

    Examples
    --------
    >>> result = diagnose([[0.0], [1.0], [2.0]], labeled=[0], doubt=[0.0, 0.1, 0.25], head=[[0.0], [1.0]])
    >>> result.delta, result.delta_hat, result.lambda_c_head, result.lambda_c_data, result.regime
    (2.0, 0.5, 0.25, 0.125, 'quadratic')
    """
    known_metric: Metric = check_choice("metric", metric, get_args(Metric))
    is_standardized = standardize is not None and check_bool("standardize", standardize)
    (matrix, _), pool_ids = check_pool(pool, ids)
    checked_labeled = check_labeled(labeled, matrix, pool_ids)
    references, labeled_rows = checked_labeled.references, checked_labeled.rows
    points = check_candidates(None, len_of(matrix), labeled_rows)
    if not len_of(references) or not len(points):
        problem = f"names {len_of(references)} points and leaves {len(points)} of the pool's {len_of(matrix)}"
        hint = "pass at least one labeled and leave at least one unlabeled."
        raise InvalidArgument(problem, argument="labeled", hint=hint)
    classes, all_doubt = read_doubt(len_of(matrix), probabilities, logits, doubt, pool_ids=pool_ids)
    if all_doubt is None:
        raise InvalidArgument("no doubt was given", hint=f"pass {DOUBT_SOURCES}.")
    weights = check_head(head, matrix.shape[1], classes, known_metric)
    outcomes = check_outcomes(checked, wrong, len_of(matrix), labeled_rows, pool_ids)
    if is_standardized:
        matrix, (references, _, _), _, scale = standardize_points(matrix, checked_labeled)
        # Constant columns have weight 0.
        factors = np.where(np.isfinite(scale.deviation), scale.deviation, 0.0)
        weights = None if weights is None else weights * factors
    if known_metric == "cosine":
        refuse_zero_rows("pool", matrix)
        refuse_zero_rows("labeled", references)
    radii = np.sqrt(squared_radii(Rows(matrix, points), references, known_metric))
    lambda_c_head = None if weights is None else theory.head_lipschitz(weights)
    found = _measure(radii, all_doubt[points], lambda_c_head, len_of(references), matrix.shape[1])
    if len(labeled_rows):
        found = replace(found, labeled_doubt=float(all_doubt[labeled_rows].max()))
    if outcomes is not None:
        found = _with_outcomes(found, np.searchsorted(points, outcomes[0]), outcomes[1])
    return replace(found, advice=advise(found), notes=tuple(caveats(found)))


def _measure(radii: FloatArray, doubt: FloatArray, lambda_c_head: float | None, m: int, d: int) -> Diagnosis:
    """Everything that can be computed without outcomes."""
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
        labeled_doubt=None,
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
    """The regime according to both bounds. The data alone can rule out the quadratic regime, but not prove it."""
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

    The paper assumes P(wrong) = I·ε(r) with ε(r) <= λ_ε·r (equation 9), so a group's Σ wrong is at most λ_ε·Σ I·r.
    Single points are too noisy and the mean over all hides the worst case, hence groups: at most 10, of equal size, of
    at least 50 points. The largest of several noisy ratios is biased upward, which is the cautious side. λ_ε is None if
    no point was wrong, or if errors occur in a group without doubt or distance, which no finite λ_ε explains.

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


__all__ = ["QUANTILES", "Diagnosis", "Outcomes", "Regime", "Relation", "diagnose", "error_rate_given_doubt"]
