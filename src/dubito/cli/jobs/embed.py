"""What ``dubito embed`` does once its options are read."""

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import typer

from dubito import io as files
from dubito.cli.output import Bar, Stopped, program_name, say
from dubito.embedding.api import embed
from dubito.embedding.source import Embedded
from dubito.errors import InvalidArgument, MissingFile, OutputExists
from dubito.io.cells import safe_cell
from dubito.io.picks import csv_text
from dubito.request.arrays import check_integer, check_memory_limit, read_number

SOME_LEFT_OUT = 4
"""The exit code where a pool was written and lacks some of its source."""
MOST_SHOWN = 10
"""Problems that are reported one by one."""


@dataclass(frozen=True, slots=True)
class EmbedCall:
    """The options as the library takes them."""

    source: str
    embedder: str
    out: str
    options: dict[str, object]
    batch: int | None
    processes: int | None
    shard: int


def read_asked(
    source: str,
    embedder: str,
    out: str,
    option: Sequence[str] | None,
    batch: str | None,
    processes: str | None,
    shard: str,
) -> EmbedCall:
    """Check the options that can be checked before the source is read."""
    if not os.path.isdir(os.path.dirname(os.path.abspath(out))):
        raise MissingFile(f"{out} cannot be written: its folder does not exist", hint="make it first.")
    if os.path.realpath(out) == os.path.realpath(source):
        raise InvalidArgument(f"{out} is read, and would be lost", hint="write to another file.")
    return EmbedCall(
        source,
        embedder,
        out,
        dict(map(read_option, option or ())),
        None if batch is None else check_integer("batch", read_number(batch), least=1),
        None if processes is None else check_integer("processes", read_number(processes), least=1),
        check_integer("shard", read_number(shard), least=1),
    )


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


def check_errors_file(path: str | None, force: bool) -> None:
    """Raise if the list of errors cannot be written. A list from an earlier run is replaced."""
    if path is None:
        return
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise MissingFile(f"{path} cannot be written: its folder does not exist", hint="make it first.")
    if os.path.exists(path) and not force and not _is_list(path):
        raise OutputExists(f"{path} exists", hint="pass --force to replace it, or another path.")


def _is_list(path: str) -> bool:
    """Whether a file is a list of errors that this command wrote."""
    try:
        with open(path, "rb") as file:
            return file.readline().strip() == b"id,problem"
    except OSError:
        return False


def run(
    asked: EmbedCall,
    text: str | None,
    image: str | None,
    id_column: str | None,
    labels: bool,
    half: bool,
    input_limit: str | None,
    force: bool,
    quiet: bool,
) -> Embedded:
    """Embed with a progress bar; after Ctrl-C, say how to continue."""
    is_begun = False
    with Bar("embedding", quiet=quiet) as bar:

        def progress(done: int, total: int, radius: None, seconds: float) -> None:
            nonlocal is_begun
            bar.before, is_begun = bar.before if is_begun else done, True
            bar(done, total, radius, seconds)

        try:
            with files.input_limit(check_memory_limit(input_limit, "input_limit")):
                return embed(
                    asked.source,
                    asked.embedder,
                    asked.out,
                    text=text,
                    image=image,
                    id_column=id_column,
                    labels=labels,
                    options=asked.options,
                    half=half,
                    batch=asked.batch,
                    shard=asked.shard,
                    processes=asked.processes,
                    force=force,
                    progress=progress,
                )
        except KeyboardInterrupt:
            raise Stopped(f"interrupted; run the same command again to continue from {asked.out}.parts.") from None


def finish(embedded: Embedded, errors: str | None, as_json: bool, quiet: bool) -> None:
    """Print the result, the items left out and the next command; the exit code says whether items were left out."""
    for note in embedded.notes:
        say(note, quiet=quiet)
    for each in embedded.left_out[:MOST_SHOWN]:
        say(f"left out: {each}", quiet=quiet)
    rest = len(embedded.left_out) - MOST_SHOWN
    if rest > 0:
        where = f"{errors} lists them all" if errors else "--errors FILE lists them all"
        say(f"left out: {rest} more; {where}", quiet=quiet)
    if errors is not None:
        files.write_atomically(errors, problem_list(embedded))
    if as_json:
        print(json.dumps(summary(embedded)))
    say(described(embedded), quiet=quiet)
    say(f"next: {program_name()} select {shlex.quote(embedded.path or '')} -b 50 -o batch.csv", quiet=quiet)
    if embedded.left_out:
        raise typer.Exit(SOME_LEFT_OUT)


def described(embedded: Embedded) -> str:
    """The summary in one line."""
    made = f"{embedded.n_rows:,} {embedded.takes} embedded by {embedded.embedder}, {embedded.width:,} numbers each"
    now = embedded.n_rows + len(embedded.left_out) - embedded.n_before
    rate = f" in {embedded.seconds:.1f} s ({now / embedded.seconds:,.3g}/s)" if embedded.seconds and now > 0 else ""
    before = f", {embedded.n_before:,} of them before" if embedded.n_before and now > 0 else ""
    left = f"; {len(embedded.left_out):,} left out" if embedded.left_out else ""
    place = f"written to {embedded.path}" if now > 0 else f"{embedded.path} was whole already"
    return f"{made}{rate}{before}{left}; {place}."


def problem_list(embedded: Embedded) -> bytes:
    """The items left out, as CSV."""
    rows = ([safe_cell(each.id), safe_cell(each.problem)] for each in embedded.left_out)
    return csv_text([["id", "problem"], *rows]).encode("utf-8", "backslashreplace")


def summary(embedded: Embedded) -> dict[str, object]:
    """The output of ``--json``."""
    return {
        "schema": 1,
        "path": embedded.path,
        "rows": embedded.n_rows,
        "width": embedded.width,
        "takes": embedded.takes,
        "embedder": embedded.embedder,
        "version": embedded.version,
        "left_out": [{"id": each.id, "problem": each.problem} for each in embedded.left_out],
        "seconds": embedded.seconds,
    }
