"""Pairs of files made by chance: a pool, and something beside it, with ids as people have them.

`make_pair` writes one into a folder and says what pandas makes of it: the values in the pool's order, the rows that are
named, or that the two do not fit.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import pandas as pd
from safetensors.numpy import save_file

Generator = np.random.Generator

IDS: dict[str, Callable[[Generator, int], list[Any]]] = {
    "names": lambda rng, n: [f"n{number}" for number in rng.permutation(1000)[:n]],
    "numbers": lambda rng, n: (rng.permutation(9000)[:n] + 100).tolist(),
    "rows shuffled": lambda rng, n: rng.permutation(n).tolist(),
    "from one": lambda rng, n: list(range(1, n + 1)),
    "rows": lambda rng, n: list(range(n)),
    "padded": lambda rng, n: [f"{number:05d}" for number in rng.permutation(900)[:n]],
    "large": lambda rng, n: [2**53 + 2 * number + 1 for number in rng.permutation(500)[:n].tolist()],
    "letters": lambda rng, n: [f"é{number}-ü" for number in rng.permutation(500)[:n]],
    "dates": lambda rng, n: [str(day.date()) for day in pd.date_range("2025-03-01", periods=n)[rng.permutation(n)]],
    "negative": lambda rng, n: (-rng.permutation(500)[:n] - 2).tolist(),
    "paths": lambda rng, n: [f"a b/{number}.png" for number in rng.permutation(500)[:n]],
}
SPELLINGS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda value: value,
    "text": str,
    "float": lambda value: float(value) if isinstance(value, int) else value,
    "text of a float": lambda value: f"{value}.0" if isinstance(value, int) else value,
    "blanks": lambda value: f" {value} " if isinstance(value, str) else value,
    "decomposed": lambda value: unicodedata.normalize("NFD", value) if isinstance(value, str) else value,
    "without zeros": lambda value: value.lstrip("0") or "0" if isinstance(value, str) else value,
    "capitals": lambda value: value.upper() if isinstance(value, str) else value,
}
CHANGES = ("same", "shuffled", "shuffled", "shuffled", "dropped", "doubled", "foreign", "extra", "none", "exchanged")
ROLES = ("probabilities", "logits", "doubt", "labeled", "candidates")
FORMS = (
    *("csv", "csv index", "csv last", "csv capital", "semicolons", "tsv", "parquet", "parquet index", "parquet named"),
    *("npz", "safetensors", "feather", "jsonl", "json", "shards", "nothing"),
    *("arrow", "csv.gz", "latin-1", "json columns", "xlsx", "h5", "pt"),
)
ARRAYS = ("npz", "safetensors", "h5", "pt", "nothing")
SUFFIXES = {"semicolons": "csv", "shards": "", "nothing": "npy", "latin-1": "csv"}


@dataclass(frozen=True)
class Pair:
    """What was written, and what pandas makes of it."""

    pool: str
    beside: str
    role: str
    features: Any
    wanted: Any
    """The values in the pool's order, the rows that are named, or None where the two do not fit."""
    described: str


def make_pair(folder: Path, seed: int) -> Pair:
    """Write the pair of that seed."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 25))
    role, change = str(rng.choice(ROLES)), str(rng.choice(CHANGES))
    pool_form, form = (str(rng.choice(FORMS)) for _ in range(2))
    kind, spelling = str(rng.choice(list(IDS))), str(rng.choice(["as it is", *SPELLINGS]))
    ids = IDS[kind](rng, n)
    features = pd.DataFrame(rng.normal(size=(n, 3)), columns=["f0", "f1", "f2"])
    rows, named = changed(rng, change, n, [SPELLINGS[spelling](value) for value in ids], partial=role in ROLES[3:])
    values = content(rng, role, n).iloc[rows].reset_index(drop=True)
    pool = write(folder, "pool", pool_form, features, ids, "features")
    beside = write(folder, "beside", form, values, named, role)
    has = [is_named(pool_form, ids), is_named(form, named)]
    wanted = joined(features, ids, values, named, role, has)
    if form == "nothing" and role in ROLES[3:] and len(rows) <= n:
        wanted = np.arange(len(rows))  # Row numbers.
    described = f"{seed}: {kind}, {spelling}, {change}, {role}, {pool_form} beside {form}"
    return Pair(pool, beside, role, features.to_numpy(), wanted, described)


def content(rng: Generator, role: str, n: int) -> pd.DataFrame:
    if role in ("labeled", "candidates"):
        return pd.DataFrame({"label": ["x"] * n}) if role == "labeled" else pd.DataFrame({"note": ["x"] * n})
    probabilities = rng.dirichlet(np.ones(3), n)
    if role == "doubt":
        return pd.DataFrame({"doubt": 1 - probabilities.max(axis=1)})
    return pd.DataFrame(
        probabilities if role == "probabilities" else np.log(probabilities), columns=["cat", "dog", "owl"]
    )


def changed(rng: Generator, change: str, n: int, ids: list[Any], *, partial: bool) -> tuple[list[int], list[Any]]:
    """Which rows of the content stand in the file, in order, and what they are called there."""
    rows = list(range(n)) if change in ("same", "none") else rng.permutation(n).tolist()
    rows = rows[: int(rng.integers(2, n - 2))] if partial and change != "none" else rows
    named = [ids[row] for row in rows]
    if change == "dropped":
        return rows[:-1], named[:-1]
    if change in ("doubled", "extra"):
        other = named[0] if change == "doubled" else "zz" if isinstance(named[0], str) else 987654
        return [*rows, rows[0]], [*named, other]
    if change == "foreign":
        return rows, [*named[:-1], "zz" if isinstance(named[0], str) else 987654]
    if change == "exchanged":
        return rows, [named[1], named[0], *named[2:]]
    return rows, [None] * len(rows) if change == "none" else named


def is_named(form: str, ids: list[Any]) -> bool:
    """Whether the ids get into the file: tensors hold no text."""
    is_number = np.array(ids).dtype.kind in "iuf"
    return form != "nothing" and ids[0] is not None and (form != "safetensors" or is_number)


def key(value: Any) -> str:
    """An id as the oracle compares it, written apart from dubito's."""
    text = unicodedata.normalize("NFC", str(value)).strip()
    head, point, tail = text.partition(".")
    is_whole = point and set(tail) == {"0"} and head.lstrip("-").isdigit() and str(int(head)) == head
    return head if is_whole else text


def joined(
    features: pd.DataFrame, ids: list[Any], values: pd.DataFrame, named: list[Any], role: str, has: list[bool]
) -> Any:
    """The join by pandas."""
    partial = role in ("labeled", "candidates")
    if not all(has):
        return None if partial or len(values) != len(features) else values.to_numpy()
    ours = pd.DataFrame({"key": list(map(key, ids)), "row": range(len(ids))})
    theirs = pd.DataFrame({"key": list(map(key, named)), "place": range(len(named))})
    if ours["key"].duplicated().any() or theirs["key"].duplicated().any():
        return None
    both = ours.merge(theirs, on="key", how="outer", indicator=True)
    if (both["_merge"] == "right_only").any() or (not partial and (both["_merge"] == "left_only").any()):
        return None
    both = both.dropna(subset=["place"]).sort_values("row")
    return both["row"].to_numpy() if partial else values.to_numpy()[both["place"].to_numpy().astype(int)]


def write(folder: Path, name: str, form: str, values: pd.DataFrame, ids: list[Any], role: str) -> str:
    """The table in a form of file; ids of None are left out."""
    named = ids[0] is not None
    suffix = SUFFIXES.get(form, form.partition(" ")[0])
    path = folder / (f"{name}.{suffix}" if suffix else name)
    frame = values.assign(id=ids) if named else values
    if form in ARRAYS:
        write_arrays(path, form, values, ids if named else [], role)
    elif form == "shards":
        path.mkdir()
        half = len(frame) // 2
        for place, part in enumerate((frame.iloc[:half], frame.iloc[half:])):
            part.to_csv(path / f"part-{place}.csv", index=False)
    elif form == "semicolons":
        frame.to_csv(path, index=False, sep=";")
    elif form == "csv capital":
        frame.rename(columns={"id": "ID"}).to_csv(path, index=False)
    elif form in ("csv", "tsv"):
        first = frame[["id", *values.columns]] if named else frame
        first.to_csv(path, index=False, sep="," if form == "csv" else "\t")
    elif form == "csv last":
        frame.to_csv(path, index=False)
    elif form == "csv index":
        (values.set_axis(pd.Index(ids)) if named else values).to_csv(path, index=named)
    elif form.startswith("parquet"):
        write_parquet(path, form, frame, values, ids if named else [])
    elif form in ("feather", "arrow"):
        frame.to_feather(path)
    elif form == "csv.gz":
        frame.to_csv(path, index=False)
    elif form == "latin-1":
        content = frame.to_csv(index=False)
        path.write_bytes(content.encode("cp1252" if is_western(content) else "utf-8"))
    elif form == "xlsx":
        frame.to_excel(path, index=False)
    elif form == "json columns":
        orient: Literal["columns", "split"] = "columns" if len(set(ids)) == len(ids) else "split"
        indexed = values.set_axis(pd.Index(ids)) if named else values
        indexed.to_json(path, orient=orient, force_ascii=False, double_precision=15)
    else:
        frame.to_json(path, orient="records", lines=form == "jsonl", force_ascii=False, double_precision=15)
    return str(path)


def write_parquet(path: Path, form: str, frame: pd.DataFrame, values: pd.DataFrame, ids: list[Any]) -> None:
    if form == "parquet" or not ids:
        frame.to_parquet(path, index=False)
        return
    index = pd.Index(ids, name="file" if form == "parquet named" else None)
    values.set_axis(index).to_parquet(path)


def is_western(text: str) -> bool:
    """Whether Windows has a letter for each of these."""
    try:
        return bool(text.encode("cp1252"))
    except UnicodeEncodeError:
        return False


def write_arrays(path: Path, form: str, values: pd.DataFrame, ids: list[Any], role: str) -> None:
    array = values.to_numpy()[:, 0] if values.shape[1] == 1 else values.to_numpy()
    if form == "nothing":
        np.save(path, np.arange(len(array)) if array.dtype == object else array)
        return
    arrays = {} if array.dtype == object else {role: np.ascontiguousarray(array)}
    if ids:
        arrays["ids"] = np.array(ids)
    if form == "safetensors":
        # Tensors hold no text: such ids are left out, and what has no numbers at all gets some of no meaning.
        numbers = {name: each for name, each in arrays.items() if each.dtype.kind in "iuf"}
        save_file(numbers or {"other": np.zeros((2, 2))}, path)
        return
    arrays = arrays or {"labels": array.astype(str)}
    if form == "npz":
        np.savez(path, allow_pickle=True, **arrays)
    elif form == "h5":
        with h5py.File(path, "w") as file:
            for name, each in arrays.items():
                file[name] = each.astype(object) if each.dtype.kind == "U" else each
    else:
        import torch

        tensors = {
            name: each.tolist() if each.dtype.kind == "U" else torch.tensor(each) for name, each in arrays.items()
        }
        torch.save(tensors, path)
