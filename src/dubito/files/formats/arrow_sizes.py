"""What the batches of an Arrow file unpack to, by its headers alone.

An Arrow file ends with a footer that says where its batches stand; the head of each says where its buffers stand, and
every compressed buffer begins with the number of bytes it unpacks to. All heads are FlatBuffers, of which a few tables
and vectors are followed here. A damaged file leads to places that do not exist: that is a ValueError or a struct.error,
for `reading` to explain.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dubito.matrix import IntArray

MAGIC, END = b"ARROW1", 10
"""How the file ends: the length of the footer, and this."""
DICTIONARIES, BATCHES = 2, 3
"""Fields of the footer, of blocks each: offset, length of the head, length of the body."""
HEADER, HEADER_DATA = 2, 1
"""Fields of a message and of a dictionary: the batch in it."""
LENGTH, BUFFERS, COMPRESSION = 0, 2, 3
"""Fields of a batch."""
AS_IT_IS = -1
"""For the length of a compressed buffer: it is not compressed after all."""


class Batch(NamedTuple):
    """What a batch becomes."""

    n_rows: int
    sizes: list[int]
    """Bytes of its buffers, in their order."""


def read_sizes(content: memoryview) -> tuple[list[Batch], int]:
    """The batches of rows in an Arrow file, and the bytes of all its dictionaries."""
    if bytes(content[-len(MAGIC) :]) != MAGIC:
        raise ValueError("it does not end as an Arrow file does")
    (length,) = struct.unpack_from("<i", content, len(content) - END)
    if not 0 < length <= len(content) - END:
        raise ValueError(f"its footer is said to have {length} bytes")
    footer = Heads(content[len(content) - END - length : len(content) - END]).root()
    dictionaries = [_batch(content, *block, is_dictionary=True) for block in _blocks(footer, DICTIONARIES)]
    batches = [_batch(content, *block, is_dictionary=False) for block in _blocks(footer, BATCHES)]
    return batches, sum(sum(each.sizes) for each in dictionaries)


def size_of(batch: Batch, n_buffers: Sequence[int], wanted: Sequence[bool]) -> int:
    """Bytes of the columns that are wanted, which have so many buffers each; of all where that does not add up.

    Examples
    --------
    >>> size_of(Batch(1, [0, 8, 0, 80]), [2, 2], [False, True]), size_of(Batch(1, [0, 8, 80]), [2, 2], [False, True])
    (80, 88)
    """
    if sum(n_buffers) != len(batch.sizes):
        return sum(batch.sizes)
    ends = np.cumsum([0, *n_buffers]).tolist()
    return sum(sum(batch.sizes[ends[place] : ends[place + 1]]) for place, is_wanted in enumerate(wanted) if is_wanted)


@dataclass(frozen=True, slots=True)
class Heads:
    """Tables of FlatBuffers in a piece of a file."""

    content: memoryview

    def at(self, form: str, place: int) -> int:
        """A number at a place, which must be within."""
        if place < 0:
            raise ValueError("a head of it points outside")
        number: int = struct.unpack_from(form, self.content, place)[0]
        return number

    def root(self) -> "Head":
        """The outermost table."""
        return Head(self, self.at("<I", 0))


@dataclass(frozen=True, slots=True)
class Head:
    """One table."""

    heads: Heads
    place: int

    def field(self, number: int) -> int | None:
        """Where a field stands; None where it has its default."""
        names = self.place - self.heads.at("<i", self.place)
        if 4 + 2 * number + 2 > self.heads.at("<H", names):
            return None
        offset = self.heads.at("<H", names + 4 + 2 * number)
        return self.place + offset if offset else None

    def table(self, number: int) -> "Head | None":
        """A field that is a table."""
        place = self.field(number)
        return None if place is None else Head(self.heads, place + self.heads.at("<I", place))

    def number(self, number: int) -> int:
        """A field of 64 bits; 0 where it is left out."""
        place = self.field(number)
        return 0 if place is None else self.heads.at("<q", place)

    def records(self, number: int, width: int) -> IntArray:
        """A field that is a vector of records of so many numbers of 64 bits."""
        place = self.field(number)
        if place is None:
            return np.empty((0, width), dtype=np.int64)
        start = place + self.heads.at("<I", place)
        count = self.heads.at("<I", start)
        values: IntArray = np.frombuffer(self.heads.content, "<i8", count * width, start + 4)
        return values.reshape(count, width)


def _blocks(footer: Head, number: int) -> Iterator[tuple[int, int]]:
    """Where each message of the footer begins, and how long its head is."""
    for offset, head, _ in footer.records(number, 3).tolist():
        yield offset, head & 0xFFFFFFFF  # 32 bits, and as many of padding.


def _batch(content: memoryview, offset: int, length: int, *, is_dictionary: bool) -> Batch:
    if not 0 <= offset <= offset + length <= len(content):
        raise ValueError("its footer points outside")
    (mark,) = struct.unpack_from("<i", content, offset)
    before = 8 if mark == -1 else 4  # Older files have no mark before the length.
    table = Heads(content[offset + before : offset + length]).root().table(HEADER)
    table = table.table(HEADER_DATA) if table is not None and is_dictionary else table
    if table is None:
        raise ValueError("a message of it is empty")
    body = content[offset + length :]
    is_packed = table.table(COMPRESSION) is not None
    sizes = [_size(body, place, n_bytes, is_packed) for place, n_bytes in table.records(BUFFERS, 2).tolist()]
    return Batch(table.number(LENGTH), sizes)


def _size(body: memoryview, place: int, n_bytes: int, is_packed: bool) -> int:
    if n_bytes == 0:
        return 0
    if place < 0 or n_bytes < 0 or place + n_bytes > len(body):
        raise ValueError("a buffer of it lies outside")
    if not is_packed:
        return n_bytes
    (unpacked,) = struct.unpack_from("<q", body, place)
    if unpacked < AS_IT_IS:
        raise ValueError(f"a buffer of it is said to unpack to {unpacked} bytes")
    return n_bytes if unpacked == AS_IT_IS else unpacked
