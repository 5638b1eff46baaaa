"""Reading features and what belongs to them, and writing picks.

``.npy`` and safetensors are memory-mapped; ``.npz``, Parquet (extra ``files``) and CSV are read; a folder of shards
is a `Stack`. Nothing is ever unpickled. See `read_array` for how an array is found in a file.
"""

from dubito.files.choosing import Columns, DoubtRole, Role
from dubito.files.entries import Source
from dubito.files.limits import input_limit
from dubito.files.notes import gathering_notes
from dubito.files.opening import open_source, split_spec
from dubito.files.picks import add_round, append_picks, read_picks
from dubito.files.replacing import write_atomically
from dubito.files.roles import PoolFile, RowsFile, find_array, find_doubt, read_array, read_pool, read_rows
from dubito.files.writing import FORMATS, Format, output_format, render_selection, save_selection

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
