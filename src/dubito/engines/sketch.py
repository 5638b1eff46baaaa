"""Lower bounds on distances from a few numbers a point: its sketch.

A `Sketch` maps a point to its coordinates along k orthonormal directions, and the length of what they miss. By
Pythagoras and the triangle inequality, the distance between two sketches never exceeds the distance between the
points. Features of trained networks vary mostly along few directions, so that the 64 largest say which
references can be nearest, at an eighth of the cost of the 512 features. Where d is small, or a sketch turns out to
say nothing, the points themselves are their own sketch.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dubito.matrix import FloatArray

Float32Array = npt.NDArray[np.float32]

UNIT = 2.0**-24
"""Largest relative rounding error of float32."""
FLOAT32_LARGEST = 1e37
FLOOR = 1e-30
"""Products that underflow float32 are below this, in scaled units, however many features are added."""
SKETCH_WIDTH = 64
NARROWEST = 160
"""Fewer features than this are compared as they are."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """A linear map to few coordinates, with a bound on all rounding in comparing its results.

    Points are moved by ``-centre`` and multiplied by ``scale``, a power of two, so that float32 neither loses them in
    cancellation nor overflows. ``slack`` is such that for sketches s, t of points x, y
    ``|s|² + |t|² - 2·s·t - slack·(|s|² + |t|²) - FLOOR <= scale²·Δ²(x, y)`` as computed in float32 with any order of
    additions.
    """

    centre: FloatArray
    """(d,) representable in float32 where the features are, so that both precisions shift by the same vector."""
    scale: float
    directions: FloatArray | None
    slack: float

    @property
    def width(self) -> int:
        """Numbers in a sketch."""
        return len(self.centre) if self.directions is None else self.directions.shape[1] + 1

    def shift(self, points: FloatArray) -> FloatArray:
        """Centred and scaled points (r, d), in place."""
        points -= self.centre
        points *= self.scale
        return points

    @property
    def fits_float32(self) -> bool:
        """Whether features, centre and scale are all within float32's range."""
        return 1.0 / FLOAT32_LARGEST < self.scale < FLOAT32_LARGEST

    def shift32(self, points: Float32Array) -> Float32Array:
        """The same for float32 points: one rounding of the difference, as `shift` has after it."""
        points -= self.centre.astype(np.float32)
        points *= np.float32(self.scale)
        return points

    def apply(self, shifted: FloatArray) -> Float32Array:
        """Sketches (r, k + 1) of shifted points; the points themselves where there are no directions."""
        if self.directions is None:
            return shifted.astype(np.float32)
        along = shifted @ self.directions
        missed = np.einsum("ij,ij->i", shifted, shifted) - np.einsum("ij,ij->i", along, along)
        return np.column_stack([along, np.sqrt(np.maximum(missed, 0.0))]).astype(np.float32)


def plain_sketch(sample: FloatArray, largest: float) -> Sketch:
    """The points themselves, centred on a sample's mean and scaled by the largest feature there is."""
    centre = sample.mean(axis=0)
    if largest < FLOAT32_LARGEST:
        centre = centre.astype(np.float32).astype(np.float64)
    return Sketch(centre, _power_of_two(2.0 * largest), None, product_slack(sample.shape[1]))


def whole(sketch: Sketch) -> Sketch:
    """The points themselves, shifted as a sketch shifts them."""
    return replace(sketch, directions=None, slack=product_slack(len(sketch.centre)))


def fit_sketch(sample: FloatArray, largest: float) -> Sketch:
    """Directions of largest variance in a sample (r, d), found by subspace iteration from a fixed start.

    Any directions give true bounds; good ones give tight bounds.
    """
    plain = plain_sketch(sample, largest)
    if sample.shape[1] < NARROWEST or len(sample) < 2 * SKETCH_WIDTH:
        return plain
    centred = plain.shift(sample.copy()).astype(np.float32)
    basis = np.random.default_rng(0).standard_normal((sample.shape[1], SKETCH_WIDTH)).astype(np.float32)
    for _ in range(3):
        basis, _ = np.linalg.qr(centred.T @ (centred @ basis))
    directions, _ = np.linalg.qr(basis.astype(np.float64))
    # In float64 the missed length is off by at most sqrt((2·sqrt(k) + 1)·d·2^-53) of a point's own, and what a
    # sketch is off by counts four times against |s|² + |t|².
    own = 4.0 * np.sqrt((2.0 * np.sqrt(SKETCH_WIDTH) + 1.0) * sample.shape[1] * 2.0**-53) + 16.0 * UNIT
    return Sketch(plain.centre, plain.scale, directions, product_slack(SKETCH_WIDTH + 1) + own)


def product_slack(width: int) -> float:
    """Bound on the relative error of ``|s|² + |t|² - 2·s·t`` in float32, against ``|s|² + |t|²``."""
    return (width + 32) * UNIT


def _power_of_two(largest: float) -> float:
    """Brings numbers up to ``largest`` to about 1 without rounding them; its square and its inverse stay finite."""
    return float(2.0 ** -np.clip(np.frexp(largest)[1], -480, 480))
