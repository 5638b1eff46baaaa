"""A command of the program from outside dubito."""

from typing import Annotated

import typer

from dubito.errors import InvalidArgument


def greet(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    times: Annotated[int, typer.Option("--times", help="How often.")] = 1,
) -> None:
    """Greet somebody by name."""
    if times < 1:
        raise InvalidArgument("is no number of times", argument="times", value=times, hint="pass 1.")
    print(times * f"hello {name} ")
