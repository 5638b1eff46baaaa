"""Shards of files and arrays give the picks of one machine; errors name the file; a run can be resumed."""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import dubito
from dubito.core.problem import Interrupted, Selection
from dubito.engines.cluster import driver, messages
from dubito.engines.cluster.shard import ShardSource
from dubito.engines.cluster.workers import LocalWorkers
from dubito.errors import DubitoError
from dubito.matrix import AnyArray, FloatArray
from dubito.sharding.run import PickJournal, select_shards
from dubito.sharding.shards import RowRange, Shards
from dubito.strategies import build_strategy

EDGES = [0, 40, 40, 300, 301, 500]
BUDGET = 60


@pytest.fixture
def pool() -> FloatArray:
    return np.random.default_rng(0).normal(size=(500, 6))


@pytest.fixture
def probabilities() -> FloatArray:
    return np.random.default_rng(1).dirichlet(np.ones(3), 500)


def parts(array: AnyArray) -> list[AnyArray]:
    return [array[start:stop] for start, stop in itertools.pairwise(EDGES)]


def choose(shards: Shards, budget: int = BUDGET, strategy: str = "doubt-coreset", **more: Any) -> Selection:
    more = {"n_workers": 3, "make_workers": LocalWorkers, **more}
    return select_shards(shards, budget, strategy=build_strategy(strategy, {}), **more)


def assert_same(found: Selection, wanted: Selection) -> None:
    assert found.indices.tolist() == wanted.indices.tolist()
    assert found.priorities.tobytes() == wanted.priorities.tobytes()
    assert found.radius == wanted.radius
    assert found.uncertainty == wanted.uncertainty
    assert found.n_pool == wanted.n_pool


@pytest.mark.parametrize(
    "strategy", ["coreset", "doubt-coreset", "doubt-coreset:doubt=margin", "doubt-coreset:beam_width=3"]
)
@pytest.mark.parametrize("labeled", [None, [3, 41, 499]])
def test_arrays_in_memory(
    strategy: str, labeled: list[int] | None, pool: FloatArray, probabilities: FloatArray
) -> None:
    wanted = dubito.select(pool, BUDGET, labeled=labeled, probabilities=probabilities, strategy=strategy, engine="cpu")
    shards = Shards(parts(pool), probabilities=parts(probabilities))
    assert_same(choose(shards, strategy=strategy, labeled=labeled), wanted)


def test_a_worker_lost_before_the_first_round_knows_where_it_is(pool: FloatArray) -> None:
    class Losing(LocalWorkers):
        def ask(self, method: str, common: Any = (), each: Any = None) -> list[Any]:
            if method in ("labeled", "read", "start", "ids"):
                self.lose(1)
            return super().ask(method, common, each)

    wanted = dubito.select(pool, BUDGET, labeled=[3, 41, 499], strategy="coreset", engine="cpu")
    assert_same(choose(Shards(parts(pool)), strategy="coreset", labeled=[3, 41, 499], make_workers=Losing), wanted)


@pytest.mark.parametrize("suffix", ["npy", "safetensors", "parquet", "npz"])
def test_files_of_every_form_with_ids_and_marks(
    suffix: str, pool: FloatArray, probabilities: FloatArray, tmp_path: Path
) -> None:
    ids, marked = np.array([f"row {row}" for row in range(500)]), np.isin(np.arange(500), [0, 250])
    pool = pool.astype(np.float32)
    wanted = dubito.select(pool, BUDGET, labeled=[0, 250], probabilities=probabilities, strategy="doubt-coreset")
    for number, (points, each, names, marks) in enumerate(
        zip(parts(pool), parts(probabilities), parts(ids), parts(marked), strict=True)
    ):
        write_shard(tmp_path / f"part{number}.{suffix}", points, each, names, marks)
    beside = sorted((tmp_path / "beside").iterdir()) if (tmp_path / "beside").exists() else None
    labeled = [0, 250] if suffix in ("npy", "safetensors") else None
    found = choose(Shards(tmp_path, probabilities=beside), labeled=labeled)
    assert_same(found, wanted)
    if suffix in ("parquet", "npz"):
        assert found.ids is not None
        assert found.ids.tolist() == ids[found.indices].tolist()


def write_shard(path: Path, points: AnyArray, probabilities: AnyArray, ids: AnyArray, marked: AnyArray) -> None:
    if path.suffix == ".npz":
        np.savez(path, features=points, probabilities=probabilities, ids=ids, labeled=marked)
        return
    if path.suffix == ".parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        columns = {"id": pyarrow.array(ids.tolist(), pyarrow.string())}
        columns["labeled"] = pyarrow.array(marked.tolist(), pyarrow.bool_())
        lists = {"features": (points, pyarrow.float32()), "probabilities": (probabilities, pyarrow.float64())}
        columns |= {name: pyarrow.array(list(rows), pyarrow.list_(kind)) for name, (rows, kind) in lists.items()}
        parquet.write_table(pyarrow.table(columns), path)
        return
    (path.parent / "beside").mkdir(exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, points)
    else:
        pytest.importorskip("safetensors.numpy").save_file({"features": points}, path)
    np.save(path.parent / "beside" / f"{path.stem}.npy", probabilities)


def test_a_single_file_that_can_be_mapped_is_cut(pool: FloatArray, tmp_path: Path) -> None:
    np.save(tmp_path / "pool.npy", pool)
    shards = Shards(tmp_path / "pool.npy")
    spans = [item for group in shards.groups(3) for item in group]
    assert [(item.start, item.stop) for item in spans if isinstance(item, RowRange)] == [
        (0, 166),
        (166, 333),
        (333, 500),
    ]
    assert_same(choose(shards, strategy="coreset"), dubito.select(pool, BUDGET, strategy="coreset", engine="cpu"))


def test_labeled_features_and_cosine(pool: FloatArray) -> None:
    wanted = dubito.select(pool, BUDGET, labeled=pool[:5] + 1, strategy="coreset", metric="cosine", engine="cpu")
    assert_same(choose(Shards(parts(pool)), strategy="coreset", labeled=pool[:5] + 1, metric="cosine"), wanted)


def test_doubt_in_files_is_joined_by_ids(pool: FloatArray, probabilities: FloatArray, tmp_path: Path) -> None:
    doubt, order = 1.0 - probabilities.max(axis=1), np.random.default_rng(3).permutation(500)
    lines = [f"n{row},{a!r},{b!r}" for row, (a, b) in enumerate(pool[:, :2].tolist())]
    (tmp_path / "pool.csv").write_text("\n".join(["id,a,b", *lines]))
    lines = [f"n{row},{doubt.tolist()[row]!r}" for row in order]
    (tmp_path / "doubt.csv").write_text("\n".join(["id,doubt", *lines]))
    wanted = dubito.select(pool[:, :2].copy(), 20, doubt=doubt, strategy="doubt-coreset", engine="cpu")
    found = choose(Shards([tmp_path / "pool.csv"], doubt=[tmp_path / "doubt.csv"]), 20)
    assert_same(found, wanted)


def test_a_remote_file_is_copied_and_the_copy_removed(pool: FloatArray) -> None:
    fsspec = pytest.importorskip("fsspec")
    for number, points in enumerate(parts(pool)):
        with fsspec.open(f"memory://shards/{number}.npy", "wb") as file:
            np.save(file, points)
    shards = Shards([f"memory://shards/{number}.npy" for number in range(5)])
    assert_same(choose(shards, strategy="coreset"), dubito.select(pool, BUDGET, strategy="coreset", engine="cpu"))
    with pytest.raises(DubitoError, match=r"memory://shards/9\.npy cannot be read"):
        choose(Shards(["memory://shards/9.npy"]), strategy="coreset")


# Errors


def test_what_cannot_be_read_is_named(pool: FloatArray, tmp_path: Path) -> None:
    np.save(tmp_path / "0.npy", pool)
    (tmp_path / "1.npy").write_bytes(b"no array at all")
    with pytest.raises(DubitoError, match=r"1\.npy"):
        choose(Shards(tmp_path), strategy="coreset")
    np.save(tmp_path / "1.npy", np.full((2, 6), np.nan))
    with pytest.raises(DubitoError, match="nan at row 0"):
        choose(Shards([tmp_path / "1.npy"]), strategy="coreset")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"labeled": [500]}, "has row 500"),
        ({"labeled": [[1.0, 2.0]]}, "has 2 features, and the shards 6"),
        ({"budget": 501}, "budget"),
        ({"budget": 0}, "budget"),
        ({"strategy": "random"}, "cannot choose from shards"),
        ({"strategy": "doubt-coverage:variance=0.5"}, "needs the whole pool on one machine"),
        ({"strategy": "doubt-coreset"}, "needs the model's doubt"),
    ],
)
def test_invalid_arguments_are_errors(arguments: dict[str, Any], words: str, pool: FloatArray) -> None:
    with pytest.raises(DubitoError, match=words):
        choose(Shards(parts(pool)), **{"strategy": "coreset", **arguments})


def test_workers_are_of_a_known_kind(pool: FloatArray) -> None:
    with pytest.raises(DubitoError, match=r"workers='gpu' is not known"):
        Shards([pool], workers=cast("Any", "gpu"))
    with pytest.raises(DubitoError, match=r"workers_per_gpu=0 is too small"):
        Shards([pool], workers_per_gpu=0)


def test_invalid_shards_are_errors(pool: FloatArray, tmp_path: Path) -> None:
    with pytest.raises(DubitoError, match="shards is empty"):
        Shards([])
    with pytest.raises(DubitoError, match="has 1 shards, and the pool 5"):
        Shards(parts(pool), doubt=[np.ones(500)])
    with pytest.raises(DubitoError, match="both given"):
        Shards([pool], doubt=[np.ones(500)], logits=[np.ones((500, 2))])
    with pytest.raises(DubitoError, match="contains no shards"):
        Shards(tmp_path)
    with pytest.raises(DubitoError, match="no column of features"):
        choose(Shards([{"a": np.ones(3), "b": np.ones(3)}]), 1, strategy="coreset")
    with pytest.raises(DubitoError, match="not a mask of its 3 rows"):
        choose(Shards([{"features": np.ones((3, 2)), "labeled": np.array([0, 2, 1])}]), 1, strategy="coreset")
    np.save(tmp_path / "pool.npy", pool)
    np.save(tmp_path / "doubt.npy", np.ones(2))
    with pytest.raises(DubitoError, match="has 2 rows and"):
        choose(Shards([tmp_path / "pool.npy"], doubt=[tmp_path / "doubt.npy"]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"doubt": [1.0]}, "cannot be used with shards"), ({"engine": "cpu"}, "engine"), ({"costs": [1.0]}, "costs")],
)
def test_select_refuses_what_goes_with_arrays_alone(arguments: dict[str, Any], words: str, pool: FloatArray) -> None:
    with pytest.raises(DubitoError, match=words):
        dubito.select(Shards(parts(pool)), 3, strategy="coreset", **arguments)


# Going on


class Dying(LocalWorkers):
    """The driver dies in the middle of a run."""

    def __init__(self, parts: Iterable[ShardSource], calls: int) -> None:
        super().__init__(parts)
        self.calls = calls

    def ask(self, method: str, common: Any = (), each: Any = None) -> list[Any]:
        self.calls -= method == "advance"
        if self.calls < 0:
            raise RuntimeError("the driver is dead")
        return super().ask(method, common, each)


@pytest.mark.parametrize("labeled", [None, [7]])
def test_an_interrupted_run_resumes_from_its_journal(
    labeled: list[int] | None, pool: FloatArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "FRONT_ROWS", 8)
    monkeypatch.setattr(messages, "MIN_REQUEST", 1)
    doubt = np.random.default_rng(4).random(500)
    wanted = dubito.select(pool, BUDGET, labeled=labeled, doubt=doubt, strategy="doubt-coreset", engine="cpu")
    shards = Shards(parts(pool), doubt=parts(doubt), journal=str(tmp_path / "picks.journal"))
    for calls in (0, 1, 2, 3):
        with pytest.raises(RuntimeError, match="dead"):
            choose(shards, labeled=labeled, make_workers=lambda parts, calls=calls: Dying(parts, calls))
    with open(tmp_path / "picks.journal", "ab") as file:
        file.write(b'{"rows": [1, 2')  # What was being written when the power went.
    found = choose(shards, labeled=labeled)
    assert_same(found, wanted)
    assert "picks were in the journal already" in found.notes[0]
    assert_same(choose(shards, labeled=labeled), wanted)
    shorter = choose(shards, 10, labeled=labeled)
    assert shorter.indices.tolist() == wanted.indices[:10].tolist()


def test_a_journal_of_something_else_is_refused(pool: FloatArray, tmp_path: Path) -> None:
    path = tmp_path / "picks.journal"
    choose(Shards(parts(pool), journal=str(path)), strategy="coreset")
    with pytest.raises(DubitoError, match="belongs to another run"):
        choose(Shards(parts(pool), journal=str(path)), strategy="coreset", labeled=[1])
    text = path.read_text().replace('"rows": [', '"rows": [1, ')
    path.write_text(text)
    with pytest.raises(DubitoError, match="damaged in line 2"):
        choose(Shards(parts(pool), journal=str(path)), strategy="coreset")
    path.write_text("something\n")
    with pytest.raises(DubitoError, match="is not a journal of picks"):
        choose(Shards(parts(pool), journal=str(path)), strategy="coreset")
    doubt = parts(np.full(500, 0.5))
    with pytest.raises(DubitoError, match="cannot store the configurations of a beam"):
        choose(Shards(parts(pool), doubt=doubt, journal=str(path)), strategy="doubt-coreset:beam_width=2")
    assert PickJournal(str(tmp_path / "new"), {}).earlier[0].tolist() == []


def test_ctrl_c_keeps_the_picks_so_far(pool: FloatArray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FRONT_ROWS", 8)
    monkeypatch.setattr(messages, "MIN_REQUEST", 1)
    wanted = dubito.select(pool, BUDGET, strategy="coreset", engine="cpu")

    class Stopping(LocalWorkers):
        n_calls = 0

        def ask(self, method: str, common: Any = (), each: Any = None) -> list[Any]:
            self.n_calls += method == "advance"
            if self.n_calls == 4:
                self.n_calls += 1
                raise KeyboardInterrupt
            return super().ask(method, common, each)

    with pytest.raises(Interrupted) as stopped:
        choose(Shards(parts(pool)), strategy="coreset", make_workers=Stopping)
    found = stopped.value.selection
    assert 0 < len(found) < BUDGET
    assert found.indices.tolist() == wanted.indices[: len(found)].tolist()
