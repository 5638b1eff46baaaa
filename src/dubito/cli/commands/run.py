"""``dubito run``: an experiment out of a TOML file."""

from typing import Annotated

import typer

from dubito.cli import options
from dubito.cli.inputs.published import DataDir, Download


def experiment_names(incomplete: str) -> list[str]:
    """Completions of ``FILE``: names of what comes with dubito, beside the files that the shell knows."""
    from dubito.experiments.plan import shipped_experiments

    return [name for name in shipped_experiments() if name.startswith(incomplete)]


ExperimentFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        autocompletion=experiment_names,
        help="A TOML file that says what to compare, and on what; or the name of an experiment that comes with dubito, "
        "such as strength or cifar10-main.",
    ),
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
    data_dir: DataDir = None,
    download: Download = False,
    input_limit: options.InputLimit = None,
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

    from dubito.cli.inputs import features
    from dubito.cli.inputs.pool import bounded_inputs, reading_files
    from dubito.cli.inputs.published import data_folder, gather, is_done
    from dubito.cli.jobs import run as job
    from dubito.errors import DubitoError
    from dubito.experiments.data_sources import DataSource
    from dubito.experiments.plan import find_experiment
    from dubito.experiments.toml import naming

    experiment = find_experiment(file)
    folder = Path(runs_dir) / experiment.folder_name
    source = DataSource(experiment, folder)
    count = job.read_workers(workers, experiment)
    # What is wrong with the data the run itself says, if it needs it at all.
    with suppress(DubitoError, OSError), bounded_inputs(input_limit), reading_files(quiet=quiet):
        if not is_done(folder):
            features.tell(experiment.data, source, quiet=quiet)
    with bounded_inputs(input_limit), data_folder(data_dir, download), naming(file):
        gather(experiment, folder, source, download, quiet)
        job.finish(experiment, folder, count, source, as_json=as_json, quiet=quiet)


# ``dubito resume``: go on with a run that was stopped.

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

    from dubito.cli.inputs.pool import bounded_inputs
    from dubito.cli.inputs.published import data_folder, gather
    from dubito.cli.jobs import run as job
    from dubito.experiments.data_sources import DataSource
    from dubito.experiments.runner import EXPERIMENT, read_folder
    from dubito.experiments.toml import naming

    chosen = job.latest_unfinished(Path(runs_dir)) if folder is None else Path(folder)
    experiment = read_folder(chosen)
    count = job.read_workers(workers, experiment)
    with bounded_inputs(input_limit), data_folder(data_dir, download), naming(str(chosen / EXPERIMENT)):
        source = gather(experiment, chosen, DataSource(experiment, chosen), download, quiet)
        job.finish(experiment, chosen, count, source, as_json=as_json, quiet=quiet)
