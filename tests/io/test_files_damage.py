"""Damaged files of every kind: refused in one plain line, or read right; where a checksum can tell, never wrong.

What else they may say, and what other readers find in them, is for the campaign (`make faults`).
"""

import random
from pathlib import Path

import numpy as np
import pytest

from dubito.errors import DubitoError
from dubito.io import input_limit, read_pool
from dubito.io.lookup import Columns
from faults.damage import damaged
from faults.forms import COLUMNS, forms, matrix
from faults.inputs import frame
from levels import examples

COUNT = examples(300)
"""For every kind."""
FORMS = forms()
WITH_CHECKSUMS = (".npz", ".pt", ".csv.gz", ".tsv.gz", ".jsonl.gz", ".json.gz")
"""Kinds in which every number is under a checksum: of them, none may be read wrong."""


def read_features(path: Path, *, is_table: bool) -> object:
    columns = Columns(features=COLUMNS) if is_table else Columns()
    return np.asarray(read_pool(str(path), columns=columns).features[:]).tolist()


@pytest.mark.parametrize("name", FORMS)
def test_damaged_files_are_refused_in_a_line_or_read(tmp_path: Path, name: str) -> None:
    form = FORMS[name]
    path, chance, right = tmp_path / f"pool{form.suffix}", random.Random(name), matrix(frame()).tolist()
    form.write(path, frame())
    whole = path.read_bytes()
    assert read_features(path, is_table=form.is_table) == right
    for _ in range(COUNT):
        described, content = damaged(chance, whole, is_text=form.is_text)
        path.write_bytes(content)
        message, features = "", None
        try:
            with input_limit(10**8):
                features = read_features(path, is_table=form.is_table)
        except DubitoError as error:
            message = str(error)
        assert "\n" not in message, described
        assert not message or path.name in message, f"{described}: {message}"
        assert message or name not in WITH_CHECKSUMS or features == right, described
