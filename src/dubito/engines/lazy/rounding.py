"""What rounding is worth: the constants that every bound of the engines is built from."""

import numpy as np
import numpy.typing as npt

from dubito.matrix import FloatArray

Float32Array = npt.NDArray[np.float32]

UNIT = 2.0**-24
"""Largest relative rounding error of float32."""
FLOAT32_LARGEST = 1e37
"""Magnitudes up to this have squares of differences that scaling brings into float32's range."""
FLOOR = 1e-30
"""Products that underflow float32 are below this, in scaled units, however many features are added."""
ROUND_UP = 1.0 + 1e-9
"""More than a few roundings of float64."""
SMALLEST = 1e-321
"""More than the rounding of a product too small for all its digits."""
MEDIAN_ROWS = 128
"""Points whose middle is the centre that all are shifted by."""


def squared_lengths(rows: Float32Array) -> FloatArray:
    """|x|² of each row, added in float32; `product_slack` has room for that."""
    squared: Float32Array = np.einsum("ij,ij->i", rows, rows)
    return squared.astype(np.float64)


def product_slack(width: int) -> float:
    """Bound on the error of ``|s|² + |t|² - 2·s·t`` in float32, against the points' squared lengths."""
    # Added one after another: width roundings in the lengths, and as many, of twice the product, in the product.
    return (2 * width + 32) * UNIT
