"""Ways to damage a file: bytes as disks and networks damage them, text as people do."""

import random
import re
from collections.abc import Callable

Damage = Callable[[random.Random, bytes], bytes]
ODD = (
    b"\0",
    b"\xff",
    b"\n",
    b"\r",
    b'"',
    b"'",
    b",",
    b";",
    b"\t",
    b"-",
    b".",
    b"e",
    b"[",
    b"{",
    b"\xef\xbb\xbf",
    b"\x1b[31m",
)
VALUES = (
    b"nan",
    b"inf",
    b"-inf",
    b"",
    b" ",
    b"1e999",
    b"-1",
    b"9" * 400,
    b"NaN",
    b"null",
    b"None",
    b"true",
    b"1_0",
    b"0x1F",
)


def span(chance: random.Random, data: bytes, longest: int = 64) -> tuple[int, int]:
    """Somewhere in the data, and a little further."""
    begin = chance.randrange(len(data))
    return begin, min(len(data), begin + chance.randint(1, longest))


def flip(chance: random.Random, data: bytes) -> bytes:
    """One bit is another."""
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]


def replace(chance: random.Random, data: bytes) -> bytes:
    """Some bytes are noise."""
    begin, end = span(chance, data, 16)
    return data[:begin] + chance.randbytes(end - begin) + data[end:]


def blank(chance: random.Random, data: bytes) -> bytes:
    """A block is zeros, as a disk leaves it."""
    begin, end = span(chance, data, 512)
    return data[:begin] + bytes(end - begin) + data[end:]


def cut(chance: random.Random, data: bytes) -> bytes:
    """The end is missing."""
    return data[: chance.randrange(len(data))]


def drop(chance: random.Random, data: bytes) -> bytes:
    """Some bytes are missing."""
    begin, end = span(chance, data)
    return data[:begin] + data[end:]


def double(chance: random.Random, data: bytes) -> bytes:
    """Some bytes are there twice."""
    begin, end = span(chance, data, 256)
    return data[:end] + data[begin:]


def swap(chance: random.Random, data: bytes) -> bytes:
    """Two blocks have changed places."""
    size = chance.randint(1, max(1, min(64, len(data) // 2)))
    first, second = sorted(chance.randrange(max(1, len(data) - size)) for _ in range(2))
    if second - first < size:
        return data[:first] + data[first : first + size][::-1] + data[first + size :]
    left, right = data[first : first + size], data[second : second + size]
    return data[:first] + right + data[first + size : second] + left + data[second + size :]


def splice(chance: random.Random, data: bytes) -> bytes:
    """A piece has another's place, too."""
    begin, end = span(chance, data)
    other = chance.randrange(len(data))
    return data[:other] + data[begin:end] + data[other + end - begin :]


def append(chance: random.Random, data: bytes) -> bytes:
    """There is more behind the end."""
    again = data[chance.randrange(len(data)) :]
    return data + chance.choice([b"\0" * 100, b"\n", chance.randbytes(50), data[-40:], again])


def odd_letter(chance: random.Random, data: bytes) -> bytes:
    """A letter that means something has come in, or has taken another's place."""
    place = chance.randrange(len(data))
    return data[:place] + chance.choice(ODD) + data[place + chance.randint(0, 1) :]


def other_digit(chance: random.Random, data: bytes) -> bytes:
    """A digit is another."""
    places = [match.start() for match in re.finditer(rb"\d", data)]
    if not places:
        return flip(chance, data)
    place = chance.choice(places)
    return data[:place] + str(chance.randrange(10)).encode() + data[place + 1 :]


def other_value(chance: random.Random, data: bytes) -> bytes:
    """A number is something that is none, or hardly."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", data))
    if not found:
        return flip(chance, data)
    match = chance.choice(found)
    return data[: match.start()] + chance.choice(VALUES) + data[match.end() :]


def other_lines(chance: random.Random, data: bytes) -> bytes:
    """A line is missing, twice there, or in another's place."""
    lines = data.splitlines(keepends=True)
    place = chance.randrange(len(lines))
    other = chance.randrange(len(lines))
    changed = {
        "missing": lines[:place] + lines[place + 1 :],
        "twice": lines[: place + 1] + lines[place:],
        "moved": [*lines[:place], lines[other], *lines[place + 1 :]],
    }
    return b"".join(changed[chance.choice(sorted(changed))])


def other_case(chance: random.Random, data: bytes) -> bytes:
    """A word has lost or changed a letter."""
    words = list(re.finditer(rb"[A-Za-z_]{2,}", data))
    if not words:
        return flip(chance, data)
    word = chance.choice(words)
    changed = chance.choice([word[0][1:], word[0].swapcase(), word[0] + b"x", word[0][::-1]])
    return data[: word.start()] + changed + data[word.end() :]


BYTES: tuple[Damage, ...] = (flip, replace, blank, cut, drop, double, swap, splice, append)
TEXT: tuple[Damage, ...] = (odd_letter, other_digit, other_value, other_lines, other_case)


def damaged(chance: random.Random, data: bytes, *, is_text: bool) -> tuple[str, bytes]:
    """The data damaged once, or now and then twice, and what was done; never the data as it was."""
    ways = (*BYTES, *TEXT, *TEXT) if is_text else BYTES
    while True:
        changed, described = data, []
        for _ in range(1 if chance.random() < 0.8 else 2):
            if changed:
                way = chance.choice(ways)
                changed = way(chance, changed)
                described.append(way.__name__)
        if changed != data:
            return "+".join(described), changed
