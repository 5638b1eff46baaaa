"""Prodigy's JSONL: tasks with options out, answers of ``db-out`` back."""

import json
from collections.abc import Iterator, Sequence

from dubito.integrations.exchange.items import Item, Said, label_keys_of, name_in, only_label, read_lines


def write_tasks(items: Sequence[Item], classes: Sequence[str]) -> bytes:
    """A line an item for the interface ``choice``, with the id in ``meta``; without classes, the bare item."""
    options = [{"id": name, "text": name} for name in classes]
    lines = []
    for item in items:
        task: dict[str, object] = {item.kind: item.shown, "meta": {**item.payload, **dict(item.more)}}
        lines.append(json.dumps({**task, "options": options} if options else task, ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines).encode()


def read_answers(path: str) -> Iterator[Said]:
    """Answers: the option that was chosen, or the one label that was accepted.

    What was ignored is no label; a label that was rejected says what an item is not, and is none either.
    """
    for line in read_lines(path):
        name, key = name_in(path, line.get("meta"), line)
        who = label_keys_of(line.get("_annotator_id") or line.get("_session_id"))
        chosen = line.get("accept", line.get("label")) if line.get("answer") == "accept" else None
        yield Said(name, key, only_label(path, name, chosen), who)
