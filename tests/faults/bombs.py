"""Small files that unpack to large ones, that promise what they do not hold, or that take forever to read."""

import gzip
import json
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from .campaign import Scenario, Tries
from .trying import Outcome, begin, prepare

LIMIT = 100_000_000
"""Bytes that inputs may take."""
MOST = 4 * LIMIT
"""Bytes that a child may hold: parsers need some room of their own."""
LARGE = 1_200_000_000
"""Bytes that a bomb unpacks to."""
WHOLE = 100
"""Damaged variants from which on a campaign is a whole one."""
Make = Callable[[Path, random.Random], list[str]]
"""Makes a file, and says how it is handed in."""


def scenarios(goal: int) -> Iterator[Scenario]:
    """Each once, or a few times with other numbers; those that take long to make in a whole campaign alone."""
    for name, make in {**(HEAVY if goal >= WHOLE else {}), **LIGHT}.items():
        yield Scenario("bombs", name, 1 if name in HEAVY else max(1, goal // 30), bomb_tries(name, make))


def bomb_tries(name: str, make: Make) -> Tries:
    """Refused in one line within a minute, and within the memory that was allowed."""

    def tries(folder: Path, chance: random.Random) -> Iterator[Outcome]:
        while True:
            made = folder / "arguments.json"
            prepare(partial(write_arguments, made, make, chance.random()), folder)
            ran = begin(json.loads(made.read_text()), folder).wait()
            if ran.complaint:
                yield Outcome("fault", f"{name}: {ran.complaint}, {ran.err[-200:]!r}")
            elif ran.peak > MOST:
                yield Outcome("fault", f"{name}: refused only after {ran.peak / 1e6:,.0f} MB")
            else:
                yield Outcome("refused")

    return tries


def write_arguments(path: Path, make: Make, seed: float) -> None:
    """Make a bomb, and write down how it is handed in."""
    path.write_text(json.dumps(make(path.parent, random.Random(seed))))


def select(spec: str, *more: str) -> list[str]:
    """Picks from a file."""
    return ["select", spec, "-b", "3", "-s", "coreset", "-q", "--input-limit", f"{LIMIT // 10**6}MB", *more]


def npy_header(rows: int, width: int = 8) -> bytes:
    """How an array of so many rows begins."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {width}), }}"
    padded = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded.encode()


def zip_of_zeros(path: Path, name: str, head: bytes, size: int) -> None:
    """An archive with one member of zeros behind a head."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive, archive.open(name, "w") as file:
        file.write(head)
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))


def npz(folder: Path, chance: random.Random) -> list[str]:
    """1.2 GB of zeros in a megabyte."""
    rows = LARGE // 64
    zip_of_zeros(folder / "pool.npz", "features.npy", npy_header(rows), (rows * 64 + (1 << 20)))
    return select("pool.npz")


def npz_dry(folder: Path, chance: random.Random) -> list[str]:
    """The same, and only a look at it."""
    return [*npz(folder, chance), "--dry-run"]


def npz_beside(folder: Path, chance: random.Random) -> list[str]:
    """The same, as probabilities."""
    np.save(folder / "features.npy", np.eye(4))
    npz(folder, chance)
    return select("features.npy", "--probabilities", "pool.npz::features")


def npy_promise(folder: Path, chance: random.Random) -> list[str]:
    """A header that promises more than there is."""
    (folder / "pool.npy").write_bytes(npy_header(10 ** chance.randint(9, 17)) + bytes(640))
    return select("pool.npy")


def safetensors_promise(folder: Path, chance: random.Random) -> list[str]:
    """A header longer than the file, or a tensor beyond its end."""
    shape = [10 ** chance.randint(6, 12), 8]
    header = {"features": {"dtype": "F64", "shape": shape, "data_offsets": [0, shape[0] * 64]}}
    text = json.dumps(header).encode()
    length = chance.choice([len(text), 2**62])
    (folder / "pool.safetensors").write_bytes(struct.pack("<Q", length) + text + bytes(100))
    return select("pool.safetensors")


def packed_table(folder: Path, chance: random.Random) -> list[str]:
    """A table of 300 MB in a few kilobytes."""
    with gzip.open(folder / "pool.csv.gz", "wb", compresslevel=9) as file:
        file.write(b"x,y\n")
        for _ in range(300):
            file.write(b"0,0\n" * (1 << 18))
    return select("pool.csv.gz")


def packed_lines(folder: Path, chance: random.Random) -> list[str]:
    """Objects of 300 MB in a few kilobytes."""
    with gzip.open(folder / "pool.jsonl.gz", "wb", compresslevel=9) as file:
        for _ in range(300):
            file.write(b'{"x": 0}\n' * (1 << 17))
    return select("pool.jsonl.gz")


def columnar(folder: Path, chance: random.Random) -> list[str]:
    """A column of one value, a hundred million times."""
    array = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000_000, np.int32)), pa.array([1.5]))
    table = pa.table({"x": array.cast(pa.float64()), "y": array.cast(pa.float64())})
    kind = chance.choice(["parquet", "feather"])
    if kind == "parquet":
        pa.parquet.write_table(table, folder / "pool.parquet", compression="zstd")
    else:
        pa.feather.write_feather(table, str(folder / "pool.feather"), compression="zstd")
    return select(f"pool.{kind}")


def hdf5(folder: Path, chance: random.Random) -> list[str]:
    """A data set that holds nothing but its shape."""
    with h5py.File(folder / "pool.h5", "w") as file:
        file.create_dataset("features", shape=(10 ** chance.randint(8, 12), 8), dtype="f8", chunks=(1024, 8))
    return select("pool.h5")


def workbook(folder: Path, chance: random.Random) -> list[str]:
    """A sheet of 1.2 GB of spaces."""
    from openpyxl import Workbook

    book = Workbook()
    book.create_sheet("pool", 0).append(["x", "y"])
    book.save(folder / "pool.xlsx")
    with zipfile.ZipFile(folder / "pool.xlsx") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(folder / "pool.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            with archive.open(name, "w") as file:
                before, tag, after = content.partition(b"<sheetData>")
                file.write(before + tag)
                for _ in range((LARGE >> 20) if tag else 0):
                    file.write(b" " * (1 << 20))
                file.write(after)
    return select("pool.xlsx")


def tensors(folder: Path, chance: random.Random) -> list[str]:
    """A file of torch.save whose storage is zeros without end."""
    import torch

    torch.save({"features": torch.zeros(4, 3)}, folder / "small.pt")
    with zipfile.ZipFile(folder / "small.pt") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(folder / "pool.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            with archive.open(name, "w") as file:
                file.write(content)
                for _ in range((LARGE >> 20) if "/data/" in name else 0):
                    file.write(bytes(1 << 20))
    return select("pool.pt::features")


def nested_json(folder: Path, chance: random.Random) -> list[str]:
    """Brackets without end."""
    depth = 10 ** chance.randint(4, 6)
    (folder / "pool.json").write_text("[" * depth + "]" * chance.choice([0, depth]))
    return select("pool.json")


def nested_plan(folder: Path, chance: random.Random) -> list[str]:
    """A plan of brackets."""
    (folder / "plan.toml").write_text(f"schema = {'[' * 20_000}")
    return ["run", "plan.toml", "-q"]


def endless_plan(folder: Path, chance: random.Random) -> list[str]:
    """Seeds or rounds beyond all reason."""
    write_plan_here(folder)
    text, many = (folder / "plan.toml").read_text(), 10 ** chance.randint(9, 30)
    old = chance.choice(["seeds = 2", "rounds = 3", "budget = 5", "initial = 8"])
    (folder / "plan.toml").write_text(text.replace(old, f"{old.split(' ')[0]} = {many}"))
    return ["run", "plan.toml", "-q", "--workers", "1"]


def write_plan_here(folder: Path) -> None:
    """A plan, by one who is in a child already."""
    from .runs import PLAN, data

    held = data()
    np.savez(folder / "data.npz", features=held.features, labels=held.labels)
    (folder / "plan.toml").write_text(PLAN.format(seeds=2, rounds=3))


def long_number(folder: Path, chance: random.Random) -> list[str]:
    """A row number of hundreds or thousands of digits."""
    np.save(folder / "features.npy", np.eye(4))
    digits = "9" * chance.choice([20, 400, 5_000])
    kind = chance.choice(["json", "jsonl", "csv"])
    picks = {
        "json": f'{{"picks": [{{"index": {digits}}}]}}',
        "jsonl": f'{{"index": {digits}}}\n',
        "csv": f"rank,index\n1,{digits}\n",
    }
    (folder / f"picks.{kind}").write_text(picks[kind])
    return select("features.npy", "--labeled", f"picks.{kind}")


def pictures(folder: Path, chance: random.Random) -> list[str]:
    """A picture of a gigapixel, in a few kilobytes."""
    from PIL import Image

    place = folder / "pictures"
    for label in ("cat", "dog"):
        (place / label).mkdir(parents=True, exist_ok=True)
        for row in range(12):
            Image.new("L", (8, 8), row * 9).save(place / label / f"{row}.png")
    Image.new("1", (30_000, 30_000)).save(place / "dog" / "large.png", optimize=False)
    write_plan_here(folder)
    text = (folder / "plan.toml").read_text().replace('path = "data.npz"', f'images = "{place}"\nsize = [8, 8]')
    (folder / "plan.toml").write_text(text)
    return ["run", "plan.toml", "-q", "--workers", "1"]


def run_data(folder: Path, chance: random.Random) -> list[str]:
    """The data that a run kept, grown to 1.2 GB."""
    from dubito.experiments.plan import Arm, Experiment, Schedule
    from dubito.experiments.runner import run_experiment

    from .runs import data

    if not (folder / "run").exists():
        plan = Experiment("handed", (Arm("random"),), schedule=Schedule(initial=8, budget=5, rounds=1), seeds=(0,))
        run_experiment(plan, folder / "run", dataset=data())
        (folder / "run" / "journal.jsonl").unlink()
    zip_of_zeros(folder / "run" / "data.npz", "features.npy", npy_header(LARGE // 64), LARGE + (1 << 20))
    return ["resume", "run", "-q", "--workers", "1", "--input-limit", f"{LIMIT // 10**6}MB"]


HEAVY: dict[str, Make] = {
    ".npz of 1.2 GB": npz,
    ".npz of 1.2 GB, --dry-run": npz_dry,
    ".npz of 1.2 GB, as probabilities": npz_beside,
    ".xlsx of 1.2 GB": workbook,
    ".pt of 1.2 GB": tensors,
    "data.npz of 1.2 GB": run_data,
    ".csv.gz of 300 MB": packed_table,
    ".jsonl.gz of 300 MB": packed_lines,
    "Parquet and Feather of 320 MB": columnar,
    "a picture of a gigapixel": pictures,
}
"""Those that take long to make."""
LIGHT: dict[str, Make] = {
    ".npy that promises more": npy_promise,
    ".safetensors that promises more": safetensors_promise,
    ".h5 of nothing but a shape": hdf5,
    ".json of brackets": nested_json,
    "TOML of brackets": nested_plan,
    "seeds and rounds without end": endless_plan,
    "row numbers without end": long_number,
}
