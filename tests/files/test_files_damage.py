"""Damaged files of every kind: refused in one plain line, or read right; where a checksum can tell, never wrong."""

from pathlib import Path

import numpy as np
import pytest
from damage import FEATURES, WITH_CHECKSUMS, WRITERS, is_right, variants

from dubito.errors import DubitoError
from dubito.files import input_limit, read_pool
from dubito.files.opening import OPENERS

COUNT = 300
"""For every kind."""


def test_every_kind_that_is_read_is_damaged_here_or_like_one_that_is() -> None:
    alike = {".arrow": ".feather", ".hdf5": ".h5", ".pth": ".pt", ".tsv.gz": ".csv.gz", ".json.gz": ".jsonl.gz"}
    assert {alike.get(suffix, suffix) for suffix in OPENERS} == set(WRITERS)


@pytest.mark.parametrize("suffix", WRITERS)
def test_undamaged_files_are_read_right(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pool{suffix}"
    WRITERS[suffix](path)
    assert is_right(np.asarray(read_pool(str(path)).features[:]))


@pytest.mark.parametrize("suffix", WRITERS)
def test_damaged_files_are_refused_in_a_line_or_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pool{suffix}"
    WRITERS[suffix](path)
    for what, content in variants(path.read_bytes(), COUNT):
        path.write_bytes(content)
        message, features = "", FEATURES
        try:
            with input_limit(10**8):
                features = np.asarray(read_pool(str(path)).features[:])
        except DubitoError as error:
            message = str(error)
        assert "\n" not in message, what
        assert not message or path.name in message, what
        assert message or suffix not in WITH_CHECKSUMS or is_right(features), what
