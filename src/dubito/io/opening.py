"""Open a file by the format of its suffix, or a folder of shards."""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, MissingFile
from dubito.io.formats.delimited import open_delimited
from dubito.io.formats.excel import open_workbook
from dubito.io.formats.hdf5 import open_hdf5
from dubito.io.formats.json_rows import open_json, open_jsonl
from dubito.io.formats.numpy_files import open_npy, open_npz, open_safetensors
from dubito.io.formats.parquet import open_parquet
from dubito.io.formats.torch_files import open_tensors
from dubito.io.source import Content, Entry, Source, as_one_array, natural_order, note, reading, stack_rows, suffix_of
from dubito.matrix import Matrix

OPENERS: dict[str, Callable[[str], Source]] = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".safetensors": open_safetensors,
    ".parquet": open_parquet,
    ".feather": open_parquet,
    ".arrow": open_parquet,
    ".csv": partial(open_delimited, delimiter=","),
    ".tsv": partial(open_delimited, delimiter="\t"),
    ".csv.gz": partial(open_delimited, delimiter=","),
    ".tsv.gz": partial(open_delimited, delimiter="\t"),
    ".xlsx": open_workbook,
    ".pt": open_tensors,
    ".pth": open_tensors,
    ".h5": open_hdf5,
    ".hdf5": open_hdf5,
    ".jsonl": open_jsonl,
    ".jsonl.gz": open_jsonl,
    ".json": open_json,
    ".json.gz": open_json,
}
SIDECAR_SUFFIXES = (".json",)
"""Formats that are metadata in a folder of shards, unless the folder holds nothing else."""
MAGIC: dict[bytes, tuple[str, tuple[str, ...]]] = {
    b"\x93NUMPY": ("a NumPy array", (".npy",)),
    b"PK\x03\x04": ("a zip archive", (".npz", ".xlsx", ".pt", ".pth")),
    b"PAR1": ("Parquet", (".parquet",)),
    b"ARROW1": ("Arrow", (".feather", ".arrow")),
    b"FEA1": ("Feather version 1", (".feather",)),
    b"\x89HDF\r\n\x1a\n": ("HDF5", (".h5", ".hdf5")),
    b"\x1f\x8b": ("compressed with gzip", (".csv.gz", ".tsv.gz", ".jsonl.gz", ".json.gz")),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook or one with a password", ()),
}
"""Magic bytes of file formats, with a description and their suffixes."""
PICKLES = (".pkl", ".pickle", ".joblib")


def split_spec(spec: str) -> tuple[str, str | None]:
    """Split ``path::key`` into path and key; the key is None if there is none.

    Examples
    --------
    >>> split_spec("pool.npz::embeddings"), split_spec("pool.npz")
    (('pool.npz', 'embeddings'), ('pool.npz', None))
    """
    path, mark, key = spec.rpartition("::")
    if not mark or os.path.exists(spec):
        return spec, None
    if not path or not key:
        raise InvalidArgument(f"{spec!r} is not of the form path::key", hint="name both, or leave out the '::'.")
    return path, key


def open_source(path: str) -> Source:
    """Open a file or a folder of shards without reading its arrays.

    Parameters
    ----------
    path : str
        A file with a suffix in `OPENERS`, or a folder of files of one such format. Shards are read in natural order of
        their names (shard2 before shard10). Hidden files, names that start with an underscore, other formats, and
        ``.json`` files next to shards of another format are ignored.

    Returns
    -------
    Source
        Its `names` are the arrays or columns inside; `read_array` reads them.

    Examples
    --------
    >>> import os, tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "pool.npz")
    ...     np.savez(path, features=np.zeros((3, 2)), ids=np.array(["a", "b", "c"]))
    ...     open_source(path).names
    ('features', 'ids')
    """
    with reading(path):
        mode = os.stat(path).st_mode
        source = _open_folder(path) if stat.S_ISDIR(mode) else None
    if source is None:
        if not stat.S_ISREG(mode):
            raise InvalidArgument(f"{path} is neither a file nor a folder", hint="save the data to a file first.")
        source = _open_file(path)
    note(*source.notes)
    return source


def _open_file(path: str) -> Source:
    suffix = suffix_of(path)
    if suffix in PICKLES:
        hint = "save the array with numpy.save."
        raise InvalidArgument(f"{path} is a pickle by its name, and dubito never unpickles", hint=hint)
    if suffix not in OPENERS:
        hint = f"readable are {', '.join(OPENERS)} and folders of them."
        raise InvalidArgument(f"{path} has the suffix {suffix!r}", hint=hint)
    if os.path.getsize(path) == 0:
        raise InvalidData(f"{path} is empty (0 bytes).")
    with reading(path), open(path, "rb") as file:
        head = file.read(8)
    for magic, (kind, suffixes) in MAGIC.items():  # A wrong suffix, rather than a damaged file.
        if head.startswith(magic) and suffix not in suffixes:
            hint = f"give it the suffix {' or '.join(suffixes)}." if suffixes else "save it as .xlsx or .csv."
            raise InvalidData(f"{path} is {kind} according to its first bytes", hint=hint)
    return OPENERS[suffix](path)


PICTURE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Files of a folder that count as pictures."""


def _holds_pictures(path: str) -> bool:
    """Whether a folder or one of its subfolders has a picture, by suffix; hidden files and folders are skipped."""
    for _, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if any(name.lower().endswith(PICTURE_SUFFIXES) for name in names if not name.startswith(".")):
            return True
    return False


def _open_folder(path: str) -> Source:
    names = [name for name in os.listdir(path) if not name.startswith((".", "_")) and suffix_of(name) in OPENERS]
    names = [name for name in names if suffix_of(name) not in SIDECAR_SUFFIXES] or names
    shards = [os.path.join(path, name) for name in sorted(names, key=natural_order)]
    if not shards and _holds_pictures(path):
        hint = f"run dubito embed {path} -o pool.parquet and pass pool.parquet."
        raise MissingFile(f"{path} holds pictures, not features", hint=hint)
    if not shards:
        raise MissingFile(f"the folder {path} holds no data", hint=f"readable are {', '.join(OPENERS)}.")
    odd = next((shard for shard in shards if suffix_of(shard) != suffix_of(shards[0])), None)
    if odd is not None:
        raise InvalidData(
            f"{odd} has another format than {shards[0]}", hint="all shards of a folder must have the same format."
        )
    sources = [_open_file(shard) for shard in shards]
    first = sources[0]
    for source in sources:
        if source.embedder != first.embedder:  # Distances between them would be meaningless.
            theirs, ours = source.embedder or "an unknown embedder", first.embedder or "an unknown embedder"
            hint = "embed both with one embedder, or keep them in separate folders."
            raise InvalidData(f"{source.path} was embedded by {theirs} and {first.path} by {ours}", hint=hint)

    def read_columns(names: Sequence[str]) -> Matrix:
        return stack_rows([source.columns(names) for source in sources if source.columns is not None], shards)

    return replace(
        first,
        path=path,
        entries={name: _joined_entry(name, sources) for name in first.names},
        columns=read_columns if first.is_table else None,
        notes=tuple(text for source in sources for text in source.notes),
    )


def _joined_entry(name: str, sources: list[Source]) -> Entry:
    """The array of all shards; raises if a shard lacks it, or has another number of dimensions."""
    parts = [source.entry(name) for source in sources]
    first, paths = parts[0], [source.path for source in sources]
    odd = next((number for number, part in enumerate(parts) if part.ndim != first.ndim), None)
    if odd is not None:
        hint = "shards must be alike."
        raise InvalidData(f"{paths[odd]} holds {parts[odd].summary}, but {paths[0]} {first.summary}", hint=hint)
    content: Content = next((part.content for part in parts if part.content != "numbers"), "numbers")
    summary = f"{first.summary} in {len(parts)} shards"
    return Entry(
        first.ndim,
        content,
        summary,
        lambda: stack_rows([part.read() for part in parts], paths),
        lambda: as_one_array(stack_rows([part.names() for part in parts], paths)),
        lambda: np.concatenate([part.values().astype(np.object_) for part in parts]),
    )
