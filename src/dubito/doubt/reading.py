"""Validation of the arguments ``probabilities``, ``logits``, ``doubt`` and ``temperature``."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from dubito.doubt.measures import Softmax, doubt_from_logits, doubt_from_probabilities
from dubito.errors import InvalidArgument, InvalidData, at_row, by_interface, keyword, named
from dubito.matrix import AnyArray, FloatArray, Matrix, OnDevice
from dubito.request.arrays import as_array, as_matrix, as_names, check_finite, check_real
from dubito.request.columns import refuse_two_sources
from dubito.request.ids import NO_IDS, RowIds, feature_names, in_pool_order
from dubito.request.labels import label_keys
from dubito.request.rows import Labeled, labeled_in_order

SUM_TOLERANCE = {2: 0.02, 4: 1e-3, 8: 1e-4}
"""Tolerance of the sum of a row of probabilities, by item size."""
BFLOAT16_TOLERANCE = 0.06
ROUNDED, MOST_ROUNDED = 0.02, 0.08
"""Bounds on the tolerance for sums of rounded probabilities, which grows with the number of classes."""
INSPECTED_ROWS = 10_000
"""Number of rows that are inspected for columns that are not classes."""
MOST_SHOWN = 4
"""Maximum number of values of a row in a message."""
LEAST, MOST = 1e-6, 1e6
"""Allowed range of a given temperature."""
FIT = "fit"
DOUBT_SOURCES = f"{keyword('probabilities')}, {keyword('logits')} or {keyword('doubt')}"
"""The arguments that provide doubt, for messages."""


class Temperature(NamedTuple):
    """Divisor of the logits."""

    value: float
    note: str | None = None
    """How it was fitted, for the user."""


def read_doubt(
    n_pool: int,
    probabilities: object = None,
    logits: object = None,
    doubt: object = None,
    *,
    pool_ids: RowIds = NO_IDS,
    temperature: float = 1.0,
) -> tuple[Matrix | None, FloatArray | None]:
    """Probabilities and doubt from the one source that was given; (None, None) if none was.

    Rows are matched by id if both the source and the pool have ids. Logits are divided by ``temperature``.

    Examples
    --------
    >>> read_doubt(2, doubt=[0.5, 0.25])[1].tolist()
    [0.5, 0.25]
    """
    sources = {"probabilities": probabilities, "logits": logits, "doubt": doubt}
    given = [name for name, value in sources.items() if value is not None]
    if not given:
        return None, None
    refuse_two_sources(given)
    (source,) = given
    value = in_pool_order(source, sources[source], pool_ids, n_pool)
    if source == "probabilities":
        checked = check_probabilities(value, n_pool, feature_names(sources[source]))
        return checked, doubt_from_probabilities(checked)
    if source == "logits":
        checked = _divided(check_logits(value, n_pool), temperature)
        return Softmax(checked), doubt_from_logits(checked)
    return None, check_doubt(value, n_pool)


def _divided(logits: Matrix, temperature: float) -> Matrix:
    if temperature == 1.0:
        return logits
    if isinstance(logits, OnDevice):
        wide = logits.tensor.double()
        return OnDevice(wide / wide.new_full((1,), temperature))  # For a scalar, torch would multiply by the inverse.
    return np.asarray(logits[:], dtype=np.float64) / temperature


def check_doubt(doubt: object, n_pool: int) -> FloatArray:
    """(n,) numbers in [0, 1] as read-only float64, since the memory may be the caller's."""
    array = as_array("doubt", doubt)
    if array.shape == (n_pool, 1):
        array = array[:, 0]  # A data frame with one column.
    if array.shape != (n_pool,):
        hint = f"pass one number per pool row, shape ({n_pool},)."
        raise InvalidArgument(f"has shape {array.shape}", argument="doubt", hint=hint)
    largest = check_finite("doubt", array)
    if len(array) and (largest > 1 or array.min() < 0):
        row = int(np.argmax((array < 0) | (array > 1)))
        problem = f"holds {array[row]:g} at {at_row(row)}"
        raise InvalidData(problem, argument="doubt", hint="pass numbers from 0 to 1.")
    wide = array.astype(np.float64, copy=False).view()
    wide.flags.writeable = False
    return wide


def check_logits(logits: object, n_pool: int) -> Matrix:
    """(n, c) finite numbers; raises InvalidData for probabilities and percentages."""
    matrix = _check_rows_of_classes("logits", logits, n_pool, (2,))
    if isinstance(matrix, OnDevice) and n_pool and matrix.extremes[0] < 0.0:
        return matrix  # A negative number: not probabilities, so nothing is copied from the device.
    array: AnyArray = matrix[:]
    is_share = len(array) > 1 and array.min() >= 0  # A single row may look like this by chance.
    total = next((each for each in (1.0, 100.0) if is_share and _sum_to(array, each)), None)
    if total is not None:
        first = ", ".join(f"{number:g}" for number in array[0, :MOST_SHOWN].tolist())
        content, hint = ("probabilities", "") if total == 1.0 else ("percent", ", divided by 100")
        raise InvalidData(
            f"are {content}: all numbers are >= 0, and every row sums to {total:g} ({first} at {at_row(0)})",
            argument="logits",
            hint=f"pass them as {keyword('probabilities')}{hint}.",
        )
    return matrix


def _sum_to(array: AnyArray, total: float) -> bool:
    """Whether every row sums to ``total``, up to rounding."""
    sums = array.sum(axis=-1, dtype=np.float64) / total
    return bool((np.abs(sums - 1.0) <= _rounding_tolerance(array.shape[-1])).all())


def _rounding_tolerance(n_classes: int) -> float:
    """Tolerance of a row sum if each class was rounded to two decimals."""
    return min(max(ROUNDED, 0.005 * n_classes), MOST_ROUNDED)


def check_probabilities(probabilities: object, n_pool: int, columns: Sequence[str] = ()) -> Matrix:
    """(n, c) or (n, k, c) probabilities whose rows sum to one; ``columns`` are the names of the classes, if known."""
    matrix = _check_rows_of_classes("probabilities", probabilities, n_pool, (2, 3))
    is_bfloat16 = str(getattr(probabilities, "dtype", "")) == "torch.bfloat16"
    tolerance = BFLOAT16_TOLERANCE if is_bfloat16 else SUM_TOLERANCE.get(matrix.dtype.itemsize, 1e-4)
    if isinstance(matrix, OnDevice) and len(matrix.shape) == 2:
        from dubito.doubt.device import sum_to_one

        if sum_to_one(matrix.tensor, min(tolerance, ROUNDED)):
            return matrix
    array: AnyArray = matrix[:]
    check_columns_are_classes(array, columns)
    if array.min() < 0:
        at = tuple(int(i) for i in np.argwhere(array < 0)[0])
        problem = f"holds {array[at]:g} at {at_row(at[0])}"
        hint = f"pass numbers from 0 to 1, or raw scores as {keyword('logits')}."
        raise InvalidData(problem, argument="probabilities", hint=hint)
    sums = array.sum(axis=-1, dtype=np.float64)
    wrong = ~(np.abs(sums - 1.0) <= tolerance)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        hint = _hint_for_sums(sums[wrong], array.shape[-1])
        raise InvalidData(f"sum to {sums[at]:g} at {at_row(at[0])}", argument="probabilities", hint=hint)
    return array


def check_columns_are_classes(probabilities: AnyArray, columns: Sequence[str] = ()) -> None:
    """Raise if one column is not a class, such as a year or the sum of the others: without it, rows sum to 1.

    ``columns`` are the names of the columns, if known. Only the first rows without NaN are inspected.
    """
    extra = _extra_column(probabilities)
    if extra is None:
        return
    name = columns[extra] if len(columns) == probabilities.shape[-1] else None
    option = "" if name is None else f"pass --ignore-columns {name}, or "
    raise InvalidData(
        f"sum to 1 in every row without column {extra if name is None else repr(name)}, and not with it",
        argument="probabilities",
        hint=by_interface("leave that column out.", command=f"{option}remove that column from the file."),
    )


def _extra_column(array: AnyArray) -> int | None:
    """The column of (n, c) that must be left out for rows to sum to 1; None if there is none, or if rows already do."""
    if array.ndim != 2 or array.shape[1] < 3:
        return None
    known = array[:INSPECTED_ROWS].astype(np.float64)
    known = known[np.isfinite(known).all(axis=1)]
    sums, rounded = known.sum(axis=1), _rounding_tolerance(array.shape[1])
    if not len(known) or (np.abs(sums - 1.0) <= rounded).all():
        return None
    extras = np.flatnonzero((np.abs(sums[:, None] - known - 1.0) <= rounded).all(axis=0)).tolist()
    is_share = ((known >= 0.0) & (known <= 1.0)).all(axis=0)
    return next((extra for extra in extras if np.delete(is_share, extra).all()), None)


def _hint_for_sums(sums: FloatArray, n_classes: int) -> str:
    """The hint for rows with these sums, which may be rounded or in percent."""
    rounded = _rounding_tolerance(n_classes)
    if (np.abs(sums - 1.0) <= rounded).all():
        return "pass rows that sum to 1: these look rounded, so divide each row by its sum."
    if (np.abs(sums / 100.0 - 1.0) <= rounded).all():
        return "pass rows that sum to 1: these look like percent, so divide each row by its sum (100 up to rounding)."
    return f"pass rows that sum to 1 (pass raw scores as {named('logits')})."


def _check_rows_of_classes(name: str, value: object, n_pool: int, dimensions: tuple[int, ...]) -> Matrix:
    matrix = as_matrix(name, value)
    shape = matrix.shape
    if len(shape) not in dimensions or shape[0] != n_pool or shape[-1] < 2 or shape[1] < 1:
        samples = f", or ({n_pool}, k, classes) of k posterior samples" if 3 in dimensions else ""
        hint = (
            f"pass one row of at least two classes for each of the {n_pool} pool rows, "
            f"shape ({n_pool}, classes){samples}."
        )
        if len(shape) in dimensions and 0 < shape[0] < n_pool:
            hint += " If these are the unlabeled rows only, predict the labeled ones too: rows are matched by order."
        raise InvalidArgument(f"has shape {shape}", argument=name, hint=hint)
    check_finite(name, matrix)
    return matrix


def check_temperature(temperature: object) -> float | None:
    """A number from `LEAST` to `MOST`; None for ``"fit"``."""
    if isinstance(temperature, str) and temperature == FIT:
        return None
    with suppress(InvalidArgument):
        return check_real("temperature", temperature, least=LEAST, most=MOST)
    hint = f"pass a number from {LEAST:g} to {MOST:g}, or {FIT!r}."
    raise InvalidArgument("is not allowed", argument="temperature", value=temperature, hint=hint)


def find_temperature(
    temperature: object,
    logits: object,
    labels: object,
    labeled: object,
    checked: Labeled,
    n_pool: int,
    pool_ids: RowIds = NO_IDS,
) -> Temperature:
    """The temperature given, or fitted on the labeled rows; ``checked`` is ``labeled`` after its checks."""
    number = check_temperature(temperature)
    if logits is None:
        hint = f"pass {keyword('logits')} instead of probabilities."
        raise InvalidArgument("needs logits", argument="temperature", value=temperature, hint=hint)
    if number is not None:
        return Temperature(number)
    rows = labeled_in_order(labeled, checked, n_pool, pool_ids)
    values = None if labels is None else as_names("labels", labels)
    if values is None or len(rows) == 0:
        raise _needs_labels(temperature)
    if values.shape not in ((n_pool,), (len(rows),)):
        hint = f"pass one for each of the {len(rows)} labeled rows, or of the {n_pool} pool rows."
        raise InvalidArgument(f"has shape {values.shape}", argument="labels", hint=hint)
    from dubito.doubt.temperature import fit_temperature

    array = check_logits(in_pool_order("logits", logits, pool_ids, n_pool), n_pool)
    values = values[rows] if len(values) == n_pool else values
    is_known = np.array([key != "" for key in label_keys(values)], dtype=np.bool_)
    if not is_known.any():
        raise _needs_labels(temperature)
    fitted, n_labels = fit_temperature(array[rows[is_known]], values[is_known]), int(is_known.sum())
    note = fitted.note or f"temperature {fitted.value:.4g}, fitted on {n_labels} labeled row{'s' * (n_labels != 1)}"
    return Temperature(fitted.value, note)


def _needs_labels(temperature: object) -> InvalidArgument:
    hint = by_interface(
        "pass labels= and their rows as labeled=, or a number.",
        command="fill in a column label, in the pool or in a table for --labeled, or pass a number.",
    )
    problem = "needs the classes of labeled rows of the pool"
    return InvalidArgument(problem, argument="temperature", value=temperature, hint=hint)
