"""Embed shards of items: decode pictures in processes ahead of the embedder, and list the items that fail."""

import json
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import astuple, dataclass
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

# Several processes that decode pictures ahead of the model; results come in the order of the requests.

CHUNK = 16
"""Pictures that are sent to a process at once."""
AHEAD = 4
"""Chunks that each process may decode in advance."""

ALARM = getattr(signal, "SIGPROF", 0)
"""The signal that ends a process which took `SECONDS`."""
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
        # Not with -m: the package imports the module, too, and Python would warn that it is run a second time.
        command = [sys.executable, "-P", "-c", "from dubito.embedding.decoder import main; main()"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def decode(self, contents: Sequence[str | bytes]) -> list[Decoded]:
        """Decode pictures from paths or bytes. If the process dies, each is decoded alone to find the cause."""
        try:
            return self._request(contents)
        except (EOFError, BrokenPipeError):
            self.process.kill()  # Nothing if it is dead: the code is that of the signal that ended it.
            is_late = self.process.wait() == -ALARM
            self.close()
            self.process = self._start()
            if len(contents) == 1:
                late = f"needs more than {self.seconds:g} seconds of CPU time to decode"
                return [late if is_late else "ends the process that decodes it"]
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
    """At most ``n_processes`` decoders, started when there is work for them; a context manager."""

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
        """Yield each chunk decoded, in order, with a bounded number of chunks decoded in advance."""
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
        yield (
            shard_items,
            [_Problem(problem) if (problem := text_problem(each)) else each for each in shard_items.contents],
        )


class _Problem(str):
    """Why an item cannot be embedded; a type of its own, since a plain str may be an item."""


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
    """Yield shards with their pictures decoded; later ones are decoded meanwhile."""
    started: deque[tuple[ShardItems, int]] = deque()

    def chunks() -> Iterator[Sequence[str | bytes]]:
        for shard_items in shards:
            # A missing picture is sent as an empty one.
            contents = [b"" if each is None else each for each in shard_items.contents]
            parts = [contents[start : start + CHUNK] for start in range(0, len(contents), CHUNK)] or [[]]
            started.append((shard_items, len(parts)))
            yield from parts

    decoded = decoders.map(chunks())
    gathered: list[Decoded] = []
    n_chunks = 0
    for part in decoded:
        gathered += part
        n_chunks += 1
        if n_chunks == started[0][1]:
            shard_items, _ = started.popleft()
            yield (
                shard_items,
                [
                    _Problem("has no picture" if content is None else each) if isinstance(each, str) else each
                    for content, each in zip(shard_items.contents, gathered, strict=True)
                ],
            )
            gathered, n_chunks = [], 0


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
            f"{embedder.name} gives an array of shape {found.shape} for {n_rows} items and says that it is "
            f"{embedder.width} wide",
            hint="fix the embedder.",
        )
    return found


def with_embedding(table: Any, rows: AnyArray) -> Any:
    """The table with a column of embeddings inserted after the ids, as lists of equal length."""
    pyarrow = require("pyarrow", extra="files")
    flat = pyarrow.array(np.ascontiguousarray(rows).reshape(-1))
    lists = pyarrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])
    return table.add_column(1, COLUMN, lists).combine_chunks()
