"""``dubito resume``: go on with a run that was stopped."""

from typing import Annotated

import typer

from dubito.cli import options
from dubito.cli.published import DataDir, Download
from dubito.cli.run import RunsDir, Workers

RunFolder = Annotated[
    str | None,
    typer.Argument(
        metavar="FOLDER", show_default=False, help="The folder of a run; the last that is not done, if not given."
    ),
]


def resume(
    folder: RunFolder = None,
    workers: Workers = None,
    data_dir: DataDir = None,
    download: Download = False,
    runs_dir: RunsDir = "dubito-runs",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito resume[/bold]

    Go on with a run that was stopped. What it had done is kept, and the results
    are those of a run that was never stopped.
    """
    from pathlib import Path

    from dubito.cli import runs
    from dubito.cli.published import data_folder, gather
    from dubito.experiments.running import EXPERIMENT, read_folder
    from dubito.experiments.toml import naming

    chosen = runs.latest_unfinished(Path(runs_dir)) if folder is None else Path(folder)
    experiment = read_folder(chosen)
    count = runs.read_workers(workers, experiment)
    with data_folder(data_dir, download), naming(str(chosen / EXPERIMENT)):
        gather(experiment, chosen, download, quiet)
        runs.finish(experiment, chosen, count, as_json=as_json, quiet=quiet)
