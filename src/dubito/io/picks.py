"""Read and write files of picks."""

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, keyword
from dubito.io.cells import BOOLEAN_TEXTS, safe_cell
from dubito.io.durable import file_lock, is_device, write_atomically
from dubito.io.opening import open_source
from dubito.io.source import Source, as_one_array, did_you_mean, reading, suffix_of
from dubito.matrix import AnyArray, IntArray
from dubito.registry import require

if TYPE_CHECKING:
    from dubito.core.problem import Configuration, Selection

Format = Literal["csv", "json", "jsonl", "parquet", "npy"]
FORMATS: tuple[Format, ...] = get_args(Format)

PickColumns = Mapping[str, Sequence[object]]
"""The table of picks: columns of equal length by name."""


def save_selection(
    selection: "Selection", path: str, *, force: bool = False, format: Format | None = None, safe_csv: bool = False
) -> None:
    """Write picks to a file, atomically.

    Parameters
    ----------
    selection : Selection
        The picks.
    path : str
        The file to write; its suffix determines the format unless `format` is given.
    force : bool
        Replace an existing file. Not needed for devices and pipes.
    format : {"csv", "json", "jsonl", "parquet", "npy"}, optional
        See `render_selection`.
    safe_csv : bool
        In CSV, prefix text that a spreadsheet would evaluate as a formula with an apostrophe, which is removed on
        reading.

    Examples
    --------
    >>> import os, tempfile, dubito
    >>> picked = dubito.select([[0.0], [4.0], [9.0]], budget=2, labeled=[[1.0]], strategy="coreset")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "picks.csv")
    ...     save_selection(picked, path)
    ...     with open(path) as file:
    ...         print(file.read(), end="")
    rank,index,priority
    1,2,8.0
    2,1,3.0
    """
    chosen = output_format(path, format)
    content = render_selection(selection, chosen, safe_csv=safe_csv)
    if is_device(path):
        write_atomically(path, content)
        return
    with file_lock(path, needed=False):
        write_atomically(path, content, new=not force)


def render_selection(selection: "Selection", format: Format, *, safe_csv: bool = False) -> bytes:
    r"""The content of a file of picks, as bytes.

    ``csv``, ``jsonl`` and ``parquet`` are tables of ``rank,index,id,priority`` (``id`` only if there are ids; with
    groups also ``group`` and ``group_priority``); ``json`` is one object with ``schema`` 1, the settings of the run,
    and the ``picks``; ``npy`` holds only the indices. An infinite priority is ``inf`` in CSV and null in JSON; NaN is
    an empty field in CSV and null in JSON.

    Examples
    --------
    >>> import dubito
    >>> picked = dubito.select([[0.0], [4.0], [9.0]], budget=1, labeled=[[1.0]], strategy="coreset")
    >>> render_selection(picked, "jsonl")
    b'{"rank": 1, "index": 2, "priority": 8.0}\n'
    """
    if format == "json":
        return _json_bytes(selection)
    return render_columns(selection.columns(), format, safe_csv=safe_csv)


def render_columns(columns: PickColumns, format: Format, *, safe_csv: bool = False) -> bytes:
    """The content of a table of picks, in any format except ``json``."""
    if format == "parquet":
        return _parquet_bytes(columns)
    if format == "npy":
        buffer = io.BytesIO()
        np.save(buffer, np.array(list(columns["index"]), dtype=np.int64), allow_pickle=False)
        return buffer.getvalue()
    if format == "jsonl":
        lines = (json.dumps(record, allow_nan=False, default=str) + "\n" for record in _records(columns))
        return "".join(lines).encode()
    if safe_csv:
        columns = {str(safe_cell(name)): [safe_cell(value) for value in values] for name, values in columns.items()}
    rows = zip(*columns.values(), strict=True)
    cells = (("" if isinstance(value, float) and math.isnan(value) else value for value in row) for row in rows)
    return csv_text([columns, *cells]).encode()


def output_format(path: str, format: str | None = None) -> Format:
    """The given format, or that of the path's suffix.

    Examples
    --------
    >>> output_format("picks.CSV"), output_format("picks.txt", "jsonl")
    ('csv', 'jsonl')
    """
    known = ", ".join(FORMATS)
    if format is not None and format not in FORMATS:
        hint = f"{did_you_mean(format, FORMATS)} known are {known}.".strip()
        raise InvalidArgument("is unknown", argument="format", value=format, hint=hint)
    if format is None and suffix_of(path)[1:] not in FORMATS:
        suffix = suffix_of(path)
        problem = f"suffix {suffix} is not known" if suffix else "it has no suffix that gives the format"
        hint = f"use {', '.join(f'.{name}' for name in FORMATS)}, or pass {keyword('format')}."
        raise InvalidArgument(f"{path}: {problem}", hint=hint)
    return cast(Format, format or suffix_of(path)[1:])


def _json_bytes(selection: "Selection") -> bytes:
    content: dict[str, object] = {
        "schema": 1,
        "strategy": selection.strategy,
        "engine": selection.engine,
        "seed": selection.seed,
        "seconds": _json_value(selection.seconds),
        "radius": _json_value(selection.radius),
        "uncertainty": _json_value(selection.uncertainty),
        "complete": selection.complete,
        "n_pool": selection.n_pool,
    }
    covered = None if selection.covered is None or not len(selection.covered) else float(selection.covered[-1])
    more = {"covered": covered, "reach": selection.reach, "sampled": selection.sampled, "spent": selection.spent}
    content |= {name: _json_value(value) for name, value in more.items() if value is not None}
    if selection.standardized:
        content["standardized"] = True
    content["picks"] = _records(selection.columns())
    if selection.notes:
        content["notes"] = list(selection.notes)
    if len(selection.configurations) > 1:
        content["configurations"] = [_configuration(each) for each in selection.configurations]
    return (json.dumps(content, indent=2, allow_nan=False, default=str) + "\n").encode()


def _configuration(configuration: "Configuration") -> dict[str, object]:
    return {
        "indices": configuration.indices.tolist(),
        "priorities": [_json_value(value) for value in configuration.priorities.tolist()],
        "radius": _json_value(configuration.radius),
        "uncertainty": _json_value(configuration.uncertainty),
    }


def _records(columns: PickColumns) -> list[dict[str, object]]:
    return [dict(zip(columns, map(_json_value, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def _json_value(value: object) -> object:
    """The value, or None for numbers that JSON cannot represent."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    r"""Rows as CSV with line feeds. Rows with carriage returns are quoted, which `csv` omits before Python 3.13.

    Examples
    --------
    >>> csv_text([["id", "label"], ["a\r=1+1", "cat"]])
    'id,label\n"a\r=1+1","cat"\n'
    """
    text = io.StringIO(newline="")
    plain = csv.writer(text, lineterminator="\n")
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in map(list, rows):
        has_return = any(isinstance(value, str) and "\r" in value for value in row)
        (quoted if has_return else plain).writerow(row)
    return text.getvalue()


def _parquet_bytes(columns: PickColumns) -> bytes:
    pyarrow, parquet = require("pyarrow", extra="files"), require("pyarrow.parquet", extra="files")
    types = {"rank": pyarrow.int64(), "index": pyarrow.int64(), "priority": pyarrow.float64()}
    if not any(map(len, columns.values())):
        types["id"] = pyarrow.string()
    arrays = {name: pyarrow.array(list(values), types.get(name)) for name, values in columns.items()}
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays), buffer)
    return buffer.getvalue()


def read_picks(path: str) -> IntArray:
    """Read the picked rows, in order, from a file written by `save_selection` or `append_picks`.

    Pass them to the next round as ``labeled``, so that they are references and are not picked again.

    Examples
    --------
    >>> import os, tempfile, dubito
    >>> picked = dubito.select([[0.0], [4.0], [9.0]], budget=2, labeled=[[1.0]], strategy="coreset")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "picks.csv")
    ...     picked.save(path)
    ...     read_picks(path).tolist()
    [2, 1]
    """
    if suffix_of(path) == ".jsonl" and os.path.exists(path) and os.path.getsize(path) == 0:
        return np.empty(0, dtype=np.int64)  # A round without picks writes no lines.
    values = _index_column(open_source(path))
    with np.errstate(invalid="ignore"):
        indices = values.astype(np.int64)
    if not np.array_equal(indices, values) or (indices < 0).any():
        raise InvalidData(f"{path} holds no picks: row numbers are integers from 0.")
    if len(np.unique(indices)) < len(indices):
        raise InvalidData(f"{path} names a row more than once", hint="each can be picked once.")
    return indices


def append_picks(selection: "Selection", path: str, *, format: Format | None = None, safe_csv: bool = False) -> None:
    """Append the picks of a round to a file; ranks continue from the largest in the file.

    The file is read, checked and replaced atomically under a lock, so that a failure leaves the old file. A missing
    file is created. Extra columns after those of picks, such as ``label``, are left empty in the new rows. ``json``
    describes one run and cannot be appended to.

    Parameters
    ----------
    selection : Selection
        The new picks, none of which may be in the file: pass `read_picks` as ``labeled`` to the new round.
    path : str
        ``.csv``, ``.jsonl``, ``.parquet`` or ``.npy``.
    format : {"csv", "jsonl", "parquet", "npy"}, optional
        The format, if the suffix does not give it.
    safe_csv : bool
        As in `save_selection`.

    Examples
    --------
    >>> import os, tempfile, dubito
    >>> pool = [[0.0], [4.0], [9.0]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "picks.npy")
    ...     append_picks(dubito.select(pool, budget=1, labeled=[0], strategy="coreset"), path)
    ...     seen = [0, *read_picks(path)]
    ...     append_picks(dubito.select(pool, budget=1, labeled=seen, strategy="coreset"), path)
    ...     read_picks(path).tolist()
    [2, 1]
    """
    with file_lock(path):
        add_round(selection, path, format=format, safe_csv=safe_csv)


def add_round(selection: "Selection", path: str, *, format: Format | None = None, safe_csv: bool = False) -> None:
    """`append_picks` for callers that hold the lock of the file."""
    chosen = output_format(path, format)
    if chosen == "json":
        hint = "use csv, jsonl, parquet or npy."
        raise InvalidArgument(f"{path}: a json file describes one run and cannot be appended to", hint=hint)
    if not os.path.exists(path):
        write_atomically(path, render_selection(selection, chosen, safe_csv=safe_csv), new=True)
        return
    if suffix_of(path) != f".{chosen}":
        raise InvalidArgument(f"{path} cannot be appended to as {chosen}", hint=f"give it the suffix .{chosen}.")
    earlier = read_picks(path)
    _check_new(path, earlier, selection.indices)
    last = _last_rank(path, len(earlier))
    columns = selection.columns()
    added = {**columns, "rank": [last + int(str(rank)) for rank in columns["rank"]]}
    write_atomically(path, _appended(path, added, chosen, earlier, safe_csv))


def _last_rank(path: str, n_rows: int) -> int:
    """The largest rank in the file, which exceeds the number of rows if rows were deleted.

    It is below that number in picks of groups, whose rows share a rank.
    """
    if n_rows == 0:
        return 0
    entries = open_source(path).entries
    entry = entries.get("rank")
    if entry is None or entry.ndim != 1 or entry.content != "numbers":
        return n_rows
    ranks = as_one_array(entry.read()).astype(np.float64)
    return max(0 if "group" in entries else n_rows, *map(int, ranks[np.isfinite(ranks)].tolist()), 0)


def _appended(path: str, added: PickColumns, format: Format, earlier: IntArray, safe_csv: bool) -> bytes:
    if format == "npy":
        return render_columns({"index": [*earlier.tolist(), *added["index"]]}, "npy")
    if format == "parquet":
        return _append_parquet(path, added)
    with reading(path), open(path, "rb") as file:
        old = file.read()
    if format == "csv":
        source = open_source(path)
        if source.notes:
            raise InvalidData(
                f"{path} cannot be appended to: {source.notes[0].rstrip('.')}", hint="save it as plain CSV."
            )
        _check_columns(path, source.names, added)
        empty = [""] * len(added["index"])
        rows = {name: added.get(name, empty) for name in source.names}
        new = render_columns(rows, "csv", safe_csv=safe_csv).partition(b"\n")[2]
    else:
        new = render_columns(added, format)
    return old + (b"" if old.endswith(b"\n") or not old else b"\n") + new


def _append_parquet(path: str, added: PickColumns) -> bytes:
    """The Parquet file with the new picks appended; columns that only the file has are null in the new rows."""
    pyarrow, parquet = require("pyarrow", extra="files"), require("pyarrow.parquet", extra="files")
    with reading(path):
        old = parquet.read_table(path)
    _check_columns(path, old.schema.names, added)
    if not len(old):
        return render_columns(added, "parquet")
    try:
        new = [
            pyarrow.array(list(added[field.name]), field.type)
            if field.name in added
            else pyarrow.nulls(len(added["index"]), field.type)
            for field in old.schema
        ]
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
        hint = "choose another file."
        raise InvalidData(f"the ids in {path} are of another type than the new ones", hint=hint) from error
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.concat_tables([old, pyarrow.table(new, schema=old.schema)]), buffer)
    return buffer.getvalue()


def _check_columns(path: str, names: Sequence[str], added: PickColumns) -> None:
    """The file must start with the columns of the picks, in order; others, such as ``label``, may follow."""
    first, more = list(names)[: len(added)], list(names)[len(added) :]
    if first != list(added) or "id" in more:
        hint = "choose another file."
        raise InvalidData(f"{path} has the columns {','.join(names)} but the new picks {','.join(added)}", hint=hint)


def _check_new(path: str, earlier: IntArray, indices: IntArray) -> None:
    repeated = np.flatnonzero(np.isin(indices, earlier))
    if len(repeated):
        hint = "pass them as labeled to the new round."
        raise InvalidArgument(f"row {indices[repeated[0]]} is among the picks of {path} already", hint=hint)


def _index_column(source: Source) -> AnyArray:
    if source.names == ("",) and ".json" in suffix_of(source.path):
        raise InvalidData(f"{source.path} holds no picks: each must be an object with an integer called index.")
    entry = source.entry("" if source.names == ("",) else "index")
    names = entry.names() if source.is_table else None
    if names is not None and names.dtype.kind in "iu":
        return names
    if names is not None and any(str(name).lower() in BOOLEAN_TEXTS for name in names.tolist()):
        raise InvalidData(f"{source.path} holds no picks: row numbers are integers, not booleans.")
    values = as_one_array(entry.read())
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise InvalidData(f"{source.path} holds no picks: they are 1-D integers, not {values.shape} {values.dtype}.")
    return values
