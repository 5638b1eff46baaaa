"""Validation of the arguments ``costs``, ``spend``, ``quotas``, ``classes`` and ``groups``."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np

from dubito.core.problem import Groups, Quotas
from dubito.doubt import predicted_classes
from dubito.errors import PASS, InvalidArgument, InvalidData, at_row, by_interface, keyword, named, shorten
from dubito.matrix import AnyArray, FloatArray, IntArray, Matrix
from dubito.request.arrays import as_array, as_names, check_finite, check_integer, check_real
from dubito.request.ids import (
    NO_IDS,
    ArrayWithIds,
    RowIds,
    in_pool_order,
    matching_ids,
    order_of,
    split_ids,
    text_key,
)
from dubito.request.labels import label_keys

MIN_COST, MAX_COST = 1e-9, 1e9
"""Allowed range of a cost: outside it, squared distances divided by squared costs could overflow float64."""
MOST_NAMED = 8
ROUNDING = 1.0 + 1e-9
"""Tolerance for sums of costs: in floating point, three times 0.1 exceeds 0.3."""


def check_costs(costs: object, n_pool: int, pool_ids: RowIds = NO_IDS) -> FloatArray:
    """(n,) finite numbers above 0, as float64; rows of a frame are matched by id.

    Examples
    --------
    >>> check_costs([1, 2.5], 2).tolist()
    [1.0, 2.5]
    """
    if isinstance(costs, Mapping):
        hint = f"pass {keyword('groups')}, too, or one cost per row."
        raise InvalidArgument("is a mapping, as for groups", argument="costs", hint=hint)
    array = as_array("costs", in_pool_order("costs", costs, pool_ids, n_pool))
    if array.shape == (n_pool, 1):
        array = array[:, 0]  # A frame of one column.
    if array.shape != (n_pool,):
        hint = f"pass one number per pool row, shape ({n_pool},)."
        raise InvalidArgument(f"has shape {array.shape}", argument="costs", hint=hint)
    check_finite("costs", array)
    numbers = array.astype(np.float64)
    wrong = (numbers < MIN_COST) | (numbers > MAX_COST)
    if wrong.any():
        row = int(np.argmax(wrong))
        hint = "pass what a label costs, above 0." if numbers[row] <= 0 else "pass costs in another unit."
        raise InvalidData(f"holds {numbers[row]:g} at {at_row(row)}", argument="costs", hint=hint)
    return numbers


def check_spend(spend: object, costs: FloatArray) -> float:
    """A number that is at least the cost of the cheapest candidate; ``costs`` are those of the candidates."""
    limit = check_real("spend", spend, least=0.0)
    if limit < costs.min():
        hint = f"{PASS} {named('spend')} >= {costs.min():g}."
        raise InvalidArgument("is less than the cheapest candidate costs", argument="spend", value=limit, hint=hint)
    return limit


def n_affordable(costs: FloatArray, spend: float) -> int:
    """The largest number of rows that ``spend`` can pay for.

    Examples
    --------
    >>> n_affordable(np.array([3.0, 1.0, 2.0]), 3.5)
    2
    """
    return int(np.searchsorted(np.cumsum(np.sort(costs)), spend * ROUNDING, side="right"))


def check_quotas(
    quotas: object,
    classes: object,
    probabilities: Matrix | None,
    n_pool: int,
    pool_ids: RowIds = NO_IDS,
    columns: ArrayWithIds | None = None,
) -> Quotas:
    """Quotas with the class of each row, given or predicted, and the limit of each class.

    ``columns`` are the probabilities or logits of a table, whose columns are names of the predicted classes.
    """
    default, by_class = _read_quotas(quotas)
    if classes is not None:
        class_names, _, numbers = _read_keys("classes", classes, n_pool, pool_ids)
        shown = class_names.tolist()
        known = {name: number for number, name in enumerate(shown)}
    elif probabilities is not None:
        numbers = predicted_classes(probabilities)
        shown, known = _predicted_names(probabilities.shape[-1], columns)
    else:
        hint = (
            f"pass {keyword('probabilities')}, {keyword('logits')}, or the classes themselves as {keyword('classes')}."
        )
        raise InvalidArgument(
            f"{by_interface('need', command='needs')} the class of each row", argument="quotas", hint=hint
        )
    limits = np.full(len(shown), n_pool if default is None else default, dtype=np.int64)
    for name, limit in by_class.items():
        if name not in known:
            more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
            hint = f"classes are {', '.join(shown[:MOST_NAMED])}{more}."
            raise InvalidArgument("is not a class of any row", argument="quotas", value=name, hint=hint)
        limits[known[name]] = limit
    if len({known[name] for name in by_class}) < len(by_class):
        raise InvalidArgument(
            "names a class twice", argument="quotas", value=", ".join(by_class), hint="leave one out."
        )
    return Quotas(numbers, limits)


def _predicted_names(n_classes: int, columns: ArrayWithIds | None) -> tuple[list[str], dict[str, int]]:
    """The names of predicted classes for a message, and their numbers by name.

    A class of a table has the name of its column. Its number is a name, too, unless a column has a number as its name.
    """
    shown = [str(number) for number in range(n_classes)]
    if columns is None or len(columns.columns) != n_classes:
        return shown, {name: number for number, name in enumerate(shown)}
    known: dict[str, int] = {}
    for names in (columns.columns, columns.short_names):
        known |= {text_key(name): number for number, name in enumerate(names)}
    numbers = {} if any(name.isdecimal() for name in known) else {name: number for number, name in enumerate(shown)}
    return list(columns.columns), known | numbers


def _read_quotas(quotas: object) -> tuple[int | None, dict[str, int]]:
    """The limit of every class that is not named (None for no limit), and the limits of the named classes."""
    if isinstance(quotas, Sized) and not isinstance(quotas, Mapping | str):
        hint = "pass one for all classes, such as 20, or a mapping {class: limit}."
        raise InvalidArgument("is neither a whole number nor a mapping", argument="quotas", value=quotas, hint=hint)
    if not isinstance(quotas, Mapping):
        return check_integer("quotas", quotas, least=1), {}
    default = quotas.get(None)
    classes = [name for name in quotas if name is not None]
    keys = label_keys(np.array(classes, dtype=object))
    if len(set(keys)) < len(keys):
        raise InvalidArgument("names a class twice", argument="quotas", value=quotas, hint="leave one out.")
    limits = {key: check_integer("quotas", quotas[name], least=0) for key, name in zip(keys, classes, strict=True)}
    return None if default is None else check_integer("quotas", default, least=0), limits


def _read_keys(argument: str, given: Any, n_pool: int, pool_ids: RowIds) -> tuple[AnyArray, IntArray, IntArray]:
    """The sorted names of classes or groups as text, the first row of each, and (n,) the number of each row's name."""
    value, own = split_ids(argument, given)
    value = value.to_pylist() if hasattr(value, "to_pylist") else value
    array = as_names(argument, value)
    if isinstance(value, list | tuple) and array.ndim == 1:
        array = np.array(value, dtype=object)  # As text, None would become "None".
    array = array[:, 0] if array.shape == (n_pool, 1) else array
    noun = "class" if argument == "classes" else "group"
    if array.shape != (n_pool,):
        hint = f"pass the {noun} of each pool row, shape ({n_pool},)."
        raise InvalidArgument(f"has shape {array.shape}", argument=argument, hint=hint)
    pair = None if own is pool_ids else matching_ids(own, pool_ids)
    array = array if pair is None else array[order_of(*pair)]
    own_rows = np.arange(n_pool)
    values, first_rows, numbers = array, own_rows, own_rows
    if array.dtype.kind in "iu":  # Sorting numbers is much faster than sorting text.
        values, first_rows, numbers = np.unique(array, return_index=True, return_inverse=True)
    keys = np.array(label_keys(values), dtype=np.str_)
    if (keys == "").any():
        problem = f"has no value at {at_row(int(np.argmax(keys == '')))}"
        raise InvalidData(problem, argument=argument, hint=f"pass a {noun} for each row, such as 'other'.")
    known, first, of_value = np.unique(keys, return_index=True, return_inverse=True)
    return known, first_rows[first].astype(np.int64), of_value[numbers].astype(np.int64)


def check_groups(groups: object, n_pool: int, pool_ids: RowIds = NO_IDS) -> Groups:
    """The group of each row, given as numbers or text; numbers are compared as text.

    Examples
    --------
    >>> check_groups(["b", "a", "b"], 3)
    Groups(numbers=array([0, 1, 0]), names=array(['b', 'a'], dtype='<U1'))
    """
    known, first, numbers = _read_keys("groups", groups, n_pool, pool_ids)
    order = np.argsort(first)
    ranks = np.empty(len(known), dtype=np.int64)
    ranks[order] = np.arange(len(known))
    return Groups(ranks[numbers], known[order])


def rows_of_groups(given: object, groups: Groups | None) -> IntArray:
    """The rows of the group of this name, or of the groups of these names."""
    if groups is None:
        hint = f"create the pool with {keyword('groups')}, or pass {keyword('rows')} or {keyword('ids')}."
        raise InvalidArgument("cannot be used with a pool without groups", argument="groups", hint=hint)
    keys = label_keys(np.array(given, dtype=object).ravel())
    return np.flatnonzero(np.isin(groups.numbers, _numbers_of("groups", keys, groups)))


def _numbers_of(argument: str, keys: Sequence[str], groups: Groups) -> IntArray:
    known = {name: number for number, name in enumerate(groups.names.tolist())}
    absent = next((key for key in keys if key not in known), None)
    if absent is not None:
        hint = f"groups are {', '.join(groups.names[:MOST_NAMED].tolist())}{', ...' * (len(known) > MOST_NAMED)}."
        raise InvalidArgument("names no group of the pool", argument=argument, value=absent, hint=hint)
    return np.array([known[key] for key in keys], dtype=np.int64)


def group_costs(costs: object, groups: Groups, candidates: IntArray, pool_ids: RowIds = NO_IDS) -> FloatArray:
    """(n,) the cost of each row's group: a price from a mapping, or the sum of the costs of its candidates.

    Groups without candidates have the cost 1, which is never used.
    """
    n_pool, totals = len(groups.numbers), np.ones(len(groups.names))
    if isinstance(costs, Mapping):
        names_of_groups = label_keys(np.array(list(costs), dtype=object))
        numbers = _numbers_of("costs", names_of_groups, groups)
        if repeated := [key for key, count in Counter(names_of_groups).items() if count > 1]:
            problem = f"holds two prices of the group {repeated[0]!r}"
            raise InvalidArgument(problem, argument="costs", hint="leave one out.")
        unpriced = np.setdiff1d(groups.numbers[candidates], numbers)
        if len(unpriced):
            problem = f"holds no price of the group {str(groups.names[unpriced[0]])!r}"
            raise InvalidArgument(problem, argument="costs", hint="pass a price for each group, or one cost per row.")
        for number, price in zip(numbers.tolist(), costs.values(), strict=True):
            totals[number] = _check_price(price, str(groups.names[number]))
        return totals[groups.numbers]
    rows = check_costs(costs, n_pool, pool_ids)
    sums = np.bincount(groups.numbers[candidates], weights=rows[candidates], minlength=len(totals))
    return np.where(sums > 0.0, sums, totals)[groups.numbers]


def _check_price(price: object, group: str) -> float:
    """A finite number above 0."""
    try:
        number = float(price)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if MIN_COST <= number <= MAX_COST:
        return number
    hint = f"pass what it costs to label it, from {MIN_COST:g} to {MAX_COST:g}."
    raise InvalidData(f"holds the price {shorten(price)} of the group {group!r}", argument="costs", hint=hint)


def group_classes(quotas: Quotas, groups: Groups, candidates: IntArray) -> Quotas:
    """The quotas with the class of each row's group: the class of most of its candidates, ties to the lowest."""
    n_classes, n_groups = len(quotas.limits), len(groups.names)
    pairs, counts = np.unique(groups.numbers[candidates] * n_classes + quotas.classes[candidates], return_counts=True)
    order = np.lexsort((-pairs, counts))  # The last class written wins: the most frequent one, ties to the lowest.
    classes = np.zeros(n_groups, dtype=np.int64)
    classes[pairs[order] // n_classes] = pairs[order] % n_classes
    return Quotas(classes[groups.numbers], quotas.limits)


def first_rows(groups: Groups | None, candidates: IntArray) -> IntArray:
    """The first candidate of each group that has any, ascending; all candidates without groups."""
    if groups is None:
        return candidates
    return np.sort(candidates[np.unique(groups.numbers[candidates], return_index=True)[1]])


def refuse_small_quotas(quotas: Quotas, candidates: IntArray, budget: int) -> None:
    """Raise if the quotas leave fewer candidates than the budget."""
    counts = np.bincount(quotas.classes[candidates], minlength=len(quotas.limits))
    n_allowed = int(np.minimum(counts, quotas.limits).sum())
    if n_allowed < budget:
        leave = by_interface("leave", command="leaves")
        problem = f"exceeds the {n_allowed} of {len(candidates)} candidates that {named('quotas')} {leave}"
        hint = f"{PASS} {named('budget')} <= {n_allowed}, or larger quotas." if n_allowed else "pass larger quotas."
        raise InvalidArgument(problem, argument="budget", value=budget, hint=hint)
