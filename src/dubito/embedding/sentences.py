"""Texts split into sentences, each of which becomes an item, with its text as its group."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dubito.embedding.table import Chosen, PoolTable
from dubito.errors import InvalidArgument
from dubito.registry import require

DOCUMENT = "document"
"""The column of a pool with the id of the text that a sentence is in."""
SENTENCE_END = re.compile(r"(?:(?<=[.!?…])|(?<=[.!?…][\"'”’)\]]))\s+(?![a-zß-ÿ])|(?<=[。！？])|\s*[\n\r]\s*")
"""White space after ``. ! ? …`` and an optional closing quote or bracket, unless a lower-case letter follows; the
position after ``。！？``; or line breaks."""


def split_sentences(text: str) -> list[str]:
    r"""The sentences of a text.

    Examples
    --------
    >>> split_sentences('He asked "Why?" Nobody, e.g. me, paid 3.50 for it.\nWell.')
    ['He asked "Why?"', 'Nobody, e.g. me, paid 3.50 for it.', 'Well.']
    """
    return [part.strip() for part in SENTENCE_END.split(text) if part and part.strip()]


def sentences_of(table: PoolTable) -> PoolTable:
    """A table with a row for each sentence; a text without sentences keeps one row, which is left out later."""
    if table.takes != "texts":
        raise InvalidArgument("is for texts", argument="split", value="sentences", hint="leave it out.")
    pyarrow, chosen, rows = require("pyarrow", extra="files"), table.chosen, table.rows
    fields, ids = list(rows.schema), chosen.id or "id"
    others = [field.name for field in fields if field.name not in (chosen.content, chosen.id)]
    if taken := {DOCUMENT, "text"} & set(others):
        hint = "rename it, or leave it out of the table."
        raise InvalidArgument(f"{rows.path} has a column {taken.pop()!r}, which sentences need", hint=hint)

    def split(block: Any, first: int) -> Any:
        parts: list[list[str | None]] = [
            [*split_sentences(each or "")] or [None] for each in block.column(chosen.content).to_pylist()
        ]
        counts = [len(each) for each in parts]
        taken = block.take(np.repeat(np.arange(len(parts)), counts))
        numbers = table.row_numbers[first : first + len(block)].tolist()
        names = numbers if chosen.id is None else block.column(chosen.id).to_pylist()
        columns = {
            ids: [f"{name}#{number}" for name, count in zip(names, counts, strict=True) for number in range(count)],
            "text": [sentence for part in parts for sentence in part],
            DOCUMENT: [str(name) for name, count in zip(names, counts, strict=True) for _ in range(count)],
        }
        arrays = {name: pyarrow.array(values, pyarrow.string()) for name, values in columns.items()}
        return pyarrow.table(arrays | {name: taken.column(name) for name in others})

    def blocks() -> Iterator[Any]:
        first = 0
        for block in rows.blocks():
            yield split(block, first)
            first += len(block)

    schema, n_rows = None, 0
    for block in blocks():
        schema, n_rows = block.schema, n_rows + len(block)
    note = f"{n_rows:,} sentences of {rows.n_rows:,} texts. Pick whole texts with --group-column {DOCUMENT}."
    whole = replace(rows, schema=schema, n_rows=n_rows, blocks=blocks, notes=(*rows.notes, note))
    return PoolTable(whole, Chosen("text", "texts", ids), split="sentences")
