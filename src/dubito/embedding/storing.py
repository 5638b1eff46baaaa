"""A pool file that grows shard by shard in a folder beside it, and is put in its place once it is whole.

``pool.parquet.parts`` holds a journal and the shards that are done, each written whole or not at all. A run that was
killed at any moment goes on with the first shard that the journal does not name. The last step is one rename: what is
there under the name of the pool is always whole. The bytes depend on the source and the settings alone.
"""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dubito.embedding.running import Done
from dubito.embedding.source import LeftOut
from dubito.errors import FORCE, PASS, InvalidArgument, InvalidData, OutputExists
from dubito.experiments.journal import Journal, Record
from dubito.io.durable import (
    explain_disk_full,
    explain_write_errors,
    load_sealed,
    save_sealed,
    sync_folder,
    write_atomically,
)
from dubito.io.formats.parquet import Embeddings
from dubito.io.source import reading
from dubito.matrix import AnyArray
from dubito.registry import require

JOURNAL, LEARNT = "_journal.jsonl", "_embedder.npz"
"""Names that no reader of shards looks at."""
LEFT_OUT, SETTINGS = b"dubito_left_out", b"dubito_settings"
"""Where the metadata of a pool file has what is not in it, and what decided its bytes."""
SUFFIX = ".parquet"


def parts_of(out: str) -> Path:
    return Path(out.rstrip("/") + ".parts")


def is_folder(out: str) -> bool:
    """Whether a folder of shards is asked for, and not one file."""
    return not out.lower().endswith(SUFFIX)


class Store:
    """The shards of a pool that is being made."""

    def __init__(self, out: str, settings: Mapping[str, object], *, force: bool) -> None:
        self.out = out
        self.folder = parts_of(out)
        self.settings = dict(settings)
        self.done: dict[int, Record] = {}
        self.journal = Journal(self.folder / JOURNAL)
        self._begin(force)

    def _begin(self, force: bool) -> None:
        """Take up what is there if it was begun with the same settings; refuse it, or remove it, if with others."""
        records = self._records()
        if records and records[0].get("settings") != self.settings:
            if not force:
                raise self._other(records[0])
            shutil.rmtree(self.folder)
            records = []
        if not records:
            with suppress(FileNotFoundError):
                shutil.rmtree(self.folder)
            with explain_write_errors(str(self.folder)):
                self.folder.mkdir()
            self.journal.append({"kind": "embedding", "schema": 1, "checks": True, "settings": self.settings})
        self.done = {int(str(each["shard"])): each for each in records if each["kind"] == "shard"}

    def _records(self) -> list[Record]:
        if not self.folder.exists():
            return []
        if not self.folder.is_dir():
            raise OutputExists(f"{self.folder} is a file", hint="move it away.")
        records = self.journal.read()
        if records and records[0].get("kind") != "embedding":
            raise InvalidData(f"{self.journal.path} is no journal of an embedding", hint="move the folder away.")
        if not records and any(not each.name.startswith(("_", ".")) for each in self.folder.iterdir()):
            raise OutputExists(f"{self.folder} exists, and dubito did not make it", hint="move it away.")
        return records

    def _other(self, header: Record) -> InvalidArgument:
        return InvalidArgument(differs(str(self.folder), header.get("settings"), self.settings), hint=hint_of(self.out))

    @property
    def n_done(self) -> int:
        return sum(int(str(each["items"])) for each in self.done.values())

    @property
    def left_out(self) -> list[LeftOut]:
        """What is in no shard, by the journal."""
        records = [self.done[number]["left_out"] for number in sorted(self.done)]
        return [
            LeftOut(str(name), str(problem)) for each in records if isinstance(each, list) for name, problem in each
        ]

    @property
    def n_rows(self) -> int:
        return sum(int(str(each["rows"])) for each in self.done.values())

    def learnt(self) -> dict[str, AnyArray] | None:
        path = self.folder / LEARNT
        return load_sealed(str(path), needed=True) if path.exists() else None

    def keep_learnt(self, arrays: Mapping[str, AnyArray]) -> None:
        with explain_disk_full(self.folder):
            save_sealed(str(self.folder / LEARNT), arrays)

    def is_done(self, number: int) -> bool:
        """Whether a shard is there, and as it was written; one that is not is made again."""
        record = self.done.get(number)
        if record is None:
            return False
        path = self._shard(number)
        if path.exists() and _digest(path.read_bytes()) == record["digest"]:
            return True
        self.journal.drop(lambda each: each.get("shard") == number)
        del self.done[number]
        return False

    def add(self, number: int, done: Done, made: Embeddings) -> None:
        """Write a shard, then name it in the journal."""
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
        """Put the pool in its place: one file, or the folder of shards as it is."""
        if is_folder(self.out):
            self._finish_folder()
        else:
            self._finish_file(made, left_out)
            shutil.rmtree(self.folder)

    def _finish_folder(self) -> None:
        for each in self.folder.iterdir():
            if each.name.endswith(".tmp") or each.name == LEARNT:
                each.unlink()
        self.journal.close()
        target = Path(self.out)
        if target.exists():
            shutil.rmtree(target)
        with explain_write_errors(self.out):
            os.rename(self.folder, target)
            sync_folder(target.absolute().parent)

    def _finish_file(self, made: Embeddings, left_out: list[LeftOut]) -> None:
        """All shards below one another, each a group of rows, under another name first."""
        parquet = require("pyarrow.parquet", extra="files")
        described = json.dumps([list(each) for each in left_out]).encode()
        metadata = {
            **made.metadata(),
            LEFT_OUT: described,
            SETTINGS: json.dumps(self.settings, sort_keys=True).encode(),
        }
        growing = self.folder / "_pool.tmp"
        with explain_write_errors(self.out), explain_disk_full(growing), open(growing, "wb") as file:
            writer = None
            for table in self._tables(parquet):
                table = table.replace_schema_metadata(metadata)
                writer = writer or new_writer(parquet, file, table.schema)
                writer.write_table(table)
            if writer is not None:
                writer.close()
            file.flush()
            os.fsync(file.fileno())
        with explain_write_errors(self.out):
            os.replace(growing, self.out)
            sync_folder(Path(self.out).absolute().parent)

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
    """Embeddings are no better for dictionaries, and checksums tell damage."""
    return parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=False, write_page_checksum=True)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def differs(where: str, settings: object, now: Mapping[str, object]) -> str:
    """What a message says of the first setting that changed."""
    before = settings if isinstance(settings, dict) else {}
    name = next((key for key in {**before, **now} if before.get(key) != now.get(key)), "source")
    if name == "source":
        return f"{where} is of another state of the source: files were added, removed or changed since"
    return f"{where} was made with {name} {before.get(name)}, and now it is {now.get(name)}"


def hint_of(out: str) -> str:
    return f"{PASS} the same, {FORCE} to begin {out} again, or another output."
