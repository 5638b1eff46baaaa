"""Points on a device: rows read where they lie, as they are, to be settled."""

from typing import Any

import numpy as np
import torch

from dubito.distances import SUM_ROWS
from dubito.matrix import FloatArray, Matrix, OnDevice, Rows, blocks, rows_per_read
from dubito.problem import Metric

Tensor = Any
"""A torch tensor: the package has no types that every version agrees on."""

HALVES = (torch.float16, torch.bfloat16)
KEPT = (*HALVES, torch.float32, torch.float64)


class DeviceSource:
    """A matrix whose rows are read to a device; resident there, or streamed from the host."""

    def __init__(self, matrix: Matrix, device: str, *, is_resident: bool) -> None:
        self.matrix, self.device, self.shape = matrix, device, matrix.shape
        self.tensor: Tensor = None
        if isinstance(matrix, OnDevice):
            self.tensor = matrix.tensor
        elif is_resident:
            self.tensor = self._whole()

    def _whole(self) -> Tensor:
        """Block by block where it is no array in memory already: the host need not hold a copy of it."""
        n_rows, step = self.shape[0], rows_per_read(self.matrix)
        if n_rows <= step or (isinstance(self.matrix, np.ndarray) and self.matrix.flags.writeable):
            return self._upload(self.matrix[:])
        first = self._upload(self.matrix[0:step])
        tensor = torch.empty(tuple(self.shape), dtype=first.dtype, device=self.device)
        tensor[:step] = first
        for start in range(step, n_rows, step):
            tensor[start : start + step] = self._upload(self.matrix[start : min(start + step, n_rows)])
        return tensor

    def rows(self, rows: slice | Tensor) -> Tensor:
        """(r, d) on the device, contiguous, in a dtype that holds every value."""
        if self.tensor is None:
            block = self._upload(self.matrix[rows if isinstance(rows, slice) else rows.cpu().numpy()])
        else:
            block = self.tensor[rows].to(self.device)
        return (block if block.dtype in KEPT else block.double()).contiguous()

    def _upload(self, block: object) -> Tensor:
        array = np.asarray(block)
        if array.dtype.kind != "f" or not array.dtype.isnative:
            array = array.astype(np.float64)
        # A copy where it cannot be written: torch tensors have no way to say so.
        return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(self.device)


def source_of(matrix: Matrix, device: str) -> tuple[DeviceSource, Tensor | None]:
    """The matrix that rows are of, resident, and which of its rows; None for all of them."""
    if isinstance(matrix, Rows) and isinstance(matrix.matrix, OnDevice):
        return DeviceSource(matrix.matrix, device, is_resident=True), to_device(matrix.rows, device)
    return DeviceSource(matrix, device, is_resident=True), None


def spread_out(n_rows: int, n_chosen: int, device: str) -> Tensor:
    """Row numbers from the first to the last of many; float32 could not tell all of them apart."""
    return torch.linspace(0, n_rows - 1, n_chosen, dtype=torch.float64, device=device).long()


def to_device(array: Any, device: str) -> Tensor:
    """A copy of an array on the device."""
    return torch.tensor(np.ascontiguousarray(array), device=device)


class DevicePoints:
    """The pool on a device, as `settle` compares it: features as they are, or unit vectors for a cosine."""

    def __init__(self, pool: DeviceSource, metric: Metric) -> None:
        self.pool, self.metric = pool, metric

    def exact(self, rows: slice | Tensor) -> Tensor:
        """(r, d) rows of the pool."""
        block = self.pool.rows(rows)
        return unit_rows(block.double()) if self.metric == "cosine" else block


def distance_from_mean(points: DevicePoints, rows: Tensor | slice, step: int) -> FloatArray:
    """Σ(n·x - Σx)² of pool rows, with the bits of `dubito.distances.distance_from_mean`."""
    n_pool, d = points.pool.shape
    total, n_sums = np.zeros(d), max(1, step // SUM_ROWS)
    for span in blocks(n_pool, n_sums * SUM_ROWS):
        block = points.exact(span).double()
        n_whole = len(block) // SUM_ROWS * SUM_ROWS
        whole = add_columns(block[:n_whole].reshape(-1, SUM_ROWS, d).transpose(1, 2).reshape(-1, SUM_ROWS).clone())
        for part in whole.reshape(-1, d).cpu().numpy():
            total += part
        if n_whole < len(block):
            total += add_columns(block[n_whole:].T.clone()).cpu().numpy()
    centre, parts = torch.from_numpy(total).to(points.pool.device), []
    n_rows = n_pool if isinstance(rows, slice) else len(rows)
    for span in blocks(n_rows, step):
        terms = n_pool * points.exact(span if isinstance(rows, slice) else rows[span]).double() - centre
        parts.append(add_columns(terms * terms).cpu().numpy())
    return np.concatenate(parts)


def unit_rows(block: Tensor) -> Tensor:
    """Each row over its length, with the bits of `dubito.distances.unit_rows`."""
    _, exponents = torch.frexp(block.abs().amax(dim=1, keepdim=True))
    # In two steps, so that no power of two overflows.
    half = -exponents // 2
    block = block * _power_of_two(half) * _power_of_two(-exponents - half)
    # Roots on the host: not every torch rounds them correctly.
    lengths = np.sqrt(add_columns(block * block).cpu().numpy())
    return block / torch.from_numpy(lengths).to(block.device)[:, None]


def add_columns(terms: Tensor) -> Tensor:
    """Row sums in the order of `dubito.distances.add_columns`; ``terms`` is used up."""
    width = terms.shape[1]
    while width > 1:
        half = (width + 1) // 2
        terms[:, : width - half] += terms[:, half:width]
        width = half
    return terms[:, 0].clone()


def _power_of_two(exponents: Tensor) -> Tensor:
    """2 to these whole numbers, made of the bits themselves: a library's power may be off by one."""
    return ((exponents.long() + 1023) << 52).view(torch.float64)
