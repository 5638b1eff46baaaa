"""Numbers as the equations take and give them: checked on the way in, finite on the way out."""

import numpy as np
import numpy.typing as npt

from dubito.errors import InvalidArgument
from dubito.matrix import BoolArray, FloatArray

Numbers = npt.ArrayLike
LARGEST = float(np.finfo(np.float64).max)


def log_lambdas(lambda_c: Numbers, lambda_epsilon: Numbers) -> FloatArray:
    """ln(λ_c·λ_ε)."""
    return np.log(positive("lambda_c", lambda_c)) + np.log(positive("lambda_epsilon", lambda_epsilon))


def x_log_x(x: FloatArray) -> FloatArray:
    """x·ln x, which is 0 at x = 0."""
    return x * np.log(np.where(x > 0.0, x, 1.0))


def one_minus_exp(log_product: FloatArray) -> FloatArray:
    """1 - exp(log_product) clipped to [0, 1]; expm1 keeps the digits of a small β."""
    return np.abs(np.expm1(np.minimum(log_product, 0.0)))


def product(left: Numbers, right: Numbers) -> FloatArray:
    """Left times right, held among the finite float64."""
    with np.errstate(over="ignore", under="ignore"):
        # Plus 0.0: a product of nothing reads 0, not -0.
        return np.clip(np.multiply(left, right, dtype=np.float64), -LARGEST, LARGEST) + 0.0


def at_least(name: str, value: Numbers, least: float) -> FloatArray:
    """Numbers of at least ``least``, or an error."""
    return refuse(name, numbers := as_numbers(name, value), numbers < least, f"{name} >= {least:g}")


def positive(name: str, value: Numbers) -> FloatArray:
    """Numbers above 0, or an error."""
    return refuse(name, numbers := as_numbers(name, value), numbers <= 0.0, f"{name} > 0")


def share(name: str, value: Numbers) -> FloatArray:
    """Numbers from 0 to 1, or an error."""
    return refuse(name, numbers := at_least(name, value, 0.0), numbers > 1.0, f"{name} <= 1")


def as_numbers(name: str, value: Numbers) -> FloatArray:
    """Finite float64, or an error."""
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        problem = f"cannot be read as numbers ({error})"
        raise InvalidArgument(problem, argument=name, mend="pass numbers.") from error
    return refuse(name, numbers, ~np.isfinite(numbers), "finite numbers")


def refuse(name: str, numbers: FloatArray, bad: BoolArray, mend: str) -> FloatArray:
    """The numbers, or an error with the first bad one and where it stands."""
    if not np.any(bad):
        return numbers
    where = [int(i) for i in np.argwhere(bad)[0]]
    number = f"{numbers[tuple(where)]:g}"
    if where:
        problem = f"holds {number} at {where}, which cannot be used"
        raise InvalidArgument(problem, argument=name, mend=f"pass {mend}.")
    raise InvalidArgument("cannot be used", argument=name, value=numbers.item(), mend=f"pass {mend}.")
