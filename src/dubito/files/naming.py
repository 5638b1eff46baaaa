"""What the rows of a file are called: a column or an array of ids, and the index of a pandas frame that was saved."""

import numpy as np

from dubito.errors import InvalidData
from dubito.files.entries import Source, whole
from dubito.matrix import AnyArray
from dubito.names import Ids, RowNames
from dubito.names.columns import IDS, could_be_index, index_names, usual
from dubito.wording import by_door


def index_columns(source: Source) -> list[str]:
    """The columns of a table that are a frame's index, by what the file tells or by their names."""
    if not source.is_table:
        return []
    named = [name for name in index_names(source.names) if name not in source.index]
    return [*source.index, *(name for name in named if _is_index(source, name))]


def find_names(source: Source, id_column: str | None, n_rows: int) -> RowNames:
    """What the rows of a file are called.

    Parameters
    ----------
    source : Source
        A file that was opened.
    id_column : str, optional
        The name given for the ids; where the file has none of that name, ``ids`` or ``id`` is taken.
    n_rows : int
        How many rows there are to name: a file of other arrays may have ids for something else.
    """
    names = [name for name in source.names if name]
    chosen = id_column if id_column in names else usual(names, IDS)
    column = None if chosen is None else _checked(source, chosen, n_rows)
    return RowNames(column, _index(source, n_rows, needed=column is None))


def _index(source: Source, n_rows: int, *, needed: bool) -> Ids | None:
    levels = index_columns(source)
    if len(levels) > 1:
        if needed:
            option = by_door("Columns(id=)", command="--id-column", toml="id_column")
            raise InvalidData(
                f"{source.path} has an index of {len(levels)} columns ({', '.join(map(repr, levels))})",
                mend=f"say which of them tells rows apart with {option}.",
            )
        return None
    if not levels or _counts_pieces(_values(source, levels[0])):
        return None
    return _checked(source, levels[0], n_rows)


def _is_index(source: Source, name: str) -> bool:
    entry = source.entries[name]
    return entry.ndim == 1 and could_be_index(name, entry.values() if entry.content == "text" else whole(entry.read()))


def _counts_pieces(values: AnyArray) -> bool:
    """Whether row numbers begin again and again, as in frames put one below another: they name no rows."""
    if values.dtype.kind not in "iu" or not len(values) or values[0] != 0:
        return False
    begins = values == 0
    return bool(begins.sum() > 1 and (begins[1:] | (values[1:] == values[:-1] + 1)).all())


def _checked(source: Source, name: str, n_rows: int) -> Ids:
    """Ids that are one for each row, and each once."""
    ids = Ids(source.path, _values(source, name))
    if len(ids) != n_rows:
        raise InvalidData(f"{source.path} has {len(ids)} ids for {n_rows} rows", mend="there must be one for each.")
    if ids.repeated is not None:
        first, second = ids.repeated
        what = f"repeats the id {ids.shown([first])} (rows {first} and {second})"
        ignoring = by_door(
            f"Columns(ignore=[{name!r}])", command=f"--ignore-columns {name}", toml=f'ignore_columns = ["{name}"]'
        )
        raise ids.wrong(what, f"each must be there once; if {name!r} is no id pass {ignoring}.")
    return ids


def _values(source: Source, name: str) -> AnyArray:
    """A column as ids: whole floats become integers."""
    entry = source.entries[name]
    if entry.ndim != 1:
        raise InvalidData(f"{source.noun} {name!r} of {source.path} is {entry.summary}, but ids must be 1-D (n,).")
    values = entry.names()
    if values.dtype.kind != "f":
        return values
    if not (np.isfinite(values) & (values == np.round(values))).all():
        raise InvalidData(
            f"{source.noun} {name!r} of {source.path} holds fractions or NaN", mend="ids must be integers or text."
        )
    _ = Ids(source.path, values).keys  # Refuses floats too large to tell whole numbers apart.
    return values.astype(np.int64)
