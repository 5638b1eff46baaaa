"""``dubito simulate``: would this save labels on my data?"""

from typing import Annotated

import typer

from dubito.cli import options

SCHEDULE = "Schedule"

DataPath = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        show_default=False,
        help="Features and labels of labeled data: .npz, CSV or Parquet. file.npz::key names the features.",
    ),
]
TestFile = Annotated[
    str | None,
    typer.Option(
        "--test", metavar="FILE", rich_help_panel=options.FILES, help="A test set, in a file of the same kind."
    ),
]
TestShare = Annotated[
    str | None,
    typer.Option(
        "--test-share",
        metavar="X",
        rich_help_panel=options.FILES,
        help="Share of each class to hold out for testing, if there is no test set: 0.2. A test set in DATA is ignored "
        "if this is given.",
    ),
]
Strategies = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy",
        "-s",
        metavar="NAME",
        rich_help_panel=options.METHOD,
        autocompletion=options.strategy_names,
        help="What to compare with random, such as doubt-coreset:strength=0.5. May be repeated.",
    ),
]
PoolKind = Annotated[
    str,
    typer.Option(
        "--pool",
        metavar="KIND",
        rich_help_panel=options.METHOD,
        help="Modify the training data first: redundant:5, ambiguous:1, imbalanced:10, mislabelled:0.1, joined by +.",
    ),
]
ModelKind = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="KIND",
        rich_help_panel=options.METHOD,
        help="The model: linear (logistic regression, linear:c=10), forest (forest:trees=300), mlp, or another kind of "
        "dubito run. linear:samples=10 adds the committee that bald and batchbald need.",
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="X",
        rich_help_panel=options.OUTPUT,
        help="Report the number of labels needed for this accuracy, such as 0.9. May be repeated.",
    ),
]
Initial = Annotated[
    str | None,
    typer.Option(
        "--initial", metavar="N", rich_help_panel=SCHEDULE, help="Labels drawn at random before the first round."
    ),
]
Budget = Annotated[
    str | None,
    typer.Option("--budget", "-b", metavar="N", rich_help_panel=SCHEDULE, help="Labels per round."),
]
Rounds = Annotated[str | None, typer.Option("--rounds", metavar="N", rich_help_panel=SCHEDULE, help="Rounds.")]
Seeds = Annotated[
    str,
    typer.Option(
        "--seeds", metavar="N", rich_help_panel=SCHEDULE, help="Number of repetitions, each with other initial labels."
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="N",
        rich_help_panel=SCHEDULE,
        help="Number of processes. Default: one per core if the data is large.",
    ),
]
Folder = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        rich_help_panel=options.OUTPUT,
        help="The folder for the report and the records. Default: ./dubito-runs/NAME-...",
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", metavar="", rich_help_panel=options.OUTPUT, help="Start over in a folder that has a run."),
]


def simulate(
    data: DataPath,
    test: TestFile = None,
    test_share: TestShare = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    feature_columns: options.FeatureColumns = None,
    ignore_columns: options.IgnoreColumns = None,
    no_label: options.NoLabel = None,
    missing: options.Missing = None,
    input_limit: options.InputLimit = None,
    standardize: options.Standardize = "auto",
    strategy: Strategies = None,
    pool: PoolKind = "clean",
    model: ModelKind = "linear",
    initial: Initial = None,
    budget: Budget = None,
    rounds: Rounds = None,
    seeds: Seeds = "10",
    workers: Workers = None,
    target: Targets = None,
    output: Folder = None,
    force: Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito simulate data.npz[/bold]

    Would active learning save labels on my data, and how many? It is simulated
    on data that is labeled already: every strategy starts from the same few
    labels, queries more in rounds, and is tested on held-out data.

    data.npz contains features and labels. The results are a table, a report to
    open in a browser, plots and all records. Random is always among the
    strategies, and if none is better, the report says so. After an interruption,
    the same command continues where it was.
    """
    import shlex
    import sys
    from pathlib import Path

    from dubito.cli.commands import report
    from dubito.cli.inputs import features
    from dubito.cli.inputs.features import columns_of, is_wanted, read_when
    from dubito.cli.inputs.pool import bounded_inputs, dataset, read_columns, read_missing, reading_files
    from dubito.cli.jobs import simulate as job
    from dubito.experiments.plan import Experiment, read_seeds
    from dubito.request.arrays import read_number

    data, no_label = dataset(data, no_label)
    when, how = read_when(standardize), read_missing(missing)
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns, no_label=no_label)
    sizes, targets = job.read_sizes(initial, budget, rounds), report.read_targets(target)
    arms, learner = job.read_arms(strategy), job.read_model(model)
    job.check_committee(arms, learner, model)
    draft = Experiment(
        name=job.name_of(data),
        strategies=arms,
        data=job.read_settings(data, test, test_share, columns),
        model=learner,
        pool=pool,
        seeds=read_seeds(read_number(seeds)),
    )
    with bounded_inputs(input_limit):
        with reading_files(quiet=quiet):
            source = job.read_data(draft, data, test, how)
            draft = job.prepared(draft, is_wanted(when, columns_of(data, columns)), how)
        experiment = job.scheduled(draft, source.whole(), sizes)
        folder = Path(output) if output is not None else Path("dubito-runs") / experiment.folder_name
        job.open_run(experiment, folder, force)
        features.tell(draft.data, source, when, quiet=quiet)
        command = shlex.join(["dubito", *sys.argv[1:]])
        job.run(experiment, folder, source, command, workers, quiet=quiet)
        report.tell(report.make_report(folder, folder, targets, force=True), as_json, asked=targets)
