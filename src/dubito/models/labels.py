"""The argument ``labels``: by row or by id, for some rows or for all."""

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


class KnownLabels(NamedTuple):
    """The labels that were passed, without missing ones."""

    labeled: Labeled
    """All labeled points, including those whose label is missing."""
    features: Matrix
    """(m, d) features of the points with a label."""
    rows: IntArray | None
    """(m,) their rows in the pool, ascending; None if features were passed as ``labeled``."""
    values: AnyArray
    """(m,) integers, or text."""
    texts: Mapping[object, str] | None = None
    """If all labels were passed as text, the text of each value: "7" must be returned as text."""


RowLabels = tuple[IntArray, AnyArray]
"""Rows of the pool, and the label of each."""


def check_no_label(no_label: object) -> list[str]:
    """Values that mean unlabeled, as text; ``no_label`` is one value or several."""
    if no_label is None:
        return []
    if isinstance(no_label, Iterable) and not isinstance(no_label, str):
        return [str(each) for each in no_label]
    return [str(no_label)]


def parse_labels(
    labels: Any, labeled: object, checked: Labeled, pool: Matrix, names: RowIds, no_label: object = None
) -> KnownLabels:
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
    with_rows = _labels_with_rows(labels, len_of(pool), names)
    if with_rows is None:
        values = as_names("labels", labels)
        if labeled is not None and not len(checked.rows) and values.shape == (len_of(checked.references),):
            return _labels_of_features(values, checked, no_label)
        with_rows = _labels_in_order(values, labeled, checked, len_of(pool), names)
    elif labeled is not None:
        others = np.setdiff1d(with_rows[0], checked.rows)
        if len(others):
            problem = f"are of {len(others)} rows that are not labeled (row {others[0]})"
            hint = f"leave {named('labeled')} out, or label no others."
            raise InvalidArgument(problem, argument="labels", hint=hint)
    rows, given = with_rows
    kept = are_labels("labels", given, check_no_label(no_label))
    rows, given = rows[kept], given[kept]
    order = np.argsort(rows, kind="stable")
    rows, given = rows[order], given[order]
    values = as_labels(given)
    all_labeled = Labeled(Rows(pool, rows), rows, 0.0) if labeled is None else checked
    return KnownLabels(all_labeled, Rows(pool, rows), rows, values, _texts_of_values(values, given))


def _labels_of_features(given: AnyArray, checked: Labeled, no_label: object) -> KnownLabels:
    positions = np.flatnonzero(are_labels("labels", given, check_no_label(no_label)))
    given = given[positions]
    values = as_labels(given)
    return KnownLabels(checked, Rows(checked.references, positions), None, values, _texts_of_values(values, given))


def _texts_of_values(values: AnyArray, given: AnyArray) -> dict[object, str] | None:
    """The text of each label as it was first written; None if a label is not text."""
    texts = given.tolist()
    if not all(isinstance(text, str) for text in texts):
        return None
    return {value: text.strip() for value, text in zip(reversed(values.tolist()), reversed(texts), strict=True)}


def _labels_in_order(values: AnyArray, labeled: object, checked: Labeled, n_pool: int, names: RowIds) -> RowLabels:
    """Labels in an array: of all pool rows, or of the labeled rows in their order."""
    if labeled is None:
        if values.shape != (n_pool,):
            hint = f"pass one for each of the {n_pool} pool rows{in_python(' (None for those without)')}, or by id."
            raise InvalidArgument(f"has shape {values.shape}", argument="labels", hint=hint)
        return np.arange(n_pool), values
    rows = labeled_in_order(labeled, checked, n_pool, names)
    if values.shape not in ((n_pool,), (len(rows),)):
        hint = f"pass one for each of the {len(rows)} labeled rows, or of the {n_pool} pool rows."
        raise InvalidArgument(f"has shape {values.shape}", argument="labels", hint=hint)
    return rows, values[rows] if len(values) == n_pool else values


def _labels_with_rows(labels: Any, n_pool: int, names: RowIds) -> RowLabels | None:
    """Labels in a mapping or a data frame; None for an array."""
    if isinstance(labels, Mapping):
        keys = Ids("labels", _object_array(labels), argument="labels")
        return _rows_of(keys, n_pool, names), _object_array(labels.values())
    values, ids = split_ids("labels", labels)
    columns = columns_of(values)
    if columns:
        values = _label_column(values, columns)
    if ids.ids is not None:
        values = values if columns else as_names("labels", values)
        pair = matching_ids(ids, names)
        return _rows_of(ids.ids, n_pool, names) if pair is None else rows_of(*pair), values
    if not columns:
        return None
    if len(values) != n_pool:
        hint = f"give it ids, or pass one label for each of the {n_pool} pool rows."
        raise InvalidArgument(f"has {len(values)} rows without ids", argument="labels", hint=hint)
    return np.arange(n_pool), values


def _object_array(values: Iterable[object]) -> AnyArray:
    """An object array: NumPy would convert a mixture of numbers and text to text."""
    listed = list(values)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def _label_column(frame: Any, columns: list[str]) -> AnyArray:
    name = label_name(columns) or (columns[0] if len(columns) == 1 else None)
    if name is None:
        problem = f"has the columns {', '.join(columns)}, none of them called label"
        raise InvalidArgument(problem, argument="labels", hint="pass one column, and optionally ids.")
    return column_of("labels", frame, name)


def _rows_of(ids: Ids, n_pool: int, names: RowIds) -> IntArray:
    """The rows with these ids, or row numbers if the pool has no ids."""
    if names.ids is not None:
        return rows_of(ids, names.ids)
    numbers = {str(row): row for row in range(n_pool)}
    unknown = [row for row, key in enumerate(ids.keys) if key not in numbers]
    if unknown:
        problem = f"names {ids.shown(unknown)}, and the pool has no ids, only row numbers, 0 to {n_pool - 1}"
        raise InvalidData(problem, argument="labels", hint=f"pass {named('ids')}, or labels by row number.")
    rows = np.array([numbers[key] for key in ids.keys], dtype=np.int64)
    if len(np.unique(rows)) < len(rows):
        raise InvalidData("name a row twice", argument="labels", hint="give each row one label.")
    return rows
