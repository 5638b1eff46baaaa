"""The index of a pandas frame in a file of Arrow's: the schema's metadata tells where it was put."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from dubito.files.entries import Entry
from dubito.matrix import IntArray

COUNTED = "__index_level_0__"
"""The name of an index that is only told as a range, which pandas gives those that have none."""


def index_of(metadata: Mapping[bytes, bytes] | None, n_rows: int) -> tuple[tuple[str, ...], dict[str, Entry]]:
    """The columns that hold the index, and entries for one that is a range; mere row numbers are left out.

    Examples
    --------
    >>> index_of({b"pandas": b'{"index_columns": ["file"]}'}, 3)[0]
    ('file',)
    >>> counted = b'{"index_columns": [{"kind": "range", "start": 5, "stop": 8, "step": 1}]}'
    >>> names, entries = index_of({b"pandas": counted}, 3)
    >>> entries[names[0]].read().tolist()
    [5, 6, 7]
    """
    levels = _levels((metadata or {}).get(b"pandas", b"{}"))
    names = tuple(level for level in levels if isinstance(level, str))
    if names or len(levels) != 1:
        return names, {}
    rows = _range(levels[0])
    if len(rows) != n_rows or rows == range(n_rows):
        return (), {}
    return (COUNTED,), {COUNTED: Entry(1, "numbers", "(int64)", partial(_read, rows))}


def _levels(text: bytes) -> list[Any]:
    """What pandas wrote of the index; words that are no JSON are damaged, and raise for `reading` to explain."""
    parsed = json.loads(text)
    levels = parsed.get("index_columns") if isinstance(parsed, dict) else None
    return levels if isinstance(levels, list) else []


def _range(level: object) -> range:
    if not isinstance(level, dict):
        return range(0)
    start, stop, step = (level.get(key) for key in ("start", "stop", "step"))
    if not (type(start) is int and type(stop) is int and type(step) is int and step):
        return range(0)
    return range(start, stop, step)


def _read(rows: range) -> IntArray:
    return np.arange(rows.start, rows.stop, rows.step, dtype=np.int64)
