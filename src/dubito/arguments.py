"""Check the arguments of `dubito.select` and `Pool.select`, and build a `Request` from them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

import numpy as np

from dubito.core.constraints import (
    check_costs,
    check_groups,
    check_quotas,
    check_spend,
    first_rows,
    group_classes,
    group_costs,
    n_affordable,
    refuse_small_quotas,
)
from dubito.core.problem import Groups, Known, Metric, Progress, Request
from dubito.doubt.reading import find_temperature, read_doubt
from dubito.errors import InvalidArgument, keyword, named
from dubito.matrix import AnyArray, Matrix, len_of
from dubito.request.arrays import (
    check_bool,
    check_budget,
    check_choice,
    check_integer,
    check_memory_limit,
    check_real,
    refuse_zero_rows,
)
from dubito.request.ids import NO_IDS, ArrayWithIds, RowIds, check_pool, is_frame
from dubito.request.rows import Labeled, check_candidates, check_labeled, describe_order
from dubito.request.scaling import standardize_points, warn_of_scales
from dubito.strategies.base import Strategy, uses_doubt


class Points(NamedTuple):
    """The pool and the labeled points, checked: the part of a request that a `Pool` keeps between rounds."""

    pool: Matrix
    labeled: Labeled
    metric: Metric
    largest: float
    row_ids: RowIds = NO_IDS
    is_standardized: bool = False
    notes: tuple[str, ...] = ()
    groups: Groups | None = None


def check_points(
    pool: object,
    labeled: object,
    metric: object,
    ids: object = None,
    standardize: object = None,
    groups: object = None,
) -> Points:
    """Check the pool, the labeled points, the metric and the groups.

    The public function must call this directly: the stack level of the warning about scales depends on it.
    """
    known_metric: Metric = check_choice("metric", metric, get_args(Metric))
    is_standardized = standardize is not None and check_bool("standardize", standardize)
    (matrix, largest), row_ids = check_pool(pool, ids)
    checked_labeled = check_labeled(labeled, matrix, row_ids)
    if is_standardized:
        matrix, checked_labeled, largest, _ = standardize_points(matrix, checked_labeled)
    elif standardize is None and is_frame(pool):
        warn_of_scales(pool, matrix, stacklevel=4)  # One level is the wrapper of `american_keywords`.
    largest = max(largest, checked_labeled.largest)
    if known_metric == "cosine":
        refuse_zero_rows("pool", matrix)
        refuse_zero_rows("labeled", checked_labeled.references)
        largest = 1.0
    notes = describe_order(row_ids, len_of(matrix), labeled=labeled, groups=groups)
    checked_groups = None if groups is None else check_groups(groups, len_of(matrix), row_ids)
    return Points(matrix, checked_labeled, known_metric, largest, row_ids, is_standardized, notes, checked_groups)


def check_settings(given: Mapping[str, object]) -> dict[str, Any]:
    """Check the arguments of `dubito.select` that need no data, before any file is read."""
    from dubito.models.estimators import find_model
    from dubito.models.fit import is_disabled

    checks: dict[str, Callable[[object], object]] = {
        "budget": lambda value: check_integer("budget", value, least=1),
        "metric": lambda value: check_choice("metric", value, get_args(Metric)),
        "memory_limit": check_memory_limit,
        "seed": lambda value: check_integer("seed", value, least=0),
        "spend": lambda value: check_real("spend", value, least=0.0),
    }
    if not is_disabled(given["model"]):
        find_model(given["model"])
    return {name: checks[name](value) if name in checks else value for name, value in given.items()}


def build_request(
    points: Points,
    strategy: Strategy,
    budget: object,
    *,
    labeled: object = None,
    probabilities: object = None,
    logits: object = None,
    doubt: object = None,
    temperature: object = None,
    labels: object = None,
    model: object = "linear",
    no_label: object = None,
    candidates: object = None,
    costs: object = None,
    spend: object = None,
    quotas: object = None,
    classes: object = None,
    engine: str = "auto",
    memory_limit: object = None,
    seed: object = 0,
    progress: Progress | None = None,
    known: Known | None = None,
) -> Request:
    """Check the remaining arguments of `dubito.select`, and fit a model on the labels if the strategy needs one.

    ``labeled`` is the argument that `Points.labeled` was made from; its order is that of ``labels``.
    """
    if progress is not None and not callable(progress):
        raise InvalidArgument(
            "cannot be called",
            argument="progress",
            value=progress,
            hint="pass a function of (done, total, radius, seconds).",
        )
    memory_bytes, checked_seed = check_memory_limit(memory_limit), check_integer("seed", seed, least=0)
    if not (isinstance(model, str) and model == "linear"):
        _check_model(model, labels)
    n_pool, pool_ids, checked_labeled, notes = len_of(points.pool), points.row_ids, points.labeled, points.notes
    class_of_row, fitted_probabilities = classes, None
    if labels is not None and temperature is None:
        has_predictions = not (probabilities is None and logits is None and doubt is None)
        needs_classes = quotas is not None and classes is None
        is_needed = not has_predictions and (uses_doubt(strategy) or needs_classes)
        fitted = _fit_on_labels(points, labels, labeled, no_label, model, is_needed, checked_seed)
        checked_labeled, notes = fitted.labeled, notes + fitted.notes
        fitted_probabilities = fitted.probabilities
        class_of_row = fitted.predicted if needs_classes else classes
    allowed, groups = check_candidates(candidates, n_pool, checked_labeled.rows, pool_ids), points.groups
    if groups is None:
        n_picks = check_budget(budget, len(allowed), n_pool)
    else:
        n_picks = check_budget(budget, len(first_rows(groups, allowed)), len(groups.names), unit="group")
    divisor, note = 1.0, None
    if temperature is not None:
        divisor, note = find_temperature(temperature, logits, labels, labeled, checked_labeled, n_pool, pool_ids)
    given = probabilities if fitted_probabilities is None else fitted_probabilities
    class_probabilities, row_doubt = read_doubt(n_pool, given, logits, doubt, pool_ids=pool_ids, temperature=divisor)
    row_costs = None
    if costs is not None:
        row_costs = (
            check_costs(costs, n_pool, pool_ids) if groups is None else group_costs(costs, groups, allowed, pool_ids)
        )
    spending_limit = None
    if spend is not None:
        if row_costs is None:
            problem, hint = "requires costs", f"pass {keyword('costs')}, too."
            raise InvalidArgument(problem, argument="spend", value=spend, hint=hint)
        spending_limit = check_spend(spend, row_costs[allowed])
        allowed = allowed[row_costs[allowed] <= spending_limit]
        n_picks = min(n_picks, n_affordable(row_costs[first_rows(groups, allowed)], spending_limit))
    class_quotas = None
    if quotas is not None:
        table = probabilities if logits is None else logits
        columns = table if isinstance(table, ArrayWithIds) else None
        class_quotas = check_quotas(quotas, class_of_row, class_probabilities, n_pool, pool_ids, columns)
        if groups is not None:
            class_quotas = group_classes(class_quotas, groups, allowed)
        refuse_small_quotas(class_quotas, first_rows(groups, allowed), n_picks)
    elif classes is not None:
        hint = f"pass {keyword('quotas')}, too."
        raise InvalidArgument(f"requires {named('quotas')}", argument="classes", hint=hint)
    by_row = {"candidates": candidates, "probabilities": probabilities, "logits": logits, "doubt": doubt}
    if not isinstance(costs, Mapping):  # The keys of a mapping are names of groups.
        by_row["costs"] = costs
    notes += describe_order(pool_ids, n_pool, **by_row, classes=classes)
    if note is not None:
        notes += (note,)
    return Request(
        pool=points.pool,
        budget=n_picks,
        references=checked_labeled.references,
        candidates=allowed,
        probabilities=class_probabilities,
        doubt=row_doubt,
        metric=points.metric,
        largest=points.largest,
        engine=engine,
        memory_limit=memory_bytes,
        seed=checked_seed,
        progress=progress,
        known=known,
        labeled=checked_labeled.rows,
        standardized=points.is_standardized,
        costs=row_costs,
        spend=spending_limit,
        quotas=class_quotas,
        groups=groups,
        temperature=None if temperature is None else divisor,
        notes=notes,
    )


def _check_model(model: object, labels: object) -> None:
    """Raise if a model is unknown, or if there are no labels to fit it on."""
    from dubito.models.estimators import find_model
    from dubito.models.fit import is_disabled

    if is_disabled(model):
        return
    find_model(model)
    if labels is None:
        hint = f"pass {keyword('labels')}, too, or the predictions of a fitted model as {keyword('probabilities')}."
        raise InvalidArgument("requires labels", argument="model", value=model, hint=hint)


class FittedLabels(NamedTuple):
    """The labeled points, and the predictions of the model fitted on their labels, if one was."""

    labeled: Labeled
    probabilities: AnyArray | None = None
    """(n, c) in the order in which the classes first appear, so that ties do not depend on their names."""
    predicted: AnyArray | None = None
    """(n,) the most probable class of each row."""
    notes: tuple[str, ...] = ()


def _fit_on_labels(
    points: Points, labels: object, labeled: object, no_label: object, model: object, is_needed: bool, seed: int
) -> FittedLabels:
    """Read the labels, and fit the model on them if it is needed and not ``"none"``."""
    from dubito.models.fit import first_occurrence, fit_known, is_disabled
    from dubito.models.labels import parse_labels

    known = parse_labels(labels, labeled, points.labeled, points.pool, points.row_ids, no_label)
    if is_disabled(model) or not is_needed:
        return FittedLabels(known.labeled)
    fitted = fit_known(points.pool, known, model, seed)
    if fitted.probabilities is None:
        return FittedLabels(known.labeled, notes=fitted.notes)
    order = first_occurrence(known.values)
    probabilities = fitted.probabilities[:, order]
    predicted = np.asarray(fitted.classes[order][probabilities.argmax(axis=1)])
    return FittedLabels(known.labeled, probabilities, predicted, (f"fitted: {fitted.described()}.", *fitted.notes))
