"""`select`: checks the call, lets the strategy decide, and returns a Selection."""

import sys
import time
from typing import Literal, NamedTuple

import numpy as np

from dubito.arguments import Wanted, build_request, check_points, check_terms, with_model
from dubito.core.constraints import Limits
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Interrupted, Metric, Problem, Progress, Request, Scaling, Selection
from dubito.covering_radius import Cover, Given
from dubito.doubt.reading import Sources
from dubito.engines.base import Estimate
from dubito.engines.dispatch import choose_engine, is_for
from dubito.errors import InvalidArgument, named
from dubito.matrix import AnyArray, len_of
from dubito.request.arrays import check_choice, check_integer, check_memory_limit
from dubito.strategies import Strategy, configure_strategy
from dubito.strategies.auto import LARGE, SAMPLE, Origin
from dubito.strategies.base import LeavesIt, Planner
from dubito.strategies.constraints import refuse_limits


def select(
    pool: object,
    budget: int,
    *,
    labelled: object = None,
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
    ids: object = None,
    metric: Metric = "euclidean",
    standardise: bool | None = None,
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
        float16 and float32 are kept; decisions are made in float64. A frame's rows are called by its column ``id`` or
        ``ids``, or by a pandas index that is more than row numbers. Or `dubito.Shards`, for a Ray cluster.
    budget : int
        How many rows to pick, from 1 to the number of candidates. Exactly so many are picked.
    labelled : array, optional
        What is labelled already: features (m, d); or rows of ``pool``, as 1-D integers, as a mask (n,) of booleans or
        of 0 and 1, or as ids. Such rows are never picked.
    probabilities, logits, doubt : array, optional
        At most one: class probabilities (n, c), logits (n, c), or doubt ``1 - max P`` (n,) in [0, 1]. Probabilities
        (n, k, c) are those of k posterior samples, which ``bald``, ``batchbald`` and ``doubt=learnable`` need (as in
        ``"doubt-coverage:doubt=learnable"``); else their mean gives the doubt.
        Rows of a frame are joined with the pool's by their ids where both have ids, else they go by their order, and
        where only one side has ids `Selection.notes` says so.
    temperature : float or "fit", optional
        What ``logits`` are divided by: above 1 makes a model less sure. ``"fit"`` finds it on the labelled rows, which
        should not be rows that the model was trained on: see `dubito.doubt.fit_temperature`.
    labels : array, mapping or frame, optional
        What is labelled as what, as `dubito.fit` takes it: an array (n,) with gaps, ``{id: label}``, a frame by id, or
        the labels of ``labelled``, which need not be given beside the others. With none of the three above, a model is
        fitted on them and its probabilities are taken: `Selection.notes` says what was fitted and how right it is. With
        ``"fit"``: classes from 0 on, of the rows in ``labelled`` or of all pool rows, where only those count.
    model : str or estimator
        What is fitted on ``labels``, as `dubito.fit` has it; ``"none"`` for nothing.
    no_label : object, optional
        Labels that mean none, such as -1, as `dubito.fit` has it.
    strategy : str or Strategy
        A name, with options of its own behind it if you like (``"doubt-coreset:doubt=margin"``), or an object of
        `dubito.strategies`. ``"auto"`` covers the model's doubt (``doubt-coverage``); without doubt it covers the pool
        (``coverage``), and where features were trained with the labels it takes ``doubt-coreset``. `Selection.strategy`
        says which it took, `Selection.notes` why.
    features : {"frozen", "trained"}, optional
        For ``auto``: whether the features were trained with the labels. By default the labelled rows answer.
    strength : float, optional
        For ``doubt-coreset``, which ``auto`` then takes, as with the next two: priority is distance times doubt to this
        power. 1 is the paper and its default, 0 the plain core-set.
    beam_width : int, optional
        Configurations a core-set's beam search keeps, 1 by default. Wider than 1 needs doubt.
    scaling : {"respective", "acquired"}, optional
        For ``doubt-coreset``: whose doubt scales an update, the remaining point's (the default) or the pick's.
    candidates : array, optional
        What may be picked: rows, a mask or ids, as in ``labelled``. Results still refer to the whole pool.
    costs : array (n,), optional
        What labelling each row costs, above 0, in any unit: it divides a row's priority. For ``auto``,
        ``coverage``, ``doubt-coverage``, ``coreset`` and ``doubt-coreset``, as are the three below.
    spend : float, optional
        Stop before the picks cost more than this together; ``budget`` is then how many there are at most.
    quotas : int or mapping, optional
        How many picks of a class there may be: of each, or ``{class: limit}``, where None stands for all other classes.
        A row's class is the likeliest one, from 0 on; what is labelled already does not count.
    classes : array (n,), optional
        Classes for ``quotas`` to go by instead, numbers or text.
    ids : sequence (n,), optional
        What the pool's rows are called, each once, where ``pool`` does not say so itself. 7, 7.0 and "7" are one id.
    metric : {"euclidean", "cosine"}
        ``cosine`` is the chord: Euclidean distance between unit vectors.
    standardise : bool, optional
        Bring every feature to mean 0 and standard deviation 1 over the pool before distances are measured: for columns
        of different units. ``labelled`` features go by the pool's means and deviations, and a column that is the same
        in every row becomes 0. Computed in float64 and block by block, not copied; priorities and radii are then in
        such units. By default features are taken as they are, with a `ScaleWarning` where they are a frame's named
        columns and very few of those make nearly all of a distance.
    engine : str
        ``auto``, or the name of one; a named engine never falls back.
    memory_limit : int or str, optional
        Bytes of memory beyond the inputs, or text such as "2GB".
    seed : int
        For strategies that draw at random.
    progress : callable, optional
        Called with picks done, picks wanted, radius and seconds.

    Returns
    -------
    Selection
        Rows in the order picked; ties go to the lowest index.

    Raises
    ------
    InvalidArgument, InvalidData
        Both are ValueErrors that name the argument, the value and the fix.
    Interrupted
        On Ctrl-C; a KeyboardInterrupt that carries the selection so far.

    Examples
    --------
    >>> import numpy as np, dubito
    >>> pool = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0], [6.0, 8.5]])
    >>> dubito.select(pool, 2, labelled=[0], doubt=[0.0, 0.5, 0.5, 0.1])
    Selection(2 of 4 rows by doubt-coverage: 2, 1; covered=100.0%)
    >>> picked = dubito.select(pool, 2, labelled=[0], doubt=[0.0, 0.5, 0.5, 0.1], strategy="doubt-coreset")
    >>> picked.indices.tolist(), picked.priorities.tolist()
    ([2, 1], [5.0, 2.5])
    """
    started = time.perf_counter()
    chosen = configure_strategy(
        strategy, engine, strength=strength, beam_width=beam_width, scaling=scaling, features=features
    )
    terms = check_terms(engine, memory_limit, seed, progress)
    if is_shards(pool):
        from dubito.sharding.run import select_from

        beside = {"probabilities": probabilities, "logits": logits, "doubt": doubt, "candidates": candidates}
        beside |= {"costs": costs, "spend": spend, "quotas": quotas, "ids": ids, "standardise": standardise}
        beside |= {"temperature": temperature, "memory_limit": memory_limit, "labels": labels}
        return select_from(pool, budget, labelled, chosen, metric, engine, terms.seed, progress, beside)
    points = check_points(pool, labelled, metric, ids, standardise)
    limits = Limits(costs, spend, quotas, classes)
    sources = Sources(probabilities, logits, doubt, temperature, labels, labelled)
    points, sources, limits = with_model(points, sources, limits, chosen, Wanted(model, no_label), terms.seed)
    request = build_request(points, terms, budget, candidates, sources, limits=limits)
    return answer(request, chosen, points.ids, started, Given(pool, labelled))


def is_shards(pool: object) -> bool:
    """Whether a pool is `dubito.Shards`; who has made some has loaded them."""
    module = sys.modules.get("dubito.sharding.shards")
    return module is not None and isinstance(pool, module.Shards)


def answer(request: Request, strategy: Strategy, ids: AnyArray | None, started: float, given: Given) -> Selection:
    """What the strategy chooses, as a Selection; raises Interrupted with what there is after Ctrl-C.

    ``given`` is what others hold on to, and the Selection does not.
    """
    refuse_limits(strategy, request)
    choice = strategy.choose(request)
    best = choice.configurations[0]
    selection = Selection(
        indices=best.indices,
        priorities=best.priorities,
        radius=best.radius,
        uncertainty=best.uncertainty,
        configurations=choice.configurations,
        strategy=choice.taken or strategy.name,
        engine=choice.engine,
        seed=request.seed,
        seconds=time.perf_counter() - started,
        n_pool=len_of(request.pool),
        ids=None if ids is None else ids[best.indices],
        complete=choice.complete,
        covered=best.covered,
        reach=best.reach,
        sampled=choice.sampled,
        spent=None if request.costs is None else float(np.cumsum(request.costs[best.indices])[-1:].sum()),
        standardised=request.standardised,
        temperature=request.temperature,
        notes=request.notes + (() if choice.note is None else (choice.note,)),
        cover=Cover(given, request, best.indices),
    )
    if not choice.complete:
        raise Interrupted(selection)
    return selection


# `estimate`: bytes and seconds before a run.

__all__ = ["Estimate", "Forecast", "estimate", "forecast"]

COVERS = ("auto", "coverage", "doubt-coverage")
ESTIMATED = ("coreset", "doubt-coreset", *COVERS)


def estimate(
    n: int,
    d: int,
    m: int,
    budget: int,
    *,
    beam_width: int | None = None,
    scaled: bool | None = None,
    strategy: str = "auto",
    engine: str = "auto",
    memory_limit: int | str | None = None,
) -> Estimate:
    """Bytes and seconds of a selection by core-set or coverage, before it runs, by the engine that would run it.

    Parameters
    ----------
    n, d : int
        Pool rows and features, taken to be float32 in the memory of the machine.
    m : int
        Labelled points.
    budget : int
        As in `dubito.select`.
    beam_width : int, optional
        As in `dubito.select`, 1 by default. With ``auto`` this and the next mean ``doubt-coreset``.
    scaled : bool, optional
        Whether doubt scales a core-set's distances, as it does by default; the plain core-set looks at every row.
    strategy : str
        ``auto``, ``coreset``, ``doubt-coreset``, ``coverage`` or ``doubt-coverage``. ``auto`` is taken to cover, and
        a sample of a large pool alone, as it does where features are frozen.
    engine : str
        As in `dubito.select`.
    memory_limit : int or str, optional
        As in `dubito.select`; one that cannot hold the minimum is an error here too.

    Examples
    --------
    >>> import dubito
    >>> dubito.estimate(45_000, 512, 5_000, 5_000, strategy="doubt-coreset", engine="cpu").bytes < 150e6
    True
    """
    n, d = check_integer("n", n, least=1), check_integer("d", d, least=1)
    m, budget = check_integer("m", m, least=0), check_integer("budget", budget, least=1)
    width = 1 if beam_width is None else check_integer("beam_width", beam_width, least=1)
    limit, is_cover = check_memory_limit(memory_limit), check_choice("strategy", strategy, ESTIMATED) in COVERS
    n_covered = n
    if strategy == "auto":
        is_cover = beam_width is None and scaled is None and is_for(engine, CoverageProblem)
        n_covered = n if n <= LARGE else SAMPLE
    core_set = _core_set(n, d, m, budget, width, scaled is not False, limit)
    problem = _cover(n, d, m, budget, n_covered, limit) if is_cover else core_set
    found = choose_engine(engine, problem).estimate(problem)
    if found is None:
        hint = f"pass {named('engine', 'auto')}."
        raise InvalidArgument("cannot tell what it costs", argument="engine", value=engine, hint=hint)
    return found


class Forecast(NamedTuple):
    """What a request will take."""

    engine: str | None
    """Who would solve it; None for a strategy that uses no engine, or does not say what it would ask of one."""
    cost: Estimate | None
    """None where that is not known."""
    strategy: str
    """The one that would choose."""
    note: str | None = None
    """Why that one, where another left it the choice."""


def forecast(strategy: Strategy, request: Request) -> Forecast:
    """Who would do the work of a request, and what it would take; whatever a run would refuse is refused."""
    refuse_limits(strategy, request)
    taken, note = strategy.take(request) if isinstance(strategy, LeavesIt) else (strategy, None)
    problem = taken.plan(request) if isinstance(taken, Planner) else None
    if problem is None:
        return Forecast(None, None, taken.name, note)
    engine = choose_engine(request.engine, problem)
    return Forecast(engine.name, engine.estimate(problem), taken.name, note)


def _core_set(n: int, d: int, m: int, budget: int, width: int, scaled: bool, limit: int | None) -> Problem:
    """A problem of these sizes: its arrays have their shapes, and one number each."""
    return Problem(
        pool=np.broadcast_to(np.float32(0.0), (n, d)),
        references=np.broadcast_to(np.float32(0.0), (m, d)),
        candidates=np.broadcast_to(np.int64(0), (n,)),
        budget=budget,
        weights=np.broadcast_to(np.float64(1.0), (n,)) if scaled else None,
        scores=np.broadcast_to(np.int64(0), (n,)) if width > 1 else None,
        beam_width=width,
        memory_limit=limit,
    )


def _cover(n: int, d: int, m: int, budget: int, n_covered: int, limit: int | None) -> CoverageProblem:
    return CoverageProblem(
        pool=np.broadcast_to(np.float32(0.0), (n, d)),
        references=np.broadcast_to(np.float32(0.0), (m, d)),
        candidates=np.broadcast_to(np.int64(0), (n,)),
        budget=budget,
        weights=(np.arange(n) < n_covered).astype(np.float64),
        sample=np.empty(0, dtype=np.int64),
        memory_limit=limit,
    )
