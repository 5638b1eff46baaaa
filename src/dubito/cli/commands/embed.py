"""``dubito embed``: a folder of pictures or a table of texts in, a pool file out."""

from dubito.cli import options
from dubito.cli.options import embedding


def embed(
    source: embedding.Supplied,
    embedder: embedding.EmbedderName = "auto",
    output: embedding.PoolOutput = "pool.parquet",
    text: embedding.TextColumn = None,
    image: embedding.ImageColumn = None,
    id_column: options.IdColumn = None,
    labels: embedding.FolderLabels = True,
    option: embedding.EmbedderOption = None,
    batch: embedding.BatchSize = None,
    processes: embedding.Processes = None,
    half: embedding.Half = False,
    shard: embedding.ShardSize = "1024",
    errors: embedding.ErrorsFile = None,
    input_limit: options.InputLimit = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito embed photos/ -o pool.parquet[/bold]

    Turn a folder of pictures, or a table of texts or pictures, into a pool
    that every other command reads: ids, embeddings, what to show, and all
    other columns. What is broken is listed and left out.

    Stopped or killed, the same command goes on where it was. Then:

    [bold]dubito select pool.parquet --budget 50 -o batch.csv[/bold]
    """
    from dubito.cli.jobs import embed as job

    asked = job.read_asked(source, embedder, output, option, batch, processes, shard)
    job.check_errors_file(errors, force)
    embedded = job.run(asked, text, image, id_column, labels, half, input_limit, force, quiet)
    job.finish(embedded, errors, as_json, quiet)
