"""Options of strategies that `dubito.select` and the command line have arguments for."""

from dubito.errors import InvalidArgument
from dubito.strategies import Strategy, build_strategy
from dubito.wording import named


def configure_strategy(
    strategy: object,
    engine: object,
    *,
    strength: object = None,
    beam_width: object = None,
    scaling: object = None,
    features: object = None,
) -> Strategy:
    """The strategy with those of select()'s options that were given."""
    if not isinstance(engine, str):
        mend = "pass 'auto' or the name of an engine."
        raise InvalidArgument("is not a name", argument="engine", value=engine, mend=mend)
    given = {"strength": strength, "beam_width": beam_width, "scaling": scaling, "features": features}
    chosen = build_strategy(strategy, {name: value for name, value in given.items() if value is not None})
    if engine != "auto" and not chosen.uses_engine:
        problem = f"means nothing to {named('strategy', chosen.name)}"
        raise InvalidArgument(problem, argument="engine", value=engine, mend=f"leave {named('engine')} out.")
    return chosen
