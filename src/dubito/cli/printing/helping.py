"""The program as ``--help`` shows it: flags without a ``<bool>``, arguments by their names alone."""

from collections.abc import Callable

import typer
from typer.core import TyperGroup

HELP_NAMES = ["-h", "--help"]


def tidied(app: typer.Typer) -> Callable[..., object]:
    """The program to call.

    Newer typers write ``{POOL}`` and ``POOL <str>`` for an argument that has a metavar. Older ones do not, and have no
    method to replace: nothing changes there.
    """
    program = typer.main.get_command(app)
    commands = [program, *(program.commands.values() if isinstance(program, TyperGroup) else ())]
    for command in commands:
        for parameter in command.get_params(typer.Context(command, help_option_names=HELP_NAMES)):
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif parameter.param_type_name == "argument" and parameter.metavar:
                vars(parameter).update(named_alone(parameter.metavar))
    return program


def named_alone(name: str) -> dict[str, Callable[..., object]]:
    """What an argument called ``name`` answers when asked for its type, and for its part of the usage line."""
    return {"display_type_rich": lambda ctx: None, "get_usage_pieces": lambda ctx: [name]}
