"""Threads: as many as cores unless the environment says fewer; every piece is done, and errors are reported."""

import pytest

from dubito.threads import n_threads, parallel_map


@pytest.mark.parametrize("name", ["DUBITO_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"])
@pytest.mark.parametrize(("said", "most"), [("1", 1), ("3", 3), ("0", 1), ("many", 64), ("", 64), ("99", 64)])
def test_threads_are_as_many_as_cores_unless_the_environment_says_fewer(
    name: str, said: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("DUBITO_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.process_cpu_count", lambda: 64, raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(64), raising=False)
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


def test_a_limit_of_threadpoolctl_counts() -> None:
    from threadpoolctl import threadpool_limits

    before = n_threads()
    with threadpool_limits(1):
        assert n_threads() == 1
    assert n_threads() == before
