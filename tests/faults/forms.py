"""Every form of file that a pool comes in: written by the package it belongs to, and read back without dubito."""

import csv
import gzip
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import safetensors.numpy

from dubito.io.opening import OPENERS

COLUMNS = ("x", "y", "z")
NUMBER = re.compile(r"\s*[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?\s*")
Read = Callable[[Path], tuple[Any, list[str] | None]]
"""Features, and ids where there are any; any error where there is no reading it."""


@dataclass(frozen=True)
class Form:
    """A suffix, how such a file is made and read, and the options that describe its contents."""

    suffix: str
    write: Callable[[Path, pd.DataFrame], object]
    read: Read
    is_text: bool = False
    is_table: bool = True

    def arguments(self, name: str) -> list[str]:
        """Which columns or array of the file are meant."""
        if self.is_table:
            return [name, "--feature-columns", ",".join(COLUMNS), "--id-column", "id"]
        return [name if self.suffix == ".npy" else f"{name}::features"]


def matrix(frame: pd.DataFrame) -> Any:
    """The features alone."""
    return np.ascontiguousarray(frame[list(COLUMNS)].to_numpy())


def as_pool(frame: pd.DataFrame) -> tuple[Any, list[str]]:
    """Features and ids of a table."""
    return matrix(frame).astype(np.float64), [str(each) for each in frame["id"]]


def number(text: object) -> float:
    """A number as anybody writes it, or a truth value; other spellings are none."""
    if isinstance(text, str) and text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    if not isinstance(text, str) or not NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no number")
    return float(text)


def read_text(text: str, delimiter: str, decimal: str = ".") -> tuple[Any, list[str]]:
    """A table by Python's own reader."""
    head, *rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    rows = [row for row in rows if row]
    if any(len(row) != len(head) for row in rows) or len(set(head)) < len(head):
        raise ValueError("rows of different length")
    places = [head.index(name) for name in COLUMNS]
    values = [[number(row[place].replace(decimal, ".")) for place in places] for row in rows]
    return np.array(values), [row[head.index("id")] for row in rows]


def delimited(suffix: str, delimiter: str, encoding: str = "utf-8", decimal: str = ".") -> Form:
    """A table as text, perhaps packed."""
    is_packed = suffix.endswith(".gz")

    def write(path: Path, frame: pd.DataFrame) -> None:
        content = frame.to_csv(index=False, sep=delimiter, decimal=decimal).encode(encoding)
        path.write_bytes(gzip.compress(content) if is_packed else content)

    def read(path: Path) -> tuple[Any, list[str]]:
        content = gzip.decompress(path.read_bytes()) if is_packed else path.read_bytes()
        return read_text(content.decode("utf-8-sig" if encoding == "utf-8" else encoding), delimiter, decimal)

    return Form(suffix, write, read, is_text=not is_packed)


def decoded(content: bytes) -> str:
    """Text as it is by far most often written, else as it was before."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def objects(suffix: str) -> Form:
    """Rows as JSON objects, perhaps packed."""
    is_packed, is_lines = suffix.endswith(".gz"), ".jsonl" in suffix

    def write(path: Path, frame: pd.DataFrame) -> None:
        rows = frame.to_dict(orient="records")
        content = "".join(json.dumps(row) + "\n" for row in rows) if is_lines else json.dumps(rows)
        path.write_bytes(gzip.compress(content.encode()) if is_packed else content.encode())

    def read(path: Path) -> tuple[Any, list[str]]:
        content = gzip.decompress(path.read_bytes()) if is_packed else path.read_bytes()
        text = decoded(content)
        rows = [json.loads(line) for line in text.splitlines() if line.strip()] if is_lines else json.loads(text)
        values = [[row[name] for name in COLUMNS] for row in rows]
        if not all(type(value) in (int, float) for row in values for value in row):
            raise ValueError("no numbers")
        return np.array(values, dtype=np.float64), [str(row["id"]) for row in rows]

    return Form(suffix, write, read, is_text=not is_packed)


def read_workbook(path: Path) -> tuple[Any, list[str]]:
    """A sheet by openpyxl."""
    head, *rows = list(openpyxl.load_workbook(path, read_only=True, data_only=True).worksheets[0].values)
    values = [[row[head.index(name)] for name in COLUMNS] for row in rows]
    if not all(type(value) in (int, float) for row in values for value in row):
        raise ValueError("no numbers")
    return np.array(values, dtype=np.float64), [str(row[head.index("id")]) for row in rows]


def write_tensors(path: Path, frame: pd.DataFrame) -> None:
    """A dictionary of tensors, as torch.save has it."""
    import torch

    torch.save({"features": torch.from_numpy(matrix(frame))}, path)


def read_tensors(path: Path) -> tuple[Any, None]:
    """Tensors by torch."""
    import torch

    return torch.load(path, weights_only=True)["features"].numpy(), None


def write_hdf5(path: Path, frame: pd.DataFrame) -> None:
    """One data set, in chunks with checksums."""
    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=matrix(frame), fletcher32=True)


def read_hdf5(path: Path) -> tuple[Any, None]:
    """A data set by h5py."""
    with h5py.File(path) as file:
        return np.asarray(file["features"]), None


def write_arrow(path: Path, frame: pd.DataFrame) -> None:
    """A table as Arrow streams it into a file."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_arrow(path: Path) -> tuple[Any, list[str]]:
    """A table of Arrow, checked as a whole."""
    table = pa.ipc.open_file(path.read_bytes()).read_all()
    table.validate(full=True)
    return as_pool(table.to_pandas())


def written_parquet(path: Path, frame: pd.DataFrame) -> None:
    """With checksums, as the newer writers of Parquet have them."""
    pa.parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, write_page_checksum=True)


def read_parquet(path: Path) -> tuple[Any, list[str]]:
    """A table of Parquet."""
    return as_pool(pa.parquet.read_table(path, page_checksum_verification=True).to_pandas())


def read_npz(path: Path) -> tuple[Any, None]:
    """An array of an archive by NumPy."""
    with np.load(path, allow_pickle=False) as archive:
        return archive["features"], None


ARRAYS = (
    Form(".npy", lambda path, frame: np.save(path, matrix(frame)), lambda path: (np.load(path), None), is_table=False),
    Form(".npz", lambda path, frame: np.savez(path, features=matrix(frame)), read_npz, is_table=False),
    Form(
        ".safetensors",
        lambda path, frame: safetensors.numpy.save_file({"features": matrix(frame)}, path),
        lambda path: (safetensors.numpy.load_file(path)["features"], None),
        is_table=False,
    ),
    Form(".pt", write_tensors, read_tensors, is_table=False),
    Form(".h5", write_hdf5, read_hdf5, is_table=False),
)
TABLES = (
    delimited(".csv", ","),
    delimited(".tsv", "\t"),
    delimited(".csv.gz", ","),
    delimited(".tsv.gz", "\t"),
    objects(".jsonl"),
    objects(".json"),
    objects(".jsonl.gz"),
    objects(".json.gz"),
    Form(".parquet", written_parquet, read_parquet),
    Form(".feather", lambda path, frame: pa.feather.write_feather(frame, str(path)), read_arrow),
    Form(".arrow", write_arrow, read_arrow),
    Form(".xlsx", lambda path, frame: frame.to_excel(path, index=False), read_workbook),
)
DIALECTS = {
    "semicolons and decimal commas": delimited(".csv", ";", decimal=","),
    "Latin-1": delimited(".csv", ",", encoding="latin-1"),
    "UTF-16": delimited(".csv", ",", encoding="utf-16"),
}
ALIASES = {".pth": ".pt", ".hdf5": ".h5"}
"""Suffixes for what has another already."""


def forms() -> dict[str, Form]:
    """Every form by its name; one that dubito reads and that is not here is an error."""
    found = {form.suffix: form for form in (*ARRAYS, *TABLES)}
    missing = set(OPENERS) - set(found) - set(ALIASES)
    if missing:
        raise RuntimeError(f"the campaign has no files of {', '.join(sorted(missing))}")
    return {**found, **{f".csv, {name}": form for name, form in DIALECTS.items()}}
