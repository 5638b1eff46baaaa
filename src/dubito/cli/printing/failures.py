"""The one place where errors become a line on stderr and an exit code.

0 done, 1 failed, 2 the mend is another command line, 3 the mend is another file, 130 interrupted.
"""

import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

import typer

from dubito.cli.printing.plain import plain
from dubito.cli.printing.streams import let_go, whole_streams
from dubito.errors import DubitoError
from dubito.wording import ROW, Door, Span, in_library, option_of

FAILED, INTERRUPTED = 1, 130
TRACEBACK = "DUBITO_TRACEBACK"
"""Set in the environment, it lets an unexpected error through with its traceback."""
OF_POOL = ("pool", "probabilities", "logits", "doubt", "costs", "classes")
"""Arguments that have a row for each row of the pool."""

Place = Callable[[int], str]
"""How a row of the pool is spoken of."""


class Stopped(Exception):
    """Ctrl-C, after a command has put its affairs in order; the message says how."""


def exit_code_of(program: Callable[[], object], door: Door = in_library) -> int:
    """Run the program and return its exit code, after one line on stderr, in the words of the door, where it failed.

    What could not be written in the end makes a success a failure.
    """
    with whole_streams():
        code = attempt(program, door)
        return code if let_go() else code or FAILED


def attempt(program: Callable[[], object], door: Door) -> int:
    """The exit code of the program, whatever happens in it."""
    try:
        code = program()
        sys.stdout.flush()
        # Newer typers turn Ctrl-C into an exit code before it gets here.
        return complain("interrupted.", INTERRUPTED) if code == INTERRUPTED else code if isinstance(code, int) else 0
    except Stopped as stopped:
        return complain(str(stopped), INTERRUPTED)
    except DubitoError as error:
        return complain(error.worded(door), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return complain("interrupted.", INTERRUPTED)
    except BrokenPipeError:
        return FAILED  # The reader went away, as ``head`` does; that is no news to the person.
    except MemoryError:
        return complain("not enough memory; pass a smaller pool, or --memory-limit.", 1)
    except OSError as error:
        return complain(f"{error.filename or 'input or output'}: {error.strerror or error}.", 1)
    except Exception as error:
        if is_usage_error(error):
            return complain(usage_message(error), 2)
        if os.environ.get(TRACEBACK):
            raise
        return complain(
            f"unexpected {type(error).__name__}: {error}. This is a fault in dubito or a plug-in; "
            f"set {TRACEBACK}=1 to see where.",
            1,
        )


def complain(message: str, code: int) -> int:
    """Print the error as one line, and hand its exit code back."""
    with suppress(OSError):  # Where stderr is the one that is full, the code alone can tell.
        print(f"dubito: error: {plain(' '.join(message.split()))}", file=sys.stderr)
    return code


def is_usage_error(error: Exception) -> bool:
    """Whether typer refused the command line; by name, as older typers raise click's errors and newer their own."""
    return any(kind.__name__ == "ClickException" for kind in type(error).__mro__)


def usage_message(error: Exception) -> str:
    """Typer's complaint, and where to look."""
    context = getattr(error, "ctx", None)
    command = "dubito" if context is None else context.command_path
    message = str(getattr(error, "format_message", lambda: error)())
    stop = "" if message.endswith("?") else ";"
    return f"{message.rstrip('.')}{stop} see {command} --help."


def in_words_of(options: Collection[str]) -> Door:
    """The door of a command line that has these options; what is none of them keeps the library's words.

    Examples
    --------
    >>> from dubito.errors import InvalidArgument
    >>> error = InvalidArgument("is too small", argument="beam_width", value=0, mend="pass 1.")
    >>> error.worded(in_words_of({"--beam-width"})), error.worded(in_words_of({"--budget"}))
    ('--beam-width 0 is too small; pass 1.', 'beam_width=0 is too small; pass 1.')
    """

    def in_command(span: Span) -> str:
        is_known = span.argument == "" or option_of(span.argument) in options
        return span.command if is_known else span.library

    return in_command


@contextmanager
def naming_files(files: Mapping[str, str], place: Place | None = None) -> Iterator[None]:
    """Let an error about what was handed in say which file it came from, and what its row is called.

    ``place`` gives the words for a row of the pool; files are joined by ids, and their own rows have other numbers.

    Examples
    --------
    >>> with naming_files({"pool": "a.npy"}):
    ...     raise DubitoError("holds nan at row 3, column 0", argument="pool", mend="remove such rows.")
    Traceback (most recent call last):
    dubito.errors.DubitoError: pool (a.npy) holds nan at row 3, column 0; remove such rows.
    """

    def with_file(span: Span) -> str:
        if place is not None and span.argument == ROW:
            return place(int(span.library.removeprefix(f"{ROW} ")))
        is_from_file = span.is_noun and span.argument in files
        return f"{span.argument} ({files[span.argument]})" if is_from_file else span.marked()

    try:
        yield
    except DubitoError as error:
        if error.argument not in files:
            raise
        place = place if error.argument in OF_POOL else None
        raise error.again(with_file) from error
