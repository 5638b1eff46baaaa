"""Picks over several rounds: reading a file of picks back, and adding the next round to it."""

import io
import os
from collections.abc import Sequence

import numpy as np

from dubito.errors import InvalidArgument, InvalidData
from dubito.files.cells import TRUTH
from dubito.files.disk import held
from dubito.files.entries import Source, reading, suffix_of, whole
from dubito.files.opening import open_source
from dubito.files.replacing import write_atomically
from dubito.files.writing import (
    Format,
    PickColumns,
    Picks,
    output_format,
    render_columns,
    render_selection,
)
from dubito.matrix import AnyArray, IntArray
from dubito.optional import require


def read_picks(path: str) -> IntArray:
    """The rows picked, in order, from a file that `save_selection` or `append_picks` wrote.

    Hand them to the next round as ``labelled``: they are then references and are not picked again.

    Examples
    --------
    >>> import os, tempfile, dubito
    >>> picked = dubito.select([[0.0], [4.0], [9.0]], budget=2, labelled=[[1.0]], strategy="coreset")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "picks.csv")
    ...     picked.save(path)
    ...     read_picks(path).tolist()
    [2, 1]
    """
    if suffix_of(path) == ".jsonl" and os.path.exists(path) and os.path.getsize(path) == 0:
        return np.empty(0, dtype=np.int64)  # A round without a pick is no line.
    return _as_indices(path, _index_column(open_source(path)))


def append_picks(selection: Picks, path: str, *, format: Format | None = None, safe_csv: bool = False) -> None:
    """Add a round's picks below those a file holds already; ranks go on from the largest.

    The file is read, checked and replaced whole, so that a failure leaves the old one; while another adds to it, it is
    waited for. A file that does not exist is made. Columns that were added behind those of picks, such as ``label``,
    stay empty in the new rows. ``json`` describes one run and cannot be added to.

    Parameters
    ----------
    selection : Selection
        The new picks, none of which may be in the file: pass `read_picks` as ``labelled`` to the new round.
    path : str
        ``.csv``, ``.jsonl``, ``.parquet`` or ``.npy``.
    format : {"csv", "jsonl", "parquet", "npy"}, optional
        Where the suffix does not tell.
    safe_csv : bool
        As `save_selection` has it.

    Examples
    --------
    >>> import os, tempfile, dubito
    >>> pool = [[0.0], [4.0], [9.0]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "picks.npy")
    ...     append_picks(dubito.select(pool, budget=1, labelled=[0], strategy="coreset"), path)
    ...     seen = [0, *read_picks(path)]
    ...     append_picks(dubito.select(pool, budget=1, labelled=seen, strategy="coreset"), path)
    ...     read_picks(path).tolist()
    [2, 1]
    """
    with held(path):
        add_round(selection, path, format=format, safe_csv=safe_csv)


def add_round(selection: Picks, path: str, *, format: Format | None = None, safe_csv: bool = False) -> None:
    """As `append_picks`, for one who holds the file already."""
    chosen = output_format(path, format)
    if chosen == "json":
        raise InvalidArgument(
            f"{path}: a json file describes one run and cannot be added to", mend="use csv, jsonl, parquet or npy."
        )
    if not os.path.exists(path):
        write_atomically(path, render_selection(selection, chosen, safe_csv=safe_csv), new=True)
        return
    if suffix_of(path) != f".{chosen}":
        raise InvalidArgument(f"{path} cannot be added to as {chosen}", mend=f"give it the suffix .{chosen}.")
    earlier = read_picks(path)
    _check_new(path, earlier, selection.indices)
    last = _last_rank(path, len(earlier))
    added = {**selection.columns(), "rank": range(last + 1, last + len(selection.indices) + 1)}
    write_atomically(path, _joined(path, added, chosen, earlier, safe_csv))


def _last_rank(path: str, n_rows: int) -> int:
    """The largest rank in the file, which is more than its rows where some were deleted."""
    if n_rows == 0:
        return 0
    entry = open_source(path).entries.get("rank")
    if entry is None or entry.ndim != 1 or entry.content != "numbers":
        return n_rows
    ranks = whole(entry.read()).astype(np.float64)
    return max(n_rows, *map(int, ranks[np.isfinite(ranks)].tolist()), 0)


def _joined(path: str, added: PickColumns, format: Format, earlier: IntArray, safe_csv: bool) -> bytes:
    if format == "npy":
        return render_columns({"index": [*earlier.tolist(), *added["index"]]}, "npy")
    if format == "parquet":
        return _below(path, added)
    with reading(path), open(path, "rb") as file:
        old = file.read()
    if format == "csv":
        source = open_source(path)
        if source.notes:
            raise InvalidData(f"{path} cannot be added to: {source.notes[0].rstrip('.')}", mend="save it as plain CSV.")
        _check_columns(path, source.names, added)
        nothing = [""] * len(added["index"])
        rows = {name: added.get(name, nothing) for name in source.names}
        new = render_columns(rows, "csv", safe_csv=safe_csv).partition(b"\n")[2]
    else:
        new = render_columns(added, format)
    return old + (b"" if old.endswith(b"\n") or not old else b"\n") + new


def _below(path: str, added: PickColumns) -> bytes:
    """A Parquet file with the new picks below; columns that only the file has stay empty there."""
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
        raise InvalidData(
            f"the ids in {path} are of another type than the new ones", mend="choose another file."
        ) from error
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.concat_tables([old, pyarrow.table(new, schema=old.schema)]), buffer)
    return buffer.getvalue()


def _check_columns(path: str, names: Sequence[str], added: PickColumns) -> None:
    """Every column of picks in its order; others, such as ``label``, may stand behind."""
    first, more = list(names)[: len(added)], list(names)[len(added) :]
    if first != list(added) or "id" in more:
        raise InvalidData(
            f"{path} has the columns {','.join(names)} but the new picks {','.join(added)}", mend="choose another file."
        )


def _check_new(path: str, earlier: IntArray, indices: IntArray) -> None:
    again = np.flatnonzero(np.isin(indices, earlier))
    if len(again):
        raise InvalidArgument(
            f"row {indices[again[0]]} is among the picks of {path} already",
            mend="pass them as labelled to the new round.",
        )


def _index_column(source: Source) -> AnyArray:
    if source.names == ("",) and ".json" in suffix_of(source.path):
        raise InvalidData(f"{source.path} holds no picks: each must be an object with an integer called index.")
    entry = source.entry("" if source.names == ("",) else "index")
    names = entry.names() if source.is_table else None
    if names is not None and names.dtype.kind in "iu":
        return names
    if names is not None and any(str(name).lower() in TRUTH for name in names.tolist()):
        raise InvalidData(f"{source.path} holds no picks: a row number is neither true nor false.")
    values = whole(entry.read())
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise InvalidData(f"{source.path} holds no picks: they are 1-D integers, not {values.shape} {values.dtype}.")
    return values


def _as_indices(path: str, values: AnyArray) -> IntArray:
    with np.errstate(invalid="ignore"):
        indices = values.astype(np.int64)
    if not np.array_equal(indices, values) or (indices < 0).any():
        raise InvalidData(f"{path} holds no picks: row numbers are integers from 0.")
    if len(np.unique(indices)) < len(indices):
        raise InvalidData(f"{path} names a row more than once", mend="each can be picked once.")
    return indices
