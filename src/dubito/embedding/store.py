"""Resumable writing of a pool file: shards are collected in a folder next to it, and renamed or joined at the end.

``pool.parquet.parts`` contains a journal and the finished shards, each written atomically. An interrupted run resumes
at the first shard that is missing from the journal. The last step is one rename, so a file with the name of the pool is
always complete. Its bytes depend only on the source and the settings.
"""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dubito.embedding.pipeline import EmbeddedShard
from dubito.embedding.source import LeftOut
from dubito.errors import FORCE, PASS, InvalidArgument, InvalidData, OutputExists
from dubito.experiments.journal import Journal, Record
from dubito.io.durable import (
    explain_disk_full,
    explain_write_errors,
    load_with_checksum,
    save_with_checksum,
    sync_folder,
    write_atomically,
)
from dubito.io.formats.parquet import Embeddings
from dubito.io.source import reading
from dubito.matrix import AnyArray
from dubito.registry import require

JOURNAL, LEARNED, KNOWN = "_journal.jsonl", "_embedder.npz", "_known"
"""Files in the folder that are not shards; readers of shards ignore names that begin with an underscore."""
LEFT_OUT, SETTINGS = b"dubito_left_out", b"dubito_settings"
"""Metadata keys of a pool file: the items that are not in it, and the settings it was made with."""
SUFFIX = ".parquet"
OF_SOURCE = ("source", "labels")
"""Settings that depend on the source: if only these differ, the embeddings of an earlier run are reused."""


def parts_of(out: str) -> Path:
    return Path(out.rstrip("/") + ".parts")


def is_folder(out: str) -> bool:
    """Whether the output is a folder of shards rather than one file."""
    return not out.lower().endswith(SUFFIX)


def learned_path(out: str) -> str:
    """The file of the arrays that a pool's embedder learned, which later items need for comparable embeddings."""
    return os.path.join(out, LEARNED) if is_folder(out) else f"{out}.embedder.npz"


def is_same_but_source(settings: object, now: Mapping[str, object], others: Collection[str] = ()) -> bool:
    """Whether settings differ only because the source changed; `others` may differ as well."""
    before = settings if isinstance(settings, dict) else {}
    ignored = {*OF_SOURCE, *others}
    return bool(before) and all(before.get(name) == now.get(name) for name in {*before, *now} - ignored)


class Store:
    """The shards of a pool that is being written.

    With ``keep``, the embeddings of a run that was interrupted before the source changed can be reused.
    """

    def __init__(self, out: str, settings: Mapping[str, object], *, force: bool, keep: bool = False) -> None:
        self.out, self._keep = out, keep
        self.folder = parts_of(out)
        self.settings = dict(settings)
        self.done: dict[int, Record] = {}
        self.journal = Journal(self.folder / JOURNAL)
        self._begin(force)

    def _begin(self, force: bool) -> None:
        """Resume an earlier run with the same settings. For other settings, raise, or start over if ``force``."""
        records = self._records()
        if records and records[0].get("settings") != self.settings:
            is_source_changed = not force and is_same_but_source(records[0].get("settings"), self.settings)
            if not force and not is_source_changed:
                problem = describe_difference(str(self.folder), records[0].get("settings"), self.settings)
                raise InvalidArgument(problem, hint=hint_on_difference(self.out))
            if is_source_changed and self._keep:
                self._keep_shards()
            else:
                shutil.rmtree(self.folder)
            records = []
        if not records:
            if not self.known():
                with suppress(FileNotFoundError):
                    shutil.rmtree(self.folder)
            with explain_write_errors(str(self.folder)):
                self.folder.mkdir(exist_ok=True)
            self.journal.append({"kind": "embedding", "schema": 1, "checks": True, "settings": self.settings})
        self.done = {int(str(each["shard"])): each for each in records if each["kind"] == "shard"}

    def _keep_shards(self) -> None:
        """Move the shards to the known embeddings, and delete the journal. What the embedder learned stays."""
        known = self.folder / KNOWN
        known.mkdir(exist_ok=True)
        number = len(list(known.iterdir()))
        for each in sorted(self.folder.glob(f"part-*{SUFFIX}")):
            os.replace(each, known / f"{number}-{each.name}")
        os.unlink(self.journal.path)

    def known(self) -> list[str]:
        """Complete shards of earlier states of the source."""
        return sorted(str(each) for each in (self.folder / KNOWN).glob(f"*{SUFFIX}"))

    def shards(self) -> list[str]:
        return [str(self._shard(number)) for number in sorted(self.done)]

    def _records(self) -> list[Record]:
        if not self.folder.exists():
            return []
        if not self.folder.is_dir():
            raise OutputExists(f"{self.folder} is a file", hint="move or delete it.")
        records = self.journal.read()
        if records and records[0].get("kind") != "embedding":
            raise InvalidData(
                f"{self.journal.path} is not a journal of dubito embed", hint="move or delete the folder."
            )
        if not records and any(not each.name.startswith(("_", ".")) for each in self.folder.iterdir()):
            raise OutputExists(f"{self.folder} exists, and dubito did not create it", hint="move or delete it.")
        return records

    @property
    def n_done(self) -> int:
        return sum(int(str(each["items"])) for each in self.done.values())

    @property
    def left_out(self) -> list[LeftOut]:
        """The items that are in no shard, according to the journal."""
        records = [self.done[number]["left_out"] for number in sorted(self.done)]
        return [
            LeftOut(str(name), str(problem)) for each in records if isinstance(each, list) for name, problem in each
        ]

    @property
    def n_rows(self) -> int:
        return sum(int(str(each["rows"])) for each in self.done.values())

    def load_learned(self) -> dict[str, AnyArray] | None:
        """The arrays that the embedder learned in an earlier run, or None."""
        path = self.folder / LEARNED
        return load_with_checksum(str(path), needed=True) if path.exists() else None

    def save_learned(self, arrays: Mapping[str, AnyArray]) -> None:
        with explain_disk_full(self.folder):
            save_with_checksum(str(self.folder / LEARNED), arrays)

    def is_done(self, number: int) -> bool:
        """Whether a shard exists and is undamaged; if it is damaged, remove it from the journal."""
        record = self.done.get(number)
        if record is None:
            return False
        path = self._shard(number)
        if path.exists() and _digest(path.read_bytes()) == record["digest"]:
            return True
        self.journal.remove(lambda each: each.get("shard") == number)
        del self.done[number]
        return False

    def add(self, number: int, done: EmbeddedShard, made: Embeddings) -> None:
        """Write a shard, then add it to the journal."""
        data = shard_bytes(done.table, made)
        with explain_disk_full(self.folder):
            write_atomically(str(self._shard(number)), data)
        left_out = [[each.id, each.problem] for each in done.left_out]
        facts = {"shard": number, "items": done.n_items, "rows": len(done.table), "left_out": left_out}
        record: Record = {"kind": "shard", **facts, "digest": _digest(data)}
        self.journal.append(record)
        self.done[number] = record

    def _shard(self, number: int) -> Path:
        return self.folder / f"part-{number:05d}{SUFFIX}"

    def finish(self, made: Embeddings, left_out: list[LeftOut]) -> None:
        """Move the pool to its final path: as one file, or as a folder of shards."""
        if is_folder(self.out):
            self._finish_folder()
        else:
            self._finish_file(made, left_out)
            shutil.rmtree(self.folder)

    def _finish_folder(self) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self.folder / KNOWN)
        for each in self.folder.iterdir():
            if each.name.endswith(".tmp"):
                each.unlink()
        self.journal.close()
        target = Path(self.out)
        if target.exists():
            shutil.rmtree(target)
        with explain_write_errors(self.out):
            os.rename(self.folder, target)
            sync_folder(target.absolute().parent)

    def _finish_file(self, made: Embeddings, left_out: list[LeftOut]) -> None:
        """Write all shards to a temporary file, one row group each, and rename it."""
        parquet = require("pyarrow.parquet", extra="files")
        metadata = {
            **made.metadata(),
            LEFT_OUT: json.dumps([list(each) for each in left_out]).encode(),
            SETTINGS: json.dumps(self.settings, sort_keys=True).encode(),
        }
        temporary = self.folder / "_pool.tmp"
        with explain_write_errors(self.out), explain_disk_full(temporary), open(temporary, "wb") as file:
            writer = None
            for table in self._tables(parquet):
                table = table.replace_schema_metadata(metadata)
                writer = writer or new_writer(parquet, file, table.schema)
                writer.write_table(table)
            if writer is not None:
                writer.close()
            file.flush()
            os.fsync(file.fileno())
        learned, stored = self.folder / LEARNED, learned_path(self.out)
        if learned.exists():  # Before the pool, which must never exist without it.
            write_atomically(stored, learned.read_bytes())
        with explain_write_errors(self.out):
            os.replace(temporary, self.out)
            sync_folder(Path(self.out).absolute().parent)
        if not learned.exists():
            with suppress(FileNotFoundError):
                os.unlink(stored)

    def _tables(self, parquet: Any) -> Iterator[Any]:
        for number in sorted(self.done):
            path = self._shard(number)
            with reading(str(path)):
                yield parquet.read_table(str(path), partitioning=None)


def shard_bytes(table: Any, made: Embeddings) -> bytes:
    """A table as a Parquet file; the same table gives the same bytes."""
    parquet, buffer = require("pyarrow.parquet", extra="files"), io.BytesIO()
    table = table.replace_schema_metadata(made.metadata())
    with new_writer(parquet, buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


def new_writer(parquet: Any, file: Any, schema: Any) -> Any:
    """A Parquet writer with checksums, and without dictionaries, which do not compress embeddings."""
    return parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=False, write_page_checksum=True)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def describe_difference(where: str, settings: object, now: Mapping[str, object]) -> str:
    """The error message for the first setting that changed."""
    before = settings if isinstance(settings, dict) else {}
    names = [name for name in {**before, **now} if name not in OF_SOURCE]
    name = next((name for name in names if before.get(name) != now.get(name)), "embedder")
    return f"{where} was made with {name} {before.get(name)}, and now it is {now.get(name)}"


def hint_on_difference(out: str) -> str:
    return f"{PASS} the same, {FORCE} to start {out} over, or another output."
