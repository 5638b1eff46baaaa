"""Small tables of names and labels, from whatever file a person keeps them in."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dubito.errors import InvalidData, MissingFile
from dubito.files import Columns, open_source
from dubito.files.entries import reading, suffix_of

DELIMITERS = {".csv": ",", ".tsv": "\t"}
ID_NAMES = ("id", "ids")
LABEL_NAMES = ("label", "labels", "class", "classes")

Note = Callable[[str], None]
"""Where a remark goes."""


@dataclass(frozen=True, slots=True)
class Table:
    """A small table of names and labels, as it is written in a file."""

    path: str
    header: tuple[str, ...]
    records: Sequence[Mapping[str, object]]

    def column(self, wanted: str | None, usual: Sequence[str]) -> str | None:
        """The column of that name, or the first with a usual name."""
        return next((name for name in (wanted, *usual) if name in self.header), None)

    def named(self, name: str) -> list[str]:
        """The values of a column as text."""
        for number, record in enumerate(self.records, start=1):
            if record.get(name) in (None, ""):
                raise InvalidData(f"{self.path} has no {name} in row {number}", mend="fill it in or drop the row.")
        return [str(record[name]).strip() for record in self.records]

    def label_column(self, wanted: str | None, *, elsewhere: bool) -> str | None:
        """The column of labels; one that the user named must be here unless it is ``elsewhere``, in the pool."""
        if wanted in self.header:
            return wanted
        if wanted is not None and not elsewhere:
            raise MissingFile(
                f"{self.path} has no column {wanted!r} (--label-column)", mend=f"it holds {', '.join(self.header)}."
            )
        return next((name for name in self.header if name.lower() in LABEL_NAMES), None)

    def only_labelled(self, wanted: str | None, note: Note, *, elsewhere: bool = False) -> "Table":
        """Without the rows whose label is still empty; all of them where there is no column of labels."""
        if suffix_of(self.path) == ".txt":
            return self
        name, n = self.label_column(wanted, elsewhere=elsewhere), len(self.records)
        if name is None:
            note(f"{self.path}: {n} row{'s' * (n != 1)}, no label column: all count as labelled.")
            return self
        kept = [record for record in self.records if str(record.get(name) or "").strip() or record.get(name) == 0]
        if len(kept) < n:
            note(f"{len(kept)} of the {n} rows in {self.path} have a {name}; the others do not count.")
        return replace(self, records=kept)


def read_table(path: str, only_column: str, columns: Columns) -> Table | None:
    """The file as a table of names where it is one: it has an ``id``, ``ids`` or ``index``, or is plain text.

    ``only_column`` says what the lines of a ``.txt`` are.
    """
    suffix = suffix_of(path)
    if suffix in DELIMITERS:
        with reading(path), open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter=DELIMITERS[suffix])
            return Table(path, tuple(reader.fieldnames or ()), list(reader))
    if suffix in (".json", ".jsonl"):
        return table_of_records(path, json_records(path))
    if suffix == ".txt":
        with reading(path), open(path, encoding="utf-8-sig") as file:
            return Table(path, (only_column,), [{only_column: line.strip()} for line in file if line.strip()])
    if suffix == ".parquet":
        return read_parquet(path, columns)
    return None


def read_parquet(path: str, columns: Columns) -> Table:
    """The columns that name or label rows; of a label, only whether there is one, as others may be missing."""
    source = open_source(path)
    labels = [name for name in source.names if name == columns.label or name.lower() in LABEL_NAMES]
    names = [name for name in source.names if name in ("index", "wrong", columns.id, *ID_NAMES) and name not in labels]
    values = [source.entry(name).names().tolist() for name in names]
    values += [["yes" if filled else "" for filled in source.entry(name).filled()] for name in labels]
    rows = zip(*values, strict=True)
    return Table(path, source.names, [dict(zip([*names, *labels], row, strict=True)) for row in rows])


def json_records(path: str) -> list[object]:
    """The objects of a JSONL file, or the picks of a JSON one."""
    with reading(path), open(path, encoding="utf-8") as file:
        if suffix_of(path) == ".jsonl":
            return [json.loads(line) for line in file if line.strip()]
        content = json.load(file)
    records = content.get("picks") if isinstance(content, dict) else content
    if not isinstance(records, list):
        raise InvalidData(f"{path} holds no list of labelled items", mend="pass a list of objects with an id or index.")
    return records


def table_of_records(path: str, records: Sequence[object]) -> Table:
    """Objects as a table; each must be one and name its row."""
    rows: list[dict[str, object]] = []
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise InvalidData(f"{path} holds {record!r} as item {number}", mend="pass objects with an id or index.")
        rows.append(record)
    header = tuple(dict.fromkeys(name for row in rows for name in row))
    return Table(path, header, rows)
