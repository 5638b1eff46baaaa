"""Points as products take them: shaped so that float32 neither overflows nor loses them, with bounds on rounding."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch

from dubito.engines.cuda.points import HALVES, DevicePoints, Tensor, source_of, spread_out, unit_rows
from dubito.engines.lazy.rounding import (
    FLOAT32_LARGEST,
    FLOOR,
    MEDIAN_ROWS,
    ROUND_UP,
    SMALLEST,
    gamma,
    scale_for,
)
from dubito.matrix import Matrix, len_of

SAMPLE_ROWS = 1024
CUT = 2
"""Tensor cores cut what they align instead of rounding it: an error twice as large, in every addition."""
OTHER_UNITS = 32
"""Of |x|² + |y|², twice: shifting points, the roots that lengths are kept as, adding three terms, comparing them."""
TEN_BITS = 1.01 * 2.0**-9
"""Both factors of a product cut to ten bits, in units of |x|² + |y|²."""
THREE_PARTS = 2.0**-17
"""The same of three products of what ten bits hold and of what they leave: 3·2**-20 twice, and room for the rest."""


class Slot(IntEnum):
    """Where each of `Shape.constants` stands: kernels read them by these names."""

    LOOSE = 0
    SLACK = 1
    FLOOR = 2
    TO_FEATURES = 3
    """Squared distances as products see them, rounded up, to those of the features."""
    TO_PRODUCTS = 4
    """The other way, rounded up too."""
    SMALLEST = 5


@dataclass(frozen=True, slots=True)
class Shape:
    """How products see points: moved by ``-centre`` and multiplied by ``scale``, a power of two, in ``dtype``.

    For points x, y so shaped, products as computed leave ``|x|² + |y|² - 2·x·y`` off by at most
    ``slack·(|x|² + |y|²) + FLOOR``, ``loose`` with tensor cores that cut float32 to ten bits.
    """

    centre: Tensor | None
    scale: float
    dtype: Tensor
    slack: float
    loose: float

    def apply(self, points: Tensor) -> Tensor:
        """Points (r, d) as products take them."""
        if self.centre is not None:
            points = (points.double() - self.centre) * self.scale
        return points.to(self.dtype)

    def constants(self, device: str) -> Tensor:
        """What kernels need beyond float32: slacks, the floor, and factors with room for a last digit."""
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
        """Whether ten bits hold every feature."""
        return self.dtype in HALVES

    @property
    def precise(self) -> str:
        """The precision of products that `slack` goes with."""
        return "ieee" if self.is_exact else "tf32x3"


def fit_shape(sample: Tensor, dtype: Tensor, largest: float) -> Shape:
    """A shape for points like a sample (r, d) in float64, of which none has a feature beyond ``largest``.

    Features that are well placed stay as they are; others are centred, so that products do not cancel or overflow.
    """
    d = sample.shape[1]
    slack = 2.0 * gamma(CUT * (d + OTHER_UNITS)) + THREE_PARTS
    loose = slack + TEN_BITS
    few = sample[:: max(1, len(sample) // MEDIAN_ROWS)]
    # Sorted, since torch finds no median on a GPU where a caller asked for deterministic algorithms.
    centre = few.sort(dim=0).values[(len(few) - 1) // 2]
    spread = float(((few - centre) ** 2).sum(dim=1).median())
    if dtype != torch.float64 and 1e-6 < largest < 1e6 and float(centre @ centre) <= 2.0 * spread:
        return Shape(None, 1.0, dtype, slack, slack if dtype in HALVES else loose)
    if largest < FLOAT32_LARGEST:
        centre = centre.float().double()
    return Shape(centre, scale_for(largest), torch.float32, slack, loose)


@dataclass(frozen=True, slots=True)
class Shaped:
    """Points (r, d) as products take them, and their lengths (r,) in float32."""

    points: Tensor
    lengths: Tensor

    def __getitem__(self, rows: Any) -> "Shaped":
        return Shaped(self.points[rows], self.lengths[rows])


class DeviceReferences:
    """Labelled points and picks on the device, exact and shaped, with room for all picks to come."""

    def __init__(self, labelled: Matrix, points: DevicePoints, room: int, largest: float, device: str) -> None:
        self.n_labelled = len_of(labelled)
        source, rows = source_of(labelled, device)
        first = source.rows(slice(0, self.n_labelled) if rows is None else rows)
        if points.metric == "cosine" and len(first):
            first = unit_rows(first.double())
        n_pool = points.pool.shape[0]
        sample = points.exact(spread_out(n_pool, min(n_pool, SAMPLE_ROWS), device))
        dtype = torch.promote_types(sample.dtype, first.dtype) if len(first) else sample.dtype
        self.shape = fit_shape(sample.double(), dtype, largest)
        self.exact = torch.empty((self.n_labelled + room, sample.shape[1]), dtype=dtype, device=device)
        kept = self.exact if self.shape.centre is None else torch.empty_like(self.exact, dtype=torch.float32)
        self.shaped = Shaped(kept, torch.empty(len(self.exact), dtype=torch.float32, device=device))
        self.count = 0
        self.add(first)

    def widen(self, exact: Tensor) -> Tensor:
        """Exact points in the type that all references have."""
        return exact.to(self.exact.dtype)

    def shape_of(self, exact: Tensor) -> Shaped:
        """Exact points as products take them."""
        points = self.shape.apply(self.widen(exact))
        return Shaped(points, _lengths(points))

    def add(self, exact: Tensor) -> None:
        """More references."""
        span = slice(self.count, self.count + len(exact))
        self.exact[span] = exact
        if self.shape.centre is not None:
            self.shaped.points[span] = self.shape.apply(self.exact[span])
        self.shaped.lengths[span] = _lengths(self.shaped.points[span])
        self.count = span.stop


def _lengths(points: Tensor) -> Tensor:
    """In float32; every slack has room for how they were added."""
    return torch.linalg.vector_norm(points, dim=1, dtype=torch.float32)
