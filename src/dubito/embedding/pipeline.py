"""Embed shards of items. Pictures are decoded in other processes, ahead of the embedder."""

import json
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import astuple, dataclass
from itertools import chain, islice
from types import TracebackType
from typing import Any, Self

import numpy as np

from dubito.embedding.decoder import Crop
from dubito.embedding.embedder import Embedder, Framing
from dubito.embedding.source import Content, LeftOut, ShardItems
from dubito.errors import InvalidData
from dubito.io.formats.parquet import COLUMN
from dubito.matrix import AnyArray
from dubito.registry import require

CHUNK = 16
"""Number of pictures in a request to a process."""
AHEAD = 4
"""Number of chunks that each process may decode in advance."""

ALARM = getattr(signal, "SIGPROF", 0)
"""The signal that kills a process if a picture takes more than `SECONDS`."""
SECONDS = 60.0
"""CPU time that a picture may take; not wall time, so that a busy machine embeds the same pictures."""

Decoded = AnyArray | str
"""A picture, or why it cannot be decoded."""


class Decoder:
    """A process that decodes pictures; started again if a picture killed it."""

    def __init__(self, framing: Framing, seconds: float = SECONDS) -> None:
        self.framing, self.seconds = framing, seconds
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        # Not with -m: the package imports the module as well, and Python would warn that it runs twice.
        command = [sys.executable, "-P", "-c", "from dubito.embedding.decoder import main; main()"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def decode(self, contents: Sequence[str | bytes]) -> list[Decoded]:
        """Decode pictures from paths or bytes. If the process dies, each is decoded alone to find the cause."""
        try:
            return self._request(contents)
        except (EOFError, BrokenPipeError):
            self.process.kill()  # Does nothing if it is dead: its exit code is the signal that killed it.
            is_late = self.process.wait() == -ALARM
            self.close()
            self.process = self._start()
            if len(contents) == 1:
                late = f"needs more than {self.seconds:g} seconds of CPU time to decode"
                return [late if is_late else "crashes the process that decodes it"]
            return [each for content in contents for each in self.decode([content])]

    def _request(self, contents: Sequence[str | bytes]) -> list[Decoded]:
        stdin, stdout, frame = self.process.stdin, self.process.stdout, self.framing
        assert stdin is not None
        assert stdout is not None
        items = [
            [each, *each.box] if isinstance(each, Crop) else each if isinstance(each, str) else len(each)
            for each in contents
        ]
        stdin.write(json.dumps({"framing": astuple(frame), "items": items, "seconds": self.seconds}).encode() + b"\n")
        stdin.writelines(each for each in contents if isinstance(each, bytes))
        stdin.flush()
        line = stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        problems = {int(position): str(text) for position, text in json.loads(line)["problems"].items()}
        shape = len(contents) - len(problems), frame.height, frame.width, frame.channels
        pixels = stdout.read(int(np.prod(shape)))
        if len(pixels) < np.prod(shape):
            raise EOFError
        pictures = iter(np.frombuffer(pixels, dtype=np.uint8).reshape(shape))
        return [problems[position] if position in problems else next(pictures) for position in range(len(contents))]

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        self.process.kill()
        self.process.wait()


class Decoders:
    """A pool of at most ``n_processes`` decoders, started when they are needed; a context manager."""

    def __init__(self, n_processes: int, framing: Framing, ahead: int = AHEAD) -> None:
        self.threads = ThreadPoolExecutor(n_processes)
        self.ahead = n_processes * ahead
        self.framing = framing
        self.processes: list[Decoder] = []
        self.idle: list[Decoder] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)
        for each in self.processes:
            each.process.kill()
        self.threads.shutdown()
        for each in self.processes:
            each.close()

    def map(self, chunks: Iterable[Sequence[str | bytes]]) -> Iterator[list[Decoded]]:
        """Yield the decoded chunks in order; a bounded number of chunks is decoded in advance."""
        waiting: deque[Future[list[Decoded]]] = deque()
        for chunk in chunks:
            waiting.append(self.threads.submit(self._decoded, chunk))
            if len(waiting) > self.ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _decoded(self, chunk: Sequence[str | bytes]) -> list[Decoded]:
        try:
            decoder = self.idle.pop()
        except IndexError:
            decoder = Decoder(self.framing)
            self.processes.append(decoder)
        try:
            return decoder.decode(chunk)
        finally:
            self.idle.append(decoder)


MOST_LETTERS = 1_000_000
"""Longer texts are left out, because nobody could label them."""


@dataclass(frozen=True, slots=True)
class EmbeddedShard:
    table: Any
    """Rows of the pool: ``id``, ``embedding``, and the other columns."""
    left_out: tuple[LeftOut, ...]
    n_items: int


def embed_shards(
    shards: Iterable[ShardItems], embedder: Embedder, *, batch: int, n_processes: int, half: bool
) -> Iterator[EmbeddedShard]:
    """Embed every shard, in order.

    A batch never spans two shards, so that batches are the same however often a run is stopped. Texts are sorted by
    length, because a batch is padded to its longest text.
    """
    frame = embedder.framing
    with nullcontext() if frame is None else Decoders(n_processes, frame) as decoders:
        prepared = _texts(shards) if decoders is None else _pictures(shards, decoders)
        for shard_items, items in prepared:
            yield _embed(shard_items, items, embedder, batch, np.dtype(np.float16 if half else np.float32))


def _texts(shards: Iterable[ShardItems]) -> Iterator[tuple[ShardItems, list[Any]]]:
    for shard_items in shards:
        texts = shard_items.contents
        yield shard_items, [_Problem(problem) if (problem := text_problem(text)) else text for text in texts]


class _Problem(str):
    """Why an item cannot be embedded; a subclass, because a plain str may be an item."""


def text_problem(text: Content) -> str | None:
    """Why a text cannot be embedded, or None if it can.

    Examples
    --------
    >>> text_problem(" "), text_problem("a cat")
    ('has no text', None)
    """
    if not isinstance(text, str) or not text.strip():
        return "has no text"
    if len(text) > MOST_LETTERS:
        return f"has {len(text):,} letters, more than the {MOST_LETTERS:,} that are embedded"
    return None


def _pictures(shards: Iterable[ShardItems], decoders: Decoders) -> Iterator[tuple[ShardItems, list[Any]]]:
    """Yield shards with their decoded pictures, while later ones are being decoded."""
    started: deque[tuple[ShardItems, int]] = deque()

    def chunks() -> Iterator[Sequence[str | bytes]]:
        for shard_items in shards:
            # A missing picture is sent as an empty one.
            contents = [b"" if each is None else each for each in shard_items.contents]
            parts = [contents[start : start + CHUNK] for start in range(0, len(contents), CHUNK)] or [[]]
            started.append((shard_items, len(parts)))
            yield from parts

    decoded = decoders.map(chunks())
    for first in decoded:  # Of the next shard, whose contents are known once this chunk is decoded.
        shard_items, n_chunks = started.popleft()
        pictures = [*first, *chain.from_iterable(islice(decoded, n_chunks - 1))]
        yield (
            shard_items,
            [
                _Problem("has no picture" if content is None else each) if isinstance(each, str) else each
                for content, each in zip(shard_items.contents, pictures, strict=True)
            ],
        )


def _embed(
    shard_items: ShardItems, items: list[Any], embedder: Embedder, batch: int, dtype: np.dtype[Any]
) -> EmbeddedShard:
    problems = {position: str(item) for position, item in enumerate(items) if isinstance(item, _Problem)}
    good = [position for position in range(len(items)) if position not in problems]
    if embedder.framing is None:
        good.sort(key=lambda position: len(items[position]))
    rows = np.empty((len(items), embedder.width), dtype=dtype)
    for start in range(0, len(good), batch):
        positions = good[start : start + batch]
        given = [items[position] for position in positions]
        found = _checked(embedder(given if embedder.framing is None else np.stack(given)), len(positions), embedder)
        with np.errstate(over="ignore"):
            rows[positions] = found.astype(dtype)
        for row in np.flatnonzero(~np.isfinite(rows[positions]).all(axis=1)).tolist():
            problem = "too large for float16" if np.isfinite(found[row]).all() else "with NaN or infinity"
            problems[positions[row]] = f"has an embedding {problem}"
    kept = [position for position in range(len(items)) if position not in problems]
    names = shard_items.table.column("id").to_pylist()
    left_out = tuple(LeftOut(str(names[position]), problems[position]) for position in sorted(problems))
    return EmbeddedShard(
        with_embedding(shard_items.table.take(np.array(kept, dtype=np.int64)), rows[kept]), left_out, len(items)
    )


def _checked(found: AnyArray, n_rows: int, embedder: Embedder) -> AnyArray:
    if found.shape != (n_rows, embedder.width):
        raise InvalidData(
            f"{embedder.name} returns an array of shape {found.shape} for {n_rows} items, and its width is "
            f"{embedder.width}",
            hint="fix the embedder.",
        )
    return found


def with_embedding(table: Any, rows: AnyArray) -> Any:
    """The table with a column of embeddings inserted after the ids, as lists of equal length."""
    pyarrow = require("pyarrow", extra="files")
    flat = pyarrow.array(np.ascontiguousarray(rows).reshape(-1))
    lists = pyarrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])
    return table.add_column(1, COLUMN, lists).combine_chunks()
