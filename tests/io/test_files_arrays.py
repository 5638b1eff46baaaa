"""NumPy files and safetensors: memory-mapped where they can be, never unpickled, and refused in one line."""

import json
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dubito.errors import DubitoError, InvalidArgument, InvalidData
from dubito.io import open_source, read_array, read_pool
from dubito.matrix import AnyArray

FEATURES = np.arange(12, dtype=np.float32).reshape(4, 3)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


def write_safetensors(path: Path, header: object, data: bytes) -> str:
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + data)
    return str(path)


def save(path: Path, **named: AnyArray) -> str:
    np.savez(path, allow_pickle=True, **named)
    return str(path)


@given(
    values=arrays.arrays(
        st.sampled_from([np.float16, np.float32, np.float64, np.int32]), st.tuples(st.integers(1, 5), st.integers(1, 4))
    ),
    suffix=st.sampled_from([".npy", ".npz", ".safetensors"]),
)
def test_features_come_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, values: AnyArray, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("round") / f"pool{suffix}"
    if suffix == ".npy":
        np.save(path, values)
    elif suffix == ".npz":
        np.savez_compressed(path, features=values)
    else:
        safetensors.numpy.save_file({"features": np.ascontiguousarray(values)}, path)
    features = np.asarray(read_pool(str(path)).features)
    assert features.dtype == values.dtype
    np.testing.assert_array_equal(features, values)


def test_an_npy_pool_stays_a_memory_map(tmp_path: Path) -> None:
    np.save(tmp_path / "pool.npy", FEATURES)
    (tmp_path / "pool.npy").rename(tmp_path / "pool.NPY")
    pool = read_pool(str(tmp_path / "pool.NPY"))
    assert isinstance(pool.features, np.memmap)
    assert not pool.features.flags.writeable
    assert pool.ids is None


def test_safetensors_stay_a_memory_map(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"embeddings": FEATURES}, tmp_path / "pool.safetensors", {"made": "by a test"})
    features = read_array(str(tmp_path / "pool.safetensors"), "features")
    assert isinstance(features, np.memmap)
    np.testing.assert_array_equal(features, FEATURES)


def test_bfloat16_is_widened_exactly(tmp_path: Path) -> None:
    values = np.array([[1.0, -2.5], [0.15625, 3e38]], dtype=np.float32)
    bits = (values.view(np.uint32) >> 16).astype("<u2")
    info = {"x": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}
    path = write_safetensors(tmp_path / "pool.safetensors", info, bits.tobytes())
    features = read_array(path, "features")
    assert features.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(features), (bits.astype(np.uint32) << 16).view(np.float32))
    assert "x (2, 2) bfloat16" in open_source(path).listing()


def test_an_unaligned_tensor_is_copied_into_line(tmp_path: Path) -> None:
    info = {
        "features": {"dtype": "F64", "shape": [1, 2], "data_offsets": [1, 17]},
        "flag": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]},
    }
    header = json.dumps(info).encode()
    header += b" " * (-len(header) % 8)
    path = tmp_path / "pool.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\x01" + np.array([1.5, 2.5]).tobytes())
    features = np.asarray(read_array(str(path), "features"))
    assert features.flags.aligned
    assert features.tolist() == [[1.5, 2.5]]


def test_an_unknown_tensor_type_is_named_when_it_is_read(tmp_path: Path) -> None:
    info = {"features": {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [0, 4]}}
    path = write_safetensors(tmp_path / "pool.safetensors", info, bytes(4))
    with pytest.raises(InvalidData, match=r"'features' of .*pool.safetensors is of type F8_E4M3; save it as float32"):
        read_array(path, "features")


@pytest.mark.parametrize(
    "info",
    [
        {"x": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 12]}},
        {"x": {"dtype": "F32", "shape": [2, 2], "data_offsets": [8, 24]}},
        {"x": {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]}},
        {"x": {"dtype": "F32", "shape": [2, 2], "data_offsets": [-16, 0]}},
        {"x": {"shape": [2, 2]}},
        [1, 2],
    ],
)
def test_a_tensor_outside_its_file_is_refused(tmp_path: Path, info: object) -> None:
    path = write_safetensors(tmp_path / "pool.safetensors", info, bytes(16))
    with pytest.raises(InvalidData, match=r"pool.safetensors cannot be read as .safetensors"):
        open_source(path)


def test_safetensors_without_tensors_are_refused(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "pool.safetensors", {"__metadata__": {}}, b"")
    with pytest.raises(InvalidData, match=r"pool.safetensors holds no arrays"):
        open_source(path)


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_an_empty_pool_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pool{suffix}"
    if suffix == ".npy":
        np.save(path, FEATURES[:0])
    else:
        safetensors.numpy.save_file({"features": FEATURES[:0]}, path)
    assert read_array(str(path), "features").shape == (0, 3)
    with pytest.raises(InvalidData, match=rf"pool{suffix} holds no rows; a pool needs at least one"):
        read_pool(str(path))


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    bomb = np.array([{"a": 1}], dtype=object)
    np.save(tmp_path / "pool.npy", bomb, allow_pickle=True)
    with pytest.raises(InvalidData, match=r"pool.npy holds Python objects, .* dubito never unpickles; save it again"):
        read_pool(str(tmp_path / "pool.npy"))
    path = save(tmp_path / "pool.npz", features=FEATURES, ids=bomb)
    assert "ids (1,) Python objects" in open_source(path).listing()
    with pytest.raises(InvalidData, match=r"the array 'ids' of .*pool.npz holds Python objects"):
        read_pool(path)


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib"])
def test_a_pickle_by_name_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pool{suffix}"
    path.write_bytes(pickle.dumps([1]))
    with pytest.raises(InvalidArgument, match=r"is a pickle by its name, and dubito never unpickles"):
        open_source(str(path))


def test_a_pickle_called_npy_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pool.npy"
    path.write_bytes(pickle.dumps([[1.0]]))
    with pytest.raises(InvalidData, match=r"pool.npy cannot be read as .npy"):
        open_source(str(path))


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".parquet", ".csv"])
@pytest.mark.parametrize("content", [PNG, b"PK\x03\x04 but no archive", b"\xff\xfe\x00garbage"])
def test_foreign_files_are_refused_by_name(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"pool{suffix}"
    path.write_bytes(content)
    with pytest.raises(DubitoError, match=rf"pool{suffix}") as caught:
        read_pool(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_truncated_files_are_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pool{suffix}"
    if suffix == ".safetensors":
        safetensors.numpy.save_file({"features": FEATURES}, path)
    else:
        {".npy": np.save, ".npz": np.savez}[suffix](path, FEATURES)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(InvalidData, match=rf"pool{suffix} cannot be read as {suffix}: it is truncated"):
        read_pool(str(path))
    path.write_bytes(path.read_bytes()[:5])
    with pytest.raises(InvalidData, match=rf"pool{suffix} cannot be read as {suffix}"):
        read_pool(str(path))


def test_a_member_shorter_than_its_header_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1000, 3)))
    with zipfile.ZipFile(tmp_path / "pool.npz", "w") as archive:
        archive.writestr("features.npy", (tmp_path / "x.npy").read_bytes()[:500])
        archive.writestr("notes.txt", "left alone")
    with pytest.raises(InvalidData, match=r"features.npy is shorter than its header says"):
        open_source(str(tmp_path / "pool.npz"))


def test_a_zip_without_arrays_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pool.npz", "w") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(InvalidData, match=r"pool.npz holds no arrays; write it with numpy.savez"):
        open_source(str(tmp_path / "pool.npz"))


@given(
    suffix=st.sampled_from([".npy", ".npz", ".safetensors"]),
    damage=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_a_damaged_file_is_read_or_refused_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, damage: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("damaged") / f"pool{suffix}"
    if suffix == ".safetensors":
        safetensors.numpy.save_file({"features": FEATURES}, path)
    else:
        {".npy": np.save, ".npz": np.savez}[suffix](path, FEATURES)
    content = bytearray(path.read_bytes())
    for place, byte in damage:
        content[place % len(content)] = byte
    path.write_bytes(content)
    message = path.name
    try:
        np.asarray(read_pool(str(path)).features)
    except DubitoError as error:
        message = str(error)
    assert path.name in message
    assert "\n" not in message
