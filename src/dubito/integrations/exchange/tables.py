"""Plain tables: CSV, Parquet and JSON lines with a column ``label`` to fill in."""

from collections.abc import Iterator, Sequence

from dubito.errors import MissingFile
from dubito.integrations.exchange.items import ID, INDEX, Item, Said
from dubito.io import Format, open_source
from dubito.io.picks import render_columns
from dubito.request.columns import IDS, ROW, label_name, usual
from dubito.request.labels import are_labels, label_keys


def table_of(items: Sequence[Item]) -> dict[str, Sequence[object]]:
    """The columns: the name, what is shown, what else there is, and an empty ``label``."""
    if not items:
        return {"id": [], "label": []}
    first = items[0]
    names: list[object] = [next(iter(item.payload.values())) for item in items]
    table: dict[str, Sequence[object]] = {"id" if first.key == ID else ROW: names}
    if first.shown != first.name:
        table[first.kind] = [item.shown for item in items]
    table |= {name: [item.more[name] for item in items] for name in first.more if name not in table}
    return {**table, "label": [""] * len(items)}


def write_table(items: Sequence[Item], format: Format) -> bytes:
    """The bytes of it; in CSV no text is a formula."""
    return render_columns(table_of(items), format, safe_csv=True)


def read_table(path: str) -> Iterator[Said]:
    """The labels of a table that has an id or an index; gaps are skipped items."""
    source = open_source(path)
    names = list(source.names)
    column, label = usual(names, (ID, INDEX, *IDS, ROW)), label_name(names)
    if column is None or label is None:
        lacks = "an id or index" if column is None else "a column label"
        raise MissingFile(f"{path} lacks {lacks}", hint=f"it holds {', '.join(names)}.")
    values = source.entry(label).values()
    kept, labels = are_labels(f"{path} ({label})", values), label_keys(values)
    key = INDEX if column.lower() in (INDEX, ROW) else ID
    who = label_keys(source.entry("annotator").values()) if "annotator" in names else [""] * len(labels)
    for name, text, is_label, person in zip(label_keys(source.entry(column).values()), labels, kept, who, strict=True):
        yield Said(name, key, text if is_label else None, person)
