"""The interface of a query strategy, a frozen dataclass of its options, and helpers to write one."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from dubito.core.problem import Configuration, Groups, Request
from dubito.doubt import learnable_doubt, margin_doubt, uncertainty
from dubito.doubt.reading import DOUBT_SOURCES
from dubito.engines.dispatch import choose_engine
from dubito.errors import InvalidArgument, keyword, named
from dubito.matrix import FloatArray, IntArray, Matrix
from dubito.request.arrays import read_number

Kind = Literal["margin", "confidence", "learnable"]
"""How doubt is computed: from the two largest probabilities, the largest one, or disagreement of posterior samples."""
LEARNABLE: Kind = "learnable"


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of a strategy: configurations, best first, and the engine that computed them, if any."""

    configurations: tuple[Configuration, ...]
    engine: str | None = None
    complete: bool = True
    sampled: int | None = None
    """Number of rows sampled to represent the pool; None if all rows were used."""
    taken: str | None = None
    """The strategy that made the choice, if the strategy delegates (`auto`)."""
    note: str | None = None
    """A sentence for the user."""


@runtime_checkable
class Strategy(Protocol):
    """Decides what to label next.

    A strategy may declare more, as attributes: ``uses_doubt`` (default: True) whether a model's doubt can change the
    choice, ``needs_samples`` whether it needs probabilities (n, k, c) of posterior samples, as of a committee, and
    ``keeps_limits`` and ``picks_groups`` whether it supports costs and quotas, and groups (default: False).
    """

    @property
    def name(self) -> str:
        """The value of ``strategy=`` that selects it."""

    @property
    def uses_engine(self) -> bool:
        """Whether it uses the ``engine=`` argument."""

    def choose(self, request: Request) -> Choice:
        """Choose ``request.budget`` rows of ``request.candidates``."""


@runtime_checkable
class Planner(Protocol):
    """A strategy that uses an engine, or that cannot handle every request; used for dry runs."""

    def plan(self, request: Request) -> object:
        """The problem that an engine would solve, or None; raises the errors about the request of `Strategy.choose`."""


@runtime_checkable
class Delegates(Protocol):
    """A strategy that delegates to another one."""

    def take(self, request: Request) -> tuple[Strategy, str]:
        """The strategy to use for this request, and a sentence for the user that says why."""


def uses_doubt(strategy: Strategy) -> bool:
    """Whether a model's doubt can change the strategy's choice."""
    return bool(getattr(strategy, "uses_doubt", True))


def solve_problem(request: Request, problem: object) -> Choice:
    """Solve a problem with the requested engine."""
    engine = choose_engine(request.engine, problem)
    solution = engine.solve(problem)
    return Choice(solution.configurations, engine.name, solution.complete)


PerGroup = str
"""How the scores of a group's rows become its score: "max", "mean", "sum", or "top-3" for the sum of the 3 largest."""


def check_per_group(per_group: object) -> int | None:
    """The k of "top-k"; None for "max", "mean" and "sum".

    Examples
    --------
    >>> check_per_group("top-3"), check_per_group("mean")
    (3, None)
    """
    text = str(per_group)
    if text in ("max", "mean", "sum"):
        return None
    if text.startswith("top-") and text[4:].isdecimal() and int(text[4:]) > 0:
        return int(text[4:])
    raise InvalidArgument(
        "is not known", argument="per_group", value=per_group, hint="choose max, mean, sum, or top-K such as top-3."
    )


def rank_by(request: Request, scores: FloatArray, per_group: PerGroup = "max") -> Choice:
    """The ``b`` candidates with the largest scores (n,), ties to the lowest index.

    With groups, the ``b`` groups with the largest scores, ties to the group whose first row comes first.
    """
    if request.groups is not None:
        totals = group_scores(request.groups, request.candidates, scores, check_per_group(per_group), per_group)
        present = np.unique(request.groups.numbers[request.candidates])
        picks = present[np.argsort(-totals[present], kind="stable")[: request.budget]]
        return choose_groups(request, request.groups, picks, totals[picks], scores)
    if per_group != "max":
        hint = f"leave it out, or pass {keyword('groups')}."
        raise InvalidArgument("requires groups", argument="per_group", value=per_group, hint=hint)
    order = np.argsort(-scores[request.candidates], kind="stable")[: request.budget]
    return without_distances(request, request.candidates[order], scores[request.candidates[order]])


def group_scores(
    groups: Groups, candidates: IntArray, scores: FloatArray, k: int | None, per_group: PerGroup
) -> FloatArray:
    """(g,) the score of each group, from those of its candidates, largest first; 0 for groups without candidates."""
    rows = candidates[np.lexsort((-scores[candidates], groups.numbers[candidates]))]
    numbers, n_groups = groups.numbers[rows], len(groups.names)
    starts = np.searchsorted(numbers, np.arange(n_groups))
    counts = np.bincount(numbers, minlength=n_groups)
    if per_group == "max":
        k = 1
    if k is not None:
        rows = rows[np.arange(len(rows)) - starts[numbers] < k]
    totals: FloatArray = np.bincount(groups.numbers[rows], weights=scores[rows], minlength=n_groups).astype(np.float64)
    return totals / np.maximum(counts, 1) if per_group == "mean" else totals


def choose_groups(
    request: Request, groups: Groups, picks: IntArray, priorities: FloatArray, scores: FloatArray
) -> Choice:
    """The choice of these groups by a strategy that computes no radius; ``scores`` (n,) are the shares of the rows."""
    ranks = np.full(len(groups.names), len(picks))
    ranks[picks] = np.arange(len(picks))
    rank = ranks[groups.numbers[request.candidates]]
    order = np.lexsort((-scores[request.candidates], rank))
    indices = request.candidates[order][: int(np.count_nonzero(rank < len(picks)))]
    (ungrouped,) = without_distances(request, indices, priorities).configurations
    return Choice((replace(ungrouped, groups=picks, earned=scores[indices]),))


def without_distances(request: Request, indices: IntArray, priorities: FloatArray) -> Choice:
    """The choice of a strategy that computes no radius."""
    doubt = None if request.doubt is None else uncertainty(request.doubt[indices])
    return Choice((Configuration(indices, priorities, radius=None, uncertainty=doubt),))


def require_doubt(request: Request, strategy: str) -> FloatArray:
    """The doubt; raises `InvalidArgument` if there is none."""
    if request.doubt is None:
        hint = f"pass {DOUBT_SOURCES}, or {named('strategy', 'coreset')}, which needs none."
        raise InvalidArgument("needs the model's doubt", argument="strategy", value=strategy, hint=hint)
    return request.doubt


def require_probabilities(request: Request, strategy: str) -> Matrix:
    """The class probabilities; raises `InvalidArgument` if there are none."""
    if request.probabilities is None:
        hint = f"pass {keyword('probabilities')} or {keyword('logits')}."
        raise InvalidArgument("needs class probabilities", argument="strategy", value=strategy, hint=hint)
    return request.probabilities


def require_posterior(request: Request, strategy: str, otherwise: str = named("strategy", "entropy")) -> Matrix:
    """Probabilities (n, k, c) of at least two posterior samples; raises `InvalidArgument` if there are none.

    ``otherwise`` is the argument that the error suggests for a single model.
    """
    shape = () if request.probabilities is None else request.probabilities.shape
    if request.probabilities is not None and len(shape) == 3 and shape[1] > 1:
        return request.probabilities
    given = f"got shape {shape}" if shape else "got none"
    raise InvalidArgument(
        f"needs class probabilities of k >= 2 posterior samples, shape (n, k, classes), and {given}",
        argument="strategy",
        value=strategy,
        hint=f"pass {keyword('probabilities')} with passes of dropout or members of an ensemble stacked on axis 1, or "
        f"{otherwise}, which needs one model.",
    )


def doubt_of(request: Request, strategy: str, kind: Kind) -> FloatArray:
    """(n,) doubt of that kind. Doubt that the user passed directly is used for every kind."""
    if kind != "confidence" and request.probabilities is not None:
        if kind == LEARNABLE:
            otherwise = named("strategy", f"{strategy}:doubt=margin")
            return learnable_doubt(require_posterior(request, f"{strategy}:doubt={kind}", otherwise))
        return margin_doubt(request.probabilities)
    return require_doubt(request, strategy)


REPORT_SECONDS = 0.25

Pick = Callable[[], tuple[int, float]]
"""Returns the next pick: its position in ``request.candidates``, and its priority."""


def pick_one_by_one(request: Request, pick: Pick) -> Choice:
    """Call ``pick`` ``budget`` times, reporting progress. Ctrl-C ends it, and the picks so far are returned."""
    positions, priorities, complete = list[int](), list[float](), True
    started = reported = time.perf_counter()
    try:
        while len(positions) < request.budget:
            position, priority = pick()
            positions.append(position)
            priorities.append(priority)
            now, is_last = time.perf_counter(), len(positions) == request.budget
            if request.progress is not None and (is_last or now - reported > REPORT_SECONDS):
                reported = now
                request.progress(len(positions), request.budget, None, now - started)
    except KeyboardInterrupt:
        complete = False
    indices = request.candidates[np.array(positions, dtype=np.int64)]
    if len(indices) == 0:
        return Choice((Configuration(indices, np.empty(0), radius=None),), complete=complete)
    return Choice(without_distances(request, indices, np.array(priorities)).configurations, complete=complete)


Option = str | int | float | bool


def parse_name(text: str) -> tuple[str, dict[str, Option]]:
    """Parse a name with options, such as ``doubt-coreset:strength=0.5,beam_width=4``.

    Examples
    --------
    >>> parse_name("doubt-coreset:doubt=margin, beam-width=4")
    ('doubt-coreset', {'doubt': 'margin', 'beam_width': 4})
    """
    name, _, rest = text.partition(":")
    options: dict[str, Option] = {}
    for part in rest.split(",") if rest.strip() else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not key or not equals or not value:
            raise InvalidArgument(
                f"{text!r} has the option {part.strip()!r}",
                argument="strategy",
                hint="write name:option=value,option=value.",
            )
        option = key.replace("-", "_")
        if option in options or option == "strategy":
            raise InvalidArgument(
                f"{text!r} has the option {option!r} twice", argument="strategy", hint="leave one out."
            )
        options[option] = _value(value)
    return name.strip(), options


def _value(text: str) -> Option:
    """A bool or number if the text is one, else the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return read_number(text)
