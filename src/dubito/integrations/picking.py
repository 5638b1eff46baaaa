"""What the adapters share: picks by `dubito.select` with errors in the words of a tool, and what committees say."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dubito.api import select
from dubito.core.problem import Selection
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import FloatArray, IntArray
from dubito.strategies import Strategy

MOST = 2**28
"""Numbers that a sparse matrix may grow to: a gigabyte in float32."""


def plain(rows: Any, argument: str) -> Any:
    """Features as `dubito.select` takes them: no frame, whose index might be taken for ids, and nothing sparse."""
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
    """As `dubito.select`; ``hint`` says how the tool hands a model over, where the strategy misses one."""
    if budget == 0:
        raise InvalidData("there is nothing to pick: every row is labeled, or none is asked for.")
    try:
        return select(pool, budget, strategy=strategy, **given)
    except InvalidArgument as error:
        # The strategy is built already: all that can be wrong with it now is that a model is missing.
        if error.argument != "strategy":
            raise
        raise InvalidArgument.from_record({**error.as_record(), "hint": hint}) from error


def seed_of(asked: object, state: np.random.RandomState) -> int:
    """The number that was asked for, or one drawn from what scikit-learn makes of anything else."""
    return int(asked) if isinstance(asked, int | np.integer) else int(state.randint(2**31))


def votes(members: Sequence[Any], points: object) -> FloatArray:
    """(n, k, c) what each of k classifiers says, or each member of one that has ``estimators_``."""
    if len(members) == 1 and hasattr(members[0], "estimators_"):
        return _inner_votes(members[0], points)
    said = [np.asarray(member.predict_proba(points), dtype=np.float64) for member in members]
    if len({vote.shape for vote in said}) > 1:
        described = " and ".join(sorted({str(vote.shape[1]) for vote in said}))
        problem = f"has members that know {described} classes"
        raise InvalidData(problem, argument="ensemble", hint="tell each member all classes.")
    # Before anything is labeled an ensemble has no members yet, and they would all say the same.
    is_waiting = len(said) == 1 and (hasattr(members[0], "n_estimators") or hasattr(members[0], "estimators"))
    return np.stack(said * 2 if is_waiting else said, axis=1)


def _inner_votes(ensemble: Any, points: object) -> FloatArray:
    """The same of an ensemble of scikit-learn's, whose members number the classes that it has met from 0."""
    met = np.array([list(ensemble.classes_).index(each) for each in ensemble.estimator_.classes_])
    said = [(member.predict_proba(points), member.classes_.astype(np.int64)) for member in ensemble.estimators_]
    together = np.zeros((len(said[0][0]), len(said), len(ensemble.classes_)))
    for place, (vote, classes) in enumerate(said):
        together[:, place, met[classes]] = vote
    return together


def in_turn(picks: IntArray, whole: Selection, n_rows: int) -> FloatArray:
    """(b, n) what each row was worth before each of b picks; nan for rows that could not be taken, or not any more.

    A row's worth is its priority at its turn in ``whole``, the order in which all candidates would be taken: for a
    ranking its score. Where a strategy has no such numbers, or its order depends on how many are asked for, it is how
    many rows come after it.
    """
    order = np.concatenate([picks, whole.indices[~np.isin(whole.indices, picks)]])
    worth = whole.priorities
    if not (np.array_equal(order, whole.indices) and (worth[1:] <= worth[:-1]).all()):
        worth = np.arange(len(order), dtype=np.float64)[::-1]
    table = np.full((len(picks), n_rows), np.nan)
    for turn in range(len(picks)):
        table[turn, order[turn:]] = worth[turn:]
    return table
