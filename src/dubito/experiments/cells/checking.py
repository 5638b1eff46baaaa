"""Rounds out of a journal, checked as data from outside: a line may be JSON, and yet nothing that a run could write."""

import math
from collections.abc import Iterable, Mapping

from dubito.experiments.plans.experiment import Experiment
from dubito.experiments.records import Round

MOST_ROWS = 2**62
"""Beyond any pool; a number that large is damage."""
COUNTS = "seed", "turn", "labels"
SHARES = "test_accuracy", "train_accuracy"
AMOUNTS = "core_set_loss", "train_seconds", "select_seconds"
PERHAPS = "radius", "scaled_radius", "uncertainty"
"""Amounts that may be missing."""


class ImpossibleRound(Exception):
    """What is wrong with a line; whoever reads the journal says with which."""


def round_of(record: Mapping[str, object]) -> Round:
    """A round, every value of its type and within its range; an error says which is not.

    Examples
    --------
    >>> round_of({"strategy": "random", "seed": True})
    Traceback (most recent call last):
    dubito.experiments.cells.checking.ImpossibleRound: its 'seed' is no number of things
    """
    if not isinstance(record.get("strategy"), str):
        raise ImpossibleRound("its 'strategy' is no name")
    for name in COUNTS:
        if not _is_count(record.get(name)):
            raise ImpossibleRound(f"its {name!r} is no number of things")
    for name in (*SHARES, *AMOUNTS, *PERHAPS):
        value = record.get(name)
        if not _is_amount(value, 1.0 if name in SHARES else math.inf) and not (
            value is None and name in PERHAPS and name in record
        ):
            raise ImpossibleRound(f"its {name!r} is out of range")
    recall, picked = record.get("recall"), record.get("picked")
    if not isinstance(recall, list) or not all(each is None or _is_amount(each, 1.0) for each in recall):
        raise ImpossibleRound("its 'recall' holds what is no share")
    if not isinstance(picked, list) or not all(map(_is_count, picked)) or len(set(picked)) < len(picked):
        raise ImpossibleRound("its 'picked' are no rows, or not each once")
    return Round.from_dict(dict(record))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and type(value) is not bool and 0 <= value < MOST_ROWS


def _is_amount(value: object, most: float) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and 0.0 <= value <= most and value < math.inf


def check_planned(found: Round, experiment: Experiment) -> None:
    """Refuse a round that the experiment does not have."""
    schedule, names = experiment.schedule, [arm.name for arm in experiment.strategies]
    if found.strategy not in names or found.seed not in experiment.seeds or found.turn > schedule.rounds:
        raise ImpossibleRound("it is no round of this experiment")
    if found.labels != schedule.initial + schedule.budget * found.turn:
        raise ImpossibleRound("its 'labels' are not those of its turn")
    if len(found.picked) != (schedule.budget if found.turn < schedule.rounds else 0):
        raise ImpossibleRound("its 'picked' are not as many as its turn asks for")


def check_unasked(found: Round, others: Iterable[Round]) -> None:
    """Refuse a round that asks for rows which other turns of its cell asked for."""
    asked = {row for each in others for row in each.picked}
    if not asked.isdisjoint(found.picked):
        raise ImpossibleRound(f"it asks for row {min(asked.intersection(found.picked))} again")
