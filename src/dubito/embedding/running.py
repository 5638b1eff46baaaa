"""Items through an embedder: pictures decoded ahead of it, batches that never change, and what is wrong said once."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from dubito.embedding.base import Embedder
from dubito.embedding.decoders import CHUNK, Decoded, Decoders
from dubito.embedding.embedded import LeftOut
from dubito.embedding.sources.supply import Content, Lot
from dubito.errors import InvalidData
from dubito.files.formats.embeddings import COLUMN
from dubito.matrix import AnyArray
from dubito.optional import require

MOST_LETTERS = 1_000_000
"""A text with more is left out: it is no text that a person could label."""


@dataclass(frozen=True, slots=True)
class Done:
    """A lot that was embedded."""

    table: Any
    """As the pool has it: ``id``, ``embedding``, and the rest."""
    left_out: tuple[LeftOut, ...]
    n_items: int


def embed_lots(lots: Iterable[Lot], embedder: Embedder, *, batch: int, n_processes: int, half: bool) -> Iterator[Done]:
    """Every lot, in order.

    Batches are made within a lot, so that they are the same whenever and however often a run is stopped; texts of one
    length go together, as they are padded to the longest.
    """
    frame = embedder.framing
    with nullcontext() if frame is None else Decoders(n_processes, frame) as decoders:
        prepared = _texts(lots) if decoders is None else _pictures(lots, decoders)
        for lot, items in prepared:
            yield _embed(lot, items, embedder, batch, np.dtype(np.float16 if half else np.float32))


def _texts(lots: Iterable[Lot]) -> Iterator[tuple[Lot, list[Any]]]:
    for lot in lots:
        yield lot, [_Problem(wrong) if (wrong := wrong_text(each)) else each for each in lot.contents]


class _Problem(str):
    """What is wrong with an item; a text of its own kind, as items may be texts."""


def wrong_text(text: Content) -> str | None:
    """What keeps a text from being embedded, or None.

    Examples
    --------
    >>> wrong_text(" "), wrong_text("a cat")
    ('has no text', None)
    """
    if not isinstance(text, str) or not text.strip():
        return "has no text"
    if len(text) > MOST_LETTERS:
        return f"has {len(text):,} letters, more than the {MOST_LETTERS:,} that are embedded"
    return None


def _pictures(lots: Iterable[Lot], decoders: Decoders) -> Iterator[tuple[Lot, list[Any]]]:
    """Lots with their pictures decoded; chunks of later lots are decoded meanwhile."""
    begun: deque[tuple[Lot, int]] = deque()

    def chunks() -> Iterator[Sequence[str | bytes]]:
        for lot in lots:
            # What is no picture at all is asked for as an empty one.
            contents = [b"" if each is None else each for each in lot.contents]
            parts = [contents[start : start + CHUNK] for start in range(0, len(contents), CHUNK)]
            begun.append((lot, len(parts)))
            yield from parts

    decoded = decoders.map(chunks())
    gathered: list[Decoded] = []
    n_chunks = 0
    for part in decoded:
        gathered += part
        n_chunks += 1
        if n_chunks == begun[0][1]:
            lot, _ = begun.popleft()
            yield (
                lot,
                [
                    _Problem(_of(lot, place, each)) if isinstance(each, str) else each
                    for place, each in enumerate(gathered)
                ],
            )
            gathered, n_chunks = [], 0


def _of(lot: Lot, place: int, problem: str) -> str:
    return "has no picture" if lot.contents[place] is None else problem


def _embed(lot: Lot, items: list[Any], embedder: Embedder, batch: int, dtype: np.dtype[Any]) -> Done:
    problems = {place: str(item) for place, item in enumerate(items) if isinstance(item, _Problem)}
    good = [place for place in range(len(items)) if place not in problems]
    if embedder.framing is None:
        good.sort(key=lambda place: len(items[place]))
    rows = np.empty((len(items), embedder.width), dtype=dtype)
    for start in range(0, len(good), batch):
        places = good[start : start + batch]
        given = [items[place] for place in places]
        found = _checked(embedder(given if embedder.framing is None else np.stack(given)), len(places), embedder)
        with np.errstate(over="ignore"):
            rows[places] = found.astype(dtype)
        odd = np.flatnonzero(~np.isfinite(rows[places]).all(axis=1))
        too_large = "has an embedding too large for float16" if dtype.itemsize == 2 else "has an embedding with NaN"
        problems |= {places[row]: too_large for row in odd.tolist()}
    kept = [place for place in range(len(items)) if place not in problems]
    names = lot.table.column("id").to_pylist()
    left_out = tuple(LeftOut(str(names[place]), problems[place]) for place in sorted(problems))
    return Done(with_embedding(lot.table.take(np.array(kept, dtype=np.int64)), rows[kept]), left_out, len(items))


def _checked(found: AnyArray, n_rows: int, embedder: Embedder) -> AnyArray:
    if found.shape != (n_rows, embedder.width):
        raise InvalidData(
            f"{embedder.name} gives an array of shape {found.shape} for {n_rows} items and says that it is "
            f"{embedder.width} wide",
            mend="mend the embedder.",
        )
    return found


def with_embedding(table: Any, rows: AnyArray) -> Any:
    """The table with the embeddings behind its ids, as lists of one length."""
    pyarrow = require("pyarrow", extra="files")
    flat = pyarrow.array(np.ascontiguousarray(rows).reshape(-1))
    lists = pyarrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])
    return table.add_column(1, COLUMN, lists).combine_chunks()
