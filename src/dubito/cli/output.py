"""Terminal output of the command line: help, notes, progress bars, standard streams and errors."""

import errno
import io
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

import typer

from dubito.errors import DubitoError, Interface, Span, in_library, option_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.progress import Progress, ProgressColumn, TaskID
    from rich.table import Table
    from rich.text import Text

    from dubito.experiments.runner import RunStatus

HELP_NAMES = ["-h", "--help"]


def one_of(names: Iterable[str]) -> str:
    """Names as a choice, for the help of an option.

    Examples
    --------
    >>> one_of(["csv", "json", "npy"])
    'csv, json or npy'
    """
    *most, last = names
    return f"{', '.join(most)} or {last}"


# Escaping of untrusted text (column names, labels, ids, paths): control characters could drive the terminal,
# direction marks reorder text, and rich reads brackets as markup.

CONTROL_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # Control characters: C0, delete, C1.
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # Direction marks.
    "\u2028\u2029\ufeff"  # Line and paragraph separators, and the byte order mark.
    "\ud800-\udfff\U000e0000-\U000e007f]"  # Surrogates (undecodable bytes) and invisible tag characters.
)


def escape(text: str) -> str:
    r"""The text with control characters, including line breaks, escaped as in Python literals.

    Examples
    --------
    >>> print(escape("red \x1b[31m, back\u202eward"), escape("Größe"))
    red \x1b[31m, back\u202eward Größe
    """
    return CONTROL_CHARACTERS.sub(lambda match: repr(match.group())[1:-1], text)


def escape_data(text: str) -> str:
    """Like `escape`, but keeps newlines and tabs."""
    return CONTROL_CHARACTERS.sub(
        lambda match: match.group() if match.group() in "\n\t" else escape(match.group()), text
    )


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on stdout, escaped."""
    for line in lines:
        print(escape(line))
    sys.stdout.flush()


def write_data(data: bytes) -> None:
    """Write data to stdout; unchanged, except that control characters are escaped on a terminal."""
    if sys.stdout.isatty():
        data = escape_data(data.decode("utf-8", "replace")).encode()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def escaped_cells(*texts: str) -> "list[Text]":
    """Cells of a rich table, escaped and without markup."""
    from rich.text import Text

    return [Text(escape(text)) for text in texts]


BAR_DELAY = 0.5
"""Seconds before a progress bar appears."""
WIDTH_OFF_TERMINAL = 400
"""Table width in characters if stdout is not a terminal."""


_is_quiet = False


def set_quiet(quiet: bool) -> None:
    """Turn notes and progress bars off, or on again."""
    global _is_quiet
    _is_quiet = quiet


def is_quiet() -> bool:
    return _is_quiet


def print_note(message: str) -> None:
    """Print a note on stderr, unless notes are off; stdout is for data."""
    if not _is_quiet:
        print_warning(message)


def print_warning(message: str) -> None:
    """Print a message on stderr, even if notes are off."""
    print(f"dubito: {escape(message)}", file=sys.stderr)


def print_table(table: "Table") -> None:
    """Print a table on stdout; lines are wrapped only on a terminal."""
    from rich.console import Console

    Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH_OFF_TERMINAL).print(table)


class ProgressBar:
    """A progress bar with rate and time left; shown after half a second, and only on a terminal.

    Call it like the ``progress`` argument of `dubito.select`: done, total, radius or None, seconds.
    """

    def __init__(self, verb: str) -> None:
        self.verb = verb
        self.is_enabled = sys.stderr.isatty() and not _is_quiet
        self.before = 0
        """Items done by an earlier run, excluded from the rate."""
        self.drawn: tuple[Progress, TaskID] | None = None
        self.name = verb

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.drawn is not None:
            self.drawn[0].stop()

    def phase(self, name: str, share: float, seconds: float, /) -> None:
        """Show the progress of a phase before the first item, as a share; see `dubito.select`."""
        if self.is_enabled and seconds >= BAR_DELAY:
            progress, task = self._draw(name, 100)
            progress.update(task, completed=100.0 * share, rate="%")

    def _draw(self, name: str, total: int) -> "tuple[Progress, TaskID]":
        """The bar, reset if its name changes."""
        if self.drawn is None:
            from rich.progress import MofNCompleteColumn, TextColumn, TimeRemainingColumn

            rate, left = TextColumn("{task.fields[rate]}"), TimeRemainingColumn(elapsed_when_finished=True)
            progress = progress_bars(MofNCompleteColumn(), rate, left, TextColumn("{task.fields[note]}"))
            self.drawn = progress, progress.add_task(name, total=total, rate="", note="")
            progress.start()
        elif self.name != name:
            self.drawn[0].reset(self.drawn[1], total=total, description=name)
        self.name = name
        return self.drawn

    def __call__(self, done: int, total: int, radius: float | None, seconds: float, /) -> None:
        if not self.is_enabled or seconds < BAR_DELAY:
            return
        progress, task = self._draw(self.verb, total)
        note = "" if radius is None else f"radius {radius:.4g}"
        progress.update(task, completed=done, rate=f"{(done - self.before) / seconds:,.3g}/s", note=note)


def progress_bars(*columns: "ProgressColumn") -> "Progress":
    """Progress bars on stderr, with these columns after name and bar, which disappear when done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    named = TextColumn("{task.description}", markup=False), BarColumn()
    return Progress(*named, *columns, console=Console(stderr=True), transient=True)


def program_name() -> str:
    """How a user runs this installation: ``dubito`` if that is on the PATH, else ``python -m dubito``."""
    found = shutil.which("dubito")
    if found and os.path.dirname(os.path.realpath(found)) == os.path.dirname(os.path.abspath(sys.executable)):
        return "dubito"
    return f"{shlex.quote(min(os.path.relpath(sys.executable), sys.executable, key=len))} -m dubito"


# Live progress of an experiment: a bar for each strategy, and one for the total.


FIRST_LINE, LATER_LINES = 10.0, 1.5
"""Without a terminal: seconds until the first line of progress, and the factor from each time to the next."""


class RunProgress:
    """Progress display of an experiment: bars after half a second, or lines at growing intervals without a terminal."""

    def __init__(self) -> None:
        self.is_enabled = sys.stderr.isatty() and not _is_quiet
        self.next_line = FIRST_LINE
        self.last: RunStatus | None = None
        self.drawn: Progress | None = None
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.drawn is not None:
            self.drawn.stop()

    def __call__(self, status: "RunStatus", /) -> None:
        self.last = status
        if not self.is_enabled and status.seconds >= self.next_line:
            self.next_line = LATER_LINES * status.seconds
            shown = ", ".join(filter(None, (f"{status.done:,} of {status.total:,} trainings", pace(status))))
            print_note(shown)
        if not self.is_enabled or status.seconds < BAR_DELAY:
            return
        if self.drawn is None:
            from rich.progress import MofNCompleteColumn, TextColumn

            self.drawn = progress_bars(MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
            self.drawn.start()
            share = status.total // len(status.by_strategy)
            self.tasks = {name: self.drawn.add_task(escape(name), total=share, note="") for name in status.by_strategy}
            self.tasks[""] = self.drawn.add_task("trainings in all", total=status.total, note="")
        for name, done in status.by_strategy.items():
            self.drawn.update(self.tasks[name], completed=done)
        self.drawn.update(self.tasks[""], completed=status.done, note=pace(status))


def pace(status: "RunStatus") -> str:
    """Rate and time left; trainings that were resumed do not count toward the rate."""
    done = status.done - status.resumed
    if done <= 0:
        return ""
    rate = done / status.seconds
    return f"{rate:,.3g}/s, {describe_time((status.total - status.done) / rate)} left"


def describe_time(seconds: float) -> str:
    """Seconds as minutes:seconds or hours:minutes:seconds.

    Examples
    --------
    >>> describe_time(75.2), describe_time(3725)
    ('1:15', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# Standard streams that report every failed write. Python's own do not: with ``PYTHONUNBUFFERED`` a write cut short by
# a full disk counts as complete, and a stream that the shell closed is None, which ``print`` ignores.


class StreamFile(io.FileIO):
    """The file below a buffered stream, with the name of the stream in its errors. The buffer retries short writes."""

    def __init__(self, file: int, stream_name: str, *, closefd: bool = False) -> None:
        super().__init__(file, "wb", closefd=closefd)
        self.stream_name = stream_name
        self.is_discarding = False
        """If set, all data is dropped, so that the rest of the buffer does not fail a second time."""

    def write(self, data: "ReadableBuffer", /) -> int:
        if self.is_discarding:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            error.filename = self.stream_name
            if error.errno == errno.EBADF:
                error.strerror = "it is closed"
            raise


@contextmanager
def checked_streams() -> Iterator[None]:
    """Replace stdout and stderr by streams that report failed writes while the block runs."""
    before = sys.stdout, sys.stderr
    replaced = with_checked_writes(sys.stdout, "stdout"), with_checked_writes(sys.stderr, "stderr")
    sys.stdout, sys.stderr = replaced
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in set(replaced) - set(before):
            with suppress(OSError):
                stream.close()


def with_checked_writes(stream: TextIO | None, stream_name: str) -> TextIO:
    """The stream on top of a `StreamFile`; unchanged if it is not a file."""
    if stream is None:  # The shell closed it: notes are dropped, data raises an error.
        mode = os.O_WRONLY if stream_name == "stderr" else os.O_RDONLY
        raw = StreamFile(os.open(os.devnull, mode), stream_name, closefd=True)
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "replace", line_buffering=True)
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        file = stream.fileno()
    except OSError:
        # Do not fail on a δ if the terminal supports only ASCII.
        stream.reconfigure(errors="replace")
        return stream
    stream.flush()
    by_line = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(
        io.BufferedWriter(StreamFile(file, stream_name)), stream.encoding, "replace", line_buffering=by_line
    )


def flush(stream: TextIO) -> bool:
    """Flush a stream; if that fails, drop the data and return False."""
    try:
        stream.flush()
    except OSError:
        raw = getattr(getattr(stream, "buffer", None), "raw", None)
        if isinstance(raw, StreamFile):
            raw.is_discarding = True
            stream.flush()
        return False
    return True


# Errors become one line on stderr and an exit code: 0 success, 1 failure, 2 wrong command line, 3 wrong file,
# 130 interrupted.

FAILED, INTERRUPTED = 1, 130
TRACEBACK = "DUBITO_TRACEBACK"
"""Environment variable: if set, unexpected errors are shown with their traceback."""


class Stopped(Exception):
    """Ctrl-C, after the command saved its results; the message says where."""


def exit_code_of(program: Callable[[], object], interface: Interface = in_library) -> int:
    """Run the program, print one line on stderr if it fails, and return its exit code.

    Success becomes failure if the output cannot be flushed.
    """
    with checked_streams():
        code = run_program(program, interface)
        are_written = [flush(stream) for stream in (sys.stdout, sys.stderr)]
        return code if all(are_written) else code or FAILED


def run_program(program: Callable[[], object], interface: Interface) -> int:
    try:
        code = program()
        sys.stdout.flush()
        if code == INTERRUPTED:  # Newer versions of typer turn Ctrl-C into an exit code.
            return print_error("interrupted.", INTERRUPTED)
        return code if isinstance(code, int) else 0
    except Stopped as stopped:
        return print_error(str(stopped), INTERRUPTED)
    except DubitoError as error:
        return print_error(error.render(interface), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return print_error("interrupted.", INTERRUPTED)
    except BrokenPipeError:
        return FAILED  # The reader closed the pipe, as ``head`` does; no message needed.
    except MemoryError:
        return print_error("not enough memory; pass a smaller pool, or --memory-limit.", 1)
    except OSError as error:
        return print_error(f"{error.filename or 'input or output'}: {error.strerror or error}.", 1)
    except Exception as error:
        # The class of errors in the command line depends on the version of typer, its name does not.
        if any(kind.__name__ == "ClickException" for kind in type(error).__mro__):
            return print_error(usage_message(error), 2)
        if os.environ.get(TRACEBACK):
            raise
        return print_error(
            f"unexpected {type(error).__name__}: {error}. This is a fault in dubito or a plug-in; "
            f"set {TRACEBACK}=1 to see where.",
            1,
        )


def print_error(message: str, code: int) -> int:
    with suppress(OSError):  # If stderr cannot be written, only the exit code remains.
        print(f"dubito: error: {escape(' '.join(message.split()))}", file=sys.stderr)
    return code


def usage_message(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    command = "dubito" if context is None else context.command_path
    message = str(getattr(error, "format_message", lambda: error)())
    see = " See" if message.endswith("?") else "; see"
    return f"{message.rstrip('.')}{see} {command} --help."


def command_wording(options: Collection[str]) -> Interface:
    """The wording of errors in a command with these options: ``--beam-width 0`` for ``beam_width=0``.

    Examples
    --------
    >>> from dubito.errors import InvalidArgument
    >>> error = InvalidArgument("is too small", argument="beam_width", value=0, hint="pass 1.")
    >>> error.render(command_wording({"--beam-width"})), error.render(command_wording({"--budget"}))
    ('--beam-width 0 is too small; pass 1.', 'beam_width=0 is too small; pass 1.')
    """

    def in_command(span: Span) -> str:
        is_known = span.argument == "" or option_of(span.argument) in options
        return span.command if is_known else span.library

    return in_command
