"""``dubito embed``: make a pool file from a folder of pictures or a table of texts."""

from typing import Annotated

import typer

from dubito.cli import options
from dubito.cli.options import FILES, METHOD, OUTPUT

# Options of ``dubito embed``.


def embedder_names(incomplete: str) -> list[str]:
    """Shell completions of ``--embedder``."""
    from dubito.embedding.embedders import EMBEDDERS, NAMED

    names = ["auto", *(f"{name}:" if name in NAMED else name for name in EMBEDDERS.names())]
    return [name for name in names if name.startswith(incomplete)]


SourcePath = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        show_default=False,
        help="A folder of pictures; a table of texts, of paths of pictures or of image bytes (CSV, TSV, JSON lines, "
        "JSON, Parquet, Feather, .xlsx); or a data set that Hugging Face's save_to_disk wrote.",
    ),
]
PoolOutput = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Where to write the pool: a .parquet file, or a folder of shards.",
    ),
]
EmbedderName = Annotated[
    str,
    typer.Option(
        "--embedder",
        "-e",
        metavar="NAME",
        rich_help_panel=METHOD,
        autocompletion=embedder_names,
        help="auto (pixels for pictures, words for texts), onnx:FILE, timm:NAME, clip:NAME, sentence:NAME, "
        "torch:module.function, or an embedder of another package.",
    ),
]
EmbedderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        rich_help_panel=METHOD,
        help="An option of the embedder, such as size=224, mean=imagenet or tokenizer=FILE. May be repeated.",
    ),
]
TextColumn = Annotated[
    str | None,
    typer.Option("--text", metavar="NAME", rich_help_panel=FILES, help="The column of texts, if not recognized."),
]
ImageColumn = Annotated[
    str | None,
    typer.Option(
        "--image", metavar="NAME", rich_help_panel=FILES, help="The column of pictures: image bytes or file paths."
    ),
]
FolderLabels = Annotated[
    bool,
    typer.Option(
        "--labels/--no-labels",
        metavar="",
        rich_help_panel=FILES,
        help="Add a column label if every picture is in a folder named by its class. Default: yes.",
    ),
]
Half = Annotated[
    bool, typer.Option("--half", metavar="", rich_help_panel=OUTPUT, help="Store float16 instead of float32.")
]
BatchSize = Annotated[
    str | None,
    typer.Option("--batch", metavar="N", rich_help_panel=METHOD, help="Items per batch. Default: the embedder's."),
]
ShardSize = Annotated[str, typer.Option("--shard", metavar="N", rich_help_panel=OUTPUT, help="Items per shard.")]
Processes = Annotated[
    str | None,
    typer.Option(
        "--processes",
        metavar="N",
        rich_help_panel=METHOD,
        help="Processes that decode pictures. Default: one per core.",
    ),
]
ErrorsFile = Annotated[
    str | None,
    typer.Option(
        "--errors", metavar="FILE", rich_help_panel=OUTPUT, help="Write a CSV of the items left out: id and problem."
    ),
]


def embed(
    source: SourcePath,
    embedder: EmbedderName = "auto",
    output: PoolOutput = "pool.parquet",
    text: TextColumn = None,
    image: ImageColumn = None,
    id_column: options.IdColumn = None,
    labels: FolderLabels = True,
    option: EmbedderOption = None,
    batch: BatchSize = None,
    processes: Processes = None,
    half: Half = False,
    shard: ShardSize = "1024",
    errors: ErrorsFile = None,
    input_limit: options.InputLimit = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito embed photos/ -o pool.parquet[/bold]

    Turn a folder of pictures, or a table of texts or pictures, into a pool
    that every other command reads: ids, embeddings, what to show, and all
    other columns. Damaged items are listed and left out.

    After an interruption, run the same command again to continue. Then:

    [bold]dubito select pool.parquet --budget 50 -o batch.csv[/bold]
    """
    from dubito.cli.jobs import embed as job

    asked = job.read_asked(source, embedder, output, option, batch, processes, shard)
    job.check_errors_file(errors, force)
    embedded = job.run(asked, text, image, id_column, labels, half, input_limit, force, quiet)
    job.finish(embedded, errors, as_json, quiet)
