"""What goes by a name in an experiment: dubito's own, and what other packages offer by entry point."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from dubito.checks import check_choice
from dubito.errors import InvalidArgument

Named = TypeVar("Named")


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

    def names(self) -> tuple[str, ...]:
        """All of them, dubito's own first; nothing is loaded for this."""
        return tuple(dict.fromkeys([*self.built_in, *(entry.name for entry in entry_points(group=self.group))]))

    def find(self, argument: str, name: object) -> Named:
        """The one of that name; an error that names the argument where there is none, or it cannot be loaded."""
        known = check_choice(argument, name, self.names())
        return self.built_in[known] if known in self.built_in else self._load(argument, known)

    def _load(self, argument: str, name: str) -> Named:
        (entry, *_) = entry_points(group=self.group, name=name)
        try:
            found: Named = entry.load()
        except Exception as error:
            # Broad on purpose: importing another package may fail in any way.
            raise InvalidArgument(
                f"cannot be loaded from {entry.value} ({type(error).__name__}: {error})",
                argument=argument,
                value=name,
                mend="mend or remove the package that offers it.",
            ) from error
        return found
