"""What goes by a name: dubito's own, a line each in a dictionary, and what other packages offer by entry point.

Strategies, engines, models and data sets are kept alike: `BUILT_IN`, from names to things, and a `Registry` of them.
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dubito.errors import InvalidArgument, MissingExtra, named
from dubito.request.arrays import check_choice

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Named = TypeVar("Named")


def load_as_it_is(entry: "EntryPoint") -> Any:
    """What an entry point names."""
    return entry.load()


@dataclass(frozen=True, slots=True)
class Registry(Generic[Named]):
    """Things of one sort by their names.

    Examples
    --------
    >>> makers = Registry("dubito.datasets", {"zeros": lambda seed: 0})
    >>> "zeros" in makers.names(), makers.find("builtin", "zeros")(1)
    (True, 0)
    """

    group: str
    """The entry-point group in which other packages offer theirs; none takes the name of one of dubito's own."""
    built_in: Mapping[str, Named]
    load: "Callable[[EntryPoint], Named]" = load_as_it_is

    def offered(self) -> "dict[str, EntryPoint]":
        """What other packages offer; nothing is loaded for this."""
        return {name: entry for name, entry in _entries(self.group).items() if name not in self.built_in}

    def names(self) -> tuple[str, ...]:
        """All of them, dubito's own first."""
        return (*self.built_in, *self.offered())

    def find(self, argument: str, name: object) -> Named:
        """The one of that name; an error that names the argument where there is none, or it cannot be loaded."""
        if isinstance(name, str) and name in self.built_in:
            return self.built_in[name]
        return self._loaded(argument, check_choice(argument, name, self.names()))

    def _loaded(self, argument: str, name: str) -> Named:
        entry = self.offered()[name]
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
    """Of a name that several packages offer, the first; asked for once, as looking through all packages takes time."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in reversed(tuple(entry_points(group=group)))}


# What an import path of a person's leads to: an estimator, or what makes a network.


def import_object(name: str, path: object) -> Any:
    """What an import path such as ``package.module.Class`` leads to."""
    module, dot, attribute = str(path).rpartition(".")
    if not isinstance(path, str) or not dot:
        raise InvalidArgument("is no import path", argument=name, value=path, hint="write package.module.Name.")
    try:
        with here_first():
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
            f"is not there: {module} has no {attribute}", argument=name, value=path, hint="check the spelling."
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
        raise InvalidArgument("is no table", argument="options", value=options, hint="write options = {name = value}.")
    try:
        inspect.signature(factory).bind_partial(**options)
    except TypeError as error:
        problem = f"do not fit {named(name, path)}: {error}"
        raise InvalidArgument(problem, argument="options", hint="check the spelling.") from error


# Optional packages: imported when needed, and missed with the command that installs them.


def require(package: str, *, extra: str) -> ModuleType:
    """Import an optional package, or say how to install it.

    Parameters
    ----------
    package : str
        Module to import, such as ``"pyarrow.parquet"``.
    extra : str
        dubito's extra that brings it.

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
