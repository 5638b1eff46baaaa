"""The temperature that the command line asks for: a number, or fitted on the labels that the files hold."""

from collections.abc import Sequence

import numpy as np

from dubito.checks import read_number
from dubito.cli.inputs.files import Inputs, note
from dubito.cli.inputs.labels import read_labels
from dubito.cli.printing.failures import naming_files
from dubito.doubt.reading import check_logits, check_temperature
from dubito.doubt.temperature import fit_temperature
from dubito.errors import InvalidArgument
from dubito.files import Columns
from dubito.matrix import len_of


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
