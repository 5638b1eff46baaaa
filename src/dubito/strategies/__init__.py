"""Query strategies: each turns a `dubito.core.problem.Request` into picks.

A strategy is a frozen dataclass of its options with a method `choose`. Other packages add strategies with the
entry-point group ``dubito.strategies``, whose values are such classes.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass

from dubito.errors import InvalidArgument, in_library, named
from dubito.registry import Registry
from dubito.request.arrays import check_choice
from dubito.strategies.auto import Auto
from dubito.strategies.badge import Badge
from dubito.strategies.bald import Bald, BatchBald
from dubito.strategies.base import Choice, Strategy, parse_name
from dubito.strategies.coreset import Coreset, DoubtCoreset
from dubito.strategies.coverage import Coverage, DoubtCoverage
from dubito.strategies.kmeans import ClosestKMeans, TypiClust
from dubito.strategies.lcmd import LargestCluster
from dubito.strategies.mixture import ProbabilisticCoreset
from dubito.strategies.optimal import OptimalCoreset
from dubito.strategies.uncertainty import Entropy, FilterThenCover, LeastConfidence, Margin, PowerSampling, Random

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
"""Options that are also arguments of `dubito.select` and the command line."""


def build_strategy(strategy: object, options: Mapping[str, object]) -> Strategy:
    """The strategy of that name with these options, or the object itself, for which ``options`` must be empty.

    A name may include options: ``doubt-coreset:doubt=margin,strength=0.5``.

    Examples
    --------
    >>> build_strategy("doubt-coreset", {"strength": 0.5}).strength
    0.5
    >>> build_strategy("doubt-coreset:doubt=margin", {}).doubt
    'margin'
    """
    if not isinstance(strategy, str):
        if isinstance(strategy, type) and isinstance(strategy, Strategy):
            hint = f"pass {strategy.__name__}(), or its name."
            raise InvalidArgument("is a class", argument="strategy", value=strategy, hint=hint)
        if not isinstance(strategy, Strategy):
            problem = "is neither a name nor a Strategy object"
            hint = f"choose from {', '.join(STRATEGIES.names())}."
            raise InvalidArgument(problem, argument="strategy", value=strategy, hint=hint)
        owner = f"the {strategy.name!r} object passed as strategy"
        _refuse_options(owner, options, set(), "set the options of the object, or leave them out.")
        return strategy
    name, options_in_name = parse_name(strategy)
    factory = STRATEGIES.find("strategy", name)
    if not options_in_name and not options:
        return factory()
    known = option_names(factory)
    for option in options_in_name:
        check_choice(f"{name}: option", option, known)
    if not options.keys() <= known:
        as_arguments = known & BY_ARGUMENT
        hint = f"it takes {', '.join(map(named, sorted(as_arguments)))}." if as_arguments else "leave it out."
        _refuse_options(named("strategy", name), options, known, hint)
    for option in options_in_name.keys() & options.keys():
        problem = f"is given, but {strategy!r} already sets it"
        raise InvalidArgument(problem, argument=option, value=options[option], hint="leave one out.")
    try:
        return factory(**options_in_name, **options)
    except InvalidArgument as error:
        if error.argument not in options_in_name:
            raise
        # Use the library wording: on the command line the option `doubt` in the name would be shown as `--doubt`, which
        # is a different thing.
        raise error.reworded(in_library, f"{named('strategy', strategy)}: ") from error


def option_names(factory: Factory) -> set[str]:
    return {field.name for field in fields(factory)} if is_dataclass(factory) else set()


def _refuse_options(owner: str, options: Mapping[str, object], known: set[str], hint: str) -> None:
    for name, value in options.items():
        if name not in known:
            raise InvalidArgument(f"is not supported by {owner}", argument=name, value=value, hint=hint)


def configure_strategy(
    strategy: object,
    engine: object,
    *,
    strength: object = None,
    beam_width: object = None,
    scaling: object = None,
    features: object = None,
) -> Strategy:
    """The strategy with the options of `dubito.select` that were given."""
    if not isinstance(engine, str):
        hint = "pass 'auto' or the name of an engine."
        raise InvalidArgument("is not a name", argument="engine", value=engine, hint=hint)
    given = {"strength": strength, "beam_width": beam_width, "scaling": scaling, "features": features}
    chosen = build_strategy(strategy, {name: value for name, value in given.items() if value is not None})
    if engine != "auto" and not chosen.uses_engine:
        problem = f"is not supported by {named('strategy', chosen.name)}"
        raise InvalidArgument(problem, argument="engine", value=engine, hint=f"leave {named('engine')} out.")
    return chosen
