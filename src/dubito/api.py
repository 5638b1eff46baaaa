"""The functions `select` and `estimate`."""

import sys
import time
from dataclasses import replace
from typing import Literal, NamedTuple, get_args

import numpy as np

from dubito.arguments import build_request, check_points
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import (
    Configuration,
    Interrupted,
    Metric,
    PickedGroups,
    Problem,
    Progress,
    Request,
    Scaling,
    Selection,
)
from dubito.covering_radius import CallerArrays, CoveringRadius
from dubito.engines.base import Estimate
from dubito.engines.dispatch import choose_engine, is_for
from dubito.errors import PASS, InvalidArgument, american_keywords, named
from dubito.matrix import len_of
from dubito.request.arrays import check_budget, check_choice, check_integer, check_memory_limit
from dubito.request.ids import RowIds
from dubito.strategies import Strategy, configure_strategy
from dubito.strategies.auto import LARGE, SAMPLE, Origin
from dubito.strategies.base import Delegates, Planner
from dubito.strategies.constraints import refuse_groups, refuse_limits
from dubito.strategies.coreset import check_limits
from dubito.strategies.costs import Sizes, cost_of
from dubito.strategies.uncertainty import FilterThenCover


@american_keywords
def select(
    pool: object,
    budget: int,
    *,
    labeled: object = None,
    probabilities: object = None,
    logits: object = None,
    doubt: object = None,
    temperature: float | Literal["fit"] | None = None,
    labels: object = None,
    model: object = "linear",
    no_label: object = None,
    strategy: str | Strategy = "auto",
    features: Origin | None = None,
    strength: float | None = None,
    beam_width: int | None = None,
    scaling: Scaling | None = None,
    candidates: object = None,
    costs: object = None,
    spend: float | None = None,
    quotas: object = None,
    classes: object = None,
    groups: object = None,
    ids: object = None,
    metric: Metric = "euclidean",
    standardize: bool | None = None,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Selection:
    """Choose which rows of a pool to label next.

    Parameters
    ----------
    pool : array (n, d)
        Features: a NumPy array, memory map, torch tensor, Arrow column, pandas or Polars frame. Never changed.
        float16 and float32 are kept; decisions are made in float64. The ids of a frame's rows are its column ``id`` or
        ``ids``, or a pandas index that is not just row numbers. Or what `dubito.io.read_pool` returns, or
        `dubito.Shards`, for a Ray cluster.
    budget : int
        Number of rows to pick, from 1 to the number of candidates; with ``groups``, number of groups.
    labeled : array, optional
        The labeled points: features (m, d); or rows of ``pool``, as 1-D integers, as a mask (n,) of booleans or of 0
        and 1, or as ids. These rows are never picked.
    probabilities, logits, doubt : array, optional
        At most one: class probabilities (n, c), logits (n, c), or doubt ``1 - max P`` (n,) in [0, 1]. Probabilities
        (n, k, c) are those of k posterior samples, which ``bald``, ``batchbald`` and ``doubt=learnable`` need (as in
        ``"doubt-coverage:doubt=learnable"``); other strategies use the doubt of their mean.
        Rows of a frame are joined with the pool by id if both have ids, otherwise by position; `Selection.notes` says
        so if only one side has ids.
    temperature : float or "fit", optional
        Divisor of ``logits``; values above 1 make the model less confident. ``"fit"`` fits it on the labeled rows,
        which should not be rows that the model was trained on: see `dubito.doubt.fit_temperature`.
    labels : array, mapping or frame, optional
        The known labels, as in `dubito.fit`: an array (n,) with gaps, ``{id: label}``, a frame with ids, or the labels
        of ``labeled``, which is needed only in this last form. If none of the three arguments above is given, a model
        is fitted on the labels and supplies the probabilities: `Selection.notes` gives the model and its accuracy. With
        ``temperature="fit"``: class numbers from 0, of the rows in ``labeled`` or of all pool rows, of which only the
        labeled ones are used.
    model : str or estimator
        The model to fit on ``labels``, as in `dubito.fit`; ``"none"`` fits none.
    no_label : object, optional
        Values of ``labels`` that mean "no label", such as -1, as in `dubito.fit`.
    strategy : str or Strategy
        A name, optionally followed by options (``"doubt-coreset:doubt=margin"``), or an object from
        `dubito.strategies`. ``"auto"`` uses ``doubt-coverage`` if there is doubt and ``coverage`` if not; if the
        features were trained with the labels it uses ``doubt-coreset``. `Selection.strategy` gives the choice,
        `Selection.notes` the reason.
    features : {"frozen", "trained"}, optional
        For ``auto``: whether the features were trained with the labels. By default this is inferred from the labeled
        rows.
    strength : float, optional
        For ``doubt-coreset`` (which ``auto`` uses if this or one of the next two is given): the priority is distance
        times doubt to this power. The default 1 follows the paper; 0 gives the plain core-set.
    beam_width : int, optional
        Number of configurations that the beam search of a core-set keeps, 1 by default. More than 1 needs doubt.
    scaling : {"respective", "acquired"}, optional
        For ``doubt-coreset``: whose doubt scales an update, the remaining point's (the default) or the pick's.
    candidates : array, optional
        Rows that may be picked: row numbers, a mask or ids, as in ``labeled``. Results refer to the whole pool.
    costs : array (n,), optional
        Cost of labeling each row, above 0, in any unit; priorities are divided by it. Supported, like the next three
        arguments, by ``auto``, ``coverage``, ``doubt-coverage``, ``coreset`` and ``doubt-coreset``.
    spend : float, optional
        Upper limit on the total cost of the picks; ``budget`` is then an upper limit on their number.
    quotas : int or mapping, optional
        Maximum number of picks per class: one number for all, or ``{class: limit}``, where the key None stands for all
        other classes. The class of a row is its most probable one, from 0. Labeled rows do not count.
    classes : array (n,), optional
        Classes to use for ``quotas`` instead, numbers or text.
    groups : array (n,), optional
        Group of each row, numbers or text, such as the image that a box is in: whole groups are picked, for what their
        rows add together, and `Selection.groups` reports them. Labeled rows of a group and rows that are no candidates
        take no part. A group costs the sum of its rows' ``costs``, or its price if these are a mapping
        ``{group: price}``; its class for ``quotas`` is that of most of its rows. Supported by the strategies above,
        ``margin``, ``entropy``, ``least-confidence``, ``bald`` (with the option ``per_group``) and ``random``,
        and by the engines ``cpu``, ``cuda`` and ``reference``.
    ids : sequence (n,), optional
        Unique ids of the pool's rows, if ``pool`` does not contain them. 7, 7.0 and "7" are the same id.
    metric : {"euclidean", "cosine"}
        ``cosine`` is the Euclidean distance between unit vectors (chord length).
    standardize : bool, optional
        Scale every feature to mean 0 and standard deviation 1 over the pool before distances are computed, for columns
        in different units. ``labeled`` features are scaled with the pool's statistics; constant columns become 0.
        Computed in float64 block by block, without a copy; priorities and radii are in scaled units. By default
        features are not scaled, and a `ScaleWarning` is issued if very few named columns of a frame dominate the
        distances.
    engine : str
        ``auto``, or the name of an engine, which is then used without a fallback.
    memory_limit : int or str, optional
        Bytes of memory beyond the inputs, or text such as "2GB".
    seed : int
        Random seed, for strategies that draw at random.
    progress : callable, optional
        Called with the number of picks done, the number of picks requested, the radius and the seconds elapsed. If it
        has a method ``phase``, coverage calls that before the first pick, with the name of what it does, the share of
        it that is done and the seconds elapsed.

    Returns
    -------
    Selection
        Rows in the order picked; ties go to the lowest index.

    Raises
    ------
    InvalidArgument, InvalidData
        Both are ValueErrors whose messages name the argument, the value and the fix.
    Interrupted
        On Ctrl-C; a KeyboardInterrupt that carries the selection so far.

    Examples
    --------
    >>> import numpy as np, dubito
    >>> pool = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0], [6.0, 8.5]])
    >>> dubito.select(pool, 2, labeled=[0], doubt=[0.0, 0.5, 0.5, 0.1])
    Selection(2 of 4 rows by doubt-coverage: 2, 1; covered=100.0%)
    >>> picked = dubito.select(pool, 2, labeled=[0], doubt=[0.0, 0.5, 0.5, 0.1], strategy="doubt-coreset")
    >>> picked.indices.tolist(), picked.priorities.tolist()
    ([2, 1], [5.0, 2.5])
    """
    started = time.perf_counter()
    chosen = configure_strategy(
        strategy, engine, strength=strength, beam_width=beam_width, scaling=scaling, features=features
    )
    shards = sys.modules.get("dubito.sharding.shards")  # Imported only if the caller made a Shards object.
    if shards is not None and isinstance(pool, shards.Shards):
        from dubito.sharding.run import refuse_with_shards, select_shards

        refuse_with_shards(
            probabilities=probabilities,
            logits=logits,
            doubt=doubt,
            candidates=candidates,
            costs=costs,
            spend=spend,
            quotas=quotas,
            ids=ids,
            standardize=standardize,
            temperature=temperature,
            memory_limit=memory_limit,
            labels=labels,
            groups=groups,
            classes=classes,
            no_label=no_label,
            model=None if isinstance(model, str) and model == "linear" else model,
        )
        check_choice("engine", engine, ("auto", "cluster"))
        return select_shards(
            pool,
            budget,
            labeled=labeled,
            strategy=chosen,
            metric=check_choice("metric", metric, get_args(Metric)),
            seed=check_integer("seed", seed, least=0),
            progress=progress,
        )
    points = check_points(pool, labeled, metric, ids, standardize, groups)
    request = build_request(
        points,
        chosen,
        budget,
        labeled=labeled,
        probabilities=probabilities,
        logits=logits,
        doubt=doubt,
        temperature=temperature,
        labels=labels,
        model=model,
        no_label=no_label,
        candidates=candidates,
        costs=costs,
        spend=spend,
        quotas=quotas,
        classes=classes,
        engine=engine,
        memory_limit=memory_limit,
        seed=seed,
        progress=progress,
    )
    return answer(request, chosen, points.row_ids, started, CallerArrays(pool, labeled))


def answer(request: Request, strategy: Strategy, pool_ids: RowIds, started: float, original: CallerArrays) -> Selection:
    """Run the strategy and return its Selection; raises Interrupted with the partial selection after Ctrl-C.

    The Selection keeps only weak references to ``original``.
    """
    refuse_limits(strategy, request)
    choice = strategy.choose(request)
    best, costs, ids = choice.configurations[0], request.costs, pool_ids.ids
    groups = picked_groups(best, request)
    # With groups, the cost of each row is that of its group, which counts once.
    paid_rows = best.indices if groups is None else best.indices[np.cumsum(groups.sizes) - groups.sizes]
    selection = Selection(
        indices=best.indices,
        priorities=best.priorities if best.earned is None else best.earned,
        radius=best.radius,
        uncertainty=best.uncertainty,
        configurations=choice.configurations,
        strategy=choice.taken or strategy.name,
        engine=choice.engine,
        seed=request.seed,
        seconds=time.perf_counter() - started,
        n_pool=len_of(request.pool),
        ids=None if ids is None else ids.values[best.indices],
        complete=choice.complete,
        covered=best.covered,
        reach=best.reach,
        groups=groups,
        sampled=choice.sampled,
        spent=None if costs is None else float(np.cumsum(costs[paid_rows])[-1:].sum()),
        standardized=request.standardized,
        temperature=request.temperature,
        notes=request.notes + (() if choice.note is None else (choice.note,)),
        cover=CoveringRadius(original, request, best.indices),
    )
    if not choice.complete:
        raise Interrupted(selection)
    return selection


def picked_groups(found: Configuration, request: Request) -> PickedGroups | None:
    """The names, priorities and sizes of the groups that were picked; None without groups."""
    if request.groups is None:
        return None
    assert found.groups is not None, "the strategy picked rows where groups were wanted"
    names = request.groups.names
    counts = np.bincount(request.groups.numbers[found.indices], minlength=len(names))
    return PickedGroups(names[found.groups], found.priorities, counts[found.groups], len(names))


__all__ = ["Estimate", "Forecast", "estimate", "forecast"]

COVERS = ("auto", "coverage", "doubt-coverage")


def estimate(
    n: int,
    d: int,
    m: int,
    budget: int,
    *,
    beam_width: int | None = None,
    scaled: bool | None = None,
    groups: int | None = None,
    strategy: str | Strategy = "auto",
    engine: str = "auto",
    memory_limit: int | str | None = None,
    classes: int = 10,
    samples: int = 10,
) -> Estimate:
    """Estimate the memory and time of a selection, for the engine that would run it.

    Parameters
    ----------
    n, d : int
        Pool rows and features, assumed to be float32 in main memory.
    m : int
        Labeled points.
    budget : int
        As in `dubito.select`.
    beam_width : int, optional
        As in `dubito.select`, 1 by default. With ``auto``, this argument and the next select ``doubt-coreset``.
    scaled : bool, optional
        Whether doubt scales a core-set's distances (the default).
    groups : int, optional
        Number of groups, if groups of rows are picked.
    strategy : str or Strategy
        As in `dubito.select`. ``auto`` is assumed to use coverage, on a sample of the pool if it is large, as it does
        for frozen features. The time of ``optimal-coreset`` cannot be estimated.
    engine : str
        As in `dubito.select`.
    memory_limit : int or str, optional
        As in `dubito.select`; a limit below the minimum is an error here too.
    classes, samples : int
        Classes of the probabilities, and posterior samples, for strategies that use them.

    Examples
    --------
    >>> import dubito
    >>> dubito.estimate(45_000, 512, 5_000, 5_000, strategy="doubt-coreset", engine="cpu").bytes < 150e6
    True
    """
    n, d = check_integer("n", n, least=1), check_integer("d", d, least=1)
    m, budget = check_integer("m", m, least=0), check_integer("budget", budget, least=1)
    classes, samples = check_integer("classes", classes, least=2), check_integer("samples", samples, least=1)
    width = 1 if beam_width is None else check_integer("beam_width", beam_width, least=1)
    limit, chosen = check_memory_limit(memory_limit), configure_strategy(strategy, engine)
    if groups is not None:
        _check_groups(check_integer("groups", groups, least=1), n, budget, width, chosen)
    if cost := cost_of(chosen, Sizes(n, d, m, budget, classes, samples)):
        return cost
    name, n_candidates = chosen.name, n
    if isinstance(chosen, FilterThenCover):
        name, n_candidates = chosen.cover, min(n, int(chosen.times * budget))
    is_core_set = name in ("coreset", "doubt-coreset")
    if not is_core_set and name not in COVERS:
        hint = "choose another strategy."
        raise InvalidArgument("has no estimate of its cost", argument="strategy", value=strategy, hint=hint)
    is_cover, n_covered = not is_core_set, n
    if name == "auto":
        is_cover = beam_width is None and scaled is None and is_for(engine, CoverageProblem)
        n_covered = n if n <= LARGE else SAMPLE
    is_scaled = name != "coreset" if scaled is None else scaled
    core_set = _core_set(n, d, m, budget, width, is_scaled, limit, n_candidates)
    problem = _cover(n, d, m, budget, n_covered, limit, n_candidates) if is_cover else core_set
    if groups is not None:
        problem = replace(problem, groups=np.arange(n) * groups // n, candidates=np.arange(n_candidates))
    found = choose_engine(engine, problem).estimate(problem)
    if found is None:
        hint = f"pass {named('engine', 'auto')}."
        raise InvalidArgument("has no estimate of its cost", argument="engine", value=engine, hint=hint)
    return found


def _check_groups(groups: int, n: int, budget: int, width: int, strategy: Strategy) -> None:
    """Raise for groups that `select` would refuse."""
    if groups > n:
        raise InvalidArgument(
            f"exceeds {named('n', n)}", argument="groups", value=groups, hint=f"{PASS} {named('groups')} <= {n}."
        )
    check_budget(budget, groups, groups, unit="group")
    refuse_groups(strategy)
    if width > 1:
        check_limits(width)


class Forecast(NamedTuple):
    """Which strategy and engine would handle a request, and at what cost."""

    engine: str | None
    """None for a strategy that uses no engine, or does not plan its problem in advance."""
    cost: Estimate | None
    """None if unknown, as for ``optimal-coreset`` and strategies of plug-ins without an engine."""
    strategy: str
    note: str | None = None
    """Why ``auto`` chose this strategy."""


def forecast(strategy: Strategy, request: Request) -> Forecast:
    """Forecast a run of the request; raises the errors that the run would raise."""
    refuse_limits(strategy, request)
    taken, note = strategy.take(request) if isinstance(strategy, Delegates) else (strategy, None)
    problem = taken.plan(request) if isinstance(taken, Planner) else None
    if problem is None:
        return Forecast(None, cost_of(taken, _sizes(request)), taken.name, note)
    if request.groups is not None and isinstance(problem, Problem | CoverageProblem):
        problem = replace(problem, groups=request.groups.numbers, quotas=request.quotas)
    engine = choose_engine(request.engine, problem)
    return Forecast(engine.name, engine.estimate(problem), taken.name, note)


def _sizes(request: Request) -> Sizes:
    shape = (0, 1, 1) if request.probabilities is None else request.probabilities.shape
    n, m, d = len(request.candidates), len_of(request.references), request.pool.shape[1]
    return Sizes(n, d, m, request.budget, int(shape[-1]), int(shape[1]) if len(shape) == 3 else 1)


def _core_set(
    n: int, d: int, m: int, budget: int, width: int, scaled: bool, limit: int | None, n_candidates: int
) -> Problem:
    """A problem of these sizes; its arrays are broadcast from single numbers."""
    return Problem(
        pool=np.broadcast_to(np.float32(0.0), (n, d)),
        references=np.broadcast_to(np.float32(0.0), (m, d)),
        candidates=np.broadcast_to(np.int64(0), (n_candidates,)),
        budget=budget,
        weights=np.broadcast_to(np.float64(1.0), (n,)) if scaled else None,
        scores=np.broadcast_to(np.int64(0), (n,)) if width > 1 else None,
        beam_width=width,
        memory_limit=limit,
    )


def _cover(
    n: int, d: int, m: int, budget: int, n_covered: int, limit: int | None, n_candidates: int
) -> CoverageProblem:
    return CoverageProblem(
        pool=np.broadcast_to(np.float32(0.0), (n, d)),
        references=np.broadcast_to(np.float32(0.0), (m, d)),
        candidates=np.broadcast_to(np.int64(0), (n_candidates,)),
        budget=budget,
        weights=(np.arange(n) < n_covered).astype(np.float64),
        sample=np.empty(0, dtype=np.int64),
        memory_limit=limit,
    )
