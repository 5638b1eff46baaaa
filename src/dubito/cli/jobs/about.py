"""``about.json`` in a run's folder: the command, and what was read from the data, for when the report is made again."""

from dataclasses import dataclass
from pathlib import Path

from dubito.errors import InvalidData
from dubito.experiments.cells.journal import DamagedLine, Record, sealed, unsealed
from dubito.experiments.datasets.dataset import Dataset
from dubito.files import write_atomically

ABOUT = "about.json"


@dataclass(frozen=True, slots=True)
class AboutRun:
    """What a report says besides what the records hold; None where nothing was kept."""

    command: str | None = None
    shape: str | None = None
    classes: tuple[str, ...] = ()


def save_about(folder: Path, data: Dataset, command: str) -> None:
    """Keep what the report says of the data and the command."""
    shape = f"{len(data.labels):,} rows of {data.features[0].size:,} features in {len(data.classes)} classes"
    test = f", and {len(data.test_labels):,} rows to test on" if data.has_test else ""
    record = {"schema": 1, "checks": True, "command": command, "shape": shape + test, "classes": list(data.classes)}
    write_atomically(str(folder / ABOUT), sealed(record))


def read_about(folder: Path) -> AboutRun:
    """What was kept; a file that was damaged is refused by its name."""
    path = folder / ABOUT
    if not path.exists():
        return AboutRun()
    try:
        record, _ = unsealed(path.read_bytes())
    except DamagedLine as error:
        raise _damaged(path, f"it {error}") from None
    classes = record.get("classes", [])
    if not isinstance(classes, list) or not all(isinstance(each, str) for each in classes):
        raise _damaged(path, "its 'classes' are no names")
    return AboutRun(_text(path, record, "command"), _text(path, record, "shape"), tuple(classes))


def _text(path: Path, record: Record, name: str) -> str | None:
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        raise _damaged(path, f"its {name!r} is no text")
    return value


def _damaged(path: Path, what: str) -> InvalidData:
    return InvalidData(
        f"{path} was changed or damaged: {what}", mend="delete it, and the report does without the command it tells."
    )
