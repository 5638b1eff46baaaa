"""Half precision in single, by its bits."""

import numpy as np

from dubito.engines.cpu import halves


def test_every_finite_half_is_itself() -> None:
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    assert halves.by_bits(finite).tobytes() == finite.astype(np.float32).tobytes()


def test_what_is_no_half_is_left_alone() -> None:
    single = np.ones((3, 2), dtype=np.float32)
    assert halves.in_single(single) is single
    assert halves.in_single(np.ones((3, 2))).dtype == np.float32


def test_blocks_of_any_layout_are_read() -> None:
    block = np.random.default_rng(0).standard_normal((400, 300)).astype(np.float16)
    for each in (block, np.asfortranarray(block), block[::2]):
        assert np.array_equal(halves.by_bits(each), each.astype(np.float32))
        assert np.array_equal(halves.in_single(each), each.astype(np.float32))
    assert isinstance(halves.is_quicker_by_bits(), bool)
