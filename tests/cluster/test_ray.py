"""A Ray cluster of several nodes on this machine gives the picks of one machine, even if nodes die."""

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dubito
from dubito.core.problem import Selection
from dubito.engines.cluster.engine import ClusterCoverage, ClusterEngine
from dubito.engines.cluster.shard import ShardData
from dubito.engines.cluster.solving import open_all, solve, split_problem
from dubito.engines.cluster.workers import RayWorkers, WorkerPlan
from dubito.errors import DubitoError
from dubito.matrix import FloatArray
from dubito.testing import check_coverage_engine, check_engine
from dubito.testing.problems import make_problem

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")
pytestmark = pytest.mark.filterwarnings("ignore")

KILLS = int(os.environ.get("DUBITO_KILLS", "1"))
"""Nodes killed at random moments; 20 in the recorded run."""
ROWS, BUDGET = 12_000, 500
COVERS = "doubt-coverage:strength=3,sample=3000"
QUICK = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_failure_threshold": 2}
"""Ray notices a dead node in about a second instead of twenty."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": QUICK})
    made.add_node(num_cpus=1)
    made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def pool() -> FloatArray:
    return np.random.default_rng(0).normal(size=(ROWS, 32)).astype(np.float32)


@pytest.fixture(scope="module")
def doubt() -> FloatArray:
    return np.random.default_rng(1).random(ROWS)


@pytest.fixture(scope="module")
def wanted(pool: FloatArray, doubt: FloatArray) -> Selection:
    return dubito.select(pool, BUDGET, labeled=range(50), doubt=doubt, strategy="doubt-coreset", engine="cpu")


@pytest.fixture(scope="module")
def covered(pool: FloatArray, doubt: FloatArray) -> Selection:
    return dubito.select(pool, BUDGET, labeled=range(50), doubt=doubt, strategy=COVERS, engine="cpu")


def shards_of(pool: FloatArray, doubt: FloatArray, **more: Any) -> dubito.Shards:
    edges = [0, ROWS // 5, ROWS // 5, 3 * ROWS // 4, ROWS]
    pieces = [slice(*edge) for edge in itertools.pairwise(edges)]
    return dubito.Shards([pool[piece] for piece in pieces], doubt=[doubt[piece] for piece in pieces], **more)


def choose(shards: dubito.Shards, strategy: str = "doubt-coreset") -> Selection:
    return dubito.select(shards, BUDGET, labeled=range(50), strategy=strategy, engine="cluster")


def assert_same(found: Selection, wanted: Selection) -> None:
    assert found.indices.tolist() == wanted.indices.tolist()
    assert found.priorities.tobytes() == wanted.priorities.tobytes()
    assert found.radius == wanted.radius
    assert (found.reach, found.sampled) == (wanted.reach, wanted.sampled)
    assert np.array_equal(np.asarray(found.covered), np.asarray(wanted.covered))


def test_the_engine_meets_the_contract(cluster: Any) -> None:
    check_engine(ClusterEngine(), examples=2)
    check_coverage_engine(ClusterCoverage(), examples=1)


@pytest.mark.parametrize("n_shards", [1, 3])
def test_any_number_of_shards_gives_the_picks_of_the_reference(n_shards: int, cluster: Any) -> None:
    from dubito.core import reference

    problem = make_problem(4 + n_shards, least_rows=200)
    n_pool = problem.pool.shape[0]
    edges = sorted([0, n_pool, *np.random.default_rng(n_shards).integers(0, n_pool + 1, n_shards - 1).tolist()])
    problem = replace(problem, quotas=None)
    workers = RayWorkers(split_problem(problem, edges), ray, WorkerPlan(n_shards, 0.1))
    try:
        found, _ = solve(problem, workers, open_all(workers))
    finally:
        workers.close()
    for ours, oracle in zip(found.configurations, reference.solve(problem), strict=True):
        assert ours.indices.tolist() == oracle.indices.tolist()
        assert ours.priorities.tobytes() == oracle.priorities.tobytes()


def test_shards_on_three_nodes(cluster: Any, pool: FloatArray, doubt: FloatArray, wanted: Selection) -> None:
    found = choose(shards_of(pool, doubt))
    assert_same(found, wanted)
    assert "3 workers" in found.notes[0]


def test_coverage_of_shards_on_three_nodes(
    cluster: Any, pool: FloatArray, doubt: FloatArray, covered: Selection
) -> None:
    found = choose(shards_of(pool, doubt), COVERS)
    assert_same(found, covered)
    assert "3 workers" in found.notes[0]
    # By default the same strategy, over all rows.
    taken = dubito.select(shards_of(pool, doubt), 20, labeled=range(50))
    assert taken.strategy == "doubt-coverage"
    assert taken.indices.tolist() == dubito.select(pool, 20, labeled=range(50), doubt=doubt).indices.tolist()


def test_a_worker_that_never_answers_is_reported(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        """A part that is never read; sent whole, since workers do not know this file."""

        def open(self) -> ShardData:
            time.sleep(600.0)
            raise AssertionError

    monkeypatch.setenv("DUBITO_PATIENCE", "3")
    workers = RayWorkers([Silent()], ray, WorkerPlan(1, 0.1))
    try:
        with pytest.raises(DubitoError, match=r"the worker of shard 0 gave no answer in 3 seconds"):
            open_all(workers)
    finally:
        workers.close()


def test_blocks_of_ray_data(cluster: Any, pool: FloatArray, doubt: FloatArray) -> None:
    data = pytest.importorskip("ray.data")
    rows = [{"features": pool[row], "doubt": doubt[row], "id": 10 * row} for row in range(2000)]
    blocks = data.from_items(rows, override_num_blocks=3)
    found = dubito.select(dubito.Shards(blocks), 50, strategy="doubt-coreset")
    alone = dubito.select(pool[:2000], 50, doubt=doubt[:2000], strategy="doubt-coreset", engine="cpu")
    assert_same(found, alone)
    assert found.ids is not None
    assert found.ids.tolist() == (alone.indices * 10).tolist()


def test_a_shard_that_cannot_be_read_is_named(cluster: Any, pool: FloatArray, tmp_path: Path) -> None:
    np.save(tmp_path / "0.npy", pool[:100])
    (tmp_path / "1.npy").write_bytes(b"\x93NUMPY and then nothing")
    with pytest.raises(DubitoError, match=r"1\.npy"):
        dubito.select(dubito.Shards(tmp_path), 3, strategy="coreset")


@pytest.mark.parametrize("strategy", ["doubt-coreset", COVERS])
def test_nodes_that_die_at_random_moments(
    strategy: str, cluster: Any, pool: FloatArray, doubt: FloatArray, wanted: Selection, covered: Selection
) -> None:
    started = time.monotonic()
    choose(shards_of(pool, doubt), strategy)
    seconds, n_lost = time.monotonic() - started, 0
    for number in range(KILLS):
        nodes, moment = list(cluster.worker_nodes), random.Random(number)
        strike = threading.Timer(
            moment.random() * seconds, cluster.remove_node, [moment.choice(nodes)], {"allow_graceful": False}
        )
        strike.start()
        try:
            found = choose(shards_of(pool, doubt), strategy)
        finally:
            strike.join()
            cluster.add_node(num_cpus=1)
        assert_same(found, covered if strategy == COVERS else wanted)
        n_lost += "replaced" in found.notes[0]
    print(f"{KILLS} nodes killed, {n_lost} runs lost a worker, all picks equal")


DRIVER = """
import sys, numpy as np, dubito, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="error")
from dubito.engines.cluster import driver as coreset_driver
from dubito.engines.cluster.coverage import driver
coreset_driver.FRONT_ROWS = driver.FRONT_ROWS = 64
shards = dubito.Shards([sys.argv[2]], doubt=[sys.argv[3]], journal=sys.argv[4])
print(dubito.select(shards, int(sys.argv[5]), labeled=range(50), strategy=sys.argv[6]).indices.tolist())
"""


@pytest.mark.parametrize("strategy", ["doubt-coreset", COVERS])
def test_a_killed_driver_resumes(
    strategy: str,
    cluster: Any,
    pool: FloatArray,
    doubt: FloatArray,
    wanted: Selection,
    covered: Selection,
    tmp_path: Path,
) -> None:
    np.save(tmp_path / "pool.npy", pool)
    np.save(tmp_path / "doubt.npy", doubt)
    journal = tmp_path / "picks.journal"
    arguments = [cluster.address, str(tmp_path / "pool.npy"), str(tmp_path / "doubt.npy"), str(journal), str(BUDGET)]
    arguments.append(strategy)
    command = [sys.executable, "-W", "ignore", "-c", DRIVER, *arguments]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and driver.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") > 3:
            break
        time.sleep(0.02)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str((covered if strategy == COVERS else wanted).indices.tolist())


def test_the_command_line(cluster: Any, pool: FloatArray, doubt: FloatArray, wanted: Selection, tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "doubt").mkdir()
    for number, piece in enumerate([slice(0, 5_000), slice(5_000, ROWS)]):
        np.save(tmp_path / "shards" / f"{number}.npy", pool[piece])
        np.save(tmp_path / "doubt" / f"{number}.npy", doubt[piece])
    np.save(tmp_path / "labeled.npy", np.arange(50))
    picks = tmp_path / "picks.npy"
    command = ["select", str(tmp_path / "shards"), "-b", str(BUDGET), "--doubt", str(tmp_path / "doubt")]
    command += ["--labeled", str(tmp_path / "labeled.npy"), "--strategy", "doubt-coreset", "-o", str(picks)]
    command += ["--engine", "cluster", "--address", cluster.address, "--journal", str(tmp_path / "journal")]
    done = subprocess.run([sys.executable, "-m", "dubito", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert np.load(picks).tolist() == wanted.indices.tolist()
    assert "cluster: " in done.stderr
