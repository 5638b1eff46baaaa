"""Threads: as many as cores unless the environment says fewer; every piece is done, and errors are reported."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import dubito
from dubito.threads import n_threads, parallel_map, single_blas_thread


@pytest.mark.parametrize("name", ["DUBITO_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"])
@pytest.mark.parametrize(
    ("said", "most"), [("1", 1), ("3", 3), ("0", 1), ("many", 64), ("", 64), ("99", 64), ("2,1", 2)]
)
def test_threads_are_as_many_as_cores_unless_the_environment_says_fewer(
    name: str, said: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("DUBITO_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.process_cpu_count", lambda: 64, raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(64), raising=False)
    monkeypatch.setattr("dubito.threads._blas_limits", list)  # Several processes that test limit BLAS.
    monkeypatch.setenv(name, said)
    assert n_threads() == most


@pytest.mark.parametrize("threads", [1, 4])
def test_every_piece_is_done_and_an_error_ends_it(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dubito.threads.n_threads", lambda: threads)
    done = set[int]()
    parallel_map(done.add, [(piece,) for piece in range(50)])
    assert done == set(range(50))

    def fail(piece: int) -> None:
        if piece == 3:
            raise ArithmeticError(piece)

    with pytest.raises(ArithmeticError, match="3"):
        parallel_map(fail, [(piece,) for piece in range(50)])


def test_the_own_variable_overrides_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dubito.threads.count_cores", lambda: 64)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("DUBITO_THREADS", "5")
    assert n_threads() == 5


def test_a_limit_of_threadpoolctl_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from threadpoolctl import threadpool_limits

    monkeypatch.delenv("DUBITO_THREADS", raising=False)
    before = n_threads()
    with threadpool_limits(1):
        assert n_threads() == 1
    assert n_threads() == before


def blas_threads() -> list[int]:
    from threadpoolctl import threadpool_info

    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_blas_has_one_thread_inside_and_as_many_as_before_afterwards() -> None:
    before, threads = blas_threads(), n_threads()
    entered, may_end = threading.Barrier(2), threading.Event()

    def stay() -> None:
        with single_blas_thread():
            entered.wait()
            may_end.wait()

    other = threading.Thread(target=stay)
    with single_blas_thread(), single_blas_thread():
        other.start()
        entered.wait()
        assert set(blas_threads()) == {1}
        assert n_threads() == threads
    assert blas_threads() == before
    may_end.set()
    other.join()
    assert blas_threads() == before
    with single_blas_thread():
        assert set(blas_threads()) == {1}


@pytest.mark.parametrize("strategy", ["badge", "largest-cluster"])
def test_strategies_with_many_small_products_use_one_blas_thread(strategy: str) -> None:
    rng, seen = np.random.default_rng(0), list[int]()
    before = blas_threads()

    def interrupt(done: int, total: int, radius: float | None, seconds: float, /) -> None:
        seen.extend(blas_threads())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dubito.select(
            rng.standard_normal((500, 8)),
            100,
            probabilities=rng.dirichlet(np.ones(4), 500),
            strategy=strategy,
            progress=interrupt,
        )
    assert set(seen) == {1}
    assert blas_threads() == before


SELECT = """
import os
import numpy as np
{limit}
n_before = len(os.listdir("/proc/self/task"))
import dubito
from dubito.threads import n_threads
with held:
    for strategy in ("coverage", "coreset"):
        dubito.select(np.random.default_rng(0).standard_normal((5000, 80)), 50, labeled=range(100), strategy=strategy)
    print(n_threads(), len(os.listdir("/proc/self/task")) - n_before)
"""
LIMITS = {
    "threadpoolctl": "import threadpoolctl; held = threadpoolctl.threadpool_limits(1)",
    "affinity": "import contextlib; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); "
    "held = contextlib.nullcontext()",
    "environment": "import contextlib; held = contextlib.nullcontext()",
}


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_to_one_thread_starts_no_thread(limit: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_THREADS")}
    environment |= {"OMP_NUM_THREADS": "1,2"} if limit == "environment" else {}
    code = SELECT.format(limit=LIMITS[limit])
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["1", "0"]
