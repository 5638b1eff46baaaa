"""The program as ``--help`` shows it: flags without a ``<bool>``, arguments by their names alone."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

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
    program, options = typer.main.get_command(app), dict[str, frozenset[str]]()
    commands = {"": program, **(program.commands if isinstance(program, TyperGroup) else {})}
    for name, command in commands.items():
        parameters = command.get_params(typer.Context(command, help_option_names=HELP_NAMES))
        options[name] = frozenset(option for parameter in parameters for option in parameter.opts)
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif parameter.param_type_name == "argument" and parameter.metavar:
                vars(parameter).update(named_alone(parameter.metavar))
    return Program(program, options)


def named_alone(name: str) -> dict[str, Callable[..., object]]:
    """What an argument called ``name`` answers when asked for its type, and for its part of the usage line."""
    return {"display_type_rich": lambda ctx: None, "get_usage_pieces": lambda ctx: [name]}
