"""``dubito run``: an experiment out of a TOML file."""

from typing import Annotated

import typer

from dubito.cli import options

ExperimentFile = Annotated[
    str, typer.Argument(metavar="FILE", show_default=False, help="A TOML file that says what to compare, and on what.")
]
RunsDir = Annotated[
    str,
    typer.Option(
        "--runs-dir", metavar="FOLDER", rich_help_panel=options.OUTPUT, help="Where runs are kept, a folder each."
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="N",
        rich_help_panel=options.METHOD,
        help="Processes to share the work; if not given one a core, 8 at most, and on a GPU 1.",
    ),
]


def run(
    file: ExperimentFile,
    workers: Workers = None,
    runs_dir: RunsDir = "dubito-runs",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito run experiment.toml[/bold]

    Play an experiment: one TOML file says which data, model, strategies, seeds
    and schedule. Stop it at any moment: the same command goes on where it was,
    and several at once share the work.
    """
    from contextlib import suppress
    from pathlib import Path

    from dubito.cli import features, runs
    from dubito.errors import DubitoError
    from dubito.experiments.config import read_experiment
    from dubito.experiments.toml import naming

    experiment = read_experiment(file)
    count = runs.read_workers(workers, experiment)
    with suppress(DubitoError, OSError):  # What is wrong with the data the run itself says, if it needs it at all.
        features.tell(experiment.data, quiet=quiet)
    with naming(file):
        runs.finish(experiment, Path(runs_dir) / experiment.folder_name, count, as_json=as_json, quiet=quiet)
