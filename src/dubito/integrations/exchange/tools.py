"""The tools by name: a line each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dubito.integrations.exchange import doccano, folders, label_studio, prodigy, tables
from dubito.integrations.exchange.answers import Gathered, gather_answers
from dubito.integrations.exchange.items import Item, Said, read_items, refuse_unknown
from dubito.io import write_atomically
from dubito.request.arrays import check_choice

Write = Callable[[Sequence[Item], Sequence[str]], bytes]


class Tool(NamedTuple):
    """How a tool's files are written and read; None where it takes no such file."""

    write: Write | None
    read: Callable[[str], Iterator[Said]]


TOOLS: Mapping[str, Tool] = {
    "label-studio": Tool(label_studio.write_tasks, label_studio.read_tasks),
    "label-studio-min": Tool(None, label_studio.read_min),
    "label-studio-csv": Tool(None, label_studio.read_csv),
    "prodigy": Tool(prodigy.write_tasks, prodigy.read_answers),
    "doccano": Tool(doccano.write_lines, doccano.read_lines_back),
    "folders": Tool(None, folders.read_folder),
    "csv": Tool(lambda items, classes: tables.write_table(items, "csv"), tables.read_table),
    "parquet": Tool(lambda items, classes: tables.write_table(items, "parquet"), tables.read_table),
}
WRITERS = ("folders", *(name for name, tool in TOOLS.items() if tool.write is not None))
LOOKED_AT = ("label-studio", "prodigy", "doccano")
"""Tools that show an item as their file has it."""


def export_picks(
    picks: str,
    target: str,
    tool: str,
    *,
    classes: Sequence[str] = (),
    show: str | None = None,
    prefix: str = "",
    pictures: str = ".",
    force: bool = False,
) -> int:
    """Write picks for a tool, whole or not at all; how many there are.

    Parameters
    ----------
    picks : str
        A table that `dubito select` wrote.
    target : str
        The file, or for ``folders`` the folder.
    tool : str
        ``label-studio``, ``prodigy``, ``doccano``, ``folders``, ``csv`` or ``parquet``.
    classes : sequence of str
        What people choose from, where the tool takes that from its file.
    show : str, optional
        The column that people look at; a text or a path, by the usual names, if not given.
    prefix : str
        What stands before the path of a picture, such as the address of a server.
    pictures : str
        Where pictures are, for ``folders``.
    force : bool
        Replace a file that exists.
    """
    check_choice("to", tool, WRITERS)
    items = read_items(picks, show, prefix, to_look_at=tool in LOOKED_AT)
    write = TOOLS[tool].write
    if write is None:
        folders.write_folder(items, classes, target, pictures)
    else:
        write_atomically(target, write(items, classes), new=not force)
    return len(items)


def import_labels(path: str, tool: str, *, classes: Sequence[str] = ()) -> Gathered:
    """The labels in a tool's file; with ``classes``, any other is refused by its name."""
    answers = list(TOOLS[check_choice("source", tool, tuple(TOOLS))].read(path))
    refuse_unknown(path, answers, classes)
    return gather_answers(answers)
