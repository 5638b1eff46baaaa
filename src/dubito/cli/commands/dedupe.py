"""``dubito dedupe``: remove near-copies from a pool."""

import json
from decimal import ROUND_CEILING, Context
from typing import Annotated, Any, get_args

import numpy as np

from dubito.cli import options
from dubito.cli.inputs import read_columns, read_missing, reading_files
from dubito.cli.options import METHOD, OUTPUT, option
from dubito.cli.output import ProgressBar, print_lines, print_note, set_quiet
from dubito.core.problem import Metric
from dubito.deduplication import Cover, deduplicate, distances_to_nearest
from dubito.errors import InvalidArgument, name_files_in_errors
from dubito.io.durable import check_writable, write_atomically
from dubito.io.formats.parquet import KEY
from dubito.io.inputs import Inputs, handle_missing, read_inputs
from dubito.io.picks import render_columns
from dubito.io.source import reading
from dubito.matrix import FloatArray, len_of
from dubito.registry import require
from dubito.request.arrays import check_choice, check_real, read_number

Within = Annotated[
    str | None,
    option(
        "--within R",
        "Drop rows that lie within this distance of a row that is kept; 0 drops exact copies. Without it, print what "
        "share of the rows has another one within each distance.",
        METHOD,
    ),
]
KeptFile = Annotated[
    str | None, option("--output -o FILE", "Where to write the pool without the dropped rows: .parquet.", OUTPUT)
]
DroppedFile = Annotated[
    str | None,
    option(
        "--dropped FILE", "Write a CSV of the dropped rows: the row that is kept for each, and its distance.", OUTPUT
    ),
]


def dedupe(
    pool: options.Pool,
    within: Within = None,
    id_column: options.IdColumn = None,
    label_column: options.LabelColumn = None,
    feature_columns: options.FeatureColumns = None,
    ignore_columns: options.IgnoreColumns = None,
    missing: options.Missing = None,
    input_limit: options.InputLimit = None,
    metric: options.Metric = "euclidean",
    output: KeptFile = None,
    dropped: DroppedFile = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """
    [bold]dubito dedupe pool.parquet --within 0.5 -o kept.parquet[/bold]

    Keep rows of a pool such that every other row lies within a distance of one of
    them, and the kept rows are farther than that from each other. Of near-copies,
    the first row of the pool is kept.

    [bold]dubito dedupe pool.parquet[/bold]

    Print what share of the rows has another one within each distance, to choose
    one: estimated from 1,000 rows, each compared with all.
    """
    set_quiet(quiet)
    radius = None if within is None else check_real("within", read_number(within), least=0.0)
    known_metric: Metric = check_choice("metric", metric, get_args(Metric))
    for path in (output, dropped):
        if path is not None:
            check_writable(path, force=force)
    if (output or dropped) and radius is None:
        raise InvalidArgument("--within is missing", hint="run it without an output to see what each distance keeps.")
    if output is not None and not (output.endswith(".parquet") and pool.endswith(".parquet")):
        hint = "write the dropped rows with --dropped FILE, and leave them out with --candidates."
        raise InvalidArgument("--output is for pools and outputs that end in .parquet", hint=hint)
    columns = read_columns(id_column, label_column, feature_columns, ignore_columns)
    with reading_files(input_limit):
        inputs = handle_missing(read_inputs(pool, None, {}, columns, allow_all_labeled=True), read_missing(missing))
    features = inputs.pool.features
    with name_files_in_errors(inputs.files, inputs.describe_row), ProgressBar("comparing") as bar:
        if radius is None:
            curve = distances_to_nearest(features, metric=known_metric, progress=bar)
        else:
            cover = deduplicate(features, radius, metric=known_metric, progress=bar)
    if radius is None:
        show_curve(curve, len_of(features), as_json=as_json)
        return
    if dropped is not None:
        write_atomically(dropped, render_columns(dropped_table(inputs, cover), "csv", safe_csv=True))
    if output is not None:
        write_rows(pool, output, cover.kept if inputs.kept is None else inputs.kept[cover.kept])
    show(cover, len_of(features), output, as_json=as_json)


def dropped_table(inputs: Inputs, cover: Cover) -> dict[str, Any]:
    """The dropped rows as columns, each with a kept row that is near it."""
    file_rows = np.arange(len_of(inputs.pool.features)) if inputs.kept is None else inputs.kept
    ids = inputs.pool.row_ids.ids
    names = file_rows if ids is None else ids.values[file_rows]
    return {
        "id": names[cover.dropped].tolist(),
        "index": file_rows[cover.dropped].tolist(),
        "kept": names[cover.nearest].tolist(),
        "distance": cover.distances.tolist(),
    }


def write_rows(pool: str, output: str, rows: Any) -> None:
    """Write some rows of a pool file, one row group at a time, with the metadata of its embeddings."""
    parquet = require("pyarrow.parquet", extra="files")
    pyarrow = require("pyarrow", extra="files")
    buffer = pyarrow.BufferOutputStream()
    with reading(pool), parquet.ParquetFile(pool, page_checksum_verification=True) as file:
        metadata = {name: value for name, value in (file.schema_arrow.metadata or {}).items() if name == KEY}
        schema = file.schema_arrow.with_metadata(metadata)
        with parquet.ParquetWriter(buffer, schema, compression="zstd", use_dictionary=False) as writer:
            start = 0
            for group in range(file.num_row_groups):
                table = file.read_row_group(group).replace_schema_metadata(metadata)
                inside = rows[(rows >= start) & (rows < start + len(table))] - start
                writer.write_table(table.take(inside))
                start += len(table)
    write_atomically(output, buffer.getvalue().to_pybytes())


SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the rows for which `show_curve` prints the distance within which they have another row."""


def show_curve(distances: FloatArray, n_rows: int, *, as_json: bool) -> None:
    """What share of the rows has another one within some distances; ``distances`` are ascending."""
    positions = np.ceil(np.array(SHARES) * len(distances)).astype(np.int64) - 1
    radii = np.unique([0.0, *distances[np.maximum(positions, 0)]]).tolist()
    if not as_json:  # The share of a printed distance is that of the number as printed.
        radii = np.unique([round_up(radius) for radius in radii]).tolist()
    curve = [(radius, float(np.searchsorted(distances, radius, side="right")) / len(distances)) for radius in radii]
    if as_json:
        shares = [{"within": radius, "share": share} for radius, share in curve]
        print(json.dumps({"schema": 1, "rows": n_rows, "sampled": len(distances), "curve": shares}))
        return
    print_lines(
        ["  within  rows with another row as near", *(f"{radius:8.4g}  {share:6.1%}" for radius, share in curve)]
    )
    basis = "all rows" if len(distances) == n_rows else f"{len(distances):,} of {n_rows:,} rows, drawn at random"
    most = "at most" if len(distances) == n_rows else "at most about"
    use = f"Pass a distance from the table as --within; {most} the share of rows next to it is dropped."
    print_note(f"Based on {basis}. {use}")


def round_up(distance: float) -> float:
    """A distance rounded up to the four digits of the table.

    Examples
    --------
    >>> round_up(1.41421356), round_up(0.5)
    (1.415, 0.5)
    """
    return float(Context(prec=4, rounding=ROUND_CEILING).create_decimal_from_float(distance))


def show(cover: Cover, n_rows: int, output: str | None, *, as_json: bool) -> None:
    largest = float(cover.distances.max()) if len(cover.distances) else None
    if as_json:
        facts = {"schema": 1, "rows": n_rows, "kept": len(cover.kept), "dropped": len(cover.dropped)}
        print(json.dumps({**facts, "within": cover.within, "largest_distance": largest}))
        return
    print_lines([f"kept        {len(cover.kept):,} of {n_rows:,} rows", f"dropped     {len(cover.dropped):,}"])
    if largest is not None:
        print_lines([f"distance    every dropped row is within {largest:.6g} of a kept one (in float64)"])
    if output is not None:
        print_note(f"written to {output}.")
