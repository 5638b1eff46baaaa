"""``dubito embed``: make a pool file from a folder of pictures or a table of texts."""

import json
import os
import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from dubito import io as files
from dubito.cli import options
from dubito.cli.inputs import read_integer
from dubito.cli.options import FILES, METHOD, OUTPUT, argument, option
from dubito.cli.output import ProgressBar, Stopped, print_note, program_name, set_quiet
from dubito.embedding import api
from dubito.embedding.source import Embedded
from dubito.errors import InvalidArgument
from dubito.io.cells import safe_cell
from dubito.io.durable import check_writable
from dubito.io.opening import open_source
from dubito.io.picks import csv_text
from dubito.request.arrays import check_integer, check_memory_limit, check_real, read_number

# Options of ``dubito embed``.


def embedder_names(incomplete: str) -> list[str]:
    from dubito.embedding.registry import EMBEDDERS, NEEDS_NAME

    names = ["auto", *(f"{name}:" if name in NEEDS_NAME else name for name in EMBEDDERS.names())]
    return [name for name in names if name.startswith(incomplete)]


SourcePath = Annotated[
    str,
    argument(
        "SOURCE",
        "A folder of pictures; a table of texts, of paths of pictures or of image bytes (CSV, TSV, JSON lines, "
        "JSON, Parquet, Feather, .xlsx); or a data set that Hugging Face's save_to_disk wrote.",
    ),
]
PoolOutput = Annotated[
    str, option("--output -o FILE", "Where to write the pool: a .parquet file, or a folder of shards.", OUTPUT)
]
EmbedderName = Annotated[
    str,
    option(
        "--embedder -e NAME",
        "auto (pixels for pictures, words for texts), onnx:FILE, timm:NAME, clip:NAME, sentence:NAME, "
        "torch:module.function, or an embedder of another package.",
        METHOD,
        autocompletion=embedder_names,
    ),
]
EmbedderOption = Annotated[
    list[str] | None,
    option(
        "--option KEY=VALUE",
        "An option of the embedder, such as size=224, mean=imagenet or tokenizer=FILE. May be repeated.",
        METHOD,
    ),
]
TextColumn = Annotated[str | None, option("--text NAME", "The column of texts, if not recognized.", FILES)]
ImageColumn = Annotated[str | None, option("--image NAME", "The column of pictures: image bytes or file paths.", FILES)]
FolderLabels = Annotated[
    bool,
    option(
        "--labels/--no-labels",
        "Add a column label if every picture is in a folder named by its class. Default: yes.",
        FILES,
    ),
]
BoxesFile = Annotated[
    str | None,
    option(
        "--boxes FILE",
        "Boxes in the pictures, each of which becomes a row: COCO JSON, a folder of YOLO text files, or a CSV.",
        FILES,
    ),
]
Margin = Annotated[
    str | None, option("--margin X", "Cut out so much more around a box, as a share of its size. Default: 0.1.", FILES)
]
SplitInto = Annotated[
    str | None,
    option(
        "--split KIND",
        "sentences: a row for each sentence, with the column document. frames: pictures are frames of the video that "
        "their folder holds, with the column folder.",
        FILES,
    ),
]
Half = Annotated[bool, option("--half", "Store float16 instead of float32.", OUTPUT)]
BatchSize = Annotated[str | None, option("--batch N", "Items per batch. Default: the embedder's.", METHOD)]
ShardSize = Annotated[str, option("--shard N", "Items per shard.", OUTPUT)]
Processes = Annotated[
    str | None, option("--processes N", "Processes that decode pictures. Default: one per core.", METHOD)
]
ErrorsFile = Annotated[
    str | None, option("--errors FILE", "Write a CSV of the items left out: id and problem.", OUTPUT)
]


def embed(
    source: SourcePath,
    embedder: EmbedderName = "auto",
    output: PoolOutput = "pool.parquet",
    text: TextColumn = None,
    image: ImageColumn = None,
    id_column: options.IdColumn = None,
    labels: FolderLabels = True,
    boxes: BoxesFile = None,
    margin: Margin = None,
    split: SplitInto = None,
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

    After an interruption, run the same command again to continue; after the
    source has grown or changed, to embed only what is new. Then:

    [bold]dubito select pool.parquet --budget 50 -o batch.csv[/bold]
    """
    set_quiet(quiet)
    check_writable(output, force=True)
    if os.path.realpath(output) == os.path.realpath(source):
        raise InvalidArgument(f"{output} is read, and would be lost", hint="write to another file.")
    settings: dict[str, Any] = {
        "text": text,
        "image": image,
        "id_column": id_column,
        "labels": labels,
        "boxes": boxes,
        "split": split,
        "half": half,
        "force": force,
        "options": dict(map(read_option, option or ())),
        "batch": read_integer("batch", batch),
        "processes": read_integer("processes", processes),
        "shard": check_integer("shard", read_number(shard), least=1),
    }
    if errors is not None:
        check_writable(errors, force=force or _is_error_list(errors))
    if margin is not None:
        if boxes is None:
            raise InvalidArgument("is for boxes", argument="margin", value=margin, hint="pass --boxes, too.")
        settings["margin"] = check_real("margin", read_number(margin), least=0.0)
    with files.input_limit(check_memory_limit(input_limit, "input_limit")):
        embedded = embed_with_bar(source, embedder, output, settings)
    groups = {"sentences": "document", "frames": "folder"}.get(split or "", "path" if boxes is not None else None)
    finish(embedded, errors, as_json, groups)


SOME_LEFT_OUT = 4
"""The exit code if a pool was written, but some items were left out."""
MOST_ADVISED = 50
"""Maximum budget in the suggested command, which is at most half of the items."""
MOST_SHOWN = 10
"""Maximum number of items left out that are printed."""


def read_option(text: str) -> tuple[str, object]:
    """``KEY=VALUE``.

    Examples
    --------
    >>> read_option("size=224"), read_option("tokenizer=a=b.json")
    (('size', '224'), ('tokenizer', 'a=b.json'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidArgument(f"--option {text} is not KEY=VALUE", hint="write it like size=224.")
    return name.strip(), value


def _is_error_list(path: str) -> bool:
    """Whether this command wrote the file, which may then be replaced."""
    try:
        with open(path, "rb") as file:
            return file.readline().strip() == b"id,problem"
    except OSError:
        return False


def embed_with_bar(source: str, embedder: str, output: str, settings: Mapping[str, Any]) -> Embedded:
    """Embed with a progress bar. After Ctrl-C, the error says how to continue."""
    has_started = False
    with ProgressBar("embedding") as bar:

        def progress(done: int, total: int, radius: None, seconds: float) -> None:
            nonlocal has_started
            if not has_started:
                bar.before, has_started = done, True
            bar(done, total, radius, seconds)

        try:
            return api.embed(source, embedder, output, **settings, progress=progress)
        except KeyboardInterrupt:
            raise Stopped(f"interrupted; run the same command again to continue from {output}.parts.") from None


def finish(embedded: Embedded, errors: str | None, as_json: bool, groups: str | None = None) -> None:
    """Print the result, the items left out and the next command; exit with `SOME_LEFT_OUT` if there are any."""
    for note in embedded.notes:
        print_note(note)
    for each in embedded.left_out[:MOST_SHOWN]:
        print_note(f"left out: {each}")
    if embedded.changes is not None:
        print_note(f"since the pool was written: {embedded.changes}.")
    n_more = len(embedded.left_out) - MOST_SHOWN
    if n_more > 0:
        print_note(f"left out: {n_more} more; {errors or '--errors FILE'} lists them all")
    if errors is not None:
        rows = ([safe_cell(each.id), safe_cell(each.problem)] for each in embedded.left_out)
        text = csv_text([["id", "problem"], *rows])
        files.write_atomically(errors, text.encode("utf-8", "backslashreplace"))
    if as_json:
        print(json.dumps(summary(embedded)))
    print_note(describe_result(embedded))
    path = embedded.path or ""
    n_items = embedded.n_rows if groups is None else len(set(open_source(path).entry(groups).values().tolist()))
    arguments = f"-b {min(MOST_ADVISED, max(1, n_items // 2))}" + (f" --group-column {groups}" if groups else "")
    print_note(f"next: {program_name()} select {shlex.quote(path)} {arguments} -o batch.csv")
    if embedded.left_out:
        raise typer.Exit(SOME_LEFT_OUT)


def describe_result(embedded: Embedded) -> str:
    made = f"{embedded.n_rows:,} {embedded.takes} embedded by {embedded.embedder}, {embedded.width:,} numbers each"
    n_new = embedded.n_rows + len(embedded.left_out) - embedded.n_before
    rate = f" in {embedded.seconds:.1f} s ({n_new / embedded.seconds:,.3g}/s)" if embedded.seconds and n_new > 0 else ""
    before = f", {embedded.n_before:,} of them before" if embedded.n_before and n_new > 0 else ""
    left = f"; {len(embedded.left_out):,} left out" if embedded.left_out else ""
    is_unchanged = embedded.changes is None and n_new <= 0
    where = f"{embedded.path} was already complete" if is_unchanged else f"written to {embedded.path}"
    return f"{made}{rate}{before}{left}; {where}."


def summary(embedded: Embedded) -> dict[str, object]:
    return {
        "schema": 1,
        "path": embedded.path,
        "rows": embedded.n_rows,
        "width": embedded.width,
        "takes": embedded.takes,
        "embedder": embedded.embedder,
        "version": embedded.version,
        "left_out": [{"id": each.id, "problem": each.problem} for each in embedded.left_out],
        "changes": None if embedded.changes is None else embedded.changes._asdict(),
        "seconds": embedded.seconds,
    }
