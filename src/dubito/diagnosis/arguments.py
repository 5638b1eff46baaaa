"""Checks of what only a diagnosis takes: a head, and outcomes."""

import numpy as np

from dubito.checks import as_array, check_finite, rows_in_order
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import AnyArray, BoolArray, IntArray, Matrix
from dubito.names import NO_NAMES, RowNames
from dubito.problem import Metric
from dubito.scales import Scale
from dubito.wording import named

FEWEST_CHECKED = 50


def check_head(head: object, n_features: int, probabilities: Matrix | None, metric: Metric) -> AnyArray | None:
    """(c, d) finite weights that fit the features and the classes."""
    if head is None:
        return None
    if metric != "euclidean":
        problem = f"bounds the slope over Euclidean distances, not {named('metric', metric)}"
        raise InvalidArgument(problem, argument="head", mend="leave one out.")
    weights = as_array("head", head)
    classes = "classes" if probabilities is None else str(probabilities.shape[-1])
    fits = weights.ndim == 2 and weights.shape[1] == n_features and len(weights) >= 2
    if not fits or classes not in ("classes", str(len(weights))):
        mend = (
            f"pass one row of weights for each class, shape ({classes}, {n_features}) "
            "(for a binary model's single row w: np.vstack([0 * w, w]))."
        )
        raise InvalidArgument(f"has shape {weights.shape}", argument="head", mend=mend)
    check_finite("head", weights)
    return weights


def head_on_scale(weights: AnyArray, scale: Scale) -> AnyArray:
    """The same head on standardised features: what a step of one deviation changes, in a constant column nothing."""
    return weights * np.where(np.isfinite(scale.deviation), scale.deviation, 0.0)


def check_outcomes(
    checked: object, wrong: object, n_pool: int, labelled_rows: IntArray, names: RowNames = NO_NAMES
) -> tuple[IntArray, BoolArray] | None:
    """Rows of the pool, ascending, and whether the model was wrong on each; None where nothing was checked."""
    if checked is None and wrong is None:
        return None
    if checked is None or wrong is None:
        given, other = ("wrong", "checked") if checked is None else ("checked", "wrong")
        raise InvalidArgument(f"was given without {other}", argument=given, mend="pass both, or neither.")
    named_rows = rows_in_order("checked", checked, n_pool, names)
    rows = np.unique(named_rows)
    _refuse_unfit(rows, labelled_rows)
    if len(rows) < len(named_rows):
        problem = f"names {len(named_rows) - len(rows)} rows twice"
        raise InvalidArgument(problem, argument="checked", mend="pass each row once.")
    return rows, _check_wrong(wrong, len(rows))[np.argsort(named_rows)]


def _refuse_unfit(rows: IntArray, labelled_rows: IntArray) -> None:
    """Too few rows, or rows that the model has trained on."""
    if len(rows) < FEWEST_CHECKED:
        problem = f"names {len(rows)} rows, too few to tell an error rate"
        raise InvalidArgument(problem, argument="checked", mend=f"pass at least {FEWEST_CHECKED}, or none.")
    seen = np.intersect1d(rows, labelled_rows)
    if len(seen):
        mend = "pass only rows that the model has not trained on."
        raise InvalidArgument(f"names row {seen[0]}, which is labelled", argument="checked", mend=mend)


def _check_wrong(wrong: object, n_checked: int) -> BoolArray:
    answers = as_array("wrong", wrong)
    if answers.shape != (n_checked,):
        mend = f"pass one answer a checked row, shape ({n_checked},)."
        raise InvalidArgument(f"has shape {answers.shape}", argument="wrong", mend=mend)
    if not np.isin(answers, (0, 1)).all():
        stray = answers[~np.isin(answers, (0, 1))][0]
        mend = "pass True where the model's answer was wrong and False elsewhere."
        raise InvalidData(f"holds {stray:g}", argument="wrong", mend=mend)
    return answers.astype(np.bool_)
