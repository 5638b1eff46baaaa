"""The program as ``--help`` shows it: flags without a ``<bool>``, arguments by their names alone."""

from collections.abc import Callable
from typing import NamedTuple

import typer
from typer.core import TyperGroup

HELP_NAMES = ["-h", "--help"]


class Program(NamedTuple):
    """What to call, and the names of all its options, such as ``--beam-width``."""

    call: Callable[..., object]
    options: frozenset[str]


def tidied(app: typer.Typer) -> Program:
    """The program to call.

    Newer typers write ``{POOL}`` and ``POOL <str>`` for an argument that has a metavar. Older ones do not, and have no
    method to replace: nothing changes there.
    """
    program, options = typer.main.get_command(app), list[str]()
    commands = [program, *(program.commands.values() if isinstance(program, TyperGroup) else ())]
    for command in commands:
        for parameter in command.get_params(typer.Context(command, help_option_names=HELP_NAMES)):
            options += parameter.opts
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif parameter.param_type_name == "argument" and parameter.metavar:
                vars(parameter).update(named_alone(parameter.metavar))
    return Program(program, frozenset(options))


def named_alone(name: str) -> dict[str, Callable[..., object]]:
    """What an argument called ``name`` answers when asked for its type, and for its part of the usage line."""
    return {"display_type_rich": lambda ctx: None, "get_usage_pieces": lambda ctx: [name]}
