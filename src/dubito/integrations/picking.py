"""Shared by the integrations: calls of `dubito.select` with suitable hints, and predictions of committees."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dubito.api import select
from dubito.core.problem import Selection
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import FloatArray, IntArray
from dubito.strategies import Strategy

MOST = 2**28
"""Maximum size of a sparse matrix that is made dense: a gigabyte in float32."""


def plain(rows: Any, argument: str) -> Any:
    """Features as a dense array; the index of a data frame is dropped, since it could be mistaken for ids."""
    if hasattr(rows, "to_numpy"):
        return rows.to_numpy()
    if not hasattr(rows, "toarray"):
        return rows
    if rows.shape[0] * rows.shape[1] > MOST:
        problem = f"is sparse, and its {rows.shape[0]:,} x {rows.shape[1]:,} numbers are too many to be written out"
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
        # The strategy was checked when it was built: only a model can be missing.
        if error.argument != "strategy":
            raise
        raise InvalidArgument.from_record({**error.as_record(), "hint": hint}) from error


def seed_of(given: object, state: np.random.RandomState) -> int:
    """The seed if it is an integer, else one drawn from the random state that scikit-learn made of it."""
    return int(given) if isinstance(given, int | np.integer) else int(state.randint(2**31))


def votes(members: Sequence[Any], points: object) -> FloatArray:
    """(n, k, c) probabilities of k classifiers, or of the members of a single one that has ``estimators_``."""
    if len(members) == 1 and hasattr(members[0], "estimators_"):
        return _inner_votes(members[0], points)
    predictions = [np.asarray(member.predict_proba(points), dtype=np.float64) for member in members]
    if len({vote.shape for vote in predictions}) > 1:
        described = " and ".join(sorted({str(vote.shape[1]) for vote in predictions}))
        problem = f"has members that know {described} classes"
        raise InvalidData(problem, argument="ensemble", hint="tell each member all classes.")
    # Without labels an ensemble has no members yet; all of them would predict the same.
    is_waiting = len(predictions) == 1 and (hasattr(members[0], "n_estimators") or hasattr(members[0], "estimators"))
    return np.stack(predictions * 2 if is_waiting else predictions, axis=1)


def _inner_votes(ensemble: Any, points: object) -> FloatArray:
    """(n, k, c) probabilities of the members of an ensemble of scikit-learn, which number the classes from 0."""
    codes = np.array([list(ensemble.classes_).index(each) for each in ensemble.estimator_.classes_])
    predictions = [(member.predict_proba(points), member.classes_.astype(np.int64)) for member in ensemble.estimators_]
    together = np.zeros((len(predictions[0][0]), len(predictions), len(ensemble.classes_)))
    for position, (vote, classes) in enumerate(predictions):
        together[:, position, codes[classes]] = vote
    return together


def in_turn(picks: IntArray, whole: Selection, n_rows: int) -> FloatArray:
    """(b, n) the utility of each row before each of b picks; NaN for rows that are not or no longer candidates.

    The utility of a row is its priority in ``whole``, the selection of all candidates. If a strategy has no such
    numbers, or its order depends on the budget, it is the number of rows that come after it.
    """
    order = np.concatenate([picks, whole.indices[~np.isin(whole.indices, picks)]])
    worth = whole.priorities
    if not (np.array_equal(order, whole.indices) and (worth[1:] <= worth[:-1]).all()):
        worth = np.arange(len(order), dtype=np.float64)[::-1]
    table = np.full((len(picks), n_rows), np.nan)
    for turn in range(len(picks)):
        table[turn, order[turn:]] = worth[turn:]
    return table
