"""Small tables of names and labels, from whatever file a person keeps them in."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dubito.cli.inputs.carried import OWN
from dubito.errors import InvalidData, MissingFile
from dubito.files import Columns, Source, open_source
from dubito.files.entries import reading, suffix_of
from dubito.files.naming import index_columns
from dubito.matrix import AnyArray, BoolArray
from dubito.names.columns import CANDIDATES, IDS, LABELLED, LABELS, UNLABELLED, usual
from dubito.names.labels import are_labels, label_keys

TRUTH = {"0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}

MOST_NAMED, FEW_CLASSES = 5, 10
FRACTION = re.compile(r"[+-]?\d*\.\d+(e[+-]?\d+)?", re.IGNORECASE)

Note = Callable[[str], None]
"""Where a remark goes."""


@dataclass(frozen=True, slots=True)
class NameTable:
    """A small table of names and labels, its columns as they are written, empty cells and all."""

    path: str
    columns: Mapping[str, Callable[[], AnyArray]]
    index: str | None = None
    """The column that holds a frame's index without being called so."""
    is_list: bool = False
    """Whether it is plain text: a name on each line."""

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)

    def values(self, name: str, rows: BoolArray | None = None) -> AnyArray:
        """A column, or some of its rows, none of which may be empty."""
        values = self.columns[name]()
        rows = np.ones(len(values), dtype=np.bool_) if rows is None else rows
        empty = rows & np.array([not key for key in label_keys(values)], dtype=np.bool_)
        if empty.any():
            row = int(np.argmax(empty)) + 1
            raise InvalidData(f"{self.path} has no {name} in row {row}", mend="fill it in or drop the row.")
        return values[rows]

    def id_column(self, wanted: str | None) -> str | None:
        """The column of ids, by the name given or a usual one."""
        return wanted if wanted in self.header else usual(self.header, IDS)

    def label_column(self, wanted: str | None, *, elsewhere: bool) -> str | None:
        """The column of labels; one that the user named must be here unless it is ``elsewhere``, in the pool."""
        if wanted in self.header:
            return wanted
        if wanted is not None and not elsewhere:
            raise MissingFile(
                f"{self.path} has no column {wanted!r} (--label-column)", mend=f"it holds {', '.join(self.header)}."
            )
        return usual(self.header, LABELS)

    def hint_of_labels(self, columns: Columns, known: Collection[str]) -> str:
        """How to name the column of labels, where some could be it; ``known`` ones mean something else."""
        taken = {*OWN, self.id_column(columns.id), self.index, *known}
        free = [name for name in self.header if name not in taken and could_be_labels(self.columns[name]())]
        if not free:
            return ""
        given = free[0] if len(free) == 1 else "NAME"
        return f" If {' or '.join(free[:MOST_NAMED])} holds their classes, pass --label-column {given}."

    def labelled(
        self, columns: Columns, note: Note, *, elsewhere: bool = False, known: Collection[str] = ()
    ) -> BoolArray:
        """Which rows count: those that have a label, or that a mask says are labelled; all where there is neither.

        ``known`` are columns that mean something else than labels, such as the pool's own.
        """
        n = len(next(iter(self.columns.values()))()) if self.columns else 0
        everything: BoolArray = np.ones(n, dtype=np.bool_)
        if not n:
            note(f"{self.path}: 0 rows, so that nothing counts as labelled.")
        if self.is_list or not n:
            return everything
        name = self.label_column(columns.label, elsewhere=elsewhere)
        mask = usual(self.header, (*LABELLED, *UNLABELLED))
        if name is None and mask is None:
            hint = self.hint_of_labels(columns, known)
            rows = f"{n} row{'s' * (n != 1)}, no label column"
            note(f"{self.path}: {rows}: all count as labelled, and no model is fitted on this file.{hint}")
            return everything
        kept, why = everything, ""
        if mask is not None:
            kept, why = self.truths(mask), f"are labelled by {mask}"
            kept = ~kept if mask.lower() in UNLABELLED else kept
        if name is not None:
            said, kept = kept, are_labels(f"{self.path} ({name})", self.columns[name](), columns.no_label)
            why = f"have a {name}"
            if mask is not None:
                odds = int((said != kept).sum())
                note(f"{self.path} has {name} and {mask}, at odds in {odds} of {n} rows: {name} counts.")
        if not kept.all():
            note(f"{kept.sum()} of the {n} rows in {self.path} {why}; the others do not count.")
        return kept

    def mask(self, n_rows: int) -> BoolArray | None:
        """What a column of 0 and 1, or yes and no, says of so many rows in their order; None without one."""
        name = usual(self.header, (*LABELLED, *UNLABELLED))
        texts = [] if name is None else label_keys(self.columns[name]())
        if name is None or len(texts) != n_rows or len(set(texts)) == len(texts):
            return None
        said = self.truths(name)
        return ~said if name.lower() in UNLABELLED else said

    def truths(self, name: str) -> BoolArray:
        """A column of yes and no, as people write it."""
        texts = label_keys(self.columns[name]())
        odd = next((row for row, text in enumerate(texts) if text.lower() not in TRUTH), None)
        if odd is not None:
            what = f"holds {texts[odd]!r} in {name}" if texts[odd] else f"has nothing in {name}"
            problem = f"{self.path} {what} (row {odd + 1}), which is a mask"
            raise InvalidData(problem, mend="write 1 or 0, true or false, yes or no in every row.")
        return np.array([TRUTH[text.lower()] for text in texts], dtype=np.bool_)


def could_be_labels(values: AnyArray) -> bool:
    """Whether a column may hold classes: few of them, and no fractions.

    Examples
    --------
    >>> could_be_labels(np.array(["a", "b", "a"])), could_be_labels(np.array(["0.5", "0.25"]))
    (True, False)
    """
    keys = [key for key in label_keys(values) if key]
    if any(FRACTION.fullmatch(key) for key in keys):
        return False
    return 0 < len(set(keys)) <= max(FEW_CLASSES, len(keys) // 2)


def read_table(path: str, only_column: str, columns: Columns) -> NameTable | None:
    """The file as a table of names where it can be one; None for arrays without names.

    ``only_column`` says what the lines of a ``.txt`` are.
    """
    suffix = suffix_of(path)
    if suffix == ".txt":
        with reading(path), open(path, encoding="utf-8-sig") as file:
            lines = [line.strip() for line in file if line.strip()]
        return NameTable(path, {only_column: lambda: np.array(lines, dtype=np.str_)}, is_list=True)
    source = open_source(path).without(columns.ignore)
    return table_of_source(source, columns)


def table_of_source(source: Source, columns: Columns) -> NameTable | None:
    """The columns of a table, or the 1-D arrays of an archive that are as long as its ids."""
    one = {name: entry for name, entry in source.entries.items() if entry.ndim == 1}
    if source.is_table:
        index = [name for name in index_columns(source) if name.lower() != "index"]
        return NameTable(source.path, {name: entry.values for name, entry in one.items()}, only(index))
    ids = columns.id if columns.id in one else usual(list(one), IDS)
    if ids is None:
        return None
    n = len(one[ids].values())
    same = {name: entry.values for name, entry in one.items() if name == ids or len(entry.values()) == n}
    roles = (*LABELLED, *UNLABELLED, *CANDIDATES)
    # Row numbers, or features, in an archive that has ids for something else.
    return (
        None
        if any(name.lower() in roles and name not in same for name in source.names)
        else NameTable(source.path, same)
    )


def only(names: Sequence[str]) -> str | None:
    """The one name there is."""
    return names[0] if len(names) == 1 else None
