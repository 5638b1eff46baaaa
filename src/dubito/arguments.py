"""Check the arguments of `select` and `Pool.select`, and build the `Request` for the strategy."""

from typing import NamedTuple, get_args

from dubito.core.constraints import NO_LIMITS, LimitContext, Limits, check_limits
from dubito.core.problem import Known, Metric, Progress, Request
from dubito.doubt.reading import Sources, find_temperature, read_doubt
from dubito.errors import InvalidArgument
from dubito.matrix import AnyArray, Matrix, len_of
from dubito.request.arrays import check_budget, check_choice, check_integer, check_memory_limit, refuse_zero_rows
from dubito.request.ids import NO_NAMES, RowNames, check_pool
from dubito.request.rows import Labeled, check_candidates, check_labeled, describe_order
from dubito.request.scaling import check_standardize, standardize_points, warn_of_scales
from dubito.strategies import Strategy
from dubito.strategies.base import uses_doubt


class Terms(NamedTuple):
    """Checked run options."""

    engine: str
    memory_limit: int | None
    seed: int
    progress: Progress | None


class CheckedPoints(NamedTuple):
    """The pool and the labeled points, checked."""

    pool: Matrix
    labeled: Labeled
    metric: Metric
    largest: float
    names: RowNames = NO_NAMES
    is_standardized: bool = False
    notes: tuple[str, ...] = ()

    @property
    def ids(self) -> AnyArray | None:
        """(n,) the ids of the pool, or None."""
        return None if self.names.ids is None else self.names.ids.values


def check_terms(engine: str, memory_limit: object, seed: object, progress: Progress | None) -> Terms:
    if progress is not None and not callable(progress):
        raise InvalidArgument(
            "cannot be called",
            argument="progress",
            value=progress,
            hint="pass a function of (done, total, radius, seconds).",
        )
    return Terms(engine, check_memory_limit(memory_limit), check_integer("seed", seed, least=0), progress)


def check_points(
    pool: object, labeled: object, metric: object, ids: object = None, standardize: object = None
) -> CheckedPoints:
    """Check the pool, the labeled points and the metric.

    Must be called directly by the public function, since the stack level of warnings counts on it.
    """
    known_metric: Metric = check_choice("metric", metric, get_args(Metric))
    is_standardized = check_standardize(standardize)
    (matrix, largest), names = check_pool(pool, ids)
    seen = check_labeled(labeled, matrix, names)
    if is_standardized:
        matrix, seen, largest, _ = standardize_points(matrix, seen)
    elif is_standardized is None:
        warn_of_scales(pool, matrix, stacklevel=4)  # Through american_keywords.
    if known_metric == "cosine":
        refuse_zero_rows("pool", matrix)
        refuse_zero_rows("labeled", seen.references)
    top = 1.0 if known_metric == "cosine" else max(largest, seen.largest)
    notes = describe_order(names, len_of(matrix), labeled=labeled)
    return CheckedPoints(matrix, seen, known_metric, top, names, bool(is_standardized), notes)


def build_request(
    points: CheckedPoints,
    terms: Terms,
    budget: object,
    candidates: object,
    sources: Sources,
    known: Known | None = None,
    limits: Limits = NO_LIMITS,
) -> Request:
    n_pool = len_of(points.pool)
    allowed = check_candidates(candidates, n_pool, points.labeled.rows, points.names)
    n_picks = check_budget(budget, len(allowed), n_pool)
    temperature = find_temperature(sources, points.labeled, n_pool, points.names)
    probabilities, doubt = read_doubt(n_pool, *sources[:3], names=points.names, temperature=temperature.value)
    checked = check_limits(limits, LimitContext(n_pool, allowed, n_picks, probabilities, points.names))
    given = (candidates, *sources[:3], limits.costs)
    row_arguments = dict(zip(("candidates", "probabilities", "logits", "doubt", "costs"), given, strict=True))
    return Request(
        pool=points.pool,
        budget=checked.budget,
        references=points.labeled.references,
        candidates=checked.candidates,
        probabilities=probabilities,
        doubt=doubt,
        metric=points.metric,
        largest=points.largest,
        engine=terms.engine,
        memory_limit=terms.memory_limit,
        seed=terms.seed,
        progress=terms.progress,
        known=known,
        labeled=points.labeled.rows,
        standardized=points.is_standardized,
        costs=checked.costs,
        spend=checked.spend,
        quotas=checked.quotas,
        temperature=None if sources.temperature is None else temperature.value,
        notes=points.notes
        + describe_order(points.names, n_pool, **row_arguments)
        + (() if temperature.note is None else (temperature.note,)),
    )


class ModelChoice(NamedTuple):
    """The model to fit on the labels if no predictions were given."""

    model: object = "linear"
    no_label: object = None


def with_model(
    points: CheckedPoints, sources: Sources, limits: Limits, strategy: Strategy, choice: ModelChoice, seed: int
) -> tuple[CheckedPoints, Sources, Limits]:
    """Add the rows with labels to the labeled rows, and the probabilities of a model fitted on those labels.

    No model is fitted if predictions were given, or if neither the strategy nor the quotas need any.
    """
    if sources.labels is None or sources.temperature is not None:
        return points, sources, limits
    from dubito.models.fit import first_met, fit_given, is_off
    from dubito.models.given_labels import read_given

    given = read_given(sources.labels, sources.labeled, points.labeled, points.pool, points.names, choice.no_label)
    points, sources = points._replace(labeled=given.labeled), sources._replace(labels=None)
    needs_classes = limits.quotas is not None and limits.classes is None
    has_predictions = any(source is not None for source in sources[:3])
    if is_off(choice.model) or has_predictions or not (uses_doubt(strategy) or needs_classes):
        return points, sources, limits
    fitted = fit_given(points.pool, given, choice.model, seed)
    notes = fitted.notes if fitted.probabilities is None else (f"fitted: {fitted.described()}.", *fitted.notes)
    points = points._replace(notes=points.notes + notes)
    if fitted.probabilities is None:
        return points, sources, limits
    # Columns in order of first appearance, so that ties and rounding do not depend on the names of the classes.
    order = first_met(given.values)
    probabilities = fitted.probabilities[:, order]
    if needs_classes:
        limits = limits._replace(classes=fitted.classes[order][probabilities.argmax(axis=1)])
    return points, sources._replace(probabilities=probabilities), limits
