"""What is missing in a pool: counted at once, filled in, or its rows left out; no other row changes its number."""

from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from dubito.checks import check_choice
from dubito.cli.inputs.files import Inputs, note
from dubito.cli.inputs.labelled import LabelledInputs
from dubito.errors import InvalidArgument
from dubito.files.gaps import Missing, settle_missing
from dubito.matrix import AnyArray, BoolArray, IntArray, len_of
from dubito.problem import Configuration, Selection


def read_missing(text: str | None) -> Missing | None:
    """``median``, ``drop``, or nothing said."""
    known: Missing | None = None if text is None else check_choice("missing", text, get_args(Missing))
    return known


@dataclass(frozen=True, slots=True, eq=False)
class KeptRows:
    """Which rows of a file are in the pool, and how to speak of them by their numbers in the file."""

    n_rows: int
    rows: IntArray | None = None
    """Ascending; None for all of them."""

    def among(self, named: IntArray) -> IntArray:
        """The places in the pool of those rows that are in it."""
        if self.rows is None:
            return named
        return np.searchsorted(self.rows, named[np.isin(named, self.rows)])

    def outcomes(self, named: IntArray, wrong: BoolArray) -> tuple[IntArray, BoolArray]:
        """Checked rows that are in the pool, and whether the model was wrong there."""
        inside = np.ones(len(named), dtype=np.bool_) if self.rows is None else np.isin(named, self.rows)
        return self.among(named), wrong[inside]

    def restored(self, selection: Selection) -> Selection:
        """Picks by their row numbers in the file."""
        rows = self.rows
        if rows is None:
            return selection
        ranked = tuple(_renumbered(each, rows) for each in selection.configurations)
        return replace(selection, indices=rows[selection.indices], configurations=ranked, n_pool=self.n_rows)


def _renumbered(configuration: Configuration, rows: IntArray) -> Configuration:
    return replace(configuration, indices=rows[configuration.indices])


def settle(found: Inputs, missing: Missing | None) -> tuple[Inputs, KeptRows]:
    """The inputs without missing values, and which rows they are.

    Rows that are left out are in no way in the pool: neither picked, nor references, nor in any mean.
    """
    pool, n_rows = found.pool, len_of(found.pool.features)
    settled = settle_missing(pool.source.path, pool.features, pool.feature_names, missing)
    if settled.note is not None:
        note(settled.note)
    kept = KeptRows(n_rows, settled.rows)
    if settled.rows is None:
        return replace(found, pool=replace(pool, features=settled.features)), kept
    gone = len(found.labelled.rows) - len(kept.among(found.labelled.rows))
    if gone:
        note(f"{gone} of the labelled rows are among them, and are no references")
    labelled = LabelledInputs(kept.among(found.labelled.rows), found.labelled.foreign)
    doubt = {role: _rows_of(role, array, kept) for role, array in found.doubt.items()}
    beside = {role: _rows_of(role, array, kept) for role, array in found.beside.items()}
    rows = np.array(list(found.labels), dtype=np.int64)
    left = np.array(list(found.labels.values()), dtype=object)[np.isin(rows, settled.rows)]
    labels = dict(zip(kept.among(rows).tolist(), left.tolist(), strict=True))
    smaller = replace(pool, features=settled.features, names=pool.names.at(settled.rows))
    left_over = replace(found, pool=smaller, labelled=labelled, doubt=doubt, beside=beside, labels=labels)
    return replace(left_over, kept=settled.rows), kept


def _rows_of(role: str, array: AnyArray, kept: KeptRows) -> AnyArray:
    if len(array) != kept.n_rows or kept.rows is None:
        problem = f"has {len(array)} rows and the pool {kept.n_rows}"
        raise InvalidArgument(problem, argument=role, mend="pass one row for each row of the pool, whole or not.")
    return array[kept.rows]
