"""Files of torch.save, of tensors alone: read without unpickling, mapped, checked, and hostile ones refused."""

import collections
import io
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dubito.errors import DubitoError, InvalidData, MemoryLimit
from dubito.io import input_limit, open_source, read_array, read_pool
from dubito.io.formats.torch_files import UnsupportedOpcode, read_pickle
from dubito.matrix import AnyArray

FEATURES = torch.arange(12, dtype=torch.float32).reshape(4, 3)


def save(path: Path, content: object, **more: Any) -> str:
    torch.save(content, path, **more)
    return str(path)


def with_pickle(path: Path, program: bytes, **data: bytes) -> str:
    """An archive as torch.save writes it, with a program of one's own."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", program)
        archive.writestr("a/byteorder", "little")
        for key, numbers in data.items():
            archive.writestr(f"a/data/{key}", numbers)
    return str(path)


@given(
    values=arrays.arrays(
        st.sampled_from([np.dtype(code) for code in ("f2", "f4", "f8", "i8", "i4", "i2", "i1", "u1", "u2", "?")]),
        st.tuples(st.integers(0, 4), st.integers(1, 4), st.integers(1, 3)),
    ),
    protocol=st.sampled_from([2, 3, 4, 5]),
    is_old=st.booleans(),
)
def test_tensors_come_back_as_they_were_saved(
    tmp_path_factory: pytest.TempPathFactory, values: AnyArray, protocol: int, is_old: bool
) -> None:
    tensor = torch.from_numpy(values)
    is_old = is_old and values.dtype != np.uint16
    views = {"whole": tensor, "turned": tensor.transpose(0, 1), "part": tensor[:, 1:], "other": tensor.clone()}
    path = save(
        tmp_path_factory.mktemp("round") / "pool.pt",
        views,
        pickle_protocol=2 if is_old else protocol,
        _use_new_zipfile_serialization=not is_old,
    )
    for name, view in views.items():
        found = np.asarray(open_source(path).entry(name).read())
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, view.numpy())


def test_a_lone_tensor_is_a_pool_and_a_memory_map(tmp_path: Path) -> None:
    with input_limit(2000):
        features = read_pool(save(tmp_path / "pool.pt", torch.randn(1000, 30))).features
    assert isinstance(features, np.memmap)
    assert not features.flags.writeable


def test_names_lead_to_tensors_and_plain_lists(tmp_path: Path) -> None:
    content: dict[str, object] = {
        "features": FEATURES,
        "ids": ["a", "b", "c", "d"],
        "labels": [3, 1, 4, 1],
        "inner": {"head": torch.ones(2, 3), "layers": [torch.zeros(1), (torch.zeros(2), None)]},
    }
    content |= {"epoch": 7, "lr": 0.5, "name": "run", "done": True, "nothing": None, "huge": [10**400], "none": []}
    path = save(tmp_path / "pool.pth", content)
    pool = read_pool(path)
    np.testing.assert_array_equal(np.asarray(pool.features), FEATURES)
    assert pool.ids is not None
    assert pool.ids.tolist() == ["a", "b", "c", "d"]
    assert read_array(pool.source, "labels").tolist() == [3, 1, 4, 1]
    names = ("features", "ids", "labels", "inner.head", "inner.layers.0", "inner.layers.1.0")
    assert pool.source.names == names


@pytest.mark.parametrize("is_old", [False, True])
def test_a_state_dict_is_read_with_its_parameters(tmp_path: Path, is_old: bool) -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    path = save(tmp_path / "net.pt", layer.state_dict(), _use_new_zipfile_serialization=not is_old)
    source = open_source(path)
    assert set(source.names) == set(layer.state_dict())
    for name, tensor in layer.state_dict().items():
        np.testing.assert_array_equal(np.asarray(source.entry(name).read()), tensor.numpy())
    parameters = {"w": torch.nn.Parameter(FEATURES), "s": FEATURES.shape}
    np.testing.assert_array_equal(
        np.asarray(open_source(save(tmp_path / "p.pt", parameters)).entry("w").read()), FEATURES
    )


def test_bfloat16_is_widened_exactly(tmp_path: Path) -> None:
    values = torch.tensor([[1.0, -2.5], [0.15625, 3e38]]).bfloat16()
    path = save(tmp_path / "pool.pt", values)
    assert "bfloat16" in open_source(path).listing()
    np.testing.assert_array_equal(np.asarray(read_pool(path).features), values.float().numpy())
    with input_limit(15), pytest.raises(MemoryLimit, match="takes 16 bytes"):
        read_pool(path)


def test_a_tensor_of_one_number_in_many_places_counts_as_large_as_it_says(tmp_path: Path) -> None:
    path = save(tmp_path / "pool.pt", torch.zeros(1, 1).expand(10**6, 10**6))
    with pytest.raises(MemoryLimit, match=r"pool.pt takes 4 TB of memory"):
        read_pool(path)
    small = save(tmp_path / "small.pt", torch.tensor([[1.0, 2.0]]).expand(3, 2))
    assert np.asarray(read_pool(small).features).tolist() == [[1, 2]] * 3


@pytest.mark.parametrize(
    ("content", "described"),
    [
        (torch.zeros(2, 2, dtype=torch.complex64), "is of type complexfloat; save it as float32"),
        (torch.zeros(2, 2).to(torch.float8_e5m2), "is of type float8_e5m2; save it as float32"),
    ],
)
def test_types_that_numpy_has_not_are_named(tmp_path: Path, content: object, described: str) -> None:
    with pytest.raises(InvalidData, match=rf"the tensor '' of .*pool.pt {described}"):
        read_pool(save(tmp_path / "pool.pt", content))


class Bomb:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_program_in_a_file_is_never_run(tmp_path: Path, is_old: bool) -> None:
    marker = tmp_path / "ran"
    path = save(
        tmp_path / "pool.pt", {"features": FEATURES, "x": Bomb(marker)}, _use_new_zipfile_serialization=not is_old
    )
    words = r"pool.pt holds more than tensors \(posix.mkdir\), .* never unpickles; save only tensors, for example with"
    with pytest.raises(InvalidData, match=words):
        open_source(path)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("content", "described"),
    [
        (torch.nn.Linear(2, 2), r"torch.nn.modules.linear.Linear|the opcode"),
        ({"x": np.zeros(3)}, r"numpy.*_reconstruct|_codecs.encode"),
        ({"x": {1, 2}}, r"the opcode EMPTY_SET|builtins.set|__builtin__.set"),
        (torch.eye(3).to_sparse(), r"_rebuild_sparse_tensor|torch"),
        ({"x": slice(1)}, r"slice"),
        ({"x": b"bytes"}, r"encode|the opcode"),
    ],
)
def test_what_is_no_tensor_is_refused_by_name(tmp_path: Path, content: object, described: str) -> None:
    with pytest.raises(InvalidData, match=rf"pool.pt holds more than tensors \(.*({described})"):
        open_source(save(tmp_path / "pool.pt", content))


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_torchscript_is_a_program(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "net.pt")
    with pytest.raises(InvalidData, match=r"net.pt holds more than tensors \(a TorchScript program\)"):
        open_source(str(tmp_path / "net.pt"))


STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQ"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


def tensor(offset: bytes, shape: bytes, strides: bytes, storage: bytes = STORAGE) -> bytes:
    return b"\x80\x02" + REBUILD + b"(" + storage + offset + shape + strides + b"\x89NtR."


GOOD = tensor(b"K\x00", b"K\x02K\x03\x86", b"K\x03K\x01\x86")
NUMBERS = np.arange(6, dtype="<f4").tobytes()


def test_the_smallest_program_of_a_tensor_is_read(tmp_path: Path) -> None:
    path = with_pickle(tmp_path / "pool.pt", GOOD, **{"0": NUMBERS})
    assert np.asarray(read_pool(path).features).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "program",
    [
        tensor(b"K\x01", b"K\x02K\x03\x86", b"K\x03K\x01\x86"),
        tensor(b"K\x00", b"K\x02K\x04\x86", b"K\x03K\x01\x86"),
        tensor(b"K\x00", b"K\x02K\x03\x86", b"K\xffK\x01\x86"),
        tensor(b"J\xff\xff\xff\xff", b"K\x02K\x03\x86", b"K\x03K\x01\x86"),
        tensor(b"K\x00", b"K\x02K\x03\x86", b"J\xfd\xff\xff\xffK\x01\x86"),
        tensor(b"K\x00", b"K\x02K\x03\x86", b"K\x01\x85"),
        tensor(b"K\x00", b"\x88K\x03\x86", b"K\x03K\x01\x86"),
        tensor(b"K\x00", b"\x8a\x09" + b"\xff" * 8 + b"\x00K\x03\x86", b"K\x03K\x01\x86"),
        tensor(b"K\x00", b"K\x02K\x03\x86", b"K\x03K\x01\x86", storage=b"K\x01"),
        tensor(b"K\x00", b"K\x02K\x03\x86", b"K\x03K\x01\x86", storage=b"K\x01Q"),
        tensor(b"K\x00", b"K\x02K\x03\x86", b"K\x03K\x01\x86", storage=STORAGE.replace(b"K\x06", b"N")),
        tensor(b"K\x00", b"K\x02K\x03\x86", b"K\x03K\x01\x86", storage=STORAGE.replace(b"\x000X", b"\x001X")),
        b"\x80\x02" + REBUILD + b")R.",
        b"\x80\x02.",
        b"\x80\x02K\x01",
        b"\x80\x02\x86.",
        b"\x80\x02t.",
        b"\x80\x02h\x00.",
        b"\x80\x02]]R.",
        b"\x80\x02}]K\x01s.",
        b"",
    ],
)
def test_a_tensor_that_does_not_fit_is_damage(tmp_path: Path, program: bytes) -> None:
    with pytest.raises(InvalidData, match=r"pool.pt (cannot be read as .pt|holds more than tensors)"):
        read_pool(with_pickle(tmp_path / "pool.pt", program, **{"0": NUMBERS}))


@pytest.mark.parametrize(
    "program",
    [
        b"cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
        b"(X\x04\x00\x00\x00trueios\nsystem\n.",
        b"(cos\nsystem\nX\x04\x00\x00\x00trueo.",
        b"\x80\x02cos\nsystem\n)\x81.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
        b"\x80\x02\x82\x01)R.",
        b"\x80\x02K\x01K\x02b.",
        b"\x80\x02K\x01K\x02a.",
        b"P0\n.",
        b"I1\n.",
        b"\x80\x02]b.",
    ],
)
def test_every_other_step_of_a_pickle_is_refused(program: bytes) -> None:
    with pytest.raises((UnsupportedOpcode, ValueError, IndexError)):
        read_pickle(io.BytesIO(program))


def test_things_inside_things_without_end_are_refused(tmp_path: Path) -> None:
    levels = b"".join(b"](" + b"h%c" % level * 100 + b"eq%c" % (level + 1) for level in range(3))
    wide = b"\x80\x02](" + b"N" * 100 + b"eq\x00" + levels + b"."
    with pytest.raises(InvalidData, match=r"has too many nested objects"):
        open_source(with_pickle(tmp_path / "pool.pt", wide))


def test_a_list_inside_itself_comes_to_an_end(tmp_path: Path) -> None:
    itself = b"\x80\x02]q\x00(h\x00e."
    with pytest.raises(InvalidData, match=r"pool.pt holds no tensors"):
        open_source(with_pickle(tmp_path / "pool.pt", itself))


def test_a_file_without_tensors_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"pool.pt holds no tensors"):
        open_source(save(tmp_path / "pool.pt", {"epoch": 3}))


def test_a_flipped_bit_is_found_by_its_checksum(tmp_path: Path) -> None:
    path = Path(save(tmp_path / "pool.pt", FEATURES))
    content = bytearray(path.read_bytes())
    content[content.index(FEATURES.numpy().tobytes()) + 9] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidData, match=r"pool.pt cannot be read as .pt: .*the checksum of 0 is wrong"):
        read_pool(str(path))


def test_archives_that_were_packed_again_are_unpacked_within_the_bound(tmp_path: Path) -> None:
    plain = save(tmp_path / "plain.pt", torch.zeros(500, 500))
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(tmp_path / "pool.pt", "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert read_pool(str(tmp_path / "pool.pt")).features.shape == (500, 500)
    with input_limit(10**5), pytest.raises(MemoryLimit, match="takes 1 MB"):
        read_pool(str(tmp_path / "pool.pt"))


def test_numbers_at_an_odd_place_are_copied_into_line(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pool.pt", "w") as archive:
        archive.writestr("abc/data.pkl", GOOD)
        archive.writestr("abc/data/0", NUMBERS)
    features = np.asarray(read_pool(str(tmp_path / "pool.pt")).features)
    assert features.flags.aligned
    assert features.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_the_other_order_of_bytes_is_understood(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pool.pt", "w") as archive:
        archive.writestr("a/data.pkl", GOOD)
        archive.writestr("a/byteorder", "big")
        archive.writestr("a/data/0", np.arange(6, dtype=">f4").tobytes())
    assert np.asarray(read_pool(str(tmp_path / "pool.pt")).features).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_program_that_unpacks_to_too_much_is_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pool.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"N" * 50_000_000)
    with input_limit(10**7), pytest.raises(MemoryLimit, match=r"'a/data.pkl' of .*pool.pt takes 2.5 GB of memory"):
        open_source(str(tmp_path / "pool.pt"))


def test_zip_archives_of_other_programs_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pool.pt", "w") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(InvalidData, match=r"it was not written by torch.save"):
        open_source(str(tmp_path / "pool.pt"))


OLD = collections.OrderedDict(features=FEATURES, doubt=torch.full((4,), 0.5))


def test_an_old_file_must_end_where_it_says(tmp_path: Path) -> None:
    path = Path(save(tmp_path / "pool.pt", OLD, _use_new_zipfile_serialization=False))
    content = path.read_bytes()
    for changed, described in {content[:-3]: "cut short", content + b"x": "has extra bytes at its end"}.items():
        path.write_bytes(changed)
        with pytest.raises(InvalidData, match=rf"pool.pt cannot be read as .pt: .*{described}"):
            open_source(str(path))


@pytest.mark.parametrize(
    "parts",
    [
        [1],
        [0x1950A86A20F9469CFC6C, 1001, 1, 1, 1],
        [0x1950A86A20F9469CFC6C, 1001, {}, 1, ["x"]],
    ],
)
def test_pickles_of_other_programs_are_refused(tmp_path: Path, parts: list[object]) -> None:
    (tmp_path / "pool.pt").write_bytes(b"".join(pickle.dumps(part, 2) for part in parts) + struct.pack("<q", 1))
    with pytest.raises(DubitoError, match=r"pool.pt cannot be read as .pt"):
        open_source(str(tmp_path / "pool.pt"))


def test_an_old_program_that_needs_too_much_memory_is_not_read(tmp_path: Path) -> None:
    texts = [f"{number:01000}" for number in range(3000)]
    parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, texts, []]
    (tmp_path / "pool.pt").write_bytes(b"".join(pickle.dumps(part, 2) for part in parts))
    with input_limit(10**7), pytest.raises(MemoryLimit, match=r"'content.pkl' of .*pool.pt takes .* MB of memory"):
        open_source(str(tmp_path / "pool.pt"))


def test_an_old_view_of_a_storage_starts_where_it_says(tmp_path: Path) -> None:
    storage = STORAGE.replace(b"K\x06t", b"K\x06(X\x01\x00\x00\x00vK\x02K\x04tt")
    program = tensor(b"K\x00", b"K\x02K\x02\x86", b"K\x02K\x01\x86", storage=storage)
    parts = [pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    data = b"".join(parts) + program + pickle.dumps(["0"], 2) + struct.pack("<q", 6) + NUMBERS
    (tmp_path / "pool.pt").write_bytes(data)
    assert np.asarray(read_pool(str(tmp_path / "pool.pt")).features).tolist() == [[2, 3], [4, 5]]


def test_an_old_storage_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "pool.pt", torch.zeros(2, dtype=torch.complex64), _use_new_zipfile_serialization=False)
    with pytest.raises(InvalidData, match=r"pool.pt holds more than tensors \(torch.ComplexFloatStorage\)"):
        open_source(path)
