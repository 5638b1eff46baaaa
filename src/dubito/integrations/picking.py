"""Functions that the integrations share: calls of `dubito.select`, and predictions of committees."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dubito.api import select
from dubito.core.problem import Selection
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import FloatArray, IntArray
from dubito.strategies import Strategy

MAX_DENSE_SIZE = 2**28
"""Maximum size of a sparse matrix that is made dense: a gigabyte in float32."""


def as_dense(rows: Any, argument: str) -> Any:
    """Features as a dense array; the index of a data frame is dropped, since it could be mistaken for ids."""
    if hasattr(rows, "to_numpy"):
        return rows.to_numpy()
    if not hasattr(rows, "toarray"):
        return rows
    if rows.shape[0] * rows.shape[1] > MAX_DENSE_SIZE:
        problem = f"is sparse, and its {rows.shape[0]:,} x {rows.shape[1]:,} numbers are too many for a dense array"
        hint = "pass fewer features, such as those of scikit-learn's TruncatedSVD(256)."
        raise InvalidData(problem, argument=argument, hint=hint)
    return rows.astype(np.float32).toarray()


def pick(pool: object, budget: int, strategy: Strategy, hint: str, **given: Any) -> Selection:
    """Call `dubito.select`; ``hint`` says how to pass a model with this tool, if the strategy needs one."""
    if budget == 0:
        raise InvalidData("there is nothing to pick: every row is labeled, or none is asked for.")
    try:
        return select(pool, budget, strategy=strategy, **given)
    except InvalidArgument as error:
        # The strategy was checked when it was created, so only a model can be missing.
        if error.argument != "strategy":
            raise
        raise InvalidArgument.from_record({**error.as_record(), "hint": hint}) from error


def seed_of(given: object, state: np.random.RandomState) -> int:
    """The seed if it is an integer, else one drawn from the random state that scikit-learn made of it."""
    return int(given) if isinstance(given, int | np.integer) else int(state.randint(2**31))


def committee_probabilities(members: Sequence[Any], points: object) -> FloatArray:
    """(n, k, c) probabilities of k classifiers, or of the members of a single one that has ``estimators_``."""
    if len(members) == 1 and hasattr(members[0], "estimators_"):
        return _estimator_probabilities(members[0], points)
    predictions = [np.asarray(member.predict_proba(points), dtype=np.float64) for member in members]
    if len({each.shape for each in predictions}) > 1:
        described = " and ".join(sorted({str(each.shape[1]) for each in predictions}))
        problem = f"has members that know {described} classes"
        raise InvalidData(problem, argument="ensemble", hint="pass all classes to each member.")
    # Without labels an ensemble has no members yet, which would all predict the same.
    is_unfitted = len(predictions) == 1 and (hasattr(members[0], "n_estimators") or hasattr(members[0], "estimators"))
    return np.stack(predictions * 2 if is_unfitted else predictions, axis=1)


def _estimator_probabilities(ensemble: Any, points: object) -> FloatArray:
    """(n, k, c) probabilities of the members of a scikit-learn ensemble, whose classes are numbered from 0."""
    codes = np.array([list(ensemble.classes_).index(each) for each in ensemble.estimator_.classes_])
    predictions = [(member.predict_proba(points), member.classes_.astype(np.int64)) for member in ensemble.estimators_]
    stacked = np.zeros((len(predictions[0][0]), len(predictions), len(ensemble.classes_)))
    for member, (probabilities, classes) in enumerate(predictions):
        stacked[:, member, codes[classes]] = probabilities
    return stacked


def sequential_utilities(picks: IntArray, whole: Selection, n_rows: int) -> FloatArray:
    """(b, n) the utility of each row before each of b picks; NaN for rows that are not or no longer candidates.

    The utility of a row is its priority in ``whole``, the selection of all candidates. If these do not descend, or the
    order of the picks depends on the budget, it is the number of rows that come after it.
    """
    order = np.concatenate([picks, whole.indices[~np.isin(whole.indices, picks)]])
    utilities = whole.priorities
    if not (np.array_equal(order, whole.indices) and (utilities[1:] <= utilities[:-1]).all()):
        utilities = np.arange(len(order), dtype=np.float64)[::-1]
    table = np.full((len(picks), n_rows), np.nan)
    for rank in range(len(picks)):
        table[rank, order[rank:]] = utilities[rank:]
    return table
