"""Writing picks: rendered in memory first, then written whole or not at all."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, cast, get_args

import numpy as np

from dubito.errors import InvalidArgument
from dubito.files.disk import held
from dubito.files.entries import nearest, suffix_of
from dubito.files.formulas import safe_cell
from dubito.files.replacing import is_device, write_atomically
from dubito.matrix import FloatArray, IntArray
from dubito.optional import require
from dubito.wording import keyword

Format = Literal["csv", "json", "jsonl", "parquet", "npy"]
FORMATS: tuple[Format, ...] = get_args(Format)

PickColumns = Mapping[str, Sequence[object]]
"""The table of picks: equally long columns by name."""


class Ranked(Protocol):
    """One configuration of a beam, as `dubito.problem.Configuration`."""

    @property
    def indices(self) -> IntArray:
        """Rows of the pool."""
        ...

    @property
    def priorities(self) -> FloatArray:
        """Priority of each pick."""
        ...

    @property
    def radius(self) -> float | None:
        """The priority the next pick would have."""
        ...

    @property
    def uncertainty(self) -> float | None:
        """U(s)."""
        ...


class Picks(Ranked, Protocol):
    """What can be written: `dubito.Selection`, whose room stands above this one."""

    @property
    def configurations(self) -> Sequence[Ranked]:
        """All configurations of a beam, best first."""
        ...

    @property
    def strategy(self) -> str:
        """Name of the strategy."""
        ...

    @property
    def engine(self) -> str | None:
        """Name of the engine."""
        ...

    @property
    def seed(self) -> int:
        """The seed."""
        ...

    @property
    def seconds(self) -> float:
        """Time taken."""
        ...

    @property
    def n_pool(self) -> int:
        """Rows of the pool."""
        ...

    @property
    def complete(self) -> bool:
        """False after an interruption."""
        ...

    @property
    def standardised(self) -> bool:
        """Whether distances were measured between standardised features."""
        ...

    @property
    def covered(self) -> FloatArray | None:
        """Share of all doubt that is covered after each pick."""
        ...

    @property
    def reach(self) -> float | None:
        """How far a pick covers."""
        ...

    @property
    def sampled(self) -> int | None:
        """Rows that stood for the whole pool."""
        ...

    @property
    def spent(self) -> float | None:
        """What the picks cost together."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a person should know of how the picks came about."""
        ...

    def columns(self) -> PickColumns:
        """rank, index, id where there are ids, priority."""
        ...


def save_selection(
    selection: Picks, path: str, *, force: bool = False, format: Format | None = None, safe_csv: bool = False
) -> None:
    """Write picks to a file, whole or not at all.

    Parameters
    ----------
    selection : Selection
        What was picked.
    path : str
        Where to; its suffix decides the format unless `format` does.
    force : bool
        Replace a file that exists. Devices and pipes are written to without it.
    format : {"csv", "json", "jsonl", "parquet", "npy"}, optional
        See `render_selection`.
    safe_csv : bool
        In CSV, put an apostrophe before text that a spreadsheet would take for a formula; reading it back takes it off.

    Examples
    --------
    >>> import os, tempfile, dubito
    >>> picked = dubito.select([[0.0], [4.0], [9.0]], budget=2, labelled=[[1.0]], strategy="coreset")
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
    with held(path, needed=False):
        write_atomically(path, content, new=not force)


def render_selection(selection: Picks, format: Format, *, safe_csv: bool = False) -> bytes:
    r"""The bytes of a file of picks, for stdout or a file.

    ``csv``, ``jsonl`` and ``parquet`` are tables of ``rank,index,id,priority`` (``id`` only where there are ids);
    ``json`` is one object with ``schema`` 1, what was run, and the ``picks``; ``npy`` holds the indices alone.
    An infinite priority is ``inf`` in CSV and null in JSON; NaN is an empty field and null.

    Examples
    --------
    >>> import dubito
    >>> picked = dubito.select([[0.0], [4.0], [9.0]], budget=1, labelled=[[1.0]], strategy="coreset")
    >>> render_selection(picked, "jsonl")
    b'{"rank": 1, "index": 2, "priority": 8.0}\n'
    """
    if format == "json":
        return _object_bytes(selection)
    return render_columns(selection.columns(), format, safe_csv=safe_csv)


def render_columns(columns: PickColumns, format: Format, *, safe_csv: bool = False) -> bytes:
    """The bytes of a table of picks in any format but ``json``."""
    if format == "csv" and safe_csv:
        columns = {str(safe_cell(name)): [safe_cell(value) for value in values] for name, values in columns.items()}
    renderers: dict[str, Callable[[PickColumns], bytes]] = {
        "csv": _csv_bytes,
        "jsonl": _jsonl_bytes,
        "parquet": _parquet_bytes,
        "npy": _npy_bytes,
    }
    return renderers[format](columns)


def output_format(path: str, format: str | None = None) -> Format:
    """The format asked for, or that of the path's suffix.

    Examples
    --------
    >>> output_format("picks.CSV"), output_format("picks.txt", "jsonl")
    ('csv', 'jsonl')
    """
    known = ", ".join(FORMATS)
    if format is not None and format not in FORMATS:
        mend = f"{nearest(format, FORMATS)} known are {known}.".strip()
        raise InvalidArgument("is unknown", argument="format", value=format, mend=mend)
    if format is None and suffix_of(path)[1:] not in FORMATS:
        suffix = suffix_of(path)
        what = f"suffix {suffix} is not known" if suffix else "there is no suffix that tells the format"
        mend = f"use {', '.join(f'.{name}' for name in FORMATS)}, or pass {keyword('format')}."
        raise InvalidArgument(f"{path}: {what}", mend=mend)
    return cast(Format, format or suffix_of(path)[1:])


def _object_bytes(selection: Picks) -> bytes:
    content: dict[str, object] = {
        "schema": 1,
        "strategy": selection.strategy,
        "engine": selection.engine,
        "seed": selection.seed,
        "seconds": _plain(selection.seconds),
        "radius": _plain(selection.radius),
        "uncertainty": _plain(selection.uncertainty),
        "complete": selection.complete,
        "n_pool": selection.n_pool,
    }
    covered = None if selection.covered is None or not len(selection.covered) else float(selection.covered[-1])
    more = {"covered": covered, "reach": selection.reach, "sampled": selection.sampled, "spent": selection.spent}
    content |= {name: _plain(value) for name, value in more.items() if value is not None}
    if selection.standardised:
        content["standardised"] = True
    content["picks"] = _records(selection.columns())
    if selection.notes:
        content["notes"] = list(selection.notes)
    if len(selection.configurations) > 1:
        content["configurations"] = [_configuration(each) for each in selection.configurations]
    return (json.dumps(content, indent=2, allow_nan=False, default=str) + "\n").encode()


def _configuration(configuration: Ranked) -> dict[str, object]:
    return {
        "indices": configuration.indices.tolist(),
        "priorities": [_plain(value) for value in configuration.priorities.tolist()],
        "radius": _plain(configuration.radius),
        "uncertainty": _plain(configuration.uncertainty),
    }


def _records(columns: PickColumns) -> list[dict[str, object]]:
    return [dict(zip(columns, map(_plain, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def _plain(value: object) -> object:
    """The value, or None for what JSON has no number for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    r"""Rows as CSV with plain line feeds; a carriage return splits no row, though `csv` before Python 3.13 lets it.

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


def _csv_bytes(columns: PickColumns) -> bytes:
    rows = zip(*columns.values(), strict=True)
    cells = (("" if isinstance(value, float) and math.isnan(value) else value for value in row) for row in rows)
    return csv_text([columns, *cells]).encode()


def _jsonl_bytes(columns: PickColumns) -> bytes:
    lines = (json.dumps(record, allow_nan=False, default=str) + "\n" for record in _records(columns))
    return "".join(lines).encode()


def _parquet_bytes(columns: PickColumns) -> bytes:
    pyarrow, parquet = require("pyarrow", extra="files"), require("pyarrow.parquet", extra="files")
    types = {"rank": pyarrow.int64(), "index": pyarrow.int64(), "priority": pyarrow.float64()}
    if not any(map(len, columns.values())):
        types["id"] = pyarrow.string()
    arrays = {name: pyarrow.array(list(values), types.get(name)) for name, values in columns.items()}
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays), buffer)
    return buffer.getvalue()


def _npy_bytes(columns: PickColumns) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array(list(columns["index"]), dtype=np.int64), allow_pickle=False)
    return buffer.getvalue()
