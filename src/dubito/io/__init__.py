"""Reading features and what belongs to them, and writing picks.

``.npy`` and safetensors are memory-mapped; ``.npz``, Parquet (extra ``files``) and CSV are read; a folder of shards
is a `Stack`. Nothing is ever unpickled. See `read_array` for how an array is found in a file.
"""

from dubito.io.durable import write_atomically
from dubito.io.limits import input_limit
from dubito.io.lookup import Columns, DoubtRole, Role
from dubito.io.opening import open_source, split_spec
from dubito.io.picks import (
    FORMATS,
    Format,
    add_round,
    append_picks,
    output_format,
    read_picks,
    render_selection,
    save_selection,
)
from dubito.io.roles import PoolFile, RowsFile, find_array, find_doubt, read_array, read_pool, read_rows
from dubito.io.source import Source, gathering_notes

__all__ = [
    "FORMATS",
    "Columns",
    "DoubtRole",
    "Format",
    "PoolFile",
    "Role",
    "RowsFile",
    "Source",
    "add_round",
    "append_picks",
    "find_array",
    "find_doubt",
    "gathering_notes",
    "input_limit",
    "open_source",
    "output_format",
    "read_array",
    "read_picks",
    "read_pool",
    "read_rows",
    "render_selection",
    "save_selection",
    "split_spec",
    "write_atomically",
]
