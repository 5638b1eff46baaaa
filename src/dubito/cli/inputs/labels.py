"""The labels that files hold: of which row, and what a model may be fitted on."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dubito.cli.inputs.files import Inputs
from dubito.cli.inputs.rows import can_name_rows, named_rows
from dubito.cli.inputs.tables import read_table
from dubito.files import Columns, PoolFile, split_spec
from dubito.files.choosing import usual_name
from dubito.matrix import AnyArray, len_of
from dubito.names.columns import ROW
from dubito.names.labels import are_labels, label_keys


def with_labels(found: Inputs, specs: Sequence[str], columns: Columns) -> Inputs:
    """The inputs with the label of every row that has one, where no model has its say already."""
    if found.doubt or not len(found.labelled.rows):
        return found
    return replace(found, labels=read_labels(found.pool, specs, columns))


def labels_argument(found: Inputs) -> AnyArray | None:
    """What `dubito.select` takes as ``labels``, beside what it takes as ``labelled``; None where there are none."""
    if not found.labels:
        return None
    rows = np.arange(len_of(found.pool.features)) if not found.labelled.foreign else found.labelled.rows
    n_foreign = sum(map(len_of, found.labelled.foreign))
    values = np.full(n_foreign + len(rows), None, dtype=object)
    values[n_foreign:] = [found.labels.get(row) for row in rows.tolist()]
    return values


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
