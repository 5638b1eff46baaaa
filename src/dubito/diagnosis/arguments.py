"""Checks of what only a diagnosis takes: a head, and outcomes."""

import numpy as np

from dubito.checks import as_array, check_finite, check_rows
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import AnyArray, BoolArray, IntArray, Matrix
from dubito.problem import Metric

FEWEST_CHECKED = 50


def check_head(head: object, n_features: int, probabilities: Matrix | None, metric: Metric) -> AnyArray | None:
    """(c, d) finite weights that fit the features and the classes."""
    if head is None:
        return None
    if metric != "euclidean":
        raise InvalidArgument(f"head bounds the slope over Euclidean distances, not metric={metric!r}; leave one out.")
    weights = as_array("head", head)
    classes = "classes" if probabilities is None else str(probabilities.shape[-1])
    fits = weights.ndim == 2 and weights.shape[1] == n_features and len(weights) >= 2
    if not fits or classes not in ("classes", str(len(weights))):
        raise InvalidArgument(
            f"head has shape {weights.shape}; pass one row of weights for each class, shape ({classes}, {n_features}) "
            "(for a binary model's single row w: np.vstack([0 * w, w]))."
        )
    check_finite("head", weights)
    return weights


def check_outcomes(
    checked: object, wrong: object, n_pool: int, labelled_rows: IntArray
) -> tuple[IntArray, BoolArray] | None:
    """Rows of the pool, ascending, and whether the model was wrong on each; None where nothing was checked."""
    if checked is None and wrong is None:
        return None
    if checked is None or wrong is None:
        given, other = ("wrong", "checked") if checked is None else ("checked", "wrong")
        raise InvalidArgument(f"{given} was given without {other}; pass both, or neither.")
    named = as_array("checked", checked)
    rows = check_rows("checked", named, n_pool)
    if len(rows) < FEWEST_CHECKED:
        raise InvalidArgument(
            f"checked names {len(rows)} rows, too few to tell an error rate; pass at least {FEWEST_CHECKED}, or none."
        )
    seen = np.intersect1d(rows, labelled_rows)
    if len(seen):
        raise InvalidArgument(
            f"checked names row {seen[0]}, which is labelled; pass only rows that the model has not trained on."
        )
    if named.dtype.kind != "b" and len(rows) < len(named):
        raise InvalidArgument(f"checked names {len(named) - len(rows)} rows twice; pass each row once.")
    answers = _check_wrong(wrong, len(rows))
    return rows, answers if named.dtype.kind == "b" else answers[np.argsort(named)]


def _check_wrong(wrong: object, n_checked: int) -> BoolArray:
    answers = as_array("wrong", wrong)
    if answers.shape != (n_checked,):
        raise InvalidArgument(f"wrong has shape {answers.shape}; pass one answer a checked row, shape ({n_checked},).")
    if not np.isin(answers, (0, 1)).all():
        stray = answers[~np.isin(answers, (0, 1))][0]
        raise InvalidData(f"wrong holds {stray:g}; pass True where the model's answer was wrong and False elsewhere.")
    return answers.astype(np.bool_)
