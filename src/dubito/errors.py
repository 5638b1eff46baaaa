"""The errors a person can meet.

Each is a `DubitoError` and also the built-in kind that fits, and each message names the argument, the value
and the fix, which are fields as well. The command line turns `exit_code` into its own: 1 failed, 2 the fix is
another command line, 3 the fix is another file.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

# Arguments inside messages, worded for the door a person came in by.
#
# The library says ``budget=120``, the command line ``--budget 120`` and a TOML file ``budget = 120``. A message is
# text in which such places are marked, each with its words for every door; it is worded when a door shows it. The
# marks are characters for private use, which no text of a person's holds on purpose.

OPEN, BAR, CLOSE = MARKS = "\ue000\ue001\ue002"
PART = f"([^{MARKS}]*)"
SPAN = re.compile(OPEN + BAR.join([PART] * 4) + CLOSE)
WITHOUT_MARKS = dict.fromkeys(map(ord, MARKS))


class Span(NamedTuple):
    """A place in a message, in the words of each door; ``argument`` is empty where none is named."""

    argument: str
    library: str
    command: str
    toml: str

    @property
    def is_noun(self) -> bool:
        """Whether it stands for what was handed in, and not for the argument itself."""
        return self.argument == self.command != ""

    def marked(self) -> str:
        """As it stands in a message. A value that holds marks loses them, so that it forges no span."""
        return OPEN + BAR.join(part.translate(WITHOUT_MARKS) for part in self) + CLOSE


Door = Callable[[Span], str]
"""A way into dubito: chooses the words for those who came by it."""


def in_library(span: Span) -> str:
    """The words of a call in Python."""
    return span.library


def in_toml(span: Span) -> str:
    """The words of a TOML file."""
    return span.toml


def worded(message: str, door: Door) -> str:
    """The message in the words of a door.

    Examples
    --------
    >>> message = f"{named('rounds', 9)} is too many; {PASS} {named('rounds')} <= 3."
    >>> worded(message, in_library)
    'rounds=9 is too many; pass rounds <= 3.'
    >>> worded(message, in_toml)
    'rounds = 9 is too many; set rounds <= 3.'
    """
    return SPAN.sub(lambda match: door(Span(*match.groups())), message)


def noun(argument: str) -> str:
    """What was handed in under this name; a door may add which file it came from."""
    return Span(argument, argument, argument, argument).marked()


def named(argument: str, value: object = ...) -> str:
    """An argument, with its value if there is one: ``budget`` or ``--budget``, ``budget=120`` or ``--budget 120``."""
    option = option_of(argument)
    if value is ...:
        return Span(argument, argument, option, argument).marked()
    shown, bare = shorten(value), value if isinstance(value, str) else shorten(value)
    in_file = shown.lower() if isinstance(value, bool) else shown
    return Span(argument, f"{argument}={shown}", f"{option} {bare}", f"{argument} = {in_file}").marked()


def keyword(argument: str) -> str:
    """An argument to add to the call.

    Examples
    --------
    >>> worded(f"pass {keyword('probabilities')} or {keyword('doubt')}.", in_library)
    'pass probabilities= or doubt=.'
    """
    return Span(argument, f"{argument}=", option_of(argument), argument).marked()


def option_of(argument: str) -> str:
    """What the command line calls it.

    Examples
    --------
    >>> option_of("beam_width")
    '--beam-width'
    """
    return "--" + argument.replace("_", "-")


ROW = "row"
"""What a place among a pool's rows goes by, as a span."""


def at_row(row: int) -> str:
    """A row by its number; a door that knows what the row is called may say so.

    Examples
    --------
    >>> worded(f"holds nan at {at_row(3)}", in_library)
    'holds nan at row 3'
    """
    return Span(ROW, *[f"row {row}"] * 3).marked()


def by_interface(library: str, *, command: str | None = None, toml: str | None = None) -> str:
    """Words that differ by more than a name; a door that is left out gets the library's.

    Examples
    --------
    >>> worded(f"pass {by_interface('force=True', command='--force')} to replace it.", in_library)
    'pass force=True to replace it.'
    """
    return Span("", library, library if command is None else command, library if toml is None else toml).marked()


def in_python(words: str) -> str:
    """Words for those alone who call from Python.

    Examples
    --------
    >>> worded(f"pass fewer points{in_python(' (OptimalCoreset(max_pool=...) raises the limit)')}.", in_toml)
    'pass fewer points.'
    """
    return by_interface(words, command="", toml="")


PASS = by_interface("pass", toml="set")
"""What a person does with an argument: ``f"{PASS} {named('budget')} <= 100."``."""
TRUE_OR_FALSE = by_interface("pass True or False.", toml="set true or false.")
"""The fix of what is neither."""
FORCE = by_interface("force=True", command="--force")
"""What replaces an output that exists."""


def shorten(value: object) -> str:
    """A value as a message shows it: as Python writes it, cut where it is long.

    Examples
    --------
    >>> shorten("coreset"), shorten(list(range(40)))
    ("'coreset'", '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16...')
    """
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    text = repr(value.item() if is_scalar and hasattr(value, "item") else value)
    most = 300 if isinstance(value, str) else 60  # A path is of use only as a whole.
    return text if len(text) <= most else text[: most - 3] + "..."


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
    hint : str, optional
        What to do, as a sentence from a small letter to the full stop: ``"pass a 2-D array."``.

    Attributes
    ----------
    argument, value, hint
        As above; None, or an empty hint, where they were left out.
    problem
        The message without the fix.

    Examples
    --------
    >>> error = InvalidArgument("exceeds the 9 points", argument="budget", value=12, hint="pass 9 or fewer.")
    >>> str(error)
    'budget=12 exceeds the 9 points; pass 9 or fewer.'
    >>> error.argument, error.value, error.hint
    ('budget', 12, 'pass 9 or fewer.')
    >>> error.problem
    'budget=12 exceeds the 9 points'
    """

    exit_code = 1

    def __init__(self, problem: str, *, argument: str | None = None, value: object = ..., hint: str = "") -> None:
        about = "" if argument is None else f"{noun(argument) if value is ... else named(argument, value)} "
        self._problem, self._hint = f"{about}{problem}", hint
        self.argument = argument
        self.value = None if value is ... else value
        super().__init__(self.worded(in_library))

    @property
    def problem(self) -> str:
        """What is wrong, without the fix."""
        return worded(self._problem, in_library)

    @property
    def hint(self) -> str:
        """What to do about it."""
        return worded(self._hint, in_library)

    def worded(self, door: Door) -> str:
        """The message as those read it who came in by this door."""
        return worded(f"{self._problem}; {self._hint}" if self._hint else self._problem, door)

    def again(self, door: Door, before: str = "", kind: "type[DubitoError] | None" = None) -> "DubitoError":
        """The same error in the words of a door, with words before it, and perhaps of another kind."""
        record = {"problem": before + worded(self._problem, door), "hint": worded(self._hint, door)}
        return (kind or type(self)).from_record({**self.as_record(), **record, "value": self.value})

    def as_record(self) -> dict[str, object]:
        """What another process needs to raise it again; a value that is no plain one goes as its text."""
        is_plain = isinstance(self.value, str | int | float | None)
        value = self.value if is_plain else shorten(self.value)
        return {"problem": self._problem, "argument": self.argument, "value": value, "hint": self._hint}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The error of a record; raises KeyError where it is none."""
        error = cls(record["problem"], hint=record["hint"])
        error.argument, error.value = record["argument"], record["value"]
        return error

    def __reduce__(self) -> tuple[Callable[[Mapping[str, Any]], Self], tuple[dict[str, object]]]:
        """Errors cross processes, too, by being pickled."""
        return type(self).from_record, (self.as_record(),)


class InvalidArgument(DubitoError, ValueError):
    """An argument that cannot be meant: the fix is another call."""

    exit_code = 2


class MissingFile(DubitoError, FileNotFoundError):
    """A path that is not there, or a name that is not inside the file."""

    exit_code = 2


class OutputExists(DubitoError, FileExistsError):
    """An output that would be overwritten."""

    exit_code = 2


class InvalidData(DubitoError, ValueError):
    """Data that cannot be used as it is: the fix is another array or file."""

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
