"""What a source gives, whatever it is: lots of items in order, and what stands beside them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from dubito.embedding.base import Takes
from dubito.embedding.embedded import LeftOut

LOT_BYTES = 64_000_000
"""A lot ends before its pictures or texts take more, so that one of large pictures fits into the memory."""

Content = str | bytes | None
"""A text; the path or the bytes of a picture; None for nothing."""


@dataclass(frozen=True, slots=True)
class Lot:
    """Items that are embedded and saved together."""

    contents: list[Content]
    table: Any
    """An Arrow table with ``id``, what is shown, and the other columns; a row for each."""


class Supply(Protocol):
    """A source that was opened. The same source gives the same lots, time and again."""

    @property
    def path(self) -> str:
        """The folder in which paths begin, or the table."""
        ...

    @property
    def takes(self) -> Takes:
        """What it holds."""
        ...

    @property
    def shown(self) -> str:
        """The column to show: ``path``, ``text`` or ``image``."""
        ...

    @property
    def n_items(self) -> int:
        """How many items its lots hold together."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes with the source."""
        ...

    @property
    def columns(self) -> dict[str, str]:
        """Which columns are what, as settings that a run must keep."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of how it was read."""
        ...

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What is in no lot, and why."""
        ...

    def lots(self, n_rows: int) -> Iterator[Lot]:
        """All items, at most so many at a time."""
        ...

    def contents(self) -> Iterator[Content]:
        """Those of all lots, without what stands beside them."""
        ...
