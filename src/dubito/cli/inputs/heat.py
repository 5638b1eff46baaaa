"""The temperature that the command line asks for: a number, or fitted on the labels that the files hold."""

from collections.abc import Sequence

import numpy as np

from dubito.checks import read_number
from dubito.cli.inputs.files import Inputs, note
from dubito.cli.inputs.rows import can_name_rows, named_rows
from dubito.cli.inputs.tables import read_table
from dubito.cli.printing.failures import naming_files
from dubito.doubt.reading import check_logits, check_temperature
from dubito.doubt.temperature import fit_temperature
from dubito.errors import InvalidArgument
from dubito.files import Columns, PoolFile, split_spec
from dubito.files.choosing import usual_name
from dubito.matrix import AnyArray, len_of
from dubito.names.columns import ROW
from dubito.names.labels import are_labels, label_keys


def read_heat(text: str | None, found: Inputs, labelled: Sequence[str], columns: Columns) -> float | None:
    """What logits are to be divided by; a fitted one is told."""
    if text is None:
        return None
    number = check_temperature(read_number(text))
    if number is not None:
        return number
    if "logits" not in found.doubt:
        raise InvalidArgument("needs logits", argument="temperature", value=text, mend="pass --logits FILE.")
    labels = read_labels(found.pool, labelled, columns)
    if not labels:
        mend = "fill in a column label, in the pool or in a table for --labelled, or pass a number."
        problem = "needs the classes of labelled rows of the pool"
        raise InvalidArgument(problem, argument="temperature", value=text, mend=mend)
    with naming_files(found.files, found.place):
        logits, rows = check_logits(found.doubt["logits"], len_of(found.pool.features)), np.array(list(labels))
        value, told = fit_temperature(logits[rows], np.array(list(labels.values())))
    note(f"temperature {value:.4g}, fitted on {len(rows)} labelled rows" if told is None else told)
    return value


def read_labels(pool: PoolFile, specs: Sequence[str], columns: Columns) -> dict[int, str]:
    """The label of every row that has one, in the pool's own file or in tables that name rows; the last one counts."""
    found = _own(pool, columns)
    for spec in specs:
        path, key = split_spec(spec)
        table = read_table(path, ROW if pool.ids is None else "id", columns) if key is None else None
        if table is None or not can_name_rows(table, pool, columns):
            continue
        name = table.label_column(columns.label, elsewhere=True)
        if name is not None:
            values = table.columns[name]()
            kept = are_labels(f"{path} ({name})", values, columns.no_label)
            rows = named_rows(table, pool, columns, kept)
            found |= {} if rows is None else dict(zip(rows.tolist(), label_keys(values[kept]), strict=True))
    return found


def _own(pool: PoolFile, columns: Columns) -> dict[int, str]:
    source = pool.source
    name = columns.label if columns.label in source.names else usual_name(source, "labels")
    if name is None or name in pool.feature_names or source.entry(name).ndim != 1:
        return {}
    values: AnyArray = source.entry(name).values()
    if len(values) != len_of(pool.features):
        return {}
    rows = np.flatnonzero(are_labels(f"{source.path} ({name})", values, columns.no_label))
    return dict(zip(rows.tolist(), label_keys(values[rows]), strict=True))
