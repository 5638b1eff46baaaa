"""The errors a person can meet.

Each is a `DubitoError` and also the built-in kind that fits, and each message names the argument, the value
and the mend, which are fields as well. The command line turns `exit_code` into its own: 1 failed, 2 the mend is
another command line, 3 the mend is another file.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

from dubito.wording import Door, in_library, named, noun, shorten, worded


class DubitoError(Exception):
    """Any error dubito raises on purpose.

    Parameters
    ----------
    problem : str
        What is wrong. With ``argument`` it is what the sentence says of it: ``"exceeds the 100 points in the pool"``.
    argument : str, optional
        The name of the argument at fault.
    value : object, optional
        Its value, where it tells something in one line.
    mend : str, optional
        What to do, as a sentence from a small letter to the full stop: ``"pass a 2-D array."``.

    Attributes
    ----------
    argument, value, mend
        As above; None, or an empty mend, where they were left out.
    problem
        The message without the mend.

    Examples
    --------
    >>> error = InvalidArgument("exceeds the 9 points", argument="budget", value=12, mend="pass 9 or fewer.")
    >>> str(error)
    'budget=12 exceeds the 9 points; pass 9 or fewer.'
    >>> error.argument, error.value, error.mend
    ('budget', 12, 'pass 9 or fewer.')
    >>> error.problem
    'budget=12 exceeds the 9 points'
    """

    exit_code = 1

    def __init__(self, problem: str, *, argument: str | None = None, value: object = ..., mend: str = "") -> None:
        about = "" if argument is None else f"{noun(argument) if value is ... else named(argument, value)} "
        self._problem, self._mend = f"{about}{problem}", mend
        self.argument = argument
        self.value = None if value is ... else value
        super().__init__(self.worded(in_library))

    @property
    def problem(self) -> str:
        """What is wrong, without the mend."""
        return worded(self._problem, in_library)

    @property
    def mend(self) -> str:
        """What to do about it."""
        return worded(self._mend, in_library)

    def worded(self, door: Door) -> str:
        """The message as those read it who came in by this door."""
        return worded(f"{self._problem}; {self._mend}" if self._mend else self._problem, door)

    def again(self, door: Door, before: str = "", kind: "type[DubitoError] | None" = None) -> "DubitoError":
        """The same error in the words of a door, with words before it, and perhaps of another kind."""
        record = {"problem": before + worded(self._problem, door), "mend": worded(self._mend, door)}
        return (kind or type(self)).from_record({**self.as_record(), **record, "value": self.value})

    def as_record(self) -> dict[str, object]:
        """What another process needs to raise it again; a value that is no plain one goes as its text."""
        is_plain = isinstance(self.value, str | int | float | None)
        value = self.value if is_plain else shorten(self.value)
        return {"problem": self._problem, "argument": self.argument, "value": value, "mend": self._mend}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The error of a record; raises KeyError where it is none."""
        error = cls(record["problem"], mend=record["mend"])
        error.argument, error.value = record["argument"], record["value"]
        return error

    def __reduce__(self) -> tuple[Callable[[Mapping[str, Any]], Self], tuple[dict[str, object]]]:
        """Errors cross processes, too, by being pickled."""
        return type(self).from_record, (self.as_record(),)


class InvalidArgument(DubitoError, ValueError):
    """An argument that cannot be meant: the mend is another call."""

    exit_code = 2


class MissingFile(DubitoError, FileNotFoundError):
    """A path that is not there, or a name that is not inside the file."""

    exit_code = 2


class OutputExists(DubitoError, FileExistsError):
    """An output that would be overwritten."""

    exit_code = 2


class InvalidData(DubitoError, ValueError):
    """Data that cannot be used as it is: the mend is another array or file."""

    exit_code = 3


class MemoryLimit(DubitoError, MemoryError):
    """The memory allowed cannot hold even the minimum."""

    exit_code = 2


class MissingExtra(DubitoError, ImportError):
    """An optional package is needed and not installed."""


class SolverFailed(DubitoError, RuntimeError):
    """An outside solver gave up."""


class ScaleWarning(UserWarning):
    """Very few of a frame's columns make nearly all of the distances, and nothing was said about that."""
