"""Whether a pool is there already, and is the one that is asked for: then there is nothing left to do."""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dubito.embedding.embedded import LeftOut
from dubito.embedding.storing import JOURNAL, LEFT_OUT, SETTINGS, differs, is_folder, mend_of, parts_of
from dubito.errors import DubitoError, OutputExists
from dubito.experiments.cells.journal import Journal
from dubito.files.entries import reading
from dubito.files.formats.embeddings import Embeddings
from dubito.optional import require
from dubito.wording import FORCE


class WholePool(NamedTuple):
    """A pool of dubito's that is there."""

    made: Embeddings
    n_rows: int
    left_out: list[LeftOut]
    settings: object
    """What decided its bytes."""


def complete_pool(out: str, settings: Mapping[str, object], *, force: bool) -> WholePool | None:
    """The pool that is there, where it was made with these settings out of this source; None where one is to be made.

    One of other settings is refused, and so is what is no pool at all, unless it may be replaced. What a kill left of a
    folder of parts after the pool was whole is removed.
    """
    if not os.path.exists(out):
        return None
    if is_folder(out) != os.path.isdir(out):
        kind = "a folder" if os.path.isdir(out) else "a file without the suffix .parquet"
        raise OutputExists(f"{out} is {kind}", mend="choose another output.")
    found = _folder(out) if is_folder(out) else _file(out)
    if found is not None and found.settings == settings and not force:
        with suppress(FileNotFoundError):
            shutil.rmtree(parts_of(out))
        return found
    if not force and found is None:
        raise OutputExists(f"{out} exists", mend=f"pass {FORCE} to replace it, or another output.")
    if not force:
        raise OutputExists(differs(out, found and found.settings, settings), mend=mend_of(out))
    if found is None and os.path.isdir(out):
        raise OutputExists(f"{out} is a folder that dubito did not embed", mend="choose another output.")
    return None


def _file(out: str) -> WholePool | None:
    """A pool file of dubito's, or None."""
    parquet = require("pyarrow.parquet", extra="files")
    try:
        with reading(out), parquet.ParquetFile(out) as file:
            metadata, n_rows = file.schema_arrow.metadata or {}, file.metadata.num_rows
            made = Embeddings.of(metadata)
            left_out = [LeftOut(*each) for each in json.loads(metadata.get(LEFT_OUT, b"[]"))]
            settings = json.loads(metadata.get(SETTINGS, b"{}"))
    except DubitoError:
        return None
    return None if made is None else WholePool(made, n_rows, left_out, settings)


def _folder(out: str) -> WholePool | None:
    """A folder of shards, by its journal and its first shard, or None."""
    journal = Journal(Path(out) / JOURNAL)
    records = journal.read() if journal.path.exists() else []
    shards = sorted(name for name in os.listdir(out) if name.startswith("part-") and name.endswith(".parquet"))
    found = _file(os.path.join(out, shards[0])) if records and shards else None
    if found is None:
        return None
    done = [each for each in records if each["kind"] == "shard"]
    listed = [each for record in done if isinstance(record["left_out"], list) for each in record["left_out"]]
    n_rows = sum(int(str(each["rows"])) for each in done)
    return WholePool(found.made, n_rows, [LeftOut(*each) for each in listed], records[0].get("settings"))
