"""Strategies decide: each turns a `dubito.problem.Request` into picks.

A strategy is a frozen dataclass of its own options with one method, `choose`. Other packages add theirs by the
entry-point group ``dubito.strategies``, whose values are such classes.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass

from dubito.checks import check_choice
from dubito.errors import InvalidArgument
from dubito.registry import Registry
from dubito.strategies.auto import Auto
from dubito.strategies.badge import Badge
from dubito.strategies.bald import Bald, BatchBald
from dubito.strategies.base import Choice, Strategy
from dubito.strategies.clusters import LargestCluster
from dubito.strategies.coreset import Coreset, DoubtCoreset
from dubito.strategies.coverage import Coverage, DoubtCoverage
from dubito.strategies.filtering import FilterThenCover
from dubito.strategies.kmeans import ClosestKMeans
from dubito.strategies.optimal import OptimalCoreset
from dubito.strategies.power import PowerSampling
from dubito.strategies.probabilistic import ProbabilisticCoreset
from dubito.strategies.random import Random
from dubito.strategies.spelled import spelled
from dubito.strategies.typical import TypiClust
from dubito.strategies.uncertainty import Entropy, LeastConfidence, Margin
from dubito.wording import in_library, named

__all__ = [
    "STRATEGIES",
    "Auto",
    "Badge",
    "Bald",
    "BatchBald",
    "Choice",
    "ClosestKMeans",
    "Coreset",
    "Coverage",
    "DoubtCoreset",
    "DoubtCoverage",
    "Entropy",
    "FilterThenCover",
    "LargestCluster",
    "LeastConfidence",
    "Margin",
    "OptimalCoreset",
    "PowerSampling",
    "ProbabilisticCoreset",
    "Random",
    "Strategy",
    "TypiClust",
    "build_strategy",
]

Factory = Callable[..., Strategy]

BUILT_IN: dict[str, Factory] = {
    "auto": Auto,
    "random": Random,
    "least-confidence": LeastConfidence,
    "margin": Margin,
    "entropy": Entropy,
    "coreset": Coreset,
    "doubt-coreset": DoubtCoreset,
    "coverage": Coverage,
    "doubt-coverage": DoubtCoverage,
    "largest-cluster": LargestCluster,
    "filter-then-cover": FilterThenCover,
    "power": PowerSampling,
    "typiclust": TypiClust,
    "closest-kmeans": ClosestKMeans,
    "optimal-coreset": OptimalCoreset,
    "badge": Badge,
    "bald": Bald,
    "batchbald": BatchBald,
    "probabilistic-coreset": ProbabilisticCoreset,
}
STRATEGIES = Registry("dubito.strategies", BUILT_IN)
BY_ARGUMENT = frozenset({"strength", "beam_width", "scaling", "features"})
"""Options that `dubito.select` and the command line have arguments for."""


def build_strategy(strategy: object, options: Mapping[str, object]) -> Strategy:
    """The strategy of that name with these options, or the object itself, which must have none besides its own.

    A name may have options of its own behind it: ``doubt-coreset:doubt=margin,strength=0.5``.

    Examples
    --------
    >>> build_strategy("doubt-coreset", {"strength": 0.5}).strength
    0.5
    >>> build_strategy("doubt-coreset:doubt=margin", {}).doubt
    'margin'
    """
    if not isinstance(strategy, str):
        if isinstance(strategy, type) and isinstance(strategy, Strategy):
            mend = f"pass {strategy.__name__}(), or its name."
            raise InvalidArgument("is a class", argument="strategy", value=strategy, mend=mend)
        if not isinstance(strategy, Strategy):
            problem = "is neither a name nor a Strategy object"
            mend = f"choose from {', '.join(STRATEGIES.names())}."
            raise InvalidArgument(problem, argument="strategy", value=strategy, mend=mend)
        whose = f"the {strategy.name!r} object handed in as strategy"
        _refuse_options(whose, options, set(), "give options to the object itself, or leave them out.")
        return strategy
    name, own = spelled(strategy)
    factory = STRATEGIES.find("strategy", name)
    known = option_names(factory)
    for option in own:
        check_choice(f"{name}: option", option, known)
    if not options.keys() <= known:
        by_name = known & BY_ARGUMENT
        mend = f"it takes {', '.join(map(named, sorted(by_name)))}." if by_name else "leave it out."
        _refuse_options(named("strategy", name), options, known, mend)
    for option in own.keys() & options.keys():
        problem = f"is given, and {strategy!r} has that option, too"
        raise InvalidArgument(problem, argument=option, value=options[option], mend="leave one out.")
    try:
        return factory(**own, **options)
    except InvalidArgument as error:
        if error.argument not in own:
            raise
        # An option behind a name is no argument of the call: --doubt is something else.
        raise error.again(in_library, f"{named('strategy', strategy)}: ") from error


def option_names(factory: Factory) -> set[str]:
    """The options a strategy's class takes."""
    return {field.name for field in fields(factory)} if is_dataclass(factory) else set()


def _refuse_options(whose: str, options: Mapping[str, object], known: set[str], mend: str) -> None:
    for name, value in options.items():
        if name not in known:
            raise InvalidArgument(f"means nothing to {whose}", argument=name, value=value, mend=mend)
