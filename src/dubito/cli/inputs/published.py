"""Published data that an experiment names: where it is kept, and downloads with a bar."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dubito.cli import options
from dubito.cli.output import new_bars, say

if TYPE_CHECKING:
    from dubito.experiments.data_sources import DataSource
    from dubito.experiments.images import DownloadProgress
    from dubito.experiments.plan import Experiment

DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        metavar="FOLDER",
        rich_help_panel=options.FILES,
        help="Where CIFAR-10, CIFAR-100, SVHN and the weights of VGG16 are; if not given $DUBITO_DATA, else "
        "~/.cache/dubito.",
    ),
]
Download = Annotated[
    bool,
    typer.Option(
        "--download",
        metavar="",
        rich_help_panel=options.FILES,
        help="Bring those that are missing from their official addresses.",
    ),
]


@contextmanager
def data_folder(folder: str | None, download: bool) -> Iterator[None]:
    """Published files are looked for there, by this process and those it starts, while the block runs."""
    from dubito.cli.inputs.pool import variable
    from dubito.experiments.downloads import DATA_VARIABLE
    from dubito.experiments.downloads import data_folder as checked

    if folder is None:
        yield
        return
    with variable(DATA_VARIABLE, str(checked(folder, download).absolute())):
        yield


def is_done(folder: Path) -> bool:
    """Whether a folder holds a run of which nothing is left to do."""
    from dubito.experiments.runner import EXPERIMENT, is_finished

    return (folder / EXPERIMENT).is_file() and is_finished(folder)


def gather(experiment: "Experiment", folder: Path, source: "DataSource", download: bool, quiet: bool) -> "DataSource":
    """Bring what is missing if that is allowed, or say at once all that is; a run that is done needs nothing."""
    from dubito.errors import MissingFile, Span
    from dubito.experiments.downloads import find_weights
    from dubito.experiments.models.base import StartsFromWeights

    if is_done(folder):
        return source
    missing: list[str] = []
    with download_bar(quiet) as progress:
        try:
            if source.is_published:
                source.whole(download=download, progress=progress)
        except MissingFile as error:
            missing.append(error.render(Span.marked))
        try:
            if isinstance(experiment.model, StartsFromWeights):
                find_weights(experiment.model.weights, download=download, progress=progress)
        except MissingFile as error:
            missing.append(error.render(Span.marked))
    if missing:
        raise MissingFile(" And ".join(missing))
    return source


@contextmanager
def download_bar(quiet: bool) -> "Iterator[DownloadProgress]":
    """What is shown of downloads: a bar each on a terminal, elsewhere a line each."""
    if sys.stderr.isatty() and not quiet:
        with _bars() as progress:
            yield progress
        return
    begun: set[str] = set()

    def tell(name: str, done: int, total: int, /) -> None:
        if name not in begun:
            say(f"downloading {name}, {total / 1e6:,.0f} MB", quiet=quiet)
            begun.add(name)

    yield tell


@contextmanager
def _bars() -> "Iterator[DownloadProgress]":
    from rich.progress import DownloadColumn, TaskID, TimeRemainingColumn, TransferSpeedColumn

    with new_bars(DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()) as bars:
        tasks: dict[str, TaskID] = {}

        def draw(name: str, done: int, total: int, /) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=done)

        yield draw
