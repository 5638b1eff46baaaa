"""Memory that inputs may take: counted together, each array once, by the headers."""

import os
from pathlib import Path

import numpy as np
import pytest

from dubito.errors import MemoryLimit
from dubito.io import input_limit, open_source, read_array, read_pool
from dubito.io import limits as module
from dubito.io.limits import default_limit, machine_memory


def archive(path: Path) -> str:
    np.savez(path, features=np.zeros((100, 10)), probabilities=np.full((100, 5), 0.2))
    return str(path)


def test_arrays_of_all_files_count_together(tmp_path: Path) -> None:
    path = archive(tmp_path / "pool.npz")
    with input_limit(10_000):
        read_pool(path)
        with pytest.raises(
            MemoryLimit, match=r"'probabilities' of .* takes 4 kB .* in addition to the 8 kB read before, and"
        ):
            read_array(path, "probabilities")


def test_an_array_that_is_read_again_counts_once(tmp_path: Path) -> None:
    path = archive(tmp_path / "pool.npz")
    with input_limit(12_000) as allowance:
        for _ in range(3):
            read_pool(path)
            read_array(path, "probabilities")
        assert sum(allowance.reserved.values()) == 12_000


def test_the_bound_is_that_of_the_block_alone(tmp_path: Path) -> None:
    path = archive(tmp_path / "pool.npz")
    with input_limit(100), pytest.raises(MemoryLimit):
        read_pool(path)
    read_pool(path)


def test_opening_alone_is_free(tmp_path: Path) -> None:
    with input_limit(1):
        assert open_source(archive(tmp_path / "pool.npz")).names == ("features", "probabilities")


def test_memory_maps_are_free(tmp_path: Path) -> None:
    np.save(tmp_path / "pool.npy", np.zeros((1000, 10)))
    with input_limit(1):
        assert read_pool(str(tmp_path / "pool.npy")).features.shape == (1000, 10)


def test_numbers_of_a_table_are_counted_as_they_come(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("x,y\n" + "1,2\n" * 10_000)
    with input_limit(100_000), pytest.raises(MemoryLimit, match=r"pool.csv takes 131 kB of memory"):
        read_pool(str(tmp_path / "pool.csv"))


def test_the_default_is_half_of_the_memory_of_machine_or_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(module.INPUT_LIMIT_VARIABLE, raising=False)
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    (tmp_path / "memory.max").write_text("1000000\n")
    monkeypatch.setattr(module, "CONTAINER_LIMITS", (str(tmp_path / "memory.max"),))
    assert (machine_memory(), default_limit()) == (1_000_000, 500_000)
    (tmp_path / "memory.max").write_text("max\n")
    assert machine_memory() == whole
    monkeypatch.setattr(module, "CONTAINER_LIMITS", (str(tmp_path / "none"),))
    assert machine_memory() == whole
