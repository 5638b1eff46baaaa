"""What picks may cost, and how many of a class they may be: checked, with the argument's name."""

from collections.abc import Mapping, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np

from dubito.core.problem import Quotas
from dubito.doubt import predicted_classes
from dubito.errors import PASS, InvalidArgument, InvalidData, at_row, keyword, named
from dubito.matrix import FloatArray, IntArray, Matrix
from dubito.request.arrays import as_array, as_names, check_finite, check_integer, check_real
from dubito.request.ids import NO_NAMES, RowNames, in_pool_order, matching_ids, order_of, take_names
from dubito.request.labels import label_keys

CHEAPEST, DEAREST = 1e-9, 1e9
"""What a row may cost: beyond, squared distances over squared costs could leave the numbers of float64."""
MOST_NAMED = 8
ROUNDING = 1.0 + 1e-9
"""Sums of costs may pass what may be spent by so much: three times 0.1 is more than 0.3 to a computer."""


class Limits(NamedTuple):
    """What was said of costs and classes, as it was handed in."""

    costs: object = None
    spend: object = None
    quotas: object = None
    classes: object = None


class CheckedLimits(NamedTuple):
    """The same, checked, and who may be picked within it."""

    candidates: IntArray
    budget: int
    costs: FloatArray | None = None
    spend: float | None = None
    quotas: Quotas | None = None


class Asked(NamedTuple):
    """Of what limits are checked."""

    n_pool: int
    candidates: IntArray
    budget: int
    probabilities: Matrix | None = None
    names: RowNames = NO_NAMES


NO_LIMITS = Limits()


def check_limits(given: Limits, asked: Asked) -> CheckedLimits:
    """Costs, what may be spent and quotas; rows that cost more than may be spent are no candidates."""
    candidates, budget = asked.candidates, asked.budget
    costs = None if given.costs is None else check_costs(given.costs, asked.n_pool, asked.names)
    spend = None
    if given.spend is not None:
        if costs is None:
            problem = "means nothing without costs"
            raise InvalidArgument(problem, argument="spend", value=given.spend, hint=f"pass {keyword('costs')}, too.")
        spend = check_spend(given.spend, costs[candidates])
        candidates = candidates[costs[candidates] <= spend]
        budget = min(budget, n_affordable(costs[candidates], spend))
    quotas = None
    if given.quotas is not None:
        quotas = check_quotas(given.quotas, given.classes, asked)
        _refuse_too_few(quotas, candidates, budget)
    elif given.classes is not None:
        raise InvalidArgument(
            "means nothing without quotas", argument="classes", hint=f"pass {keyword('quotas')}, too."
        )
    return CheckedLimits(candidates, budget, costs, spend, quotas)


def check_costs(costs: object, n_pool: int, names: RowNames = NO_NAMES) -> FloatArray:
    """(n,) finite numbers above 0, as float64; rows of a frame go by their ids.

    Examples
    --------
    >>> check_costs([1, 2.5], 2).tolist()
    [1.0, 2.5]
    """
    array = as_array("costs", in_pool_order("costs", costs, names, n_pool))
    if array.shape == (n_pool, 1):
        array = array[:, 0]  # A frame of one column.
    if array.shape != (n_pool,):
        hint = f"pass one number a pool row, shape ({n_pool},)."
        raise InvalidArgument(f"has shape {array.shape}", argument="costs", hint=hint)
    check_finite("costs", array)
    numbers = array.astype(np.float64)
    wrong = (numbers < CHEAPEST) | (numbers > DEAREST)
    if wrong.any():
        row = int(np.argmax(wrong))
        hint = "pass what a label costs, above 0." if numbers[row] <= 0 else "pass costs in another unit."
        raise InvalidData(f"holds {numbers[row]:g} at {at_row(row)}", argument="costs", hint=hint)
    return numbers


def check_spend(spend: object, costs: FloatArray) -> float:
    """A number that pays for one candidate at least; ``costs`` are theirs."""
    most = check_real("spend", spend, least=0.0)
    if most < costs.min():
        hint = f"{PASS} {named('spend')} >= {costs.min():g}."
        raise InvalidArgument("is less than the cheapest candidate costs", argument="spend", value=most, hint=hint)
    return most


def n_affordable(costs: FloatArray, spend: float) -> int:
    """How many of the cheapest can be paid for: no choice has more.

    Examples
    --------
    >>> n_affordable(np.array([3.0, 1.0, 2.0]), 3.5)
    2
    """
    return int(np.searchsorted(np.cumsum(np.sort(costs)), spend * ROUNDING, side="right"))


def check_quotas(quotas: object, classes: object, asked: Asked) -> Quotas:
    """The class of each row, given or predicted, and the limit of each class."""
    default, by_class = _read_quotas(quotas)
    if classes is not None:
        known, numbers = _read_classes(classes, asked.n_pool, asked.names)
    elif asked.probabilities is not None:
        numbers = predicted_classes(asked.probabilities)
        known = [str(number) for number in range(asked.probabilities.shape[-1])]
    else:
        hint = (
            f"pass {keyword('probabilities')}, {keyword('logits')}, or the classes themselves as {keyword('classes')}."
        )
        raise InvalidArgument("need the class of each row", argument="quotas", hint=hint)
    limits = np.full(len(known), asked.n_pool if default is None else default, dtype=np.int64)
    for name, limit in by_class.items():
        if name not in known:
            raise InvalidArgument(
                f"names the class {name!r}, which no row can have", argument="quotas", hint=some_classes(known)
            )
        limits[known.index(name)] = limit
    return Quotas(numbers, limits)


def some_classes(known: Sequence[str]) -> str:
    """The fix of a class that is none of these."""
    more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
    return f"classes are {', '.join(known[:MOST_NAMED])}{more}."


def _read_quotas(quotas: object) -> tuple[int | None, dict[str, int]]:
    """The limit of every class that is not named, and the limits of those that are."""
    if isinstance(quotas, Sized) and not isinstance(quotas, Mapping | str):
        hint = "pass one for all classes, such as 20, or a mapping {class: limit}."
        raise InvalidArgument("is neither a whole number nor a mapping", argument="quotas", value=quotas, hint=hint)
    if not isinstance(quotas, Mapping):
        return check_integer("quotas", quotas, least=1), {}
    default = quotas.get(None)
    named_ones = [name for name in quotas if name is not None]
    keys = label_keys(np.array(named_ones, dtype=object))
    if len(set(keys)) < len(keys):
        raise InvalidArgument("names a class twice", argument="quotas", value=quotas, hint="leave one out.")
    limits = {key: check_integer("quotas", quotas[name], least=0) for key, name in zip(keys, named_ones, strict=True)}
    return None if default is None else check_integer("quotas", default, least=0), limits


def _read_classes(classes: Any, n_pool: int, names: RowNames) -> tuple[list[str], IntArray]:
    """The names of classes, and which of them each row has; numbers and text alike."""
    value, own = take_names("classes", classes)
    array = as_names("classes", value.to_pylist() if hasattr(value, "to_pylist") else value)
    array = array[:, 0] if array.shape == (n_pool, 1) else array
    if array.shape != (n_pool,):
        hint = f"pass the class of each pool row, shape ({n_pool},)."
        raise InvalidArgument(f"has shape {array.shape}", argument="classes", hint=hint)
    pair = matching_ids(own, names)
    keys = np.array(label_keys(array if pair is None else array[order_of(*pair)]), dtype=np.str_)
    if (keys == "").any():
        problem = f"holds nothing at {at_row(int(np.argmax(keys == '')))}"
        raise InvalidData(problem, argument="classes", hint="pass a class for each row, such as 'other'.")
    known, numbers = np.unique(keys, return_inverse=True)
    return known.tolist(), numbers.astype(np.int64)


def _refuse_too_few(quotas: Quotas, candidates: IntArray, budget: int) -> None:
    counts = np.bincount(quotas.classes[candidates], minlength=len(quotas.limits))
    room = int(np.minimum(counts, quotas.limits).sum())
    if room < budget:
        problem = f"exceeds the {room} of {len(candidates)} candidates that {named('quotas')} leave"
        hint = f"{PASS} {named('budget')} <= {room}, or larger quotas." if room else "pass larger quotas."
        raise InvalidArgument(problem, argument="budget", value=budget, hint=hint)
