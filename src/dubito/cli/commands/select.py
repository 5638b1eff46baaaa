"""``dubito select``: files in, picks out."""

from dubito.cli import options


def select(
    pool: options.Pool,
    budget: options.Budget,
    labeled: options.Labeled = None,
    probabilities: options.Probabilities = None,
    logits: options.Logits = None,
    doubt: options.Doubt = None,
    candidates: options.Candidates = None,
    costs: options.Costs = None,
    classes: options.Classes = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    feature_columns: options.FeatureColumns = None,
    ignore_columns: options.IgnoreColumns = None,
    probability_columns: options.ProbabilityColumns = None,
    no_label: options.NoLabel = None,
    missing: options.Missing = None,
    input_limit: options.InputLimit = None,
    strategy: options.Strategy = "auto",
    features: options.Features = None,
    strength: options.Strength = None,
    beam_width: options.BeamWidth = None,
    scaling: options.Scaling = None,
    temperature: options.Temperature = None,
    model: options.Model = "linear",
    spend: options.Spend = None,
    quota: options.Quota = None,
    metric: options.Metric = "euclidean",
    standardize: options.Standardize = "auto",
    engine: options.Engine = "auto",
    address: options.Address = None,
    journal: options.Journal = None,
    workers: options.Workers = None,
    workers_per_gpu: options.WorkersPerGpu = None,
    memory_limit: options.MemoryLimit = None,
    seed: options.Seed = "0",
    output: options.Output = None,
    format: options.Format = None,
    as_json: options.AsJson = False,
    keep: options.Keep = None,
    sheet: options.Sheet = None,
    pictures: options.Pictures = None,
    append: options.Append = False,
    safe_csv: options.SafeCsv = None,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito select pool.npz --budget 100 -o picks.csv[/bold]

    Pick the rows of a pool that are worth labeling next.

    pool.npz contains features, probabilities and, optionally, ids and labeled;
    each can also be a separate file. The picks are a table of rank, index, id,
    priority and the pool's columns of text. Add a column label, fill it in, train
    your model if you have one (else dubito fits its own), and:

    [bold]dubito select pool.npz --budget 100 --labeled picks.csv -o next.csv[/bold]
    """
    from dubito.cli.inputs import pool as files
    from dubito.cli.inputs import row_columns
    from dubito.cli.inputs.features import read_when, with_scale
    from dubito.cli.inputs.pool import handle_missing, opened, read_missing, reading_files
    from dubito.cli.inputs.row_columns import with_labels
    from dubito.cli.inputs.rows import read_carried, with_carried
    from dubito.cli.jobs import cluster
    from dubito.cli.jobs import select as job
    from dubito.cli.jobs.select import check_overwrites, check_sheet, check_target, finish, show_dry_run

    pool, labeled, ignore_columns, no_label = opened(pool, labeled, ignore_columns, no_label)
    target = check_target(output, format, as_json, append, force, safe_csv)
    chosen = {"features": features, "strength": strength, "beam_width": beam_width, "scaling": scaling}
    numbers = {"spend": spend, "temperature": temperature}
    given = job.read_options(budget, strategy, metric, engine, memory_limit, seed, model, **numbers, **chosen)
    sources: files.DoubtSpecs = {"probabilities": probabilities, "logits": logits, "doubt": doubt}
    page = None if sheet is None else check_sheet(sheet, pool, pictures, force)
    check_overwrites(target, sheet, [pool, *sources.values(), *(labeled or []), candidates, costs, classes])
    when, how = read_when(standardize), read_missing(missing)
    rows: row_columns.Specs = {"costs": costs, "classes": classes}
    quotas = row_columns.read_quotas(quota)
    columns = files.read_columns(
        id_column,
        label_column,
        feature_columns,
        ignore_columns,
        probability_columns,
        no_label,
        row_columns.claimed(rows),
    )
    where = cluster.Where(address, journal, workers, workers_per_gpu)
    if not dry_run and where.is_asked(engine):
        others: dict[str, object] = {"candidates": candidates, "costs": costs, "classes": classes, "spend": spend}
        others |= {"quota": quota, "temperature": temperature, "missing": missing, "keep": keep, "sheet": sheet}
        cluster.refuse(target, {**others, "standardize": None if standardize == "auto" else standardize})
        picked = cluster.pick(pool, labeled or [], sources, columns, given, where, quiet=quiet)
        finish(picked, target, quiet, labeled or [])
        return
    with job.lock_output(target, dry_run, quiet):
        with reading_files(input_limit, memory_limit, quiet=quiet):
            found = files.read_inputs(pool, labeled, sources, columns, how)
            found = row_columns.with_row_columns(job.without_earlier_picks(found, target, columns), rows, columns)
            given["quotas"] = row_columns.quotas_by_index(quotas, found, columns)
            if temperature == "fit" or (model != "none" and not found.doubt):
                found = with_labels(found, labeled or [], columns)
            allowed = job.read_candidates(candidates, found, columns)
            texts = read_carried(pool, keep, found.pool, columns)
            found, kept = handle_missing(found, how)
            allowed = None if allowed is None else kept.positions_of(allowed)
            given["standardize"] = with_scale(when, found.pool.feature_names, found.pool.features)
        if dry_run:
            show_dry_run(found, allowed, given, as_json, quiet)
        else:
            picked = with_carried(kept.restored(job.pick(found, allowed, given, quiet)), texts)
            if page is not None and len(picked):
                page.write(picked, quiet=quiet)
            finish(picked, target, quiet, labeled or [])
