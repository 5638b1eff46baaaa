"""Coverage of shards equals that of one machine with the same sample; a run can resume; `auto` names its choice."""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dubito
from dubito.core.coverage_reference import running_sums, systematic_sample
from dubito.core.problem import Interrupted, Selection
from dubito.engines.cluster import messages
from dubito.engines.cluster.coverage import driver
from dubito.engines.cluster.shard import ShardSource
from dubito.engines.cluster.workers import LocalWorkers
from dubito.errors import DubitoError
from dubito.matrix import AnyArray, FloatArray
from dubito.sharding import run
from dubito.sharding.run import select_shards
from dubito.sharding.shards import Shards
from dubito.strategies import build_strategy

N_ROWS, BUDGET = 400, 50
EDGES = [0, 40, 40, 250, 251, N_ROWS]


@pytest.fixture
def pool() -> FloatArray:
    """Copies, ties on a grid, and a few rows far off."""
    rng = np.random.default_rng(0)
    pool = rng.normal(size=(N_ROWS, 5))
    pool[50:90] = pool[10:50]
    pool[100:180] = rng.integers(-1, 2, (80, 5))
    pool[-4:] *= 50.0
    pool[(pool == 0.0).all(axis=1)] = 1.0
    return pool


@pytest.fixture
def probabilities() -> FloatArray:
    """The model is sure of some rows."""
    found = np.random.default_rng(1).dirichlet(np.ones(3), N_ROWS)
    found[200:230] = [1.0, 0.0, 0.0]
    return found


def parts(array: AnyArray, edges: list[int] = EDGES) -> list[AnyArray]:
    return [array[start:stop] for start, stop in itertools.pairwise(edges)]


def choose(shards: Shards, budget: int = BUDGET, strategy: str = "doubt-coverage", **more: Any) -> Selection:
    options = {"features": more.pop("features")} if "features" in more else {}
    more = {"n_workers": 3, "make_workers": LocalWorkers, **more}
    return select_shards(shards, budget, strategy=build_strategy(strategy, options), **more)


def alone(pool: AnyArray, budget: int = BUDGET, strategy: str = "doubt-coverage", **more: Any) -> Selection:
    return dubito.select(pool, budget, strategy=strategy, engine="cpu", **more)


def assert_same(found: Selection, wanted: Selection) -> None:
    assert found.indices.tolist() == wanted.indices.tolist()
    assert found.priorities.tobytes() == wanted.priorities.tobytes()
    assert found.covered is not None
    assert wanted.covered is not None
    assert found.covered.tobytes() == wanted.covered.tobytes()
    for name in ("reach", "radius", "uncertainty", "n_pool", "sampled", "strategy"):
        assert getattr(found, name) == getattr(wanted, name)


STRATEGIES = ("coverage", "doubt-coverage", "doubt-coverage:strength=3,doubt=confidence")
OPTIONS = ("", "sample=30", "sample=1", "sample=399", "radius=0", "radius=1.5", "factor=0.5")
ASKED = [
    pytest.param(strategy, options, labeled, marks=[pytest.mark.slow] * ((first + second) % 3 != (labeled is None)))
    for first, strategy in enumerate(STRATEGIES)
    for second, options in enumerate(OPTIONS)
    for labeled in (None, [3, 41, 399])
]
"""Each option with each strategy; in the quick level with one, without labeled rows and with some."""


@pytest.mark.parametrize(("strategy", "options", "labeled"), ASKED)
def test_arrays_in_memory(
    strategy: str, options: str, labeled: list[int] | None, pool: FloatArray, probabilities: FloatArray
) -> None:
    strategy = ",".join(filter(None, [strategy, options])) if ":" in strategy else f"{strategy}:{options}"
    wanted = alone(pool, labeled=labeled, probabilities=probabilities, strategy=strategy)
    shards = Shards(parts(pool), probabilities=parts(probabilities))
    assert_same(choose(shards, strategy=strategy, labeled=labeled), wanted)


@pytest.mark.parametrize(
    ("dtype", "metric", "n_workers"),
    [
        *(("float16", "euclidean", 2), ("float32", "euclidean", 5), ("float64", "euclidean", 1)),
        *(("float16", "cosine", 5), ("float32", "cosine", 1), ("float64", "cosine", 2)),
    ],
)
def test_every_type_and_metric(
    dtype: str, metric: str, n_workers: int, pool: FloatArray, probabilities: FloatArray
) -> None:
    pool, marked = pool.astype(dtype), np.isin(np.arange(N_ROWS), [0, 45, 300])
    shards = [{"features": each, "labeled": marks} for each, marks in zip(parts(pool), parts(marked), strict=True)]
    for labeled in (None, pool[:9] + np.asarray(1.0, dtype)):
        # What is marked is labeled, and so are points of one's own.
        references = pool[marked] if labeled is None else np.concatenate([pool[marked], labeled])
        wanted = alone_of(pool, references, marked, probabilities, metric)
        found = choose(
            Shards(shards, probabilities=parts(probabilities)),
            strategy="doubt-coverage:sample=120",
            labeled=labeled,
            metric=metric,
            n_workers=n_workers,
        )
        assert_same(found, wanted)


def alone_of(
    pool: AnyArray, references: AnyArray, marked: AnyArray, probabilities: FloatArray, metric: str
) -> Selection:
    """One machine with the marked rows and other labeled points, which follow the pool."""
    whole = np.concatenate([pool, references[int(marked.sum()) :]])
    more = np.full((len(whole) - N_ROWS, 3), 1.0 / 3.0)
    labeled = np.concatenate([np.flatnonzero(marked), np.arange(N_ROWS, len(whole))])
    found = alone(
        whole,
        labeled=labeled,
        probabilities=np.concatenate([probabilities, more]),
        metric=metric,
        strategy="doubt-coverage:sample=120",
    )
    return Selection(
        **{name: getattr(found, name) for name in Selection.__slots__ if name not in ("n_pool", "__weakref__")},
        n_pool=N_ROWS,
    )


def test_a_large_pool_is_covered_by_a_sample_and_says_so(
    pool: FloatArray, probabilities: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "DEFAULT_TARGETS", 100)
    shards = Shards(parts(pool), probabilities=parts(probabilities))
    found = choose(shards, labeled=[1])
    assert_same(found, alone(pool, probabilities=probabilities, labeled=[1], strategy="doubt-coverage:sample=100"))
    assert "a sample of 100 rows is covered; for a larger one pass" in found.notes[0]
    described = choose(shards, labeled=[1], strategy="doubt-coverage:sample=90")
    assert described.sampled == 90
    assert len(described.notes) == 1
    monkeypatch.setattr(run, "DEFAULT_TARGETS", N_ROWS)
    assert choose(shards, labeled=[1]).sampled is None


@pytest.mark.parametrize("edges", [[0, 500], [0, 0, 1, 200, 200, 499, 500], [0, 250, 500, 500]])
def test_the_sample_of_shards_is_that_of_one_machine_to_the_last_bit(edges: list[int]) -> None:
    weights = np.random.default_rng(2).random(500) ** 3
    weights[[0, 7, 210, 499]] = 0.0
    pieces, befores = parts(weights, edges), [0.0]
    for piece in pieces:
        befores.append(float(running_sums(piece, befores[-1])[-1]) if len(piece) else befores[-1])
    found = [systematic_sample(piece, 70, before, befores[-1]) for piece, before in zip(pieces, befores, strict=False)]
    assert np.concatenate(found).tobytes() == systematic_sample(weights, 70).tobytes()


# What `auto` takes


@pytest.mark.parametrize(
    ("n_labeled", "options", "taken"),
    [
        (30, {}, "doubt-coverage:strength=3"),
        (3, {}, "doubt-coverage:strength=1"),
        (0, {}, "doubt-coverage:strength=1"),
        (30, {"features": "frozen"}, "doubt-coverage:strength=3"),
        (30, {"features": "trained"}, "doubt-coreset:strength=0.25"),
    ],
)
def test_auto_covers_doubt_unless_features_were_trained(
    n_labeled: int, options: dict[str, Any], taken: str, pool: FloatArray, probabilities: FloatArray
) -> None:
    labeled = list(range(5, 5 + n_labeled)) or None
    wanted = alone(pool, probabilities=probabilities, labeled=labeled, strategy=taken)
    shards = Shards(parts(pool), probabilities=parts(probabilities))
    found = choose(shards, strategy="auto", labeled=labeled, **options)
    assert found.indices.tolist() == wanted.indices.tolist()
    assert found.priorities.tobytes() == wanted.priorities.tobytes()
    assert found.strategy == wanted.strategy
    asked = "as you set" if options else "with shards, auto cannot detect"
    assert found.notes[0].startswith(f"auto chose {wanted.strategy}")
    assert asked in found.notes[0]


def test_auto_covers_every_row_alike_without_doubt_and_leaves_options_to_the_core_set(
    pool: FloatArray, probabilities: FloatArray
) -> None:
    assert_same(choose(Shards(parts(pool)), strategy="auto"), alone(pool, strategy="coverage"))
    shards = Shards(parts(pool), probabilities=parts(probabilities))
    found = choose(shards, strategy="auto:strength=0.5")
    wanted = alone(pool, strategy="doubt-coreset:strength=0.5", probabilities=probabilities)
    assert found.indices.tolist() == wanted.indices.tolist()


def test_strategies_that_look_at_the_whole_pool_first_are_refused(pool: FloatArray, probabilities: FloatArray) -> None:
    shards = Shards(parts(pool), probabilities=parts(probabilities))
    with pytest.raises(DubitoError, match="cannot choose from shards"):
        choose(shards, strategy="filter-then-cover")


# Going on


class Dying(LocalWorkers):
    """The driver dies in the middle of a run."""

    def __init__(self, parts: Iterable[ShardSource], calls: int) -> None:
        super().__init__(parts)
        self.calls = calls

    def ask(self, method: str, common: Any = (), each: Any = None) -> list[Any]:
        self.calls -= method == "delegate" and common[0] == "advance"
        if self.calls < 0:
            raise RuntimeError("the driver is dead")
        return super().ask(method, common, each)


@pytest.fixture
def small_fronts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FRONT_ROWS", 8)
    monkeypatch.setattr(messages, "MIN_REQUEST", 1)


@pytest.mark.parametrize(
    ("strategy", "labeled"),
    [
        ("doubt-coverage:sample=100", None),
        ("doubt-coverage:sample=100", [7]),
        ("coverage", None),
        ("coverage:radius=0", [7]),
    ],
)
def test_an_interrupted_run_resumes_from_its_journal(
    strategy: str,
    labeled: list[int] | None,
    pool: FloatArray,
    probabilities: FloatArray,
    tmp_path: Path,
    small_fronts: None,
) -> None:
    wanted = alone(pool, labeled=labeled, probabilities=probabilities, strategy=strategy)
    journal = str(tmp_path / "picks.journal")
    shards = Shards(parts(pool), probabilities=parts(probabilities), journal=journal)
    for calls in (0, 1, 2, 3) if "radius" not in strategy else ():
        with pytest.raises(RuntimeError, match="dead"):
            choose(
                shards, strategy=strategy, labeled=labeled, make_workers=lambda parts, calls=calls: Dying(parts, calls)
            )
    first = choose(shards, 10 if "radius" in strategy else BUDGET, strategy=strategy, labeled=labeled)
    assert first.indices.tolist() == wanted.indices[: len(first)].tolist()
    found = choose(shards, strategy=strategy, labeled=labeled)
    assert_same(found, wanted)
    assert "picks were in the journal already" in found.notes[-1]
    shorter = choose(shards, 10, strategy=strategy, labeled=labeled)
    assert shorter.indices.tolist() == wanted.indices[:10].tolist()
    with pytest.raises(DubitoError, match="belongs to another run"):
        choose(shards, strategy="coverage:factor=2", labeled=labeled)


def test_ctrl_c_keeps_the_picks_so_far(pool: FloatArray, small_fronts: None) -> None:
    wanted = alone(pool, strategy="coverage")

    class Stopping(LocalWorkers):
        n_calls = 0

        def ask(self, method: str, common: Any = (), each: Any = None) -> list[Any]:
            self.n_calls += method == "delegate" and common[0] == "advance"
            if self.n_calls == 4:
                self.n_calls += 1
                raise KeyboardInterrupt
            return super().ask(method, common, each)

    with pytest.raises(Interrupted) as stopped:
        choose(Shards(parts(pool)), strategy="coverage", make_workers=Stopping)
    found = stopped.value.selection
    assert 0 < len(found) < BUDGET
    assert found.indices.tolist() == wanted.indices[: len(found)].tolist()


def test_progress_is_reported(pool: FloatArray, small_fronts: None) -> None:
    described: list[int] = []
    choose(
        Shards(parts(pool)), strategy="coverage", progress=lambda done, total, radius, seconds: described.append(done)
    )
    assert described[-1] == BUDGET
    assert described == sorted(described)
