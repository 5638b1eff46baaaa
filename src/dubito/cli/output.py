"""What a person sees while a command runs: notes and a progress bar, both on stderr."""

import errno
import io
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TextIO

import typer
from typer.core import TyperGroup

from dubito.errors import ROW, DubitoError, Interface, Span, in_library, option_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.progress import Progress, ProgressColumn, TaskID
    from rich.table import Table
    from rich.text import Text

    from dubito.experiments.runner import Standing

# The program as ``--help`` shows it: flags without a ``<bool>``, arguments by their names alone.

HELP_NAMES = ["-h", "--help"]


class Program(NamedTuple):
    """What to call, and the names of each command's options, such as ``--beam-width``."""

    call: Callable[..., object]
    options: Mapping[str, frozenset[str]]

    def options_of(self, arguments: Sequence[str]) -> frozenset[str]:
        """The options of the command that is called."""
        return next((self.options[each] for each in arguments if each in self.options), frozenset())


@cache
def tidied(app: typer.Typer) -> Program:
    """The program to call, built once: a process may call it many times.

    Newer typers write ``{POOL}`` and ``POOL <str>`` for an argument that has a metavar. Older ones do not, and have no
    method to replace: nothing changes there.
    """
    program = typer.main.get_command(app)
    children = program.commands if isinstance(program, TyperGroup) else {}
    options = {name: _tidied(command) for name, command in children.items()}
    return Program(program, {"": _tidied(program, alone=True), **options})


def _tidied(command: Any, *, alone: bool = False) -> frozenset[str]:
    """The names of a command's options, and of those of a group's commands, once they are as ``--help`` shows them."""
    parameters = command.get_params(typer.Context(command, help_option_names=HELP_NAMES))
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument" and parameter.metavar:
            vars(parameter).update(named_alone(parameter.metavar))
    own = frozenset(option for parameter in parameters for option in parameter.opts)
    children = command.commands.values() if isinstance(command, TyperGroup) and not alone else ()
    return own.union(*map(_tidied, children))


def named_alone(name: str) -> dict[str, Callable[..., object]]:
    """What an argument called ``name`` answers when asked for its type, and for its part of the usage line."""
    return {"display_type_rich": lambda ctx: None, "get_usage_pieces": lambda ctx: [name]}


# Text that came from a file, made safe to show: what would steer a terminal is written out instead of done.
#
# Names of columns, labels, ids and paths are whatever their author put there; so are messages of libraries that quote
# them. Control characters (of ASCII and of Latin-1) move the cursor, change colours or rename the window; marks of
# direction show text in another order than it is read; rich takes brackets for markup.

STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # Controls: C0, delete, C1.
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # Marks of direction.
    "\u2028\u2029\ufeff"  # Ends of lines and paragraphs, and a mark that no one sees.
    "\ud800-\udfff\U000e0000-\U000e007f]"  # Bytes that were no text, and letters that no one sees.
)


def plain(text: str) -> str:
    r"""The text in one line, with whatever steers a terminal written as Python would write it.

    Examples
    --------
    >>> print(plain("red \x1b[31m, back\u202eward"), plain("Größe"))
    red \x1b[31m, back\u202eward Größe
    """
    return STEERING.sub(lambda match: repr(match.group())[1:-1], text)


def plain_data(text: str) -> str:
    """The same for a table of data: its lines and tabs stay."""
    return STEERING.sub(lambda match: match.group() if match.group() in "\n\t" else plain(match.group()), text)


def put(lines: Iterable[str]) -> None:
    """Lines for a person, on stdout."""
    for line in lines:
        print(plain(line))
    sys.stdout.flush()


def put_data(data: bytes) -> None:
    """Data on stdout: as it is, but on a terminal nothing in it steers."""
    if sys.stdout.isatty():
        data = plain_data(data.decode("utf-8", "replace")).encode()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def plain_cells(*texts: str) -> "list[Text]":
    """Cells of a table as they are read: no markup, nothing that steers."""
    from rich.text import Text

    return [Text(plain(text)) for text in texts]


PATIENCE = 1.0
"""Seconds before a bar appears."""
OFF_TERMINAL = 400
"""Columns where there is no terminal to fit."""


def say(message: str, *, quiet: bool = False) -> None:
    """A note on stderr, so that stdout holds nothing but data."""
    if not quiet:
        print(f"dubito: {plain(message)}", file=sys.stderr)


def show(table: "Table") -> None:
    """Print a table on stdout; off a terminal no line is cut or folded."""
    from rich.console import Console

    Console(highlight=False, width=None if sys.stdout.isatty() else OFF_TERMINAL).print(table)


class Bar:
    """A progress bar with rate and time left; it appears after a second, and only on a terminal.

    Called as `dubito.select` calls its ``progress``: done, total, radius or None, seconds.
    """

    def __init__(self, verb: str, *, quiet: bool = False) -> None:
        self.verb = verb
        self.wanted = sys.stderr.isatty() and not quiet
        self.before = 0
        """What an earlier run had done, which counts in no rate."""
        self.drawn: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.drawn is not None:
            self.drawn[0].stop()

    def __call__(self, done: int, total: int, radius: float | None, seconds: float, /) -> None:
        """Draw where the run stands."""
        if not self.wanted or seconds < PATIENCE:
            return
        if self.drawn is None:
            progress = new_progress()
            self.drawn = progress, progress.add_task(self.verb, total=total, rate="", note="")
            progress.start()
        progress, task = self.drawn
        note = "" if radius is None else f"radius {radius:.4g}"
        progress.update(task, completed=done, rate=f"{(done - self.before) / seconds:,.3g}/s", note=note)


def new_progress() -> "Progress":
    """Verb, bar, count, rate, time left and radius."""
    from rich.progress import MofNCompleteColumn, TextColumn, TimeRemainingColumn

    left = TimeRemainingColumn(elapsed_when_finished=True)
    return new_bars(MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), left, TextColumn("{task.fields[note]}"))


def new_bars(*columns: "ProgressColumn") -> "Progress":
    """A name, a bar and these columns on stderr; they clear themselves away in the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    named = TextColumn("{task.description}", markup=False), BarColumn()
    return Progress(*named, *columns, console=Console(stderr=True), transient=True)


def program_name() -> str:
    """``dubito`` where the shell would find this one, else this Python and ``-m dubito``."""
    found = shutil.which("dubito")
    if found and os.path.dirname(os.path.realpath(found)) == os.path.dirname(os.path.abspath(sys.executable)):
        return "dubito"
    near = os.path.relpath(sys.executable)
    return f"{shlex.quote(min(near, sys.executable, key=len))} -m dubito"


# The live display of a run: a bar for the whole, and one for each strategy, over seeds and rounds.


class Board:
    """Called with a `Standing`; it appears after a second, and only on a terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.wanted = sys.stderr.isatty() and not quiet
        self.last: Standing | None = None
        self.drawn: Progress | None = None
        self.tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.drawn is not None:
            self.drawn.stop()

    def __call__(self, standing: "Standing", /) -> None:
        """Draw where the run stands."""
        self.last = standing
        if not self.wanted or standing.seconds < PATIENCE:
            return
        if self.drawn is None:
            self.drawn = new_board()
            self.drawn.start()
            each = standing.total // len(standing.by_strategy)
            self.tasks = {name: self.drawn.add_task(plain(name), total=each, note="") for name in standing.by_strategy}
            self.tasks[""] = self.drawn.add_task("trainings in all", total=standing.total, note="")
        for name, done in standing.by_strategy.items():
            self.drawn.update(self.tasks[name], completed=done)
        self.drawn.update(self.tasks[""], completed=standing.done, note=pace(standing))


def pace(standing: "Standing") -> str:
    """Rate and time left, by what this run has done itself."""
    done = standing.done - standing.resumed
    if done <= 0:
        return ""
    rate = done / standing.seconds
    return f"{rate:,.3g}/s, {describe_time((standing.total - standing.done) / rate)} left"


def describe_time(seconds: float) -> str:
    """Seconds as a clock tells them.

    Examples
    --------
    >>> describe_time(75.2), describe_time(3725)
    ('1:15', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def new_board() -> "Progress":
    """Name, bar, count and note."""
    from rich.progress import MofNCompleteColumn, TextColumn

    return new_bars(MofNCompleteColumn(), TextColumn("{task.fields[note]}"))


# Standard output and error that are written whole, or say that they could not be.
#
# Python's own may do neither: with ``PYTHONUNBUFFERED`` a write that a full disk cuts short passes for whole, and a
# stream that the shell closed is None, for which ``print`` takes the other one or nothing at all.


class Raw(io.FileIO):
    """A file descriptor whose errors say which stream they come from; the buffer above it sees to short writes."""

    def __init__(self, file: int, called: str, *, closefd: bool = False) -> None:
        super().__init__(file, "wb", closefd=closefd)
        self.called = called
        self.given_up = False
        """Set, everything is dropped: what is left in the buffer must not fail a second time."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write some of the data."""
        if self.given_up:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            error.filename = self.called
            if error.errno == errno.EBADF:
                error.strerror = "it is closed"
            raise


@contextmanager
def whole_streams() -> Iterator[None]:
    """Standard output and error that fail aloud, while the block runs."""
    before = sys.stdout, sys.stderr
    ours = made_whole(sys.stdout, "stdout"), made_whole(sys.stderr, "stderr")
    sys.stdout, sys.stderr = ours
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in set(ours) - set(before):
            with suppress(OSError):
                stream.close()


def made_whole(stream: TextIO | None, called: str) -> TextIO:
    """The same stream through a buffer of ours; one that is no file stays as it is."""
    if stream is None:
        return closed_stream(called)
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        file = stream.fileno()
    except OSError:
        # A δ on a terminal that knows only ASCII is no reason to fail.
        stream.reconfigure(errors="replace")
        return stream
    stream.flush()
    by_line = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(io.BufferedWriter(Raw(file, called)), stream.encoding, "replace", line_buffering=by_line)


def closed_stream(called: str) -> TextIO:
    """In place of a stream that the shell closed: notes go nowhere, as was wished, and data is refused."""
    mode = os.O_WRONLY if called == "stderr" else os.O_RDONLY
    raw = Raw(os.open(os.devnull, mode), called, closefd=True)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "replace", line_buffering=True)


def let_go() -> bool:
    """Write what the buffers hold; False, and it is dropped, where that fails."""
    written = [is_written(stream) for stream in (sys.stdout, sys.stderr)]
    return all(written)


def is_written(stream: TextIO) -> bool:
    """Whether a stream has written all it was given."""
    try:
        stream.flush()
    except OSError:
        raw = getattr(getattr(stream, "buffer", None), "raw", None)
        if isinstance(raw, Raw):
            raw.given_up = True
            stream.flush()
        return False
    return True


# The one place where errors become a line on stderr and an exit code.
#
# 0 done, 1 failed, 2 the fix is another command line, 3 the fix is another file, 130 interrupted.

FAILED, INTERRUPTED = 1, 130
TRACEBACK = "DUBITO_TRACEBACK"
"""Set in the environment, it lets an unexpected error through with its traceback."""
OF_POOL = ("pool", "probabilities", "logits", "doubt", "costs", "classes")
"""Arguments that have a row for each row of the pool."""

Place = Callable[[int], str]
"""How a row of the pool is spoken of."""


class Stopped(Exception):
    """Ctrl-C, after a command has put its affairs in order; the message says how."""


def exit_code_of(program: Callable[[], object], interface: Interface = in_library) -> int:
    """Run the program and return its exit code; a failure prints one line on stderr, worded for the interface.

    What could not be written in the end makes a success a failure.
    """
    with whole_streams():
        code = attempt(program, interface)
        return code if let_go() else code or FAILED


def attempt(program: Callable[[], object], interface: Interface) -> int:
    """The exit code of the program, whatever happens in it."""
    try:
        code = program()
        sys.stdout.flush()
        # Newer typers turn Ctrl-C into an exit code before it gets here.
        return complain("interrupted.", INTERRUPTED) if code == INTERRUPTED else code if isinstance(code, int) else 0
    except Stopped as stopped:
        return complain(str(stopped), INTERRUPTED)
    except DubitoError as error:
        return complain(error.render(interface), error.exit_code)
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


def in_words_of(options: Collection[str]) -> Interface:
    """The interface of a command line that has these options; what is none of them keeps the library's words.

    Examples
    --------
    >>> from dubito.errors import InvalidArgument
    >>> error = InvalidArgument("is too small", argument="beam_width", value=0, hint="pass 1.")
    >>> error.render(in_words_of({"--beam-width"})), error.render(in_words_of({"--budget"}))
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
    ...     raise DubitoError("holds nan at row 3, column 0", argument="pool", hint="remove such rows.")
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
        raise error.reworded(with_file) from error
