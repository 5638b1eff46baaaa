"""Paths and folders: shards in natural order without loading them, and plain words for paths that cannot be read."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.errors import DubitoError, InvalidArgument, InvalidData, MissingExtra, MissingFile
from dubito.io import open_source, read_array, read_pool
from dubito.io.source import natural_order
from dubito.matrix import Stack


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may read everything: step down for the test."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_npy_shards_are_mapped_and_stacked_in_natural_order(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        np.save(tmp_path / f"shard{number}.npy", np.full((number, 2), number, dtype=np.float32))
    for name in (".hidden.npy", "_skipped.npy", "README", "meta.json"):
        (tmp_path / name).write_text("not an array")
    features = read_pool(f"{tmp_path}/").features
    assert isinstance(features, Stack)
    assert all(isinstance(part, np.memmap) for part in features.parts)
    assert features.shape == (13, 2)
    assert features[0:13][:, 0].tolist() == [1] + [2] * 2 + [10] * 10


def test_one_shard_is_the_memory_map_itself(tmp_path: Path) -> None:
    np.save(tmp_path / "only.npy", np.zeros((2, 2)))
    assert isinstance(read_pool(str(tmp_path)).features, np.memmap)


def test_npz_shards_join_features_and_ids_and_probabilities(tmp_path: Path) -> None:
    for number in (1, 2):
        named = {
            "features": np.zeros((2, 3)),
            "ids": np.arange(2) + 2 * number,
            "probabilities": np.full((2, 4, 2), 0.5),
        }
        np.savez(tmp_path / f"s{number}.npz", allow_pickle=True, **named)
    pool = read_pool(str(tmp_path))
    assert pool.ids is not None
    assert pool.ids.tolist() == [2, 3, 4, 5]
    assert read_array(str(tmp_path), "probabilities").shape == (4, 4, 2)
    assert "features (2, 3) float64 in 2 shards" in pool.source.listing()


def test_doubt_in_shards_becomes_one_array(tmp_path: Path) -> None:
    for number in (1, 2):
        np.save(tmp_path / f"s{number}.npy", np.full(number, 0.5))
    assert read_array(str(tmp_path), "doubt").tolist() == [0.5] * 3
    for number in (1, 2):
        np.save(tmp_path / f"s{number}.npy", np.full((number, 2), 0.5))
    probabilities = read_array(str(tmp_path), "probabilities")
    assert isinstance(probabilities, np.ndarray)
    assert probabilities.shape == (3, 2)


def test_shards_that_differ_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "s1.npy", np.zeros((2, 3)))
    np.save(tmp_path / "s2.npy", np.zeros((2, 4)))
    with pytest.raises(
        InvalidData, match=r"s2.npy has rows of shape \(4,\), but .*s1.npy has \(3,\); shards must be equally"
    ):
        read_pool(str(tmp_path))
    np.save(tmp_path / "s2.npy", np.zeros(2))
    with pytest.raises(InvalidData, match=r"s2.npy holds \(2,\) float64, but .*s1.npy \(2, 3\) float64"):
        read_pool(str(tmp_path))
    (tmp_path / "s2.npy").unlink()
    (tmp_path / "s3.csv").write_text("x\n1\n")
    with pytest.raises(InvalidData, match=r"s3.csv has another format than .*s1.npy"):
        read_pool(str(tmp_path))


def test_a_shard_without_the_array_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "s1.npz", features=np.zeros((2, 3)))
    np.savez(tmp_path / "s2.npz", other=np.zeros((2, 3)))
    with pytest.raises(MissingFile, match=r"s2.npz has no array 'features'"):
        read_pool(str(tmp_path))


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"holds no data; readable are .npy, .npz, .safetensors"):
        open_source(str(tmp_path))


def test_a_folder_of_pictures_is_named_with_how_to_embed_it(tmp_path: Path) -> None:
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "1.JPG").write_bytes(b"")
    hint = f"holds pictures, not features; run dubito embed {tmp_path} -o pool.parquet and pass pool.parquet."
    with pytest.raises(MissingFile, match=re.escape(hint)):
        open_source(str(tmp_path))


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match=r"pool.npy does not exist; check the path") as caught:
        read_pool(str(tmp_path / "pool.npy"))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".parquet", ".csv"])
def test_an_empty_file_is_named(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"pool{suffix}").touch()
    with pytest.raises(InvalidData, match=rf"pool{suffix} is empty \(0 bytes\)") as caught:
        read_pool(str(tmp_path / f"pool{suffix}"))
    assert caught.value.exit_code == 3


def test_an_unknown_suffix_is_answered_with_the_known(tmp_path: Path) -> None:
    (tmp_path / "pool.mat").write_text("x")
    with pytest.raises(InvalidArgument, match=r"has the suffix '.mat'; readable are .npy, .npz"):
        open_source(str(tmp_path / "pool.mat"))


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pool.csv")
    with pytest.raises(InvalidArgument, match=r"pool.csv is neither a file nor a folder"):
        open_source(str(tmp_path / "pool.csv"))


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".parquet", ".csv"])
def test_a_file_without_permission_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pool{suffix}"
    path.write_text("secret")
    path.chmod(0)
    with (
        unprivileged(),
        pytest.raises(DubitoError, match=rf"pool{suffix} cannot be opened: permission denied") as caught,
    ):
        open_source(str(path))
    assert caught.value.exit_code == 2


def test_paths_the_system_refuses_are_named(tmp_path: Path) -> None:
    (tmp_path / "loop.npy").symlink_to(tmp_path / "loop.npy")
    with pytest.raises(InvalidArgument, match=r"loop.npy cannot be opened: too many levels of symbolic links"):
        open_source(str(tmp_path / "loop.npy"))
    (tmp_path / "file.npy").write_text("x")
    with pytest.raises(InvalidArgument, match=r"cannot be opened: not a directory"):
        open_source(str(tmp_path / "file.npy" / "inner.npy"))


@given(st.lists(st.integers(0, 10**6), unique=True))
def test_numbers_in_names_count_as_numbers(numbers: list[int]) -> None:
    names = [f"shard-{number}.npy" for number in numbers]
    assert sorted(names, key=natural_order) == [f"shard-{number}.npy" for number in sorted(numbers)]


@given(st.lists(st.text()))
def test_any_names_can_be_ordered(names: list[str]) -> None:
    assert sorted(sorted(names, key=natural_order)) == sorted(names)


def test_parquet_without_pyarrow_tells_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pool.parquet").write_text("x")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dubito\[files\]'"):
        open_source(str(tmp_path / "pool.parquet"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pool.csv", b"PAR1....", r"pool.csv is Parquet according to its first bytes; give it the suffix .parquet"),
        (
            "pool.csv",
            b"\x1f\x8b\x08...",
            r"pool.csv is compressed with gzip according to its first bytes; give it the suffix .csv.gz",
        ),
        (
            "pool.npz",
            b"\x93NUMPY\x01\x00",
            r"pool.npz is a NumPy array according to its first bytes; give it the suffix .npy",
        ),
        ("pool.npy", b"PK\x03\x04....", r"pool.npy is a zip archive .* .npz or .xlsx or .pt or .pth"),
        (
            "pool.xlsx",
            b"\xd0\xcf\x11\xe0\xa1",
            r"an old Excel workbook or one with a password .* save it as .xlsx",
        ),
    ],
)
def test_a_file_of_another_kind_than_its_name_is_reported_so(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidData, match=message):
        open_source(str(tmp_path / name))
