"""The live display of a run: a bar for the whole, and one for each strategy, over seeds and rounds."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dubito.cli.printing.messages import PATIENCE, new_bars
from dubito.cli.printing.plain import plain

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from dubito.experiments.runs.run import Standing


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
    return f"{rate:,.3g}/s, {told_time((standing.total - standing.done) / rate)} left"


def told_time(seconds: float) -> str:
    """Seconds as a clock tells them.

    Examples
    --------
    >>> told_time(75.2), told_time(3725)
    ('1:15', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def new_board() -> "Progress":
    """Name, bar, count and note."""
    from rich.progress import MofNCompleteColumn, TextColumn

    return new_bars(MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
