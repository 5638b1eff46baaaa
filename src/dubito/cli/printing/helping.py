"""The program as ``--help`` shows it: flags without a ``<bool>``, arguments by their names alone."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

HELP_NAMES = ["-h", "--help"]


class Program(NamedTuple):
    """What to call, and the names of each command's options, such as ``--beam-width``."""

    call: Callable[..., object]
    options: Mapping[str, frozenset[str]]

    def options_of(self, arguments: Sequence[str]) -> frozenset[str]:
        """The options of the command that is called."""
        return next((self.options[each] for each in arguments if each in self.options), frozenset())


@cache
def tidied(app: typer.Typer) -> Program:
    """The program to call, built once: a process may call it many times.

    Newer typers write ``{POOL}`` and ``POOL <str>`` for an argument that has a metavar. Older ones do not, and have no
    method to replace: nothing changes there.
    """
    program = typer.main.get_command(app)
    children = program.commands if isinstance(program, TyperGroup) else {}
    options = {name: _tidied(command) for name, command in children.items()}
    return Program(program, {"": _tidied(program, alone=True), **options})


def _tidied(command: Any, *, alone: bool = False) -> frozenset[str]:
    """The names of a command's options, and of those of a group's commands, once they are as ``--help`` shows them."""
    parameters = command.get_params(typer.Context(command, help_option_names=HELP_NAMES))
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument" and parameter.metavar:
            vars(parameter).update(named_alone(parameter.metavar))
    own = frozenset(option for parameter in parameters for option in parameter.opts)
    children = command.commands.values() if isinstance(command, TyperGroup) and not alone else ()
    return own.union(*map(_tidied, children))


def named_alone(name: str) -> dict[str, Callable[..., object]]:
    """What an argument called ``name`` answers when asked for its type, and for its part of the usage line."""
    return {"display_type_rich": lambda ctx: None, "get_usage_pieces": lambda ctx: [name]}
