"""Registries of strategies, engines, models, data, commands and more: built-in ones, and plug-ins by entry point.

Each kind has a dictionary `BUILT_IN` and a `Registry` of it. `dubito.paper` is a plug-in like any other: its entry
points are in dubito's own ``pyproject.toml``.
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from operator import methodcaller
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dubito.errors import InvalidArgument, MissingExtra, named
from dubito.request.arrays import check_choice

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Named = TypeVar("Named")


@dataclass(frozen=True, slots=True)
class Registry(Generic[Named]):
    """Objects of one kind by name.

    Examples
    --------
    >>> makers = Registry("dubito.datasets", {"zeros": lambda seed: 0})
    >>> "zeros" in makers.names(), makers.find("builtin", "zeros")(1)
    (True, 0)
    """

    group: str
    """The entry-point group of plug-ins. A plug-in cannot replace a built-in of the same name."""
    built_in: Mapping[str, Named]
    load: "Callable[[EntryPoint], Named]" = methodcaller("load")

    def __repr__(self) -> str:
        return f"Registry({self.group!r}, {list(self.built_in)})"

    def plug_ins(self) -> "dict[str, EntryPoint]":
        """The entry points of plug-ins, not loaded."""
        return {name: entry for name, entry in _entries(self.group).items() if name not in self.built_in}

    def names(self) -> tuple[str, ...]:
        """All names, built-in ones first."""
        return (*self.built_in, *self.plug_ins())

    def find(self, argument: str, name: object) -> Named:
        """The object of that name; ``argument`` is named in the error if it is unknown or cannot be loaded."""
        if isinstance(name, str) and name in self.built_in:
            return self.built_in[name]
        entry = self.plug_ins()[check_choice(argument, name, self.names())]
        try:
            return self.load(entry)
        except Exception as error:
            # Broad on purpose: importing another package may fail in any way.
            raise InvalidArgument(
                f"cannot be loaded from {entry.value} ({type(error).__name__}: {error})",
                argument=argument,
                value=name,
                hint="fix or remove the package that offers it.",
            ) from error


@cache
def _entries(group: str) -> "dict[str, EntryPoint]":
    """Entry points by name. If several packages use a name, dubito's own goes first. Cached, since scanning is slow."""
    from importlib.metadata import entry_points

    own_first = sorted(entry_points(group=group), key=lambda entry: not entry.value.startswith("dubito."))
    found: dict[str, EntryPoint] = {}
    for entry in own_first:
        found.setdefault(entry.name, entry)
    return found


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the program, as the group ``dubito.commands`` declares it: it is imported only when it is used."""

    path: str
    """A function with typer's annotations, or a `typer.Typer` with commands of its own: ``package.module:name``."""
    summary: str
    """One line for the list of commands."""
    group: str = "Commands of other packages"
    """The heading in the list."""


def import_object(name: str, path: object) -> Any:
    """Import an object by a path such as ``package.module.Class``; ``name`` is the argument for error messages."""
    module, dot, attribute = str(path).rpartition(".")
    if not isinstance(path, str) or not dot:
        raise InvalidArgument("is not an import path", argument=name, value=path, hint="write package.module.Name.")
    try:
        with current_folder_on_path():
            found = import_module(module)
    except ImportError as error:
        raise InvalidArgument(
            f"cannot be imported ({error}). Searched are the current folder, {os.getcwd()}, and installed packages",
            argument=name,
            value=path,
            hint="check the spelling, or run it where the module is.",
        ) from error
    if not hasattr(found, attribute):
        raise InvalidArgument(
            f"does not exist: {module} has no {attribute}", argument=name, value=path, hint="check the spelling."
        )
    return getattr(found, attribute)


@contextmanager
def current_folder_on_path() -> Iterator[None]:
    """Make modules in the current folder importable, as ``python -m`` does."""
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path.remove(os.getcwd())


def check_options(name: str, path: str, factory: Any, options: object) -> None:
    if not isinstance(options, Mapping):
        raise InvalidArgument(
            "is not a table", argument="options", value=options, hint="write options = {name = value}."
        )
    try:
        inspect.signature(factory).bind_partial(**options)
    except TypeError as error:
        problem = f"do not fit {named(name, path)}: {error}"
        raise InvalidArgument(problem, argument="options", hint="check the spelling.") from error


def require(package: str, *, extra: str) -> ModuleType:
    """Import an optional package; raises `MissingExtra` with the install command if it is missing.

    Parameters
    ----------
    package : str
        Module to import, such as ``"pyarrow.parquet"``.
    extra : str
        The extra of dubito that installs it.

    Examples
    --------
    >>> require("json", extra="files").dumps([1])
    '[1]'
    """
    try:
        return import_module(package)
    except ImportError as error:
        root = package.partition(".")[0]
        hint = f"install it with: pip install 'dubito[{extra}]'"
        raise MissingExtra(f"{root} is needed here and cannot be imported ({error})", hint=hint) from error
