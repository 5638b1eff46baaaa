"""What a person sees while a command runs: notes and a progress bar, both on stderr."""

import os
import shlex
import shutil
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dubito.cli.printing.plain import plain

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID
    from rich.table import Table

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
