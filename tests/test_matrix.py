from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dubito.matrix import OnDevice, Rows, Stack, blocks, len_of, rows_per_read

TALL = np.arange(21.0).reshape(7, 3)
PARTS = (TALL[:2], TALL[2:2], TALL[2:6], TALL[6:])


@given(st.integers(0, 9), st.integers(0, 9), st.sampled_from([1, 2, 3]))
def test_a_span_of_a_stack_is_that_span_of_the_whole(start: int, stop: int, step: int) -> None:
    assert Stack(PARTS)[start:stop:step].tolist() == TALL[start:stop:step].tolist()


@given(st.lists(st.integers(0, 6)))
def test_rows_of_a_stack_come_in_the_order_asked(rows: list[int]) -> None:
    wanted = np.array(rows, dtype=np.int64)
    assert Stack(PARTS)[wanted].tolist() == TALL[wanted].tolist()


def test_a_stack_has_the_type_that_holds_all_its_parts() -> None:
    stack = Stack([TALL[:2].astype(np.float16), TALL[2:]])
    assert stack.dtype == np.float64
    assert stack[:2].dtype == stack[1:4].dtype == stack[np.array([0])].dtype == np.float64
    assert stack.shape == (7, 3)


def test_a_stack_can_be_of_memory_maps(tmp_path: Path) -> None:
    for number, part in enumerate(PARTS[2:]):
        np.save(tmp_path / f"{number}.npy", part)
    stack = Stack([np.load(tmp_path / f"{number}.npy", mmap_mode="r") for number in range(2)])
    assert stack[:].tolist() == TALL[2:].tolist()


@given(st.lists(st.integers(0, 6), min_size=1), st.data())
def test_rows_of_a_matrix_are_read_in_the_given_order(rows: list[int], data: st.DataObject) -> None:
    chosen = Rows(TALL, np.array(rows))
    assert (chosen.shape, chosen.dtype) == ((len(rows), 3), TALL.dtype)
    assert chosen[:].tolist() == TALL[rows].tolist()
    again = data.draw(st.lists(st.integers(0, len(rows) - 1)))
    assert chosen[np.array(again, dtype=np.int64)].tolist() == TALL[rows][again].tolist()


@given(st.integers(0, 50), st.integers(1, 60))
def test_blocks_cover_every_row_once(n_rows: int, size: int) -> None:
    covered = [row for span in blocks(n_rows, size) for row in range(span.start, span.stop)]
    assert covered == list(range(n_rows))


@pytest.mark.parametrize(("width", "least"), [(1, 1 << 17), (1 << 24, 1), (0, 1 << 20)])
def test_a_block_holds_at_least_one_row(width: int, least: int) -> None:
    matrix = np.broadcast_to(np.float64(0.0), (3, width))
    assert rows_per_read(matrix) == least
    assert len_of(matrix) == 3


# Tensors that stay on their device


@pytest.mark.parametrize(
    ("kind", "read"),
    [(torch.float16, "float16"), (torch.bfloat16, "float32"), (torch.float32, "float32"), (torch.float64, "float64")],
)
def test_a_tensor_is_a_matrix(kind: torch.dtype, read: str) -> None:
    matrix = OnDevice(torch.tensor(TALL, requires_grad=True).to(kind))
    assert (matrix.shape, matrix.dtype, len_of(matrix)) == ((7, 3), np.dtype(read), 7)
    for rows in (slice(None), slice(2, 5), slice(6, 9), np.array([4, 0, 4]), np.empty(0, dtype=np.int64)):
        assert matrix[rows].dtype == matrix.dtype
        assert matrix[rows].tolist() == TALL[rows].tolist()
    assert Rows(matrix, np.array([5, 1]))[:].tolist() == TALL[[5, 1]].tolist()


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("values", "largest"),
    [([1.0, -3.0], 3.0), ([4.0, -3.0], 4.0), ([0.0, 0.0], 0.0), ([1.0, -np.inf], np.inf), ([np.nan, 1.0], np.nan)],
)
def test_the_magnitude_of_a_tensor_is_that_of_its_largest_number(
    kind: torch.dtype, values: list[float], largest: float
) -> None:
    found = OnDevice(torch.tensor([[0.5, 0.25], values], dtype=kind)).magnitude()
    assert found == max(largest, 0.5) or (np.isnan(found) and np.isnan(largest))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
def test_the_first_row_of_zeros_in_a_tensor_is_found(kind: torch.dtype) -> None:
    tensor = torch.tensor([[1.0, 0.0], [0.0, -1.0], [0.0, -0.0], [0.0, 0.0]], dtype=kind)
    assert OnDevice(tensor).first_zero_row() == 2
    assert OnDevice(tensor[:2]).first_zero_row() is None
