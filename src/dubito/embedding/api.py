"""`embed`: from a source to a pool file, or to a pool in memory."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dubito.embedding.boxes import MARGIN
from dubito.embedding.embedder import Embedder, LearningEmbedder
from dubito.embedding.opening import Split, open_items
from dubito.embedding.pipeline import embed_shards
from dubito.embedding.registry import advice, make_embedder
from dubito.embedding.reuse import KnownEmbeddings, changes_between, embed_new
from dubito.embedding.source import Embedded, ItemSource, LeftOut
from dubito.embedding.store import (
    JOURNAL,
    LEFT_OUT,
    SETTINGS,
    Store,
    describe_difference,
    hint_on_difference,
    is_folder,
    is_same_but_source,
    learned_path,
    parts_of,
)
from dubito.errors import FORCE, DubitoError, InvalidData, OutputExists
from dubito.experiments.journal import Journal
from dubito.io.durable import file_lock, load_with_checksum
from dubito.io.formats.parquet import Embeddings
from dubito.io.source import reading
from dubito.matrix import AnyArray
from dubito.registry import require
from dubito.request.arrays import check_integer, check_real
from dubito.threads import count_cores

# A complete pool from an earlier call with the same settings is returned as it is.


class ExistingPool(NamedTuple):
    made: Embeddings
    n_rows: int
    left_out: list[LeftOut]
    settings: object
    """The settings that it was made with."""


def find_pool(
    out: str, settings: Mapping[str, object], *, force: bool, others: Collection[str] = ()
) -> ExistingPool | None:
    """The existing pool if it was made with the same settings, perhaps from an earlier state of the source; or None.

    Raises `OutputExists` for other settings (except ``others``) or for a file that is not a pool, unless ``force``.
    Removes the folder of parts that an interrupted run may have left after the pool was complete.
    """
    if not os.path.exists(out):
        return None
    if is_folder(out) != os.path.isdir(out):
        kind = "a folder" if os.path.isdir(out) else "a file without the suffix .parquet"
        raise OutputExists(f"{out} is {kind}", hint="choose another output.")
    existing = _pool_in_folder(out) if is_folder(out) else _pool_in_file(out)
    if force:
        if existing is None and os.path.isdir(out):
            raise OutputExists(f"{out} is a folder that dubito did not embed", hint="choose another output.")
        return None
    if existing is None:
        raise OutputExists(f"{out} exists", hint=f"pass {FORCE} to replace it, or another output.")
    if existing.settings == settings:
        with suppress(FileNotFoundError):
            shutil.rmtree(parts_of(out))
    elif not is_same_but_source(existing.settings, settings, others):
        problem = describe_difference(out, existing.settings, settings)
        raise OutputExists(problem, hint=hint_on_difference(out))
    return existing


def _pool_in_file(out: str) -> ExistingPool | None:
    """The pool in a file that dubito wrote, or None."""
    parquet = require("pyarrow.parquet", extra="files")
    try:
        with reading(out), parquet.ParquetFile(out) as file:
            metadata, n_rows = file.schema_arrow.metadata or {}, file.metadata.num_rows
            made = Embeddings.of(metadata)
            left_out = [LeftOut(*each) for each in json.loads(metadata.get(LEFT_OUT, b"[]"))]
            settings = json.loads(metadata.get(SETTINGS, b"{}"))
    except DubitoError:
        return None
    return None if made is None else ExistingPool(made, n_rows, left_out, settings)


def _pool_in_folder(out: str) -> ExistingPool | None:
    """The pool in a folder of shards that dubito wrote, or None. Reads the journal and the first shard."""
    journal = Journal(Path(out) / JOURNAL)
    records = journal.read() if journal.path.exists() else []
    shards = _files_of(out)
    first = _pool_in_file(shards[0]) if records and shards else None
    if first is None:
        return None
    done = [each for each in records if each["kind"] == "shard"]
    left_out = [
        LeftOut(*each) for record in done if isinstance(record["left_out"], list) for each in record["left_out"]
    ]
    n_rows = sum(int(str(each["rows"])) for each in done)
    return ExistingPool(first.made, n_rows, left_out, records[0].get("settings"))


SHARD = 1024
"""Number of items in a shard."""
VERSION = "version of the embedder"
"""The key of a setting."""

EmbedProgress = Callable[[int, int, None, float], None]
"""Called with the items done, their total, None and seconds, like the progress callback of `dubito.select`."""


@dataclass(frozen=True, slots=True)
class Task:
    """The checked arguments of `embed`."""

    source: ItemSource
    maker: Embedder | LearningEmbedder
    batch: int | None
    shard: int
    n_processes: int
    half: bool
    options: str
    notes: tuple[str, ...]

    @property
    def settings(self) -> dict[str, object]:
        """The settings that determine the bytes of the pool; a run can be resumed only with the same settings."""
        return {
            "embedder": self.maker.name,
            VERSION: self.maker.version,
            "options": self.options,
            "shard": self.shard,
            "batch": self.batch or "its own",
            "numbers": "float16" if self.half else "float32",
            **self.source.columns,
            "source": self.source.fingerprint,
        }

    @property
    def fingerprint(self) -> str:
        text = json.dumps(self.settings, sort_keys=True)
        return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def embed(
    source: str | os.PathLike[str],
    embedder: str = "auto",
    out: str | os.PathLike[str] | None = None,
    *,
    text: str | None = None,
    image: str | None = None,
    id_column: str | None = None,
    labels: bool = True,
    boxes: str | os.PathLike[str] | None = None,
    margin: float = MARGIN,
    split: Split | None = None,
    options: Mapping[str, object] | None = None,
    half: bool = False,
    batch: int | None = None,
    shard: int = SHARD,
    processes: int | None = None,
    force: bool = False,
    progress: EmbedProgress | None = None,
) -> Embedded:
    r"""Turn a folder of pictures, or a table of texts or pictures, into a pool that `select` can pick from.

    Damaged, empty and huge items are left out and listed. With ``out``, the pool is written shard by shard: an
    interrupted call can be repeated and continues where it was, with the same file as result. If the source has changed
    since the pool was written, only new and changed contents are embedded, with what the embedder learned before, and
    ``changes`` of the result lists the differences. Nothing is unpickled.

    Parameters
    ----------
    source : str or path
        A folder of pictures, including subfolders; a table (CSV, TSV, JSON lines, Parquet and more) of texts, of
        paths of pictures or of their bytes; or a data set that Hugging Face's ``save_to_disk`` wrote.
    embedder : str
        ``auto`` (``pixels`` for pictures, ``words`` for texts), ``onnx:FILE``, ``timm:NAME``, ``clip:NAME``,
        ``sentence:NAME``, ``torch:module.function``, or an embedder of another package.
    out : str or path, optional
        Where to write the pool: a file that ends in ``.parquet``, or a folder of shards. Default: in memory.
    text, image : str, optional
        The column of a table to embed, if it cannot be recognized by its name or content.
    id_column : str, optional
        The column of ids, if not ``id`` or ``ids``. Rows without an id are named by their row number.
    labels : bool
        Whether to add a column ``label`` if all pictures are in folders named by class.
    boxes : str or path, optional
        Boxes in the pictures of a folder, as a detector predicts them: COCO JSON, a folder of YOLO text files, or a
        CSV. Each becomes a row, with the columns ``path`` (its picture), ``left``, ``top``, ``width``, ``height``,
        ``picture_width``, ``picture_height``, ``predicted``, ``confidence`` and ``doubt``; pictures without boxes
        become one row each. Pick whole pictures with ``select(..., groups=pool.columns["path"])``.
    margin : float
        How much to cut out around a box on each side, as a share of its size.
    split : {"sentences", "frames"}, optional
        ``sentences``: a row for each sentence of a text, with the column ``document`` (the id of its text).
        ``frames``: the column ``folder`` of each picture instead of a label, such as the video that it is a frame of.
        Pick whole texts or folders with ``select(..., groups=...)``.
    options : mapping, optional
        Options of the embedder, such as ``{"size": 224}``.
    half : bool
        Store float16 instead of float32: half the size, about three digits.
    batch : int, optional
        Items per batch. Default: that of the embedder.
    shard : int
        Items per shard; each shard is saved when it is complete.
    processes : int, optional
        Processes that decode pictures ahead of the model. Default: one per core.
    force : bool
        Replace an existing pool, or an unfinished one: embed and learn everything again.
    progress : callable, optional
        Called with the items done, their total, None and seconds.

    Returns
    -------
    Embedded
        With ``ids``, ``embedding``, ``columns``, the items ``left_out``, and the ``path`` of the file.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = os.path.join(folder, "texts.csv")
    ...     with open(table, "w") as file:
    ...         _ = file.write("id,text\na,where is my card\nb,my card is late\nc,\n")
    ...     pool = embed(table)
    >>> pool.ids.tolist(), pool.left_out[0].problem, list(pool.columns)
    (['a', 'b'], 'has no text', ['text'])
    """
    require("pyarrow", extra="files")
    begun = time.monotonic()
    opened = open_items(
        os.fspath(source),
        text=text,
        image=image,
        id_column=id_column,
        labels=labels,
        boxes=None if boxes is None else os.fspath(boxes),
        margin=check_real("margin", margin, least=0.0),
        split=split,
    )
    made = make_embedder(embedder, opened.takes, options or {})
    notes = (*opened.notes, *([advice(opened.takes)] if embedder == "auto" else []))
    size = None if batch is None else check_integer("batch", batch, least=1)
    cores = count_cores()
    n_processes = cores if processes is None else check_integer("processes", processes, least=1)
    given = ", ".join(f"{name}={value}" for name, value in sorted((options or {}).items())) or "none"
    task = Task(opened, made, size, check_integer("shard", shard, least=1), n_processes, half, given, notes)
    report = _Reporter(task, progress, begun)
    return _embed_in_memory(task, report) if out is None else _embed_in_file(task, os.fspath(out), force, report)


class _Reporter:
    def __init__(self, task: Task, progress: EmbedProgress | None, begun: float) -> None:
        self.total, self.progress, self.begun, self.done = task.source.n_items, progress, begun, 0

    def __call__(self, n_items: int = 0) -> None:
        self.done += n_items
        if self.progress is not None:
            self.progress(self.done, self.total, None, self.seconds)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun


def _embed_in_memory(task: Task, report: _Reporter) -> Embedded:
    maker = task.maker
    ready = maker.ready(maker.learn(task.source.contents)) if isinstance(maker, LearningEmbedder) else maker
    tables, left_out = [], list(task.source.left_out)
    for done in _embed_shards(task, ready, task.source.shards(task.shard)):
        tables.append(done.table)
        left_out += done.left_out
        report(done.n_items)
    table = require("pyarrow", extra="files").concat_tables(tables)
    _check_not_empty(task, len(table), left_out)
    return _result(task, ready, len(table), left_out, report, table=table)


def _embed_in_file(task: Task, out: str, force: bool, report: _Reporter) -> Embedded:
    learns = isinstance(task.maker, LearningEmbedder)
    with file_lock(out, needed=False):
        # The arrays that a learning embedder learned identify it, not the version that would learn now.
        before = find_pool(out, task.settings, force=force, others=(VERSION,) if learns else ())
        if before is not None and before.settings == task.settings:
            made, earlier = before.made, task.source.left_out if is_folder(out) else ()
            return Embedded(
                made.embedder,
                made.version,
                made.width,
                before.n_rows,
                task.source.takes,
                (*earlier, *before.left_out),
                task.notes,
                path=out,
                n_before=task.source.n_items,
            )
        store = Store(out, task.settings, force=force, keep=not learns or before is not None)
        ready = _ready_embedder(task, store, out, before)
        description = _describe_pool(task, ready, out)
        files = [] if before is None else _files_of(out)
        n_known = _embed_missing_shards(
            task, store, ready, description, KnownEmbeddings([*files, *store.known()]), report
        )
        left_out = [*task.source.left_out, *store.left_out]
        n_rows = store.n_rows
        _check_not_empty(task, n_rows, left_out)
        changes = None
        if before is not None:
            ids = [each.id for each in left_out]
            changes = changes_between(files, store.shards(), ids, task.source.has_ids)
        store.finish(description, left_out)
    return _result(task, ready, n_rows, left_out, report, path=out, n_before=n_known, changes=changes)


def _files_of(out: str) -> list[str]:
    """The files of an existing pool."""
    if not os.path.isdir(out):
        return [out]
    names = sorted(name for name in os.listdir(out) if name.startswith("part-") and name.endswith(".parquet"))
    return [os.path.join(out, name) for name in names]


def _embed_missing_shards(
    task: Task, store: Store, ready: Embedder, description: Embeddings, known: KnownEmbeddings, report: _Reporter
) -> int:
    """Embed the missing shards. Returns the number of items that were embedded before."""
    kept = {number for number in sorted(store.done) if store.is_done(number)}
    report(n_before := store.n_done)
    missing: list[int] = []

    def shards() -> Any:
        for number, shard_items in enumerate(task.source.shards(task.shard)):
            if number not in kept:
                missing.append(number)
                yield shard_items

    embed_all = partial(_embed_shards, task, ready)
    for i, (done, n_known) in enumerate(embed_new(shards(), task.source.takes, known, embed_all)):
        store.add(missing[i], done, description)
        n_before += n_known
        report(done.n_items)
    return n_before


def _embed_shards(task: Task, ready: Embedder, shards: Any) -> Any:
    batch = task.batch or ready.batch
    return embed_shards(shards, ready, batch=batch, n_processes=task.n_processes, half=task.half)


def _ready_embedder(task: Task, store: Store, out: str, before: ExistingPool | None) -> Embedder:
    """The embedder, with the arrays that it learned in an earlier run, or else learns now."""
    maker = task.maker
    if not isinstance(maker, LearningEmbedder):
        return maker
    learned = store.load_learned()
    if learned is None:
        learned = maker.learn(task.source.contents) if before is None else _learned_before(maker, out, before)
        store.save_learned(learned)
    return maker.ready(learned)


def _learned_before(maker: LearningEmbedder, out: str, before: ExistingPool) -> dict[str, AnyArray]:
    """The arrays that the embedder of an existing pool learned; raises `InvalidData` if they are lost."""
    path = learned_path(out)
    learned = load_with_checksum(path, needed=True) if os.path.exists(path) else None
    if learned is None:  # Older versions did not save them; the same items give the same arrays.
        learned = maker.learn(lambda: _contents_of(out, before.made))
    if maker.ready(learned).version != before.made.version:
        problem = f"{path}, which {before.made.embedder} needs to embed more items, is missing or of another pool"
        raise InvalidData(problem, hint=f"restore it, or pass {FORCE} to embed all items again.")
    return learned


def _contents_of(out: str, made: Embeddings) -> Any:
    """The contents of the items of a pool: texts, or bytes or paths of pictures."""
    parquet = require("pyarrow.parquet", extra="files")
    for file in _files_of(out):
        with reading(file):
            values = parquet.read_table(file, columns=[made.shown], partitioning=None).column(made.shown).to_pylist()
        yield from (os.path.join(made.root(out), each) if made.shown == "path" else each for each in values)


def _describe_pool(task: Task, ready: Embedder, out: str) -> Embeddings:
    from dubito import __version__

    path = os.path.abspath(task.source.path)
    relative = os.path.relpath(path, os.path.dirname(os.path.abspath(out)))
    source = path if relative.startswith(os.pardir) else relative
    shown = source.encode("utf-8", "backslashreplace").decode()
    return Embeddings(ready.name, ready.version, ready.width, task.source.shown, shown, __version__, task.fingerprint)


def _check_not_empty(task: Task, n_rows: int, left_out: list[LeftOut]) -> None:
    if not n_rows:
        what = f"none of the {len(left_out)} {task.source.takes} of {task.source.path}"
        raise InvalidData(f"{what} can be embedded: {left_out[0]}")


def _result(
    task: Task, ready: Embedder, n_rows: int, left_out: list[LeftOut], report: _Reporter, **more: Any
) -> Embedded:
    return Embedded(
        ready.name,
        ready.version,
        ready.width,
        n_rows,
        task.source.takes,
        tuple(left_out),
        task.notes,
        seconds=report.seconds,
        **more,
    )
