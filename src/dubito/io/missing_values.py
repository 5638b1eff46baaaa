"""Missing values (empty cells, nulls, NaN): count them, fill them in, or drop their rows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple

import numpy as np

from dubito.errors import InvalidData, by_interface
from dubito.matrix import AnyArray, IntArray, Matrix, blocks, len_of, rows_per_read

Missing = Literal["median", "drop"]
MOST_NAMED = 8
"""Maximum number of columns in a message."""
HINT = by_interface(
    "fill them in or drop those rows first.",
    command="pass --missing median to fill in each column's median, or --missing drop to leave those rows out.",
    toml='set missing = "median" to fill in each column\'s median, or missing = "drop" to leave those rows out.',
)
PLAIN_NUMBER = by_interface(
    "write plain numbers, or drop such rows",
    command="write plain numbers, or leave the cell empty and pass --missing median or --missing drop",
    toml='write plain numbers, or leave the cell empty and set missing = "median" or "drop"',
)
"""The hint for text in a column of numbers."""

_as_nan: ContextVar[bool] = ContextVar("missing_as_nan", default=False)


@contextmanager
def missing_as_nan() -> Iterator[None]:
    """Read empty cells and nulls in number columns as NaN in the block, instead of raising on the first."""
    token = _as_nan.set(True)
    try:
        yield
    finally:
        _as_nan.reset(token)


def reads_missing_as_nan() -> bool:
    return _as_nan.get()


class CompleteFeatures(NamedTuple):
    features: Matrix
    rows: IntArray | None = None
    """The rows of the file that were kept, ascending; None if all were."""
    note: str | None = None


def fill_or_drop_missing(
    path: str, features: Matrix, names: Sequence[str], missing: Missing | None, like: AnyArray | None = None
) -> CompleteFeatures:
    """Fill in missing values or drop their rows; raises InvalidData with their number if ``missing`` is None.

    Parameters
    ----------
    path : str
        The file, for messages.
    features : array (n, d)
        NaN marks missing values.
    names : sequence of str
        The names of the columns; empty for an array.
    missing : {"median", "drop"}, optional
        What to do.
    like : array (m, d), optional
        Rows without missing values from which the medians are computed, instead of ``features``.

    Examples
    --------
    >>> values = np.array([[1.0, np.nan], [3.0, 5.0], [np.nan, 7.0]])
    >>> fill_or_drop_missing("pool.csv", values, ["age", "pay"], "median").features.tolist()
    [[1.0, 6.0], [3.0, 5.0], [2.0, 7.0]]
    >>> fill_or_drop_missing("pool.csv", values, ["age", "pay"], "drop").rows.tolist()
    [1]
    """
    if features.dtype.kind != "f" or len(features.shape) != 2:
        return CompleteFeatures(features)
    counts, found = np.zeros(features.shape[1], dtype=np.int64), []
    for span in blocks(len_of(features), rows_per_read(features)):
        is_missing = np.isnan(features[span])
        counts += is_missing.sum(axis=0)
        found.append(np.flatnonzero(is_missing.any(axis=1)) + span.start)
    if not counts.any():
        return CompleteFeatures(features)
    rows = np.concatenate(found)
    first, total = int(rows[0]), int(counts.sum())
    column = int(np.argmax(np.isnan(features[first : first + 1])))
    where = _describe_columns(counts, names) if names else f"the first is nan at row {first}, column {column}"
    missing_in = f"{total:,} missing value{'s' * (total != 1)} in {len(rows):,} of {len_of(features):,} rows"
    problem = f"{path} has {missing_in} ({where})"
    if missing is None:
        raise InvalidData(problem, hint=HINT)
    if missing == "median":
        filled = _filled(path, np.asarray(features[:]), counts, names, like)
        return CompleteFeatures(filled, None, f"{problem}; medians were filled in")
    kept = np.setdiff1d(np.arange(len_of(features)), rows)
    if not len(kept):
        raise InvalidData(f"{problem}: no row is left", hint="leave out the columns that are nearly empty.")
    return CompleteFeatures(np.asarray(features[kept]), kept, f"{problem}; those rows are left out")


def _describe_columns(counts: IntArray, names: Sequence[str]) -> str:
    """The number of missing values per column, largest first, for a message."""
    order = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())].tolist()
    more = [f"{len(order) - MOST_NAMED} more columns"] if len(order) > MOST_NAMED else []
    return ", ".join([*(f"{names[column]} {counts[column]}" for column in order[:MOST_NAMED]), *more])


def _filled(path: str, values: AnyArray, counts: IntArray, names: Sequence[str], like: AnyArray | None) -> AnyArray:
    empty = np.flatnonzero(counts == len(values))
    if len(empty) and like is None:
        hint = by_interface("leave it out.", command="leave it out with --feature-columns or --ignore-columns.")
        name = names[empty[0]] if len(names) > empty[0] else f"column {empty[0]}"
        raise InvalidData(f"{path} has no values in {name}", hint=hint)
    medians = np.nanmedian(values if like is None else like, axis=0)
    return np.where(np.isnan(values), medians.astype(values.dtype), values)
