"""Frames: what their rows are called, and rows put in the pool's order by that. Their packages are not imported."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dubito.checks.arrays import as_array
from dubito.checks.rows import Features, check_features
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import AnyArray, len_of
from dubito.names import Ids, RowNames, matching_ids, order_of
from dubito.names.columns import IDS, could_be_index, index_names, no_features, usual


def take_names(name: str, value: Any) -> tuple[Any, RowNames]:
    """What was handed in without its columns of ids, and what its rows are called.

    Only frames name their rows: pandas by an index, any by a column ``id`` or ``ids`` (or ``index``, as pandas calls
    one that was made a column). All else is given back as it is.
    """
    columns = columns_of(value)
    is_pandas = type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "iloc")
    own = value.index if is_pandas else None
    index = None if own is None else _ids(name, np.asarray(own))
    id_column = usual(columns, IDS)
    column = None if id_column is None else _ids(name, column_of(name, value, id_column))
    taken = [] if id_column is None else [id_column]
    for each in index_names(columns):
        values = column_of(name, value, each)
        if could_be_index(each, values):
            taken.append(each)
            index = _ids(name, values) if RowNames(None, index).ids is None else index
    return (_without(value, taken) if taken else value), RowNames(column, index)


def check_pool(pool: Any, ids: object = None) -> tuple[Features, RowNames]:
    """A pool's features, and what its rows are called."""
    value, names = take_names("pool", pool)
    _refuse_strays(value)
    features = check_features("pool", value)
    if ids is None:
        return features, names
    return features, RowNames(_check_ids(ids, len_of(features.matrix)), names.index)


def feature_names(pool: Any) -> list[str]:
    """The names of a frame's columns that are features; none for what is no frame, or where they are numbers."""
    columns = columns_of(pool)
    ids = usual(columns, IDS)
    odd = {ids, *(each for each in index_names(columns) if could_be_index(each, column_of("pool", pool, each)))}
    return [name for name in columns if name not in odd]


def in_pool_order(name: str, value: Any, pool: RowNames, n_pool: int) -> Any:
    """A row for each row of the pool, by ids where both have ids; otherwise as it is."""
    value, own = take_names(name, value)
    if own.ids is None and (own.index is None or pool.ids is None):
        return value
    pair = matching_ids(own, pool)
    if pair is not None:
        order = order_of(*pair)
        return value if (order == np.arange(n_pool)).all() else as_array(name, value)[order]
    if own.ids is not None and own.ids is own.index and pool.index is not None:
        mend = f"give both one index, or pass {name}.to_numpy() if their rows are in one order."
        raise InvalidData("has an index of its own, and the pool's are row numbers", argument=name, mend=mend)
    return value


def _refuse_strays(pool: Any) -> None:
    """A frame's column that is no feature by its name, such as ``label``, is asked about: it would be one unseen."""
    strays = no_features(columns_of(pool))
    if strays:
        problem = f"has the column {strays[0]!r}, which is no feature by its name"
        mend = f"leave it out (as pool.drop(columns={strays!r}) does in pandas), or rename it if it is one."
        raise InvalidArgument(problem, argument="pool", mend=mend)


def _check_ids(ids: object, n_pool: int) -> Ids:
    """(n,) unique names."""
    values = np.asarray(ids)
    if values.shape != (n_pool,):
        raise InvalidArgument(f"has shape {values.shape}", argument="ids", mend=f"pass one a row, shape ({n_pool},).")
    checked = Ids("ids", values, argument="ids")
    if checked.repeated is not None:
        first, second = checked.repeated
        raise checked.wrong(
            f"holds {checked.shown([first])} more than once (rows {first} and {second})", "pass each once."
        )
    return checked


def columns_of(value: Any) -> list[str]:
    """The names of a frame's columns that are text, in order; none for a Series or an Arrow column."""
    if type(value).__module__.partition(".")[0] not in {"pandas", "polars", "pyarrow"}:
        return []
    names = value.column_names if hasattr(value, "column_names") else getattr(value, "columns", ())
    return [str(name) for name in names if isinstance(name, str)]


def column_of(name: str, frame: Any, column: str) -> AnyArray:
    """The values of a frame's column; ``name`` is the argument's."""
    found = frame.column(column) if hasattr(frame, "column_names") else frame[column]
    if len(getattr(found, "shape", (0,))) > 1:
        raise InvalidArgument(f"has two columns called {column!r}", argument=name, mend="rename one.")
    if hasattr(found, "to_pylist"):
        return np.array(found.to_pylist())
    return np.asarray(found.to_numpy())


def _without(frame: Any, names: Sequence[str]) -> Any:
    if hasattr(frame, "column_names"):
        return frame.select([name for name in frame.column_names if name not in names])
    return frame.drop(columns=list(names)) if hasattr(frame, "iloc") else frame.drop(list(names))


def _ids(name: str, values: AnyArray) -> Ids:
    return Ids(name, values, argument=name)
