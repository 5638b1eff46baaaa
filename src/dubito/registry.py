"""What goes by a name: dubito's own, a line each in a dictionary, and what other packages offer by entry point.

Strategies, engines, models and data sets are kept alike: `BUILT_IN`, from names to things, and a `Registry` of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dubito.checks import check_choice
from dubito.errors import InvalidArgument

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
                mend="mend or remove the package that offers it.",
            ) from error


@cache
def _entries(group: str) -> "dict[str, EntryPoint]":
    """Of a name that several packages offer, the first; asked for once, as looking through all packages takes time."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in reversed(tuple(entry_points(group=group)))}
