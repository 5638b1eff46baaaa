"""``dubito resume``: go on with a run that was stopped."""

from typing import Annotated

import typer

from dubito.cli import options
from dubito.cli.commands.run import RunsDir, Workers
from dubito.cli.inputs.published import DataDir, Download

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
    input_limit: options.InputLimit = None,
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

    from dubito.cli.inputs.published import data_folder, gather
    from dubito.cli.inputs.session import bounded_inputs
    from dubito.cli.jobs import run as job
    from dubito.experiments.cells.sources import DataSource
    from dubito.experiments.runs.run import EXPERIMENT, read_folder
    from dubito.experiments.toml import naming

    chosen = job.latest_unfinished(Path(runs_dir)) if folder is None else Path(folder)
    experiment = read_folder(chosen)
    count = job.read_workers(workers, experiment)
    with bounded_inputs(input_limit), data_folder(data_dir, download), naming(str(chosen / EXPERIMENT)):
        source = gather(experiment, chosen, DataSource(experiment, chosen), download, quiet)
        job.finish(experiment, chosen, count, source, as_json=as_json, quiet=quiet)
