"""Reading of the argument ``labels``: by row or by id, for some rows or for all."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dubito.errors import InvalidArgument, InvalidData, in_python, named
from dubito.matrix import AnyArray, IntArray, Matrix, Rows, len_of
from dubito.request.arrays import as_names
from dubito.request.columns import label_name
from dubito.request.ids import Ids, RowIds, column_of, columns_of, matching_ids, rows_of, split_ids
from dubito.request.labels import are_labels, as_labels
from dubito.request.rows import Labeled, labeled_in_order


class GivenLabels(NamedTuple):
    labeled: Labeled
    """All labeled points, including those whose label is not known."""
    features: Matrix
    """(m, d) features of the points with a label."""
    rows: IntArray | None
    """(m,) their rows in the pool, ascending; None if features were passed as ``labeled``."""
    values: AnyArray
    """(m,) integers, or text."""
    spelled: Mapping[object, str] | None = None
    """If all labels were passed as text, the text of each: "7" must be returned as text."""


class _Named(NamedTuple):
    """Labels of some rows of the pool."""

    rows: IntArray
    values: AnyArray


def check_no_label(no_label: object) -> list[str]:
    """Values that mean unlabeled, as text; ``no_label`` is one value or several."""
    if no_label is None:
        return []
    several = not isinstance(no_label, str) and isinstance(no_label, Iterable)
    return [str(each) for each in (no_label if several and isinstance(no_label, Iterable) else [no_label])]


def read_given(
    labels: Any, labeled: object, checked: Labeled, pool: Matrix, names: RowIds, no_label: object = None
) -> GivenLabels:
    """The labels without missing ones, and their rows or features.

    Parameters
    ----------
    labels : mapping, frame or array
        As in `dubito.fit`.
    labeled : object
        As passed by the user, which determines the order of the labels.
    checked : Labeled
        The same, checked.
    pool : array (n, d)
        The features.
    names : RowIds
        The ids of the pool rows.
    no_label : object
        Further values that mean unlabeled.
    """
    found = _by_name(labels, len_of(pool), names)
    is_all = labeled is None
    if found is None:
        values = as_names("labels", labels)
        if not is_all and not len(checked.rows) and values.shape == (len_of(checked.references),):
            return _of_features(values, checked, no_label)
        found = _by_order(values, labeled, checked, len_of(pool), names)
    elif not is_all:
        others = np.setdiff1d(found.rows, checked.rows)
        if len(others):
            problem = f"are of {len(others)} rows that are not labeled (row {others[0]})"
            hint = f"leave {named('labeled')} out, or label no others."
            raise InvalidArgument(problem, argument="labels", hint=hint)
    kept = are_labels("labels", found.values, check_no_label(no_label))
    rows, values = found.rows[kept], found.values[kept]
    order = np.argsort(rows, kind="stable")
    rows, texts = rows[order], values[order]
    values = as_labels(texts)
    seen = Labeled(Rows(pool, rows), rows, 0.0) if is_all else checked
    return GivenLabels(seen, Rows(pool, rows), rows, values, _spelled(values, texts))


def _of_features(values: AnyArray, checked: Labeled, no_label: object) -> GivenLabels:
    positions = np.flatnonzero(are_labels("labels", values, check_no_label(no_label)))
    texts = values[positions]
    values = as_labels(texts)
    return GivenLabels(checked, Rows(checked.references, positions), None, values, _spelled(values, texts))


def _spelled(values: AnyArray, texts: AnyArray) -> dict[object, str] | None:
    """The text of each label as it was first written; None if a label is not text."""
    given = texts.tolist()
    if not all(isinstance(text, str) for text in given):
        return None
    return {value: text.strip() for value, text in zip(reversed(values.tolist()), reversed(given), strict=True)}


def _by_order(values: AnyArray, labeled: object, checked: Labeled, n_pool: int, names: RowIds) -> _Named:
    """Labels in an array: of all pool rows, or of the labeled rows in their order."""
    if labeled is None:
        if values.shape != (n_pool,):
            hint = f"pass one for each of the {n_pool} pool rows{in_python(' (None for those without)')}, or by id."
            raise InvalidArgument(f"has shape {values.shape}", argument="labels", hint=hint)
        return _Named(np.arange(n_pool), values)
    rows = labeled_in_order(labeled, checked, n_pool, names)
    if values.shape not in ((n_pool,), (len(rows),)):
        hint = f"pass one for each of the {len(rows)} labeled rows, or of the {n_pool} pool rows."
        raise InvalidArgument(f"has shape {values.shape}", argument="labels", hint=hint)
    return _Named(rows, values[rows] if len(values) == n_pool else values)


def _by_name(labels: Any, n_pool: int, names: RowIds) -> _Named | None:
    """Labels in a mapping, or in a data frame with ids; None for an array."""
    if isinstance(labels, Mapping):
        keys = Ids("labels", _objects(labels), argument="labels")
        return _Named(_rows_of(keys, n_pool, names), _objects(labels.values()))
    value, own = split_ids("labels", labels)
    columns = columns_of(value)
    values = _only_column(value, columns) if columns else None
    if own.ids is None:
        return None if values is None else _Named(np.arange(n_pool), _checked_length(values, n_pool))
    values = as_names("labels", value) if values is None else values
    pair = matching_ids(own, names)
    return _Named(_rows_of(own.ids, n_pool, names) if pair is None else rows_of(*pair), values)


def _objects(values: Iterable[object]) -> AnyArray:
    """An object array: NumPy would convert a mixture of numbers and text to text."""
    each = list(values)
    array = np.empty(len(each), dtype=object)
    array[:] = each
    return array


def _only_column(frame: Any, columns: list[str]) -> AnyArray:
    name = label_name(columns) or (columns[0] if len(columns) == 1 else None)
    if name is None:
        problem = f"has the columns {', '.join(columns)}, none of them called label"
        raise InvalidArgument(problem, argument="labels", hint="pass one column, and optionally ids.")
    return column_of("labels", frame, name)


def _checked_length(values: AnyArray, n_pool: int) -> AnyArray:
    if len(values) != n_pool:
        hint = f"give it ids, or pass one label for each of the {n_pool} pool rows."
        raise InvalidArgument(f"has {len(values)} rows without ids", argument="labels", hint=hint)
    return values


def _rows_of(ids: Ids, n_pool: int, names: RowIds) -> IntArray:
    """The rows with these ids, or row numbers if the pool has no ids."""
    if names.ids is not None:
        return rows_of(ids, names.ids)
    numbers = {str(row): row for row in range(n_pool)}
    strange = [row for row, key in enumerate(ids.keys) if key not in numbers]
    if strange:
        problem = f"names {ids.shown(strange)}, and the pool has no ids, only row numbers, 0 to {n_pool - 1}"
        raise InvalidData(problem, argument="labels", hint=f"pass {named('ids')}, or labels by row number.")
    rows = np.array([numbers[key] for key in ids.keys], dtype=np.int64)
    if len(np.unique(rows)) < len(rows):
        raise InvalidData("name a row twice", argument="labels", hint="give each row one label.")
    return rows
