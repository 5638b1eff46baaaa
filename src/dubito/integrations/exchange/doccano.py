"""doccano's JSONL of document classification."""

import json
from collections.abc import Iterator, Sequence

from dubito.integrations.exchange.items import Item, Said, label_keys_of, name_in, only_label, read_lines


def write_lines(items: Sequence[Item], classes: Sequence[str]) -> bytes:
    """A line an item; doccano keeps whatever stands beside ``text`` and ``label`` as metadata."""
    lines = [{"text": item.shown, "label": [], **dict(item.more), **item.payload} for item in items]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def read_lines_back(path: str) -> Iterator[Said]:
    """Labels of an export, in its present form (``label``, metadata beside it) and the older (``labels``, ``meta``).

    An item without a label was not labeled, or was skipped: doccano does not tell.
    """
    for line in read_lines(path):
        name, key = name_in(path, line, line.get("meta"), line.get("metadata"))
        labels = line.get("label", line.get("labels", line.get("cats")))
        who = label_keys_of(line.get("username") or line.get("annotator"))
        yield Said(name, key, only_label(path, name, labels), who)
