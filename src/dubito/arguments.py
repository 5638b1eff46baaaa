"""The intake: what `dubito.select` and `Pool.select` are called with, checked, becomes a `Request`."""

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
from dubito.errors import InvalidArgument, keyword
from dubito.matrix import AnyArray, Matrix, len_of
from dubito.request.arrays import (
    check_budget,
    check_choice,
    check_integer,
    check_memory_limit,
    check_real,
    refuse_zero_rows,
)
from dubito.request.ids import NO_NAMES, NamedRows, RowNames, check_pool, columns_of
from dubito.request.rows import Labeled, check_candidates, check_labeled, describe_order
from dubito.request.scaling import check_standardize, standardize_points, warn_of_scales
from dubito.strategies.base import Strategy, uses_doubt


class Points(NamedTuple):
    """The pool and the labeled points, checked: the part of a request that a `Pool` keeps between rounds."""

    pool: Matrix
    labeled: Labeled
    metric: Metric
    largest: float
    names: RowNames = NO_NAMES
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

    Must be called directly by the public function, since the stack level of warnings counts on it.
    """
    known_metric: Metric = check_choice("metric", metric, get_args(Metric))
    is_standardized = check_standardize(standardize)
    (matrix, largest), names = check_pool(pool, ids)
    seen = check_labeled(labeled, matrix, names)
    if is_standardized:
        matrix, seen, largest, _ = standardize_points(matrix, seen)
    elif is_standardized is None and columns_of(pool):
        warn_of_scales(pool, matrix, stacklevel=4)  # One more for `american_keywords`.
    if known_metric == "cosine":
        refuse_zero_rows("pool", matrix)
        refuse_zero_rows("labeled", seen.references)
    top = 1.0 if known_metric == "cosine" else max(largest, seen.largest)
    notes = describe_order(names, len_of(matrix), labeled=labeled, groups=groups)
    together = None if groups is None else check_groups(groups, len_of(matrix), names)
    return Points(matrix, seen, known_metric, top, names, bool(is_standardized), notes, together)


def check_settings(given: Mapping[str, object]) -> dict[str, Any]:
    """Check the arguments of `dubito.select` that need no data, so that errors in them come before files are read."""
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

    ``labeled`` is what was passed for `Points.labeled`: it gives the order of ``labels``.
    """
    if progress is not None and not callable(progress):
        raise InvalidArgument(
            "cannot be called",
            argument="progress",
            value=progress,
            hint="pass a function of (done, total, radius, seconds).",
        )
    limit, start = check_memory_limit(memory_limit), check_integer("seed", seed, least=0)
    if not (isinstance(model, str) and model == "linear"):
        _check_model(model, labels)
    n_pool, names, seen, notes = len_of(points.pool), points.names, points.labeled, points.notes
    given_classes, own_probabilities = classes, None  # Those of a model fitted here.
    if labels is not None and temperature is None:
        has_predictions = not (probabilities is None and logits is None and doubt is None)
        needs_classes = quotas is not None and classes is None
        is_needed = not has_predictions and (uses_doubt(strategy) or needs_classes)
        fitted = _learn(points, labels, labeled, no_label, model, is_needed, start)
        seen, notes = fitted.labeled, notes + fitted.notes
        own_probabilities = fitted.probabilities
        classes = fitted.predicted if needs_classes else classes
    allowed, groups = check_candidates(candidates, n_pool, seen.rows, names), points.groups
    if groups is None:
        n_picks = check_budget(budget, len(allowed), n_pool)
    else:
        n_picks = check_budget(budget, len(first_rows(groups, allowed)), len(groups.names), unit="group")
    divisor, remark = 1.0, None
    if temperature is not None:
        divisor, remark = find_temperature(temperature, logits, labels, labeled, seen, n_pool, names)
    given = probabilities if own_probabilities is None else own_probabilities
    distributions, doubts = read_doubt(n_pool, given, logits, doubt, names=names, temperature=divisor)
    prices = None
    if costs is not None:
        prices = check_costs(costs, n_pool, names) if groups is None else group_costs(costs, groups, allowed, names)
    most = None
    if spend is not None:
        if prices is None:
            problem, hint = "means nothing without costs", f"pass {keyword('costs')}, too."
            raise InvalidArgument(problem, argument="spend", value=spend, hint=hint)
        most = check_spend(spend, prices[allowed])
        allowed = allowed[prices[allowed] <= most]
        n_picks = min(n_picks, n_affordable(prices[first_rows(groups, allowed)], most))
    by_class = None
    if quotas is not None:
        table = probabilities if logits is None else logits
        columns = table if isinstance(table, NamedRows) else None
        by_class = check_quotas(quotas, classes, distributions, n_pool, names, columns)
        if groups is not None:
            by_class = group_classes(by_class, groups, allowed)
        refuse_small_quotas(by_class, first_rows(groups, allowed), n_picks)
    elif classes is not None:
        hint = f"pass {keyword('quotas')}, too."
        raise InvalidArgument("means nothing without quotas", argument="classes", hint=hint)
    matched = {"candidates": candidates, "probabilities": probabilities, "logits": logits, "doubt": doubt}
    by_row = None if isinstance(costs, Mapping) else costs  # Prices are joined by the names of groups.
    notes += describe_order(names, n_pool, **matched, costs=by_row, classes=given_classes)
    return Request(
        pool=points.pool,
        budget=n_picks,
        references=seen.references,
        candidates=allowed,
        probabilities=distributions,
        doubt=doubts,
        metric=points.metric,
        largest=points.largest,
        engine=engine,
        memory_limit=limit,
        seed=start,
        progress=progress,
        known=known,
        labeled=seen.rows,
        standardized=points.is_standardized,
        costs=prices,
        spend=most,
        quotas=by_class,
        groups=groups,
        temperature=None if temperature is None else divisor,
        notes=notes if remark is None else (*notes, remark),
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
        raise InvalidArgument("means nothing without labels", argument="model", value=model, hint=hint)


class Learned(NamedTuple):
    """What the labels say: which rows are labeled, and the predictions of a model fitted on them, if one was."""

    labeled: Labeled
    probabilities: AnyArray | None = None
    """(n, c) in the order in which the classes first appear, so that ties do not depend on their names."""
    predicted: AnyArray | None = None
    """(n,) the most probable class of each row."""
    notes: tuple[str, ...] = ()


def _learn(
    points: Points, labels: object, labeled: object, no_label: object, model: object, is_needed: bool, seed: int
) -> Learned:
    """Read the labels, and fit the model on them if it is needed and not ``"none"``."""
    from dubito.models.fit import first_occurrence, fit_known, is_disabled
    from dubito.models.labels import parse_labels

    known = parse_labels(labels, labeled, points.labeled, points.pool, points.names, no_label)
    if is_disabled(model) or not is_needed:
        return Learned(known.labeled)
    fitted = fit_known(points.pool, known, model, seed)
    if fitted.probabilities is None:
        return Learned(known.labeled, notes=fitted.notes)
    order = first_occurrence(known.values)
    probabilities = fitted.probabilities[:, order]
    predicted = np.asarray(fitted.classes[order][probabilities.argmax(axis=1)])
    return Learned(known.labeled, probabilities, predicted, (f"fitted: {fitted.described()}.", *fitted.notes))
