"""Options of strategies that `dubito.select` and the command line have arguments for."""

from dubito.errors import InvalidArgument
from dubito.strategies import Strategy, build_strategy
from dubito.wording import named

DEFAULTS: dict[str, object] = {"strength": 1.0, "beam_width": 1, "scaling": "respective"}
"""They are passed on to a strategy only where they differ from these."""


def configure_strategy(
    strategy: object,
    engine: object,
    strength: object = DEFAULTS["strength"],
    beam_width: object = DEFAULTS["beam_width"],
    scaling: object = DEFAULTS["scaling"],
) -> Strategy:
    """The strategy with those of select()'s options that were given."""
    if not isinstance(engine, str):
        mend = "pass 'auto' or the name of an engine."
        raise InvalidArgument("is not a name", argument="engine", value=engine, mend=mend)
    given: dict[str, object] = {"strength": strength, "beam_width": beam_width, "scaling": scaling}
    options = {name: value for name, value in given.items() if getattr(value, "ndim", 0) or value != DEFAULTS[name]}
    chosen = build_strategy(strategy, options)
    if engine != "auto" and not chosen.uses_engine:
        problem = f"means nothing to {named('strategy', chosen.name)}"
        raise InvalidArgument(problem, argument="engine", value=engine, mend=f"leave {named('engine')} out.")
    return chosen
