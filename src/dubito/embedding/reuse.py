"""Embed a source that has changed: reuse the embeddings of unchanged contents, and report the changes.

An embedding depends only on the content of its item, so it is found by a hash of this content: the text, or the bytes
of the picture. A pool has the hashes of picture files in a column; other contents are in the pool themselves.
"""

import hashlib
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dubito.embedding.decoder import Crop
from dubito.embedding.embedder import Takes
from dubito.embedding.pipeline import EmbeddedShard, with_embedding
from dubito.embedding.source import Changes, Content, ShardItems
from dubito.io.durable import NotRegularFile, open_regular
from dubito.io.formats.parquet import COLUMN, HASH
from dubito.io.source import reading
from dubito.matrix import AnyArray
from dubito.registry import require

CHUNK = 1 << 20
CONTENTS = ("text", "image")
"""Columns of a pool that hold the contents themselves."""
CACHED_GROUPS = 4
"""Row groups of the earlier pool that are cached. Its items are in about the same order."""


def content_hash(content: Content, takes: Takes) -> str | None:
    """Hash of a text, of the bytes of a picture, of the picture file with this path, or of a crop of such a file.

    None if there is no content, or if the file cannot be read.

    Examples
    --------
    >>> content_hash("a text", "texts")
    '706860d9e8c7ee1c65261bc1e5b75631'
    """
    if content is None:
        return None
    if isinstance(content, Crop):
        found = _file_hash(content)
        return found and content_hash(f"{found} {content.box}", "texts")
    if takes == "pictures" and isinstance(content, str):
        return _file_hash(content)
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _file_hash(path: str) -> str | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return _hash_of(str(path), found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=1)
def _hash_of(path: str, n_bytes: int, changed: int) -> str | None:
    """The hash of a file; cached, because the boxes of a picture follow each other."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open_regular(path) as file:
            while block := file.read(CHUNK):
                digest.update(block)
    except (OSError, ValueError, NotRegularFile):  # The decoder reports what is wrong.
        return None
    return digest.hexdigest()


def with_hashes(items: ShardItems, takes: Takes) -> tuple[ShardItems, list[str | None]]:
    """The items, with the column of hashes if they are files, and the hashes."""
    hashes = [content_hash(each, takes) for each in items.contents]
    if "path" not in items.table.column_names or any(isinstance(each, bytes) for each in items.contents):
        return items, hashes
    pyarrow = require("pyarrow", extra="files")
    return replace(items, table=items.table.append_column(HASH, pyarrow.array(hashes, pyarrow.string()))), hashes


class Row(NamedTuple):
    file: str
    group: int
    row: int


class KnownEmbeddings:
    """The embeddings of pool files, by the hash of their contents.

    Parameters
    ----------
    files : sequence of str
        Pools and shards made by the same embedder. Rows of pools without hashes are found by id.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._rows: dict[str, Row] = {}
        self._older: dict[str, tuple[Row, float]] = {}
        """Rows of pools without hashes by id, and when the pool was written."""
        for file in files:
            self._read(file)
        self._group = lru_cache(maxsize=CACHED_GROUPS)(_read_group)

    def __len__(self) -> int:
        return len(self._rows) + len(self._older)

    def _read(self, file: str) -> None:
        for group, (ids, hashes) in enumerate(read_hashes(file)):
            for row, (name, found) in enumerate(zip(ids, hashes, strict=True)):
                if found is not None:
                    self._rows.setdefault(found, Row(file, group, row))
                else:
                    self._older[name] = Row(file, group, row), os.stat(file).st_mtime

    def find(self, found: str | None, name: str, content: Content) -> Row | None:
        """The row with this content; in a pool without hashes, the row of a file that has not changed since."""
        if found is not None and found in self._rows:
            return self._rows[found]
        row, written = self._older.get(name, (None, 0.0))
        if row is None or not isinstance(content, str) or isinstance(content, Crop):
            return None
        try:
            return row if os.stat(content).st_ctime <= written else None
        except OSError:
            return None

    def values(self, rows: Iterable[Row]) -> AnyArray:
        return np.array([self._group(row.file, row.group)[row.row] for row in rows])


def _read_group(file: str, group: int) -> AnyArray:
    parquet = require("pyarrow.parquet", extra="files")
    with reading(file), parquet.ParquetFile(file, page_checksum_verification=True) as opened:
        column = opened.read_row_group(group, columns=[COLUMN]).column(COLUMN).combine_chunks()
    values: AnyArray = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
    return values


def read_hashes(file: str) -> Iterator[tuple[list[str], list[str | None]]]:
    """For each group of rows of a pool file, the ids and the hashes of the contents."""
    parquet = require("pyarrow.parquet", extra="files")
    with reading(file), parquet.ParquetFile(file, page_checksum_verification=True) as opened:
        names = opened.schema_arrow.names
        column = next((name for name in (HASH, *CONTENTS) if name in names), None)
        for group in range(opened.num_row_groups):
            table = opened.read_row_group(group, columns=["id", *([column] if column else [])])
            values = table.column(column).to_pylist() if column else [None] * len(table)
            if column in CONTENTS:
                values = [content_hash(each, "texts") for each in values]
            yield [str(each) for each in table.column("id").to_pylist()], values


def embed_new(
    shards: Iterable[ShardItems],
    takes: Takes,
    known: KnownEmbeddings,
    embed: Callable[[Iterable[ShardItems]], Iterator[EmbeddedShard]],
) -> Iterator[tuple[EmbeddedShard, int]]:
    """Yield every shard in order, embedded, with the number of its embeddings that were known."""
    pending: deque[tuple[ShardItems, dict[int, Row]]] = deque()

    def new_items() -> Iterator[ShardItems]:
        for each in shards:
            items, hashes = with_hashes(each, takes)
            names = [str(name) for name in items.table.column("id").to_pylist()]
            rows = {
                position: row
                for position, (found, name, content) in enumerate(zip(hashes, names, items.contents, strict=True))
                if (row := known.find(found, name, content)) is not None
            }
            pending.append((items, rows))
            new = [position for position in range(len(names)) if position not in rows]
            yield ShardItems(
                [items.contents[position] for position in new],
                items.table.take(np.array(new, dtype=np.int64)) if rows else items.table,
            )

    for done in embed(new_items()):
        items, rows = pending.popleft()
        yield (_merge(done, items, known, rows) if rows else done), len(rows)


def _merge(done: EmbeddedShard, items: ShardItems, known: KnownEmbeddings, rows: dict[int, Row]) -> EmbeddedShard:
    """The shard with the rows that were embedded now and those that were known, in the order of the source."""
    pyarrow = require("pyarrow", extra="files")
    kept = with_embedding(items.table.take(list(rows)), known.values(rows.values()))
    position_of = {name: position for position, name in enumerate(items.table.column("id").to_pylist())}
    table = pyarrow.concat_tables([done.table, kept]) if len(done.table) else kept
    order = np.argsort([position_of[name] for name in table.column("id").to_pylist()])
    return replace(done, table=table.take(order).combine_chunks(), n_items=len(items.contents))


def changes_between(before: Sequence[str], after: Sequence[str], left_out: Iterable[str], has_ids: bool) -> Changes:
    """The changes between two states of a pool, given the files of both and the ids that are left out now.

    Rows without ids are compared by their contents alone.
    """
    old, new = (
        {
            name: found
            for file in files
            for ids, hashes in read_hashes(file)
            for name, found in zip(ids, hashes, strict=True)
        }
        for files in (before, after)
    )
    if not has_ids:
        more = Counter(new.values())
        fewer = Counter(old.values())
        added, removed = more - fewer, fewer - more
        return Changes(_last_names(new, added), (), _last_names(old, removed))
    gone = old.keys() - new.keys() - set(left_out)
    changed = [name for name in new if None not in (old.get(name), new[name]) and old[name] != new[name]]
    added_ids = tuple(name for name in new if name not in old)
    return Changes(added_ids, tuple(changed), tuple(name for name in old if name in gone))


def _last_names(hashes: dict[str, str | None], wanted: Counter[str | None]) -> tuple[str, ...]:
    """For each hash, its last names: as many as its count in ``wanted``."""
    remaining, names = Counter(wanted), []
    for name, each in reversed(hashes.items()):
        if remaining[each] > 0:
            remaining[each] -= 1
            names.append(name)
    return tuple(reversed(names))
