"""Conversion of float16 to float32."""

from pathlib import Path

import numpy as np
import pytest

from dubito import native as compiled
from dubito.engines.cpu import sketch


def test_every_finite_float16_is_converted_exactly() -> None:
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    assert sketch.float16_to_float32(finite).tobytes() == finite.astype(np.float32).tobytes()


def test_other_types_are_converted_by_numpy() -> None:
    single = np.ones((3, 2), dtype=np.float32)
    assert sketch.as_float32(single) is single
    assert sketch.as_float32(np.ones((3, 2))).dtype == np.float32


def test_blocks_of_any_layout_are_read() -> None:
    block = np.random.default_rng(0).standard_normal((400, 300)).astype(np.float16)
    for each in (block, np.asfortranarray(block), block[::2]):
        assert np.array_equal(sketch.float16_to_float32(each), each.astype(np.float32))
        assert np.array_equal(sketch.as_float32(each), each.astype(np.float32))
    assert isinstance(sketch.is_faster_by_bits(), bool)


@pytest.mark.parametrize("kind", ["array", "memmap", "columns", "big-endian"])
@pytest.mark.parametrize("method", ["compiled", "numpy"])
def test_rows_are_those_of_numpy(kind: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    matrix = bits[np.isfinite(bits)].reshape(-1, 512)
    if kind == "memmap":
        np.save(tmp_path / "halves.npy", matrix)
        matrix = np.load(tmp_path / "halves.npy", mmap_mode="r")
    if kind == "columns":
        matrix = np.asfortranarray(matrix)
    if kind == "big-endian":
        matrix = matrix.astype(">f2")
    if method == "numpy":
        monkeypatch.setattr(compiled, "steps", None)
    backwards = np.arange(len(matrix))[::-1]
    for rows in (slice(None), slice(1, -1), slice(0, None, 2), slice(0, 3), backwards, backwards[:2]):
        found = sketch.rows_as_float32(matrix, rows)
        assert found.dtype == np.float32
        assert found.tobytes() == matrix[rows].astype(np.float32).tobytes()


@pytest.mark.skipif(compiled.steps is None, reason="there was no C compiler to build the steps with")
def test_row_numbers_out_of_range_are_refused() -> None:
    assert compiled.steps is not None
    arrays = np.zeros((4, 2), dtype=np.uint16), np.empty((1, 2), dtype=np.float32), np.array([4])
    with pytest.raises(IndexError, match="row number out of range"):
        compiled.steps.float16_rows(arrays, 4, 1, 2, True)
