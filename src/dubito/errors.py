"""Exceptions and warnings of dubito.

Each exception is a `DubitoError` and also a subclass of the fitting built-in. Each message names the argument, the
value and the fix, which are also available as fields. The command line exits with `exit_code`: 1 for a failure, 2 if
the command line must change, 3 if the data must change.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, Self, TypeVar

# The interfaces write an argument differently: ``budget=120`` in the library, ``--budget 120`` on the command line,
# ``budget = 120`` in TOML. A message therefore contains marked spans that hold all three forms, and `render` picks one
# when the message is shown. The marks are Unicode private-use characters.

OPEN, BAR, CLOSE = MARKS = "\ue000\ue001\ue002"
PART = f"([^{MARKS}]*)"
SPAN = re.compile(OPEN + BAR.join([PART] * 4) + CLOSE)
WITHOUT_MARKS = dict.fromkeys(map(ord, MARKS))


class Span(NamedTuple):
    """Part of a message, with its text for each interface; ``argument`` is empty if it names no argument."""

    argument: str
    library: str
    command: str
    toml: str

    @property
    def is_noun(self) -> bool:
        """Whether the span refers to the data passed as the argument (`noun`) rather than to the argument itself."""
        return self.argument == self.command != ""

    def marked(self) -> str:
        """The span as message text. Marks inside the parts are removed, so that a value cannot forge a span."""
        return OPEN + BAR.join(part.translate(WITHOUT_MARKS) for part in self) + CLOSE


Interface = Callable[[Span], str]
"""Chooses the text of a span for one interface: `in_library`, `in_toml`, or that of the command line."""


def in_library(span: Span) -> str:
    return span.library


def in_toml(span: Span) -> str:
    return span.toml


def render(message: str, interface: Interface) -> str:
    """The message as text for one interface.

    Examples
    --------
    >>> message = f"{named('rounds', 9)} is too many; {PASS} {named('rounds')} <= 3."
    >>> render(message, in_library)
    'rounds=9 is too many; pass rounds <= 3.'
    >>> render(message, in_toml)
    'rounds = 9 is too many; set rounds <= 3.'
    """
    return SPAN.sub(lambda match: interface(Span(*match.groups())), message)


def noun(argument: str) -> str:
    """The data passed as this argument; an interface may add the file that it came from."""
    return Span(argument, argument, argument, argument).marked()


def named(argument: str, value: object = ...) -> str:
    """An argument, with its value if given: ``budget`` or ``--budget``, ``budget=120`` or ``--budget 120``."""
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
    >>> render(f"pass {keyword('probabilities')} or {keyword('doubt')}.", in_library)
    'pass probabilities= or doubt=.'
    """
    return Span(argument, f"{argument}=", option_of(argument), argument).marked()


def option_of(argument: str) -> str:
    """The command-line option of an argument.

    Examples
    --------
    >>> option_of("beam_width")
    '--beam-width'
    """
    return "--" + OTHER_OPTIONS.get(argument, argument).replace("_", "-")


OTHER_OPTIONS = {"groups": "group-column", "quotas": "quota"}
"""Arguments whose command-line option has another name."""


ROW = "row"
"""The ``argument`` of a span that names a row of the pool."""


def at_row(row: int) -> str:
    """A row by its number; an interface that knows the row's id may add it.

    Examples
    --------
    >>> render(f"holds nan at {at_row(3)}", in_library)
    'holds nan at row 3'
    """
    return Span(ROW, *[f"row {row}"] * 3).marked()


def by_interface(library: str, *, command: str | None = None, toml: str | None = None) -> str:
    """Text that differs between the interfaces; one that is left out gets the library's text.

    Examples
    --------
    >>> render(f"pass {by_interface('force=True', command='--force')} to replace it.", in_library)
    'pass force=True to replace it.'
    """
    return Span("", library, library if command is None else command, library if toml is None else toml).marked()


def in_python(words: str) -> str:
    """Text shown to callers of the library only.

    Examples
    --------
    >>> render(f"pass fewer points{in_python(' (OptimalCoreset(max_pool=...) raises the limit)')}.", in_toml)
    'pass fewer points.'
    """
    return by_interface(words, command="", toml="")


PASS = by_interface("pass", toml="set")
"""The verb for giving an argument: ``f"{PASS} {named('budget')} <= 100."``."""
TRUE_OR_FALSE = by_interface("pass True or False.", toml="set true or false.")
"""The hint for a value that must be a bool."""
FORCE = by_interface("force=True", command="--force")
"""The option that allows replacing an existing output."""


def shorten(value: object) -> str:
    """The repr of a value for a message, truncated if it is long.

    Examples
    --------
    >>> shorten("coreset"), shorten(list(range(40)))
    ("'coreset'", '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16...')
    """
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    text = repr(value.item() if is_scalar and hasattr(value, "item") else value)
    max_length = 300 if isinstance(value, str) else 60  # A truncated path would be useless.
    return text if len(text) <= max_length else text[: max_length - 3] + "..."


class DubitoError(Exception):
    """Any error dubito raises on purpose.

    Parameters
    ----------
    problem : str
        What is wrong. With ``argument``, the predicate of the sentence: ``"exceeds the 100 points in the pool"``.
    argument : str, optional
        The name of the invalid argument.
    value : object, optional
        Its value, if it is informative on one line.
    hint : str, optional
        How to fix it, starting in lower case and ending with a period: ``"pass a 2-D array."``.

    Attributes
    ----------
    argument, value, hint
        As above; None, or an empty hint, if they were not given.
    problem
        The message without the hint.

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
        super().__init__(self.render(in_library))

    @property
    def problem(self) -> str:
        """What is wrong, without the hint."""
        return render(self._problem, in_library)

    @property
    def hint(self) -> str:
        """How to fix it."""
        return render(self._hint, in_library)

    def render(self, interface: Interface) -> str:
        """The message as text for one interface."""
        return render(f"{self._problem}; {self._hint}" if self._hint else self._problem, interface)

    def reworded(
        self, interface: Interface, prefix: str = "", kind: "type[DubitoError] | None" = None
    ) -> "DubitoError":
        """A copy rendered for one interface, with a prefix and optionally of another exception type."""
        record = {"problem": prefix + render(self._problem, interface), "hint": render(self._hint, interface)}
        return (kind or type(self)).from_record({**self.as_record(), **record, "value": self.value})

    def as_record(self) -> dict[str, object]:
        """The fields as JSON-compatible values, so that another process can raise the error; see `from_record`."""
        is_plain = isinstance(self.value, str | int | float | None)
        value = self.value if is_plain else shorten(self.value)
        return {"problem": self._problem, "argument": self.argument, "value": value, "hint": self._hint}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Restore an error from `as_record`; raises KeyError if fields are missing."""
        error = cls(record["problem"], hint=record["hint"])
        error.argument, error.value = record["argument"], record["value"]
        return error

    def __reduce__(self) -> tuple[Callable[[Mapping[str, Any]], Self], tuple[dict[str, object]]]:
        """Pickle by the record, because the constructor takes keyword arguments."""
        return type(self).from_record, (self.as_record(),)


class InvalidArgument(DubitoError, ValueError):
    """An argument has an invalid value; the call must change."""

    exit_code = 2


class MissingFile(DubitoError, FileNotFoundError):
    """A path does not exist, or a file has no entry of that name."""

    exit_code = 2


class OutputExists(DubitoError, FileExistsError):
    """The output file exists already."""

    exit_code = 2


class InvalidData(DubitoError, ValueError):
    """An array or file holds data that cannot be used; the data must change."""

    exit_code = 3


class InvalidIds(InvalidData):
    """Ids are missing or repeated, so that they do not identify rows, or do not match those of the pool."""


class MemoryLimit(DubitoError, MemoryError):
    """The memory limit is below the minimum that the computation needs."""

    exit_code = 2


class MissingExtra(DubitoError, ImportError):
    """An optional package is required and not installed."""


class SolverFailed(DubitoError, RuntimeError):
    """An external solver found no solution."""


class ScaleWarning(UserWarning):
    """Very few columns of a frame dominate the distances, and ``standardize`` was not given."""


class SlowWarning(UserWarning):
    """The C extension is missing, so that selections are slow."""


AMERICAN = {"labelled": "labeled", "standardise": "standardize"}
P = ParamSpec("P")
R = TypeVar("R")


def american_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function so that the error for a British keyword argument names the American one."""

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for british in AMERICAN.keys() & kwargs.keys():
            known = f"{function.__qualname__}() got an unexpected keyword argument {british!r}"
            raise TypeError(f"{known}; pass {AMERICAN[british]}= instead.")
        return function(*args, **kwargs)

    return checked


PER_ROW_ARGUMENTS = ("pool", "probabilities", "logits", "doubt", "costs", "classes", "groups")
"""Arguments with one row for each row of the pool."""

RowDescriber = Callable[[int], str]
"""Returns the name of a row of the pool for error messages."""


@contextmanager
def name_files_in_errors(files: Mapping[str, str], describe_row: RowDescriber | None = None) -> Iterator[None]:
    """Add the file name and the name of the row to errors about an argument.

    ``describe_row`` names a row of the pool; files are joined by id, so their own row numbers differ.

    Examples
    --------
    >>> with name_files_in_errors({"pool": "a.npy"}):
    ...     raise DubitoError("holds nan at row 3, column 0", argument="pool", hint="remove such rows.")
    Traceback (most recent call last):
    dubito.errors.DubitoError: pool (a.npy) holds nan at row 3, column 0; remove such rows.
    """

    def with_file(span: Span) -> str:
        if describe_row is not None and span.argument == ROW:
            return describe_row(int(span.library.removeprefix(f"{ROW} ")))
        is_from_file = span.is_noun and span.argument in files
        return f"{span.argument} ({files[span.argument]})" if is_from_file else span.marked()

    try:
        yield
    except DubitoError as error:
        if error.argument not in files:
            raise
        describe_row = describe_row if error.argument in PER_ROW_ARGUMENTS else None
        raise error.reworded(with_file) from error
