"""What a strategy is: a frozen dataclass of its own options, with a method that chooses and one that says how."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from dubito.core.problem import Configuration, Request
from dubito.doubt import learnable_doubt, margin_doubt, uncertainty
from dubito.doubt.reading import DOUBT_SOURCES
from dubito.engines.dispatch import choose_engine
from dubito.errors import InvalidArgument, keyword, named
from dubito.matrix import FloatArray, IntArray, Matrix
from dubito.request.arrays import read_number

Kind = Literal["margin", "confidence", "learnable"]
"""Whose doubt counts: between two classes, of the likeliest one, or what posterior samples disagree on."""
LEARNABLE: Kind = "learnable"


@dataclass(frozen=True, slots=True)
class Choice:
    """What a strategy chose: configurations, best first, and the engine that computed them, if any."""

    configurations: tuple[Configuration, ...]
    engine: str | None = None
    complete: bool = True
    sampled: int | None = None
    """Rows that stood for the whole pool; None where every row counted."""
    taken: str | None = None
    """The strategy that chose, where one was chosen first."""
    note: str | None = None
    """What the user should know about it."""


@runtime_checkable
class Strategy(Protocol):
    """Decides what to label next."""

    @property
    def name(self) -> str:
        """What ``strategy=`` calls it."""
        ...

    @property
    def uses_engine(self) -> bool:
        """Whether ``engine=`` means anything to it."""
        ...

    def choose(self, request: Request) -> Choice:
        """``request.budget`` rows out of ``request.candidates``."""
        ...


@runtime_checkable
class Planner(Protocol):
    """A strategy that can say beforehand what it would do, as all of dubito's own do. A dry run asks."""

    def plan(self, request: Request) -> object:
        """The problem that it would ask an engine to solve; None where it needs no engine.

        Raises what `Strategy.choose` would raise about the request.
        """
        ...


@runtime_checkable
class LeavesIt(Protocol):
    """A strategy that leaves the choice to another."""

    def take(self, request: Request) -> tuple[Strategy, str]:
        """The one it leaves this request to, and why, as a person should be reported."""
        ...


@runtime_checkable
class MindsDoubt(Protocol):
    """A strategy that says whether it has a use for the model's doubt; one that does not say so has."""

    @property
    def uses_doubt(self) -> bool:
        """Whether it has."""
        ...


def minds_doubt(strategy: Strategy) -> bool:
    """Whether a model's doubt could change what it chooses."""
    return strategy.uses_doubt if isinstance(strategy, MindsDoubt) else True


def ask_engine(request: Request, problem: object) -> Choice:
    """What the engine that was asked for makes of a problem."""
    engine = choose_engine(request.engine, problem)
    solution = engine.solve(problem)
    return Choice(solution.configurations, engine.name, solution.complete)


@runtime_checkable
class AsksCommittee(Protocol):
    """A strategy that says whether it wants probabilities of posterior samples (n, k, c): those of a committee."""

    @property
    def needs_samples(self) -> bool:
        """Whether a model's own probabilities, (n, c), will not do."""
        ...


def rank_by(request: Request, scores: FloatArray) -> Choice:
    """The ``b`` candidates of largest score (n,), ties to the lowest index."""
    order = np.argsort(-scores[request.candidates], kind="stable")[: request.budget]
    return without_distances(request, request.candidates[order], scores[request.candidates[order]])


def without_distances(request: Request, indices: IntArray, priorities: FloatArray) -> Choice:
    """A choice of a strategy that has no radius."""
    doubted = None if request.doubt is None else uncertainty(request.doubt[indices])
    return Choice((Configuration(indices, priorities, radius=None, uncertainty=doubted),))


def need_doubt(request: Request, strategy: str) -> FloatArray:
    """The doubt, or an error that says how to give it."""
    if request.doubt is None:
        hint = f"pass {DOUBT_SOURCES}, or {named('strategy', 'coreset')}, which needs none."
        raise InvalidArgument("needs the model's doubt", argument="strategy", value=strategy, hint=hint)
    return request.doubt


def need_probabilities(request: Request, strategy: str) -> Matrix:
    """The probabilities, or an error that says how to give them."""
    if request.probabilities is None:
        hint = f"pass {keyword('probabilities')} or {keyword('logits')}."
        raise InvalidArgument("needs class probabilities", argument="strategy", value=strategy, hint=hint)
    return request.probabilities


def need_posterior(request: Request, strategy: str, otherwise: str = named("strategy", "entropy")) -> Matrix:
    """Probabilities (n, k, c) of at least two posterior samples, or an error that says how to give them.

    ``otherwise`` is what would do with one model.
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
    """(n,) doubt of that kind; doubt that was handed in as such is of any."""
    if kind != "confidence" and request.probabilities is not None:
        if kind == LEARNABLE:
            otherwise = named("strategy", f"{strategy}:doubt=margin")
            return learnable_doubt(need_posterior(request, f"{strategy}:doubt={kind}", otherwise))
        return margin_doubt(request.probabilities)
    return need_doubt(request, strategy)


# Picking one point after another: progress is reported along the way, and Ctrl-C keeps the picks so far.

REPORT_SECONDS = 0.25

Pick = Callable[[], tuple[int, float]]
"""Makes the next pick: its position among the candidates, and its priority."""


def pick_in_turn(request: Request, pick: Pick) -> Choice:
    """``budget`` picks, or fewer after Ctrl-C: a prefix of the whole answer."""
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


# A strategy and its options in one text, as the command line, TOML files and records write them.

Option = str | int | float | bool


def spelled(text: str) -> tuple[str, dict[str, Option]]:
    """The name and the options of text such as ``doubt-coreset:strength=0.5,beam_width=4``.

    Examples
    --------
    >>> spelled("doubt-coreset:doubt=margin, beam-width=4")
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
    """A number or truth value where the text spells one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return read_number(text)
