"""``dubito embed``: a folder of pictures or a table of texts in, a pool file out."""

from typing import Annotated

import typer

from dubito.cli import options
from dubito.cli.options import FILES, METHOD, OUTPUT

# Options that say what is embedded, and by what.


def embedder_names(incomplete: str) -> list[str]:
    """Completions of ``--embedder``."""
    from dubito.embedding.embedders import EMBEDDERS, NAMED

    names = ["auto", *(f"{name}:" if name in NAMED else name for name in EMBEDDERS.names())]
    return [name for name in names if name.startswith(incomplete)]


Supplied = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        show_default=False,
        help="A folder of pictures; a table of texts, of paths of pictures or of their bytes (CSV, TSV, JSON lines, "
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
        help="Where the pool goes: a .parquet, or a folder of shards.",
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
        "torch:module.function, or one of another package.",
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
    typer.Option("--text", metavar="NAME", rich_help_panel=FILES, help="The column of texts, if it is not plain."),
]
ImageColumn = Annotated[
    str | None,
    typer.Option(
        "--image", metavar="NAME", rich_help_panel=FILES, help="The column of pictures: their bytes, or paths of files."
    ),
]
FolderLabels = Annotated[
    bool,
    typer.Option(
        "--labels/--no-labels",
        metavar="",
        rich_help_panel=FILES,
        help="Where every picture lies in the folder of a class, those become a column label, unless refused.",
    ),
]
Half = Annotated[
    bool, typer.Option("--half", metavar="", rich_help_panel=OUTPUT, help="Keep float16 instead of float32.")
]
BatchSize = Annotated[
    str | None,
    typer.Option("--batch", metavar="N", rich_help_panel=METHOD, help="Items at a time, if not the embedder's own."),
]
ShardSize = Annotated[
    str, typer.Option("--shard", metavar="N", rich_help_panel=OUTPUT, help="Items between two saves.")
]
Processes = Annotated[
    str | None,
    typer.Option(
        "--processes",
        metavar="N",
        rich_help_panel=METHOD,
        help="Processes that decode pictures; one a core if not given.",
    ),
]
ErrorsFile = Annotated[
    str | None,
    typer.Option(
        "--errors", metavar="FILE", rich_help_panel=OUTPUT, help="A CSV of what was left out: id and problem."
    ),
]


def embed(
    source: Supplied,
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
    other columns. What is broken is listed and left out.

    Stopped or killed, the same command goes on where it was. Then:

    [bold]dubito select pool.parquet --budget 50 -o batch.csv[/bold]
    """
    from dubito.cli.jobs import embed as job

    asked = job.read_asked(source, embedder, output, option, batch, processes, shard)
    job.check_errors_file(errors, force)
    embedded = job.run(asked, text, image, id_column, labels, half, input_limit, force, quiet)
    job.finish(embedded, errors, as_json, quiet)
