"""HDF5: datasets in groups, mapped where they lie in one piece, and no way out of the file."""

import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dubito.errors import InvalidArgument, InvalidData, MemoryLimit, MissingExtra, MissingFile
from dubito.io import input_limit, open_source, read_array, read_pool
from dubito.matrix import AnyArray

FEATURES = np.arange(12, dtype=np.float32).reshape(4, 3)


@given(
    values=arrays.arrays(
        st.sampled_from([np.dtype(code) for code in ("f2", "f4", ">f8", "i4", "u1", "?")]),
        st.tuples(st.integers(0, 5), st.integers(1, 4)),
    ),
    more=st.sampled_from([{}, {"compression": "gzip"}, {"chunks": True, "fletcher32": True}]),
)
def test_features_come_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, values: AnyArray, more: dict[str, object]
) -> None:
    path = tmp_path_factory.mktemp("round") / "pool.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=values, **(more if values.size else {}))
    found = np.asarray(read_array(str(path), "features"))
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


def test_a_dataset_in_one_piece_is_a_memory_map_and_free(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "pool.hdf5", "w") as file:
        file["features"] = FEATURES
        file["probabilities"] = np.full((4, 2), 0.5)
    with input_limit(1):
        pool = read_pool(str(tmp_path / "pool.hdf5"))
        assert isinstance(pool.features, np.memmap)


def test_a_file_with_something_before_it_is_read_all_the_same(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "pool.h5", "w", userblock_size=512) as file:
        file["features"] = FEATURES
    np.testing.assert_array_equal(np.asarray(read_pool(str(tmp_path / "pool.h5")).features), FEATURES)


def test_groups_make_names_and_one_group_alone_makes_none(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "one.h5", "w") as file:
        file["train/features"] = FEATURES
        file["train/ids"] = ["a", "b", "ü", "d"]
        file["train/labels"] = np.array([b"cat", b"dog", b"cat", b"dog"])
    pool = read_pool(str(tmp_path / "one.h5"))
    assert pool.ids is not None
    assert pool.ids.tolist() == ["a", "b", "ü", "d"]
    assert read_array(pool.source, "labels").tolist() == ["cat", "dog", "cat", "dog"]
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["train/features"] = FEATURES
        file["test/features"] = FEATURES[:2]
    assert read_array(f"{tmp_path}/two.h5::test/features", "features").shape == (2, 3)
    with pytest.raises(MissingFile, match=r"2 that could be the features .* test/features .*Name one with .*::NAME"):
        read_pool(str(tmp_path / "two.h5"))


def test_links_to_other_files_are_not_followed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.ones((4, 3))
    (tmp_path / "secret.raw").write_bytes(bytes(96))
    layout = h5py.VirtualLayout((4, 3), "f8")
    layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "x", shape=(4, 3))
    with h5py.File(tmp_path / "pool.h5", "w") as file:
        file["features"] = FEATURES
        file["link"] = h5py.ExternalLink("secret.h5", "/x")
        file["loop"] = h5py.SoftLink("/")
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("raw", (4, 3), "f8", external=[(str(tmp_path / "secret.raw"), 0, 96)])
    assert open_source(str(tmp_path / "pool.h5")).names == ("features", "raw", "virtual")
    for name in ("raw", "virtual"):
        with pytest.raises(InvalidData, match=rf"the array '{name}' of .*pool.h5 lies in other files; save it"):
            read_array(f"{tmp_path}/pool.h5::{name}", "features")


def test_a_dataset_of_nothing_but_its_fill_value_is_refused_by_its_size(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "pool.h5", "w") as file:
        file.create_dataset("features", (10**9, 1000), "f8", chunks=(1000, 1000), compression="gzip")
    assert (tmp_path / "pool.h5").stat().st_size < 10_000
    with pytest.raises(MemoryLimit, match=r"'features' of .*pool.h5 takes 8 TB of memory once it is unpacked"):
        read_pool(str(tmp_path / "pool.h5"))


def test_text_is_counted_as_it_comes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "pool.h5", "w") as file:
        file["ids"] = ["x" * 1000] * 500
    with input_limit(10**5), pytest.raises(MemoryLimit, match="'ids' of"):
        read_array(str(tmp_path / "pool.h5"), "ids")


def test_a_frame_that_pandas_wrote_gives_its_block(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "pool.h5", "w") as file:
        file["df/axis0"] = np.array([b"x", b"y"])
        file["df/axis1"] = np.arange(4)
        file["df/block0_items"] = np.array([b"x", b"y"])
        file["df/block0_values"] = FEATURES[:, :2]
    assert read_pool(str(tmp_path / "pool.h5")).features.shape == (4, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda file: None, r"pool.h5 holds no arrays"),
        (lambda file: file.create_group("g"), r"pool.h5 holds no arrays"),
        (lambda file: file.__setitem__("x", h5py.Empty("f8")), r"pool.h5 holds no arrays"),
        (
            lambda file: file.__setitem__("features", np.zeros((2, 2), complex)),
            r"'features' of .* is of type complex128",
        ),
        (lambda file: file.__setitem__("ids", np.array([[b"a"]])), r"none that could be the features"),
    ],
)
def test_what_holds_no_features_is_refused(tmp_path: Path, make: object, message: str) -> None:
    with h5py.File(tmp_path / "pool.h5", "w") as file:
        assert callable(make)
        make(file)
    with pytest.raises((InvalidData, MissingFile), match=message):
        read_pool(str(tmp_path / "pool.h5"))


def test_a_matrix_of_text_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "pool.h5", "w") as file:
        file["ids"] = np.array([[b"a", b"b"]])
    with pytest.raises(InvalidData, match=r"'ids' of .*pool.h5 is text of shape \(1, 2\)"):
        open_source(str(tmp_path / "pool.h5")).entry("ids").read()


def test_without_h5py_the_command_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pool.h5").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dubito\[hdf5\]'"):
        open_source(str(tmp_path / "pool.h5"))


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pool.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50))
    with pytest.raises((InvalidData, InvalidArgument), match=r"pool.h5 cannot be read as .h5"):
        open_source(str(tmp_path / "pool.h5"))


def test_a_heap_that_would_be_walked_for_ever_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pool.h5"
    with h5py.File(path, "w") as file:
        file["ids"] = ["a", "b"]
    content = bytearray(path.read_bytes())
    heap = content.index(b"GCOL")
    content[heap + 16 : heap + 64] = bytes(48)
    path.write_bytes(content)
    with pytest.raises(InvalidData, match=r"pool.h5 cannot be read as .h5: .*a heap of text is damaged"):
        read_array(str(path), "ids")
