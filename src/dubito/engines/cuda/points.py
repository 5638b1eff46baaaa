"""Points on a device: rows for exact distances, and the same rows prepared for products."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import torch

from dubito.core.coverage_reference import GOLDEN
from dubito.core.distances import SUM_ROWS
from dubito.core.problem import Metric
from dubito.engines.lazy.bounds import FLOAT32_LARGEST, FLOOR, MEDIAN_ROWS, ROUND_UP, SMALLEST, gamma, scale_for
from dubito.matrix import FloatArray, Matrix, OnDevice, Rows, blocks, len_of, rows_per_read

Tensor = Any
"""A torch tensor. The type hints of torch differ between its versions."""

SIXTEEN_BIT = (torch.float16, torch.bfloat16)
FULL_PAIRS = 1e9
"""Up to this number of pairs of rows and labeled points, all labeled points are applied to the first bounds."""
FLOAT_TYPES = (*SIXTEEN_BIT, torch.float32, torch.float64)
"""Types in which features are stored on the device; others are converted to float64."""


class DeviceSource:
    """A matrix whose rows are read on a device: resident there, or copied from the host on each access."""

    def __init__(self, matrix: Matrix, device: str, *, is_resident: bool) -> None:
        self.matrix, self.device, self.shape = matrix, device, matrix.shape
        self.tensor: Tensor = None
        if isinstance(matrix, OnDevice):
            self.tensor = matrix.tensor
        elif is_resident:
            self.tensor = self._whole()

    def _whole(self) -> Tensor:
        """The matrix on the device. Unless it is an array in memory, it is copied in blocks, to use little memory."""
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
        """(r, d) on the device, contiguous, in a dtype that represents all values."""
        if self.tensor is None:
            block = self._upload(self.matrix[rows if isinstance(rows, slice) else rows.cpu().numpy()])
        else:
            block = self.tensor[rows].to(self.device)
        return (block if block.dtype in FLOAT_TYPES else block.double()).contiguous()

    def _upload(self, block: object) -> Tensor:
        array = np.asarray(block)
        if array.dtype.kind != "f" or not array.dtype.isnative:
            array = array.astype(np.float64)
        # torch has no read-only tensors, so read-only arrays are copied.
        return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(self.device)


def source_of(matrix: Matrix, device: str) -> tuple[DeviceSource, Tensor | None]:
    """A resident source, and the rows of it to use; None for all rows."""
    if isinstance(matrix, Rows) and isinstance(matrix.matrix, OnDevice):
        return DeviceSource(matrix.matrix, device, is_resident=True), to_device(matrix.rows, device)
    return DeviceSource(matrix, device, is_resident=True), None


def evenly_spaced_rows(n_rows: int, n_chosen: int, device: str) -> Tensor:
    """``n_chosen`` evenly spaced row numbers, computed in float64, since float32 cannot represent all row numbers."""
    return torch.linspace(0, n_rows - 1, n_chosen, dtype=torch.float64, device=device).long()


def spread_order(n: int, device: str) -> Tensor:
    """The numbers from 0 to n - 1, ordered so that the first k of them are nearly evenly spaced, for every k."""
    return (torch.arange(n, device=device) * GOLDEN % (1 << 32)).argsort()


def to_device(array: Any, device: str) -> Tensor:
    """A copy of an array on the device."""
    return torch.tensor(np.ascontiguousarray(array), device=device)


class DevicePoints:
    """The pool on a device as used for exact distances: the features, or unit vectors for cosine."""

    def __init__(self, pool: DeviceSource, metric: Metric) -> None:
        self.pool, self.metric = pool, metric

    def exact(self, rows: slice | Tensor) -> Tensor:
        """(r, d) rows of the pool."""
        block = self.pool.rows(rows)
        return unit_rows(block.double()) if self.metric == "cosine" else block


def scaled_sq_distances_from_mean(points: DevicePoints, rows: Tensor | slice, step: int) -> FloatArray:
    """Σ(n·x - Σx)² of pool rows, with the bits of `dubito.core.distances.scaled_sq_distances_from_mean`."""
    n_pool, d = points.pool.shape
    total, n_sums = np.zeros(d), max(1, step // SUM_ROWS)
    for span in blocks(n_pool, n_sums * SUM_ROWS):
        block = points.exact(span).double()
        n_whole = len(block) // SUM_ROWS * SUM_ROWS
        whole = sums_by_halving(block[:n_whole].reshape(-1, SUM_ROWS, d).transpose(1, 2).reshape(-1, SUM_ROWS).clone())
        for part in whole.reshape(-1, d).cpu().numpy():
            total += part
        if n_whole < len(block):
            total += sums_by_halving(block[n_whole:].T.clone()).cpu().numpy()
    center, parts = torch.from_numpy(total).to(points.pool.device), []
    n_rows = n_pool if isinstance(rows, slice) else len(rows)
    for span in blocks(n_rows, step):
        terms = n_pool * points.exact(span if isinstance(rows, slice) else rows[span]).double() - center
        parts.append(sums_by_halving(terms * terms).cpu().numpy())
    return np.concatenate(parts)


def unit_rows(block: Tensor) -> Tensor:
    """Rows divided by their lengths, with the bits of `dubito.core.distances.unit_rows`."""
    _, exponents = torch.frexp(block.abs().amax(dim=1, keepdim=True))
    # Scaled in two steps, so that no power of two overflows.
    half = -exponents // 2
    block = block * _power_of_two(half) * _power_of_two(-exponents - half)
    # Square roots on the host, since not every version of torch rounds them correctly.
    lengths = np.sqrt(sums_by_halving(block * block).cpu().numpy())
    return block / torch.from_numpy(lengths).to(block.device)[:, None]


def sums_by_halving(terms: Tensor) -> Tensor:
    """Row sums in the order of `dubito.core.distances.sums_by_halving`; overwrites ``terms``."""
    width = terms.shape[1]
    while width > 1:
        half = (width + 1) // 2
        terms[:, : width - half] += terms[:, half:width]
        width = half
    return terms[:, 0].clone()


def _power_of_two(exponents: Tensor) -> Tensor:
    """2 to these integer powers, computed from their bits, since the power function of a library may be inexact."""
    return ((exponents.long() + 1023) << 52).view(torch.float64)


# Points prepared for products: shifted and scaled so that float32 does not overflow or underflow, with error bounds.

SAMPLE_ROWS = 1024
CUT = 2
"""Factor of the error, since tensor cores truncate the results of additions instead of rounding them."""
OTHER_UNITS = 32
"""Other errors in units of |x|² + |y|², doubled: shifting points, rounding lengths, adding three terms, comparing."""
TEN_BITS = 1.01 * 2.0**-9
"""Error of truncating both factors of a product to ten bits, in units of |x|² + |y|²."""
THREE_PARTS = 2.0**-17
"""Error of computing a product as three products of the first ten bits and the remaining bits: 2·3·2**-20, with a
margin."""


class Slot(IntEnum):
    """Positions in `PointTransform.constants`, used by kernels."""

    LOOSE = 0
    SLACK = 1
    FLOOR = 2
    TO_FEATURES = 3
    """Factor from squared distances of scaled points to those of features, rounded up."""
    TO_PRODUCTS = 4
    """The inverse factor, rounded up."""
    SMALLEST = 5


@dataclass(frozen=True, slots=True)
class PointTransform:
    """How points are prepared for products: shifted by ``-center`` and scaled by a power of two, in ``dtype``.

    For prepared points x, y, the error of the computed ``|x|² + |y|² - 2·x·y`` is at most
    ``slack·(|x|² + |y|²) + FLOOR``, with ``loose`` instead of ``slack`` on tensor cores that truncate float32 to ten
    bits.
    """

    center: Tensor | None
    scale: float
    dtype: Tensor
    slack: float
    loose: float

    def apply(self, points: Tensor) -> Tensor:
        """Prepare points (r, d)."""
        if self.center is not None:
            points = (points.double() - self.center) * self.scale
        return points.to(self.dtype)

    def constants(self, device: str) -> Tensor:
        """The float64 constants of kernels, in the order of `Slot`."""
        unit = self.scale**2
        numbers = {
            Slot.LOOSE: self.loose,
            Slot.SLACK: self.slack,
            Slot.FLOOR: FLOOR,
            Slot.TO_FEATURES: ROUND_UP / unit,
            Slot.TO_PRODUCTS: ROUND_UP * unit,
            Slot.SMALLEST: SMALLEST,
        }
        return torch.tensor([numbers[slot] for slot in Slot], dtype=torch.float64, device=device)

    @property
    def is_exact(self) -> bool:
        """Whether ten bits represent all features."""
        return self.dtype in SIXTEEN_BIT

    @property
    def precision(self) -> str:
        """The precision of products for which `slack` holds."""
        return "ieee" if self.is_exact else "tf32x3"


def product_slack(d: int) -> float:
    """Error bound of products of d features, in units of |x|² + |y|²."""
    return 2.0 * gamma(CUT * (d + OTHER_UNITS)) + THREE_PARTS


def choose_transform(sample: Tensor, dtype: Tensor, largest: float) -> PointTransform:
    """The transform for points like a sample (r, d) in float64, with features up to ``largest``.

    Features of moderate size near the origin stay unchanged; others are centered and scaled, so that products do not
    cancel or overflow.
    """
    d = sample.shape[1]
    slack = product_slack(d)
    loose = slack + TEN_BITS
    few = sample[:: max(1, len(sample) // MEDIAN_ROWS)]
    # The median by sorting, since torch has no deterministic median on GPUs.
    center = few.sort(dim=0).values[(len(few) - 1) // 2]
    is_near_origin = center @ center <= 2.0 * ((few - center) ** 2).sum(dim=1).median()
    if dtype != torch.float64 and 1e-6 < largest < 1e6 and bool(is_near_origin):
        return PointTransform(None, 1.0, dtype, slack, slack if dtype in SIXTEEN_BIT else loose)
    if largest < FLOAT32_LARGEST:
        center = center.float().double()
    return PointTransform(center, scale_for(largest), torch.float32, slack, loose)


@dataclass(frozen=True, slots=True)
class PreparedPoints:
    """Points (r, d) prepared for products, and their lengths (r,) in float32."""

    points: Tensor
    lengths: Tensor

    def __getitem__(self, rows: Any) -> "PreparedPoints":
        return PreparedPoints(self.points[rows], self.lengths[rows])


class DeviceReferences:
    """Labeled points and picks on the device, exact and prepared for products, with memory for ``n_more`` picks.

    If there are many labeled points, they are in the order of `spread_order`, so that the first ones are a sample.
    """

    def __init__(self, labeled: Matrix, points: DevicePoints, n_more: int, largest: float, device: str) -> None:
        self.n_labeled = len_of(labeled)
        source, rows = source_of(labeled, device)
        n_pool = points.pool.shape[0]
        if n_pool * self.n_labeled > FULL_PAIRS:
            order = spread_order(self.n_labeled, device)
            rows = order if rows is None else rows[order]
        first = source.rows(slice(0, self.n_labeled) if rows is None else rows)
        if points.metric == "cosine" and len(first):
            first = unit_rows(first.double())
        sample = points.exact(evenly_spaced_rows(n_pool, min(n_pool, SAMPLE_ROWS), device))
        dtype = torch.promote_types(sample.dtype, first.dtype) if len(first) else sample.dtype
        self.transform = choose_transform(sample.double(), dtype, largest)
        self.exact = torch.empty((self.n_labeled + n_more, sample.shape[1]), dtype=dtype, device=device)
        kept = self.exact if self.transform.center is None else torch.empty_like(self.exact, dtype=torch.float32)
        self.prepared = PreparedPoints(kept, torch.empty(len(self.exact), dtype=torch.float32, device=device))
        self.count = 0
        self.add(first)

    def widen(self, exact: Tensor) -> Tensor:
        """Exact points, converted to the type of the references."""
        return exact.to(self.exact.dtype)

    def prepare(self, exact: Tensor) -> PreparedPoints:
        """Exact points prepared for products."""
        points = self.transform.apply(self.widen(exact))
        return PreparedPoints(points, _lengths(points))

    def add(self, exact: Tensor) -> None:
        span = slice(self.count, self.count + len(exact))
        self.exact[span] = exact
        if self.transform.center is not None:
            self.prepared.points[span] = self.transform.apply(self.exact[span])
        self.prepared.lengths[span] = _lengths(self.prepared.points[span])
        self.count = span.stop


def _lengths(points: Tensor) -> Tensor:
    """(r,) lengths in float32. The error bounds hold for any order of additions."""
    return torch.linalg.vector_norm(points, dim=1, dtype=torch.float32)
