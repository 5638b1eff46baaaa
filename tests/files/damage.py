"""Damaged files by the hundred: what disks, networks and half-done copies do to them, drawn by a seed."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import safetensors.numpy
import torch

from dubito.matrix import AnyArray, FloatArray

FEATURES = np.random.default_rng(0).normal(size=(40, 3)).round(3)
IDS = [f"nö-{row}" for row in range(len(FEATURES))]
ROWS = [[name, *values] for name, values in zip(IDS, FEATURES.tolist(), strict=True)]
HEADER = ["id", "x", "y", "z"]


def variants(content: bytes, count: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Damaged forms of a file, each with a word on what was done: cut, flipped, spliced, blanked, doubled."""
    rng = np.random.default_rng(seed)
    kinds: tuple[Callable[[bytes, np.random.Generator], bytes], ...] = (cut, flipped, spliced, blanked, doubled)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        yield f"{kind.__name__} {number}", kind(content, rng)


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    """The beginning alone."""
    return content[: rng.integers(1, len(content))]


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    """One to four bits the other way."""
    changed = bytearray(content)
    for place in rng.integers(len(content), size=rng.integers(1, 5)):
        changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def spliced(content: bytes, rng: np.random.Generator) -> bytes:
    """A piece taken out, or put in the place of another."""
    start, length = int(rng.integers(len(content))), int(rng.integers(1, 64))
    piece = content[start : start + length] if rng.integers(2) else b""
    other = int(rng.integers(len(content)))
    return content[:other] + piece + content[other + length :]


def blanked(content: bytes, rng: np.random.Generator) -> bytes:
    """A piece of zeros, as a lost block leaves it."""
    start, length = int(rng.integers(len(content))), int(rng.integers(1, 512))
    length = min(length, len(content) - start)
    return content[:start] + bytes(length) + content[start + length :]


def doubled(content: bytes, rng: np.random.Generator) -> bytes:
    """The end once more."""
    return content + content[int(rng.integers(len(content))) :]


def csv_bytes(delimiter: str = ",") -> bytes:
    rows = [HEADER, *([str(cell) for cell in row] for row in ROWS)]
    return "".join(delimiter.join(row) + "\n" for row in rows).encode()


def jsonl_bytes() -> bytes:
    return "".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\n" for row in ROWS).encode()


def write_npy(path: Path) -> None:
    np.save(path, FEATURES)


def write_npz(path: Path) -> None:
    np.savez_compressed(path, features=FEATURES, ids=np.array(IDS))


def write_safetensors(path: Path) -> None:
    safetensors.numpy.save_file({"features": FEATURES}, path)


def write_arrow(path: Path) -> None:
    table = pa.table({name: [row[place] for row in ROWS] for place, name in enumerate(HEADER)})
    if path.suffix == ".parquet":
        pq.write_table(table, path, write_page_checksum=True)
    else:
        pa.feather.write_feather(table, path)


def write_workbook(path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (HEADER, *ROWS):
        book.active.append(row)
    book.save(path)


def write_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=FEATURES, chunks=True, fletcher32=True)
        file["ids"] = IDS


def write_tensors(path: Path) -> None:
    torch.save({"features": torch.from_numpy(FEATURES), "ids": IDS}, path)


WRITERS: dict[str, Callable[[Path], object]] = {
    ".npy": write_npy,
    ".npz": write_npz,
    ".safetensors": write_safetensors,
    ".parquet": write_arrow,
    ".feather": write_arrow,
    ".csv": lambda path: path.write_bytes(csv_bytes()),
    ".tsv": lambda path: path.write_bytes(csv_bytes("\t")),
    ".csv.gz": lambda path: path.write_bytes(gzip.compress(csv_bytes())),
    ".jsonl": lambda path: path.write_bytes(jsonl_bytes()),
    ".jsonl.gz": lambda path: path.write_bytes(gzip.compress(jsonl_bytes())),
    ".json": lambda path: path.write_text(json.dumps([dict(zip(HEADER, row, strict=True)) for row in ROWS])),
    ".xlsx": write_workbook,
    ".h5": write_hdf5,
    ".pt": write_tensors,
}
"""How a small pool is written in every kind of file."""
WITH_CHECKSUMS = (".npz", ".csv.gz", ".jsonl.gz", ".pt")
"""Kinds in which every number is under a checksum: of them, none may be read wrong."""


def is_right(features: AnyArray | FloatArray) -> bool:
    """Whether these are the features that were written."""
    return features.shape == FEATURES.shape and bool((np.asarray(features[:]) == FEATURES).all())
