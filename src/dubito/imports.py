"""What an import path of a person's leads to: an estimator, or what makes a network."""

import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from dubito.errors import InvalidArgument
from dubito.wording import named


def import_object(name: str, path: object) -> Any:
    """What an import path such as ``package.module.Class`` leads to."""
    module, dot, attribute = str(path).rpartition(".")
    if not isinstance(path, str) or not dot:
        raise InvalidArgument("is no import path", argument=name, value=path, mend="write package.module.Name.")
    try:
        with here_first():
            found = import_module(module)
    except ImportError as error:
        raise InvalidArgument(
            f"cannot be imported ({error}). Searched are the current folder, {os.getcwd()}, and installed packages",
            argument=name,
            value=path,
            mend="check the spelling, or run it where the module is.",
        ) from error
    if not hasattr(found, attribute):
        raise InvalidArgument(
            f"is not there: {module} has no {attribute}", argument=name, value=path, mend="check the spelling."
        )
    return getattr(found, attribute)


@contextmanager
def here_first() -> Iterator[None]:
    """Let modules of the current folder be found, as ``python -m`` does."""
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path.remove(os.getcwd())


def check_options(name: str, path: str, factory: Any, options: object) -> None:
    """Options that a factory takes by name."""
    if not isinstance(options, Mapping):
        raise InvalidArgument("is no table", argument="options", value=options, mend="write options = {name = value}.")
    try:
        inspect.signature(factory).bind_partial(**options)
    except TypeError as error:
        problem = f"do not fit {named(name, path)}: {error}"
        raise InvalidArgument(problem, argument="options", mend="check the spelling.") from error
