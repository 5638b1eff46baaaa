"""On the way from a command to its journal data is read, decoded and prepared once."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dubito.experiments import data as builtin
from dubito.experiments import images as loading
from dubito.experiments import images as pictures
from dubito.experiments import rounds as stage
from dubito.experiments.data import Dataset
from dubito.experiments.images import ImageSet
from dubito.io.formats.delimited import DelimitedTable
from dubito.paper.toys import quadrants

from .conftest import Program

PLAN = """
schema = 1
name = "once"
seeds = 2
strategies = ["random", "coreset"]
{pool}
[data]
{data}
[schedule]
initial = 6
budget = 3
rounds = 1
"""

Counts = Counter[object]


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """How often each column was parsed, each picture decoded, each seed prepared with its features."""
    found: Counts = Counter()

    def counted(owner: Any, name: str, keys: Callable[..., list[object]]) -> None:
        done = getattr(owner, name)

        def watched(*given: Any, **named: Any) -> Any:
            found.update(keys(*given, **named))
            return done(*given, **named)

        monkeypatch.setattr(owner, name, watched)

    def with_features(experiment: object, data: Dataset, seed: int) -> list[object]:
        return [("prepared", seed)] if data.features.size else []

    counted(DelimitedTable, "numbers", lambda table, names: [("column", Path(table.path).name, each) for each in names])
    counted(DelimitedTable, "_each", lambda table, name, take: [("column", Path(table.path).name, name)])
    counted(pictures, "_decode", lambda picture, *_, **__: [("decoded", Path(picture.name).name)])
    counted(stage, "prepare", with_features)
    return found


def write_table(path: Path, n: int = 60) -> None:
    rng = np.random.default_rng(0)
    rows = [f"r{row},{rng.normal():.3f},{rng.normal() + row % 2:.3f},{'ab'[row % 2]}" for row in range(n)]
    path.write_text("\n".join(["id,x,y,label", *rows]) + "\n")


PREPARED: dict[object, int] = {("prepared", 0): 1, ("prepared", 1): 1}


def once(what: str, *keys: object) -> dict[object, int]:
    return dict.fromkeys(((what, *key) if isinstance(key, tuple) else (what, key) for key in keys), 1)


@pytest.mark.parametrize("pool", ["", 'pool = "imbalanced:2"'])
def test_a_table_is_parsed_once_by_run_and_each_seed_prepared_once(
    run: Program, tmp_path: Path, counts: Counts, pool: str
) -> None:
    write_table(tmp_path / "data.csv")
    write_table(tmp_path / "test.csv", 20)
    (tmp_path / "once.toml").write_text(PLAN.format(data='path = "data.csv"\ntest = "test.csv"', pool=pool))
    assert run("run", "once.toml", "--workers", "1").code == 0
    columns = [(file, name) for file in ("data.csv", "test.csv") for name in ("x", "y", "label", "id")]
    assert counts == {**once("column", *columns), **PREPARED}


def test_a_run_that_is_done_reads_nothing(run: Program, tmp_path: Path, counts: Counts) -> None:
    write_table(tmp_path / "data.csv")
    (tmp_path / "once.toml").write_text(PLAN.format(data='path = "data.csv"', pool=""))
    assert run("run", "once.toml", "--workers", "1").code == 0
    counts.clear()
    assert run("run", "once.toml", "--workers", "1").code == 0
    assert counts == {}


@pytest.mark.usefixtures("blank_figures")
def test_a_table_is_parsed_once_by_simulate(run: Program, tmp_path: Path, counts: Counts) -> None:
    write_table(tmp_path / "data.csv")
    arguments = ("--seeds", "2", "--rounds", "1", "--initial", "6", "--budget", "3", "-s", "coreset", "-o", "out")
    assert run("simulate", "data.csv", "--pool", "redundant:1", *arguments).code == 0
    columns = [("data.csv", name) for name in ("x", "y", "label", "id")]
    assert counts == {**once("column", *columns), **PREPARED}


def test_pictures_of_a_folder_are_decoded_once(run: Program, tmp_path: Path, counts: Counts) -> None:
    names = [f"{kind}{number}.png" for kind in ("apple", "pear") for number in range(12)]
    for place, name in enumerate(names):
        path = tmp_path / "fruit" / name[:-5].rstrip("1") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (10 * place, 99, 255 - 10 * place)).save(path)
    (tmp_path / "once.toml").write_text(PLAN.format(data='images = "fruit"', pool=""))
    assert run("run", "once.toml", "--workers", "1").code == 0
    assert counts == {**once("decoded", *names), **PREPARED}


@pytest.mark.parametrize("command", ["run", "resume"])
def test_a_published_collection_is_read_once(
    run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    read: list[bool] = []

    def collection(folder: Path, *, allow_download: bool = False, progress: object = None) -> ImageSet:
        read.append(allow_download)
        rng, labels = np.random.default_rng(0), np.arange(60) % 2
        return ImageSet("made", rng.integers(0, 255, (60, 2, 2, 3), np.uint8), labels, ("a", "b"), *EMPTY)

    monkeypatch.setitem(loading.BUILT_IN, "cifar10", collection)
    (tmp_path / "once.toml").write_text(PLAN.format(data='images = "cifar10"', pool=""))
    assert run("run", "once.toml", "--workers", "1", "--download").code == 0
    if command == "resume":
        (folder,) = (tmp_path / "dubito-runs").iterdir()
        lines = (folder / "journal.jsonl").read_text().splitlines(keepends=True)
        (folder / "journal.jsonl").write_text("".join(lines[:3]))
        read.clear()
        assert run("resume", str(folder), "--workers", "1", "--download").code == 0
    assert read == [True]


EMPTY = np.empty((0, 2, 2, 3), np.uint8), np.empty(0, np.int64)


def test_a_toy_is_drawn_once_for_each_seed(run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: Counts = Counter()

    def watched(seed: int) -> Dataset:
        drawn.update([seed])
        return quadrants(seed)

    monkeypatch.setitem(builtin.BUILT_IN, "watched", watched)
    (tmp_path / "once.toml").write_text(PLAN.format(data='builtin = "watched"', pool=""))
    assert run("run", "once.toml", "--workers", "1").code == 0
    assert drawn == {0: 1, 1: 1}
