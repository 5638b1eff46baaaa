"""What `select` gives back, and what is left of it after an interruption."""

import copy
import gc
import json
import pickle
import weakref
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dubito
from dubito.core.distances import unit_rows
from dubito.core.problem import Selection
from dubito.errors import OutputExists
from dubito.matrix import FloatArray, Rows

LINE = np.array([[0.0], [1.0], [4.0], [9.0]])


def brute_radius(pool: FloatArray, centers: FloatArray) -> float:
    return float(np.sqrt(((pool[:, None] - centers[None]) ** 2).sum(axis=2)).min(axis=1).max())


@given(st.integers(0, 2**31), st.sampled_from(["euclidean", "cosine"]), st.sampled_from(["features", "rows", "none"]))
def test_the_covering_radius_is_that_of_the_whole_pool(seed: int, metric: str, labeled: str) -> None:
    rng = np.random.default_rng(seed)
    pool, foreign = rng.standard_normal((15, 3)), rng.standard_normal((2, 3))
    references = {"features": foreign, "rows": [0, 7], "none": None}[labeled]
    picked = dubito.select(
        pool,
        3,
        labeled=references,
        doubt=rng.random(15),
        candidates=np.arange(4, 12),
        metric="cosine" if metric == "cosine" else "euclidean",
        strategy="doubt-coreset",
    )
    found = picked.covering_radius()
    known = {"features": foreign, "rows": pool[[0, 7]], "none": pool[:0]}[labeled]
    centers = np.concatenate([known, pool[picked.indices]])
    if metric == "cosine":
        pool, centers = unit_rows(pool), unit_rows(centers)
    assert found == pytest.approx(brute_radius(pool, centers), rel=1e-12)


@pytest.mark.parametrize("strategy", ["random", "least-confidence", "optimal-coreset"])
def test_every_strategy_has_a_covering_radius(strategy: str) -> None:
    picked = dubito.select(LINE, 2, strategy=strategy, doubt=[0.0, 0.0, 0.5, 1.0])
    assert picked.covering_radius() == brute_radius(LINE, LINE[picked.indices])


def test_a_selection_made_by_hand_has_no_cover_to_compute() -> None:
    made = Selection(np.array([1]), np.array([2.0]), None, None, (), "mine", None, 0, 0.0, 3)
    assert made.covering_radius() is None
    assert made.mask.tolist() == [False, True, False]


@pytest.mark.parametrize("foreign", [False, True])
def test_a_selection_lets_the_pool_go_and_then_its_cover_is_unknown(foreign: bool) -> None:
    pool, labeled = np.random.default_rng(0).standard_normal((50, 3)), np.zeros((2, 3))
    picked = dubito.select(pool, 4, labeled=labeled if foreign else [0], strategy="coreset")
    assert picked.covering_radius() == picked.radius
    held = weakref.ref(pool)
    del pool
    gc.collect()
    assert held() is None
    assert picked.covering_radius() is None
    assert len(picked) == 4


def test_the_cover_is_unknown_once_the_features_of_what_is_labeled_are_gone() -> None:
    pool = np.random.default_rng(0).standard_normal((50, 3))
    picked = dubito.select(pool, 4, labeled=np.zeros((2, 3)), strategy="coreset")
    gc.collect()
    assert picked.covering_radius() is None


def test_a_pool_of_rows_of_others_is_let_go_too() -> None:
    features = np.random.default_rng(0).standard_normal((50, 3))
    pool = dubito.Pool(Rows(features, np.arange(0, 50, 2)))
    picked = pool.select(3, strategy="coreset")
    assert picked.covering_radius() == picked.radius
    del pool
    gc.collect()
    assert picked.covering_radius() is None


def test_a_pool_written_as_a_list_has_a_cover() -> None:
    assert dubito.select([[0.0], [1.0], [9.0]], 1, labeled=[0], strategy="coreset").covering_radius() == 1.0
    assert dubito.select([[0.0], [1.0], [9.0]], 1, labeled=[[7.0]], strategy="coreset").covering_radius() == 2.0


def test_a_selection_is_pickled_without_its_pool() -> None:
    pool = np.random.default_rng(0).standard_normal((2000, 50))
    picked = dubito.select(
        pool, 5, labeled=[0], doubt=np.linspace(0.1, 0.9, 2000), beam_width=3, strategy="doubt-coreset"
    )
    packed = pickle.dumps(picked)
    assert len(packed) < 10_000
    again: Selection = pickle.loads(packed)
    assert repr(again) == repr(picked)
    assert again.indices.tolist() == picked.indices.tolist()
    assert again.priorities.tobytes() == picked.priorities.tobytes()
    assert [each.radius for each in again.configurations] == [each.radius for each in picked.configurations]
    assert again.covering_radius() is None
    assert picked.covering_radius() is not None


def test_a_deep_copy_of_a_selection_is_one_of_its_own() -> None:
    picked = dubito.select(LINE, 2, strategy="coreset")
    copied = copy.deepcopy(picked)
    copied.indices[0] = 99
    assert picked.indices[0] != 99
    assert copied.covering_radius() == picked.covering_radius()


def test_a_selection_shows_itself_shortly() -> None:
    picked = dubito.select(np.random.default_rng(0).standard_normal((3000, 4)), 2000, strategy="coreset")
    first = ", ".join(map(str, picked.indices[:5].tolist()))
    assert repr(picked) == f"Selection(2000 of 3,000 rows by coreset: {first}, ...; radius={picked.radius:.4g})"
    assert len(repr(picked)) < 120
    assert picked.seconds > 0


def test_a_selection_shows_ids_where_it_has_them_and_how_many_configurations_a_beam_kept() -> None:
    frame = pd.DataFrame(LINE, index=["a", "b" * 50, "c", "d"])
    picked = dubito.select(frame, 2, labeled=[0], doubt=[0.0, 0.9, 0.0, 0.0], beam_width=2, strategy="doubt-coreset")
    assert repr(picked).startswith("Selection(2 of 4 rows by doubt-coreset: bbbbbbbbbbbbbbbbbbbbbbbb, ")
    assert repr(picked).endswith("; configurations=2)")
    assert repr(dubito.select(LINE, 1, strategy="random", candidates=[2])) == "Selection(1 of 4 rows by random: 2)"


def test_an_interrupted_selection_says_so_of_itself() -> None:
    made = Selection(np.empty(0, np.int64), np.empty(0), None, None, (), "mine", None, 0, 0.0, 3, complete=False)
    assert repr(made) == "Selection(0 of 3 rows by mine; interrupted)"


def test_a_selection_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        replace_radius(dubito.select(LINE, 1, strategy="coreset"))


def replace_radius(picked: object, name: str = "radius") -> None:
    setattr(picked, name, 0.0)


def test_a_selection_says_how_it_was_made() -> None:
    picked = dubito.select(LINE, 2, doubt=[0.5, 0.5, 0.5, 0.5], seed=7, beam_width=3, strategy="doubt-coreset")
    assert (picked.strategy, picked.engine, picked.seed, picked.n_pool) == ("doubt-coreset", "cpu", 7, 4)
    assert picked.complete
    assert picked.uncertainty == pytest.approx(np.log(2))
    assert len(picked.configurations) == 3
    assert picked.configurations[0].indices.tolist() == picked.indices.tolist()
    assert picked.configurations[0].radius == picked.radius


def test_a_strategy_without_distances_has_no_radius_and_no_engine() -> None:
    picked = dubito.select(LINE, 2, strategy="random")
    assert (picked.radius, picked.engine, picked.uncertainty) == (None, None, None)
    assert np.isnan(picked.priorities).all()


def test_the_table_of_picks_is_a_frame() -> None:
    frame = dubito.select(LINE, 2, strategy="coreset", labeled=[0]).to_frame()
    assert frame.to_dict("list") == {"rank": [1, 2], "index": [3, 2], "priority": [9.0, 4.0]}


READERS: dict[str, Callable[[Path], list[int]]] = {
    ".csv": lambda path: [int(line.split(",")[1]) for line in path.read_text().splitlines()[1:]],
    ".json": lambda path: [pick["index"] for pick in json.loads(path.read_text())["picks"]],
    ".jsonl": lambda path: [json.loads(line)["index"] for line in path.read_text().splitlines()],
    ".parquet": lambda path: pq.read_table(path)["index"].to_pylist(),
    ".npy": lambda path: np.load(path).tolist(),
}


@pytest.mark.parametrize("suffix", READERS)
def test_picks_are_saved_in_every_format_and_not_over_another_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"picks{suffix}"
    picked = dubito.select(LINE, 3, strategy="coreset")
    picked.save(str(path))
    assert READERS[suffix](path) == picked.indices.tolist()
    with pytest.raises(OutputExists):
        picked.save(str(path))
    dubito.select(LINE, 1, strategy="coreset").save(str(path), force=True)
    assert READERS[suffix](path) == picked.indices[:1].tolist()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


class Interrupter:
    """Presses Ctrl-C at the first sign of progress."""

    def __init__(self, after: int = 0) -> None:
        self.after = after
        self.described: list[tuple[int, int]] = []

    def __call__(self, done: int, total: int, radius: float | None, seconds: float, /) -> None:
        assert seconds >= 0
        assert radius is None or radius >= 0
        self.described.append((done, total))
        if done > self.after:
            raise KeyboardInterrupt


@pytest.fixture
def hurry(set_constant: Callable[[str, float], None]) -> None:
    """Let the engine tell its progress at every front, and let fronts be small."""
    set_constant("REPORT_SECONDS", -1.0)
    set_constant("FIRST_FRONT", 4)


@pytest.mark.usefixtures("hurry")
def test_an_interrupted_greedy_run_leaves_a_valid_prefix() -> None:
    pool = np.random.default_rng(5).standard_normal((400, 3))
    whole = dubito.select(pool, 300, strategy="coreset", labeled=[0])
    with pytest.raises(dubito.Interrupted, match=r"interrupted after \d+ picks") as caught:
        dubito.select(pool, 300, strategy="coreset", labeled=[0], progress=Interrupter(10))
    part = caught.value.selection
    assert isinstance(caught.value, KeyboardInterrupt)
    assert 10 < len(part) < 300
    assert not part.complete
    assert part.indices.tolist() == whole.indices[: len(part)].tolist()
    assert part.priorities.tolist() == whole.priorities[: len(part)].tolist()
    assert part.radius == whole.priorities[len(part)]
    assert part.covering_radius() == pytest.approx(brute_radius(pool, pool[[0, *part.indices]]))


@pytest.mark.usefixtures("hurry")
def test_a_run_interrupted_before_its_first_pick_leaves_nothing() -> None:
    pool = np.random.default_rng(5).standard_normal((400, 3))
    with pytest.raises(dubito.Interrupted) as caught:
        dubito.select(
            pool, 300, doubt=np.full(400, 0.5), labeled=[0, 1, 2], progress=Interrupter(-1), strategy="doubt-coreset"
        )
    part = caught.value.selection
    assert not part.complete
    assert len(part) < 300
    assert len(part.to_frame()) == len(part) == part.mask.sum()


@pytest.mark.usefixtures("hurry")
def test_an_interrupted_beam_leaves_its_leading_configuration() -> None:
    rng = np.random.default_rng(6)
    pool, doubt = rng.standard_normal((300, 3)), rng.random(300)
    with pytest.raises(dubito.Interrupted) as caught:
        dubito.select(pool, 200, doubt=doubt, beam_width=3, progress=Interrupter(5), strategy="doubt-coreset")
    part = caught.value.selection
    assert not part.complete
    assert 0 < len(part) < 200
    assert len(set(part.indices.tolist())) == len(part)
    steps = dubito.select(pool, len(part), doubt=doubt, beam_width=3, engine="reference", strategy="doubt-coreset")
    assert part.indices.tolist() == steps.indices.tolist()


@pytest.mark.usefixtures("hurry")
def test_progress_is_reported_up_to_the_last_pick() -> None:
    watcher = Interrupter(10**9)
    dubito.select(np.random.default_rng(5).standard_normal((100, 3)), 50, strategy="coreset", progress=watcher)
    done = [count for count, _ in watcher.described]
    assert done == sorted(done)
    assert watcher.described[-1] == (50, 50)


def test_the_cover_of_standardized_features_is_in_their_units() -> None:
    pool = np.array([[0.0, 0.0], [1.0, 1000.0], [2.0, 2000.0], [3.0, -3000.0]])
    for labeled in ([0], pool[:1].copy()):
        picked = dubito.select(pool, 1, labeled=labeled, strategy="coreset", standardize=True)
        assert picked.covering_radius() == picked.radius
    round_of_a_pool = dubito.Pool(pool, standardize=True).select(1, strategy="coreset")
    assert round_of_a_pool.covering_radius() is None
    kept = dubito.Pool(pool, standardize=True)
    kept.label([0])
    assert kept.select(1, strategy="coreset").covering_radius() == picked.radius


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_the_uncertainty_of_a_single_row_covered_by_doubt_is_its_own(engine: str) -> None:
    picked = dubito.select(LINE, 1, doubt=[0.5, 0.75, 0.5, 0.5], strategy="doubt-coverage", engine=engine)
    assert picked.uncertainty == pytest.approx(-np.log(1 - np.array([0.5, 0.75, 0.5, 0.5])[picked.indices[0]]))
