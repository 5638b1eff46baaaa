"""``dubito status``: what is labeled, how well a model does on it, and whether to go on."""

from dubito.cli import options


def status(
    pool: options.Pool,
    labeled: options.Labeled = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    feature_columns: options.FeatureColumns = None,
    ignore_columns: options.IgnoreColumns = None,
    no_label: options.NoLabel = None,
    missing: options.Missing = None,
    model: options.Model = "linear",
    input_limit: options.InputLimit = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito status pool.parquet --labeled round-1.csv --labeled round-2.csv[/bold]

    Print how many labels each class has, the held-out accuracy of a model fitted
    on them, how many labels of the last file it predicted correctly before it was
    trained on them, and whether it is worth labeling more.
    """
    from tempfile import TemporaryDirectory

    from dubito.cli.inputs.pool import opened, reading_files
    from dubito.cli.jobs import status as job

    with TemporaryDirectory(prefix="dubito-") as aside:  # A project may be read-only.
        pool, labeled, ignore_columns, no_label = opened(pool, labeled, ignore_columns, no_label, aside)
        columns = job.read_names(id_column, label_column, feature_columns, ignore_columns, no_label)
        with reading_files(input_limit, None, quiet=quiet):
            found, before = job.read_labeled_pool(pool, labeled or [], columns, missing)
    job.show(job.measure(found, before, model), as_json)
