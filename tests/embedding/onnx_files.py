"""Small ONNX files, written by hand: the few fields of the format that they need, as protocol buffers have them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Shape = Sequence[int | str]
Port = tuple[str, str, Shape]
"""A name, the type of its numbers, and its shape; a side that is text may be of any length."""

KINDS = {"float32": 1, "int32": 6, "int64": 7, "float16": 10}
OPSET, FORM = 13, 8
WHOLE, WHOLES = 2, 7
"""What an attribute holds."""


def number(value: int) -> bytes:
    """A whole number, seven bits a byte."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(place: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return number(place << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(place << 3 | 2) + number(len(data)) + data


def port(name: str, kind: str, shape: Shape) -> bytes:
    sides = b"".join(field(1, field(1 if isinstance(side, int) else 2, side)) for side in shape)
    return field(1, name) + field(2, field(1, field(1, KINDS[kind]) + field(2, sides)))


def constant(name: str, values: np.ndarray[Any, Any]) -> bytes:
    sides = b"".join(field(1, side) for side in values.shape)
    return sides + field(2, KINDS[str(values.dtype)]) + field(8, name) + field(9, values.tobytes())


def node(kind: str, inputs: Sequence[str], output: str, **attributes: int | Sequence[int]) -> bytes:
    """A step of a network; its attributes are whole numbers, or lists of them."""
    described = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind)
    for name, value in attributes.items():
        parts = field(3, value) if isinstance(value, int) else b"".join(field(8, each) for each in value)
        described += field(5, field(1, name) + parts + field(20, WHOLE if isinstance(value, int) else WHOLES))
    return described


def write_onnx(
    path: Path,
    nodes: Sequence[bytes],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    weights: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> Path:
    """A network in a file."""
    graph = b"".join(field(1, each) for each in nodes) + field(2, "small")
    graph += b"".join(field(5, constant(name, values)) for name, values in (weights or {}).items())
    graph += b"".join(field(11, port(*each)) for each in inputs) + b"".join(field(12, port(*each)) for each in outputs)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(field(1, FORM) + field(7, graph) + field(8, field(2, OPSET)))
    return path
