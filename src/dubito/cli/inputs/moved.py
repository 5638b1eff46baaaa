"""Whether rows that a file names are still the rows that it was written of."""

from urllib.parse import unquote

from dubito.cli.inputs.carried import text_columns
from dubito.cli.inputs.tables import NameTable
from dubito.errors import InvalidData
from dubito.files import Columns, PoolFile, open_source
from dubito.matrix import AnyArray, BoolArray, IntArray
from dubito.names.labels import label_keys

SHOWN = ("text", "path")
"""What a pool file shows of a row."""
LONGEST = 40
"""Characters of a text that a message quotes."""


def refuse_moved(table: NameTable, rows: IntArray, kept: BoolArray, pool: PoolFile, columns: Columns) -> None:
    """Refuse rows whose text, in a column of both files, is another one than the pool's: they were named of another.

    Both files are opened again: a column that is ignored as a feature may well be what people label from.
    """
    if table.is_list or not pool.source.is_table:
        return
    source, theirs = open_source(pool.source.path), open_source(table.path)
    for name in text_columns(source, columns):
        if name not in theirs.names or theirs.entry(name).ndim != 1:
            continue
        ours, said = source.entry(name).values(), theirs.entry(name).values()
        if len(said) != len(kept) or (name not in SHOWN and not _tell_rows_apart(ours)):
            continue
        pairs = zip(_texts(said[kept]), _texts(ours[rows]), strict=True)
        odd = [(row, *pair) for row, pair in zip(rows.tolist(), pairs, strict=True) if _differ(*pair)]
        if odd:
            raise _moved(table, name, odd, pool)


def _moved(table: NameTable, name: str, odd: list[tuple[int, str, str]], pool: PoolFile) -> InvalidData:
    row, theirs, ours = odd[0]
    ids = pool.names.ids
    where = f"row {row}" if ids is None else f"id {ids.shown([row])}"
    more = f", and {len(odd) - 1} more differ{'s' * (len(odd) == 2)}" if len(odd) > 1 else ""
    return InvalidData(
        f"{table.path} says {name} {_short(theirs)} and {pool.source.path} {_short(ours)} of {where}{more}",
        mend="the pool was sorted or made anew: give it ids, or use the pool that the picks came from; "
        f"where the {name} alone was changed, take it out of {table.path}.",
    )


def _tell_rows_apart(values: AnyArray) -> bool:
    """Whether most rows have a value of their own: a column of classes or notes says nothing of which row it is."""
    return len({*label_keys(values)} - {""}) > len(values) / 2


def _texts(values: AnyArray) -> list[str]:
    return [" ".join(text.split()) for text in label_keys(values)]


def _differ(theirs: str, ours: str) -> bool:
    """Whether both are there and differ by more than an address before a path."""
    return bool(theirs and ours) and not unquote(theirs).endswith(unquote(ours))


def _short(text: str) -> str:
    return repr(text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}...")
