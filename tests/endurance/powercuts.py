"""Power cuts: what a project wrote is recorded, cut off at any moment, and opened again.

A disk keeps what was synced. Of everything else any part may be missing after a cut: a write whole, the end or some
sectors of it; the name of a new file, a rename or a removal whose folder was not synced.
"""

import os
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dubito.errors import DubitoError
from dubito.labeling.creation import open_project
from dubito.labeling.export import label_columns
from dubito.labeling.service import AnswerIn, LabelingService
from endurance.recording import Change, record
from labeling.projects import wait_until

SECTOR = 512
SOURCE = "texts.csv"
FIRST = ("cat", "dog")
N_ROWS = 40
WAYS = ("all", "synced", "some")
"""What of the writes that were not synced is on the disk after a cut."""
Step = dict[str, Any]


def write_source(folder: Path) -> Path:
    """Texts, two of which have a label already."""
    lines = [f"{row},{FIRST[row % 2]} number {row},{FIRST[row % 2] if row < 2 else ''}" for row in range(N_ROWS)]
    path = folder / SOURCE
    path.write_text("\n".join(["id,text,label", *lines]) + "\n", encoding="utf-8")
    return path


def steps(n_labels: int) -> list[Step]:
    """What a person does with a project, one thing after another."""
    chance, found, classes = random.Random(0), list[Step](), list(FIRST)
    for number in range(n_labels):
        label = {"rows": [chance.randrange(N_ROWS)], "class": chance.choice([*classes, None]), "key": f"key-{number}"}
        found.append({"do": "label", **label})
        if number % 7 == 3:
            found.append({"do": "undo", "key": f"undo-{number}"})
        if number % 10 == 5:
            rows = chance.sample(range(N_ROWS), 3)
            found.append({"do": "label", "rows": rows, "class": chance.choice(classes), "key": f"many-{number}"})
        if number % 12 == 6 and len(classes) < 20:
            classes.append(f"class {number}")
            found.append({"do": "class", "name": classes[-1]})
        if number % 15 == 8:
            found.append({"do": "change", "guidelines": f"Version {number}.", "batch": 1000 + number})
        if number == n_labels // 2:
            found += [{"do": "round"}, {"do": "reopen"}]
    return found


@dataclass
class RunStatus:
    """What steps come to, worked out apart from dubito."""

    keys: list[str] = field(default_factory=list)
    answers: list[tuple[int, str | None]] = field(default_factory=list)
    classes: list[str] = field(default_factory=lambda: list(FIRST))
    guidelines: str = ""
    batch: int = 20

    def take(self, step: Step) -> None:
        """One step more."""
        if step["do"] == "label":
            self.keys += keys_of(step)
            self.answers += [(row, step["class"]) for row in step["rows"]]
        elif step["do"] == "undo" and self.answers:
            self.keys.append(step["key"])
            self.answers.pop()
        elif step["do"] == "class":
            self.classes.append(step["name"])
        elif step["do"] == "change":
            self.guidelines, self.batch = step["guidelines"], step["batch"]

    def facts(self) -> dict[str, Any]:
        """As `observe` finds them; the source's own label counts with the person's, who was the last to say."""
        labels: dict[int, str | None] = {0: FIRST[0], 1: FIRST[1]}
        labels.update(self.answers)
        for row in (0, 1):
            labels[row] = labels[row] or FIRST[row]
        exported = {row: label for row, label in sorted(labels.items()) if label is not None}
        return {
            "keys": self.keys[:],
            "labels": exported,
            "classes": self.classes[:],
            "guidelines": self.guidelines,
            "batch": self.batch,
        }


def keys_of(step: Step) -> list[str]:
    """Of a label, or of several at once."""
    return [f"{step['key']}-{place}" for place in range(len(step["rows"]))]


def observe(service: LabelingService) -> dict[str, Any]:
    """What a project that is open holds."""
    columns, project = label_columns(service.state), service.state.project
    return {
        "keys": [event.key for event in service.state.label_table.events.values() if event.annotator == "ann"],
        "labels": dict(zip(columns["index"], columns["label"], strict=True)),
        "classes": list(project.classes),
        "guidelines": project.guidelines,
        "batch": project.settings.batch,
    }


def work(folder: Path, n_labels: int) -> None:
    """Do all steps in a new project; each is written down in a file once it is acknowledged."""
    acknowledged = os.open(folder / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    service = LabelingService(*open_project(str(folder / SOURCE), classes=FIRST))
    os.write(acknowledged, b"0\n")
    for number, step in enumerate(steps(n_labels), start=1):
        service = _do(step, service)
        os.write(acknowledged, f"{number}\n".encode())
    os._exit(0)  # As a kill would, with nothing build_program up.


def _do(step: Step, service: LabelingService) -> LabelingService:
    if step["do"] == "label":
        pairs = zip(keys_of(step), step["rows"], strict=True)
        service.answer([AnswerIn(key, "ann", row, step["class"]) for key, row in pairs]).result(timeout=60)
    elif step["do"] == "undo" and service.state.label_table.last_of("ann") is not None:
        service.undo(step["key"], "ann").result(timeout=60)
    elif step["do"] == "class":
        service.add_class(step["name"]).result(timeout=60)
    elif step["do"] == "change":
        service.change(step["guidelines"], {"batch": step["batch"]}).result(timeout=60)
    elif step["do"] == "round":
        service.start()
        wait_until(lambda: service.state.round == 1 and service.state.layout is not None)
        service.loop.request_round()
        wait_until(lambda: service.state.round == 2)
    elif step["do"] == "reopen":
        service.close()
        return LabelingService(*open_project(service.state.project.folder))
    return service


class Inode:
    """A file or a folder, whatever its names are: what is on the disk for sure, and what may be."""

    def __init__(self, *, is_folder: bool = False) -> None:
        self.is_folder = is_folder
        self.synced = b""
        self.pending: list[Change] = []

    def content(self, way: str, chance: random.Random) -> bytes:
        """What a cut leaves."""
        found = bytearray(self.synced)
        for change in self.pending:
            if way == "synced" or (way == "some" and chance.random() < 0.4):
                continue
            if change.call == "truncate":
                found[change.offset :] = bytes(max(0, change.offset - len(found)))
                continue
            start = len(found) if change.offset < 0 else change.offset
            data = change.data
            if way == "some" and chance.random() < 0.3:
                data = data[: chance.randrange(len(data) + 1)]
            found += bytes(max(0, start + len(data) - len(found)))
            is_torn = way == "some" and chance.random() < 0.2
            for sector in range(0, len(data), SECTOR):
                if not is_torn or chance.random() < 0.7:
                    part = data[sector : sector + SECTOR]
                    found[start + sector : start + sector + len(part)] = part
        return bytes(found)

    def sync(self) -> None:
        """All of it is on the disk."""
        self.synced, self.pending = self.content("all", random.Random()), []


Names = list[tuple[str, Inode | None]]
"""A change of names that the disk has whole or not at all: each with its file, or None where it is taken away."""


def _apply(names: dict[str, Inode], changed: Names) -> None:
    for name, inode in changed:
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode


class Disk:
    """Files as the changes of a recording leave them."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._now: dict[str, Inode] = {root: Inode(is_folder=True)}
        self._synced = dict(self._now)
        self._pending: list[Names] = []
        """Changes of names, in order, whose folder is not synced."""

    def change(self, change: Change) -> None:
        """One change more."""
        path = change.path
        if change.call in ("create", "mkdir"):
            if path not in self._now:
                self._name([(path, Inode(is_folder=change.call == "mkdir"))])
        elif change.call in ("rename", "link"):
            moved: Names = [(path, None)] if change.call == "rename" else []
            self._name([(change.target, self._now[path]), *moved])
        elif change.call == "unlink":
            self._name([(path, None)])
        elif change.call == "sync":
            self._sync(path)
        elif path in self._now:  # A file that was removed may still be written.
            self._now[path].pending.append(change)

    def _name(self, names: Names) -> None:
        self._pending.append(names)
        _apply(self._now, names)

    def _sync(self, path: str) -> None:
        inode = self._now.get(path)
        if inode is None:
            return
        if not inode.is_folder:
            inode.sync()
            return
        kept: list[Names] = []
        for names in self._pending:
            if any(os.path.dirname(name) == path for name, _ in names):
                _apply(self._synced, names)
            else:
                kept.append(names)
        self._pending = kept

    def write(self, folder: Path, way: str, chance: random.Random) -> None:
        """The files that a cut at this moment leaves, in another folder."""
        names = dict(self._synced)
        for each in self._pending:
            if way == "all" or (way == "some" and chance.random() < 0.6):
                _apply(names, each)
        for name in sorted(names):
            place = folder / os.path.relpath(name, self.root)
            if not place.parent.is_dir():
                continue  # Its folder is not on the disk.
            if names[name].is_folder:
                place.mkdir(exist_ok=True)
            else:
                place.write_bytes(names[name].content(way, chance))


def record_work(folder: Path, n_labels: int) -> list[Change]:
    """The changes that `work` makes in a folder."""
    folder.mkdir(exist_ok=True)
    write_source(folder)
    code = f"from pathlib import Path; from endurance.powercuts import work; work(Path({str(folder)!r}), {n_labels})"
    paths = os.pathsep.join(["", str(Path(__file__).parents[1]), *sys.path])
    return record([sys.executable, "-c", code], folder, {"PYTHONPATH": paths})


def is_whole(folder: Path, changes: Sequence[Change]) -> bool:
    """Whether all changes together give the files that the program left; if not, the recording missed something."""
    disk = Disk(os.path.realpath(folder))
    for change in changes:
        disk.change(change)
    with tempfile.TemporaryDirectory(prefix="dubito-") as place:
        write_source(Path(place))
        disk.write(Path(place), "all", random.Random())
        return _files(folder) == _files(Path(place))


def _files(folder: Path) -> dict[str, bytes]:
    """Less SQLite's shared memory, which is mapped, and made anew after a cut."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def cut(folder: Path, changes: Sequence[Change], n_labels: int, n_prefixes: int, seed: int = 0) -> Iterator[list[str]]:
    """Cut the recording off at so many places, in every way; what is wrong with each project that is then opened."""
    chance = random.Random(seed)
    places = set(
        range(1, len(changes) + 1)
        if n_prefixes >= len(changes)
        else chance.sample(range(1, len(changes) + 1), n_prefixes)
    )
    disk, n_acknowledged = Disk(os.path.realpath(folder)), -1
    known = f"{disk.root}/acknowledged"
    for number, change in enumerate(changes, start=1):
        if change.path == known:
            n_acknowledged += change.call == "write"
        else:
            disk.change(change)
        for way in WAYS if number in places else ():
            with tempfile.TemporaryDirectory(prefix="dubito-") as place:
                shutil.copy2(folder / SOURCE, place)
                disk.write(Path(place), way, chance)
                yield [
                    f"cut {number} ({change.call} {os.path.relpath(change.path, disk.root)}), {way}: {each}"
                    for each in reopen(Path(place), n_acknowledged, n_labels)
                ]


def reopen(folder: Path, n_acknowledged: int, n_labels: int) -> list[str]:
    """Open a project after a cut; what is wrong with it."""
    try:
        service = LabelingService(*open_project(str(folder / SOURCE), classes=FIRST if n_acknowledged < 0 else None))
    except DubitoError as error:
        return [f"cannot be opened: {error}"]
    todo, standing = steps(n_labels), RunStatus()
    for step in todo[: max(n_acknowledged, 0)]:
        standing.take(step)
    expected = [standing.facts()]
    for step in todo[max(n_acknowledged, 0) :][:1]:  # On its way when the cut came: done or not, nothing between.
        standing.take(step)
        expected.append(standing.facts())
    found, wrong = observe(service), list[str]()
    if found not in expected:
        differs = {name: (found[name], expected[0][name]) for name in found if found[name] != expected[0][name]}
        wrong.append(f"{n_acknowledged} steps acknowledged, found and expected: {differs}")
    n_rounds = 2 * any(step["do"] == "round" for step in todo[: max(n_acknowledged, 0)])
    if service.state.round < n_rounds or (service.state.round and service.state.model is None):
        wrong.append(f"round {service.state.round} of {n_rounds}, model {service.state.model}")
    service.answer([AnswerIn("after", "ann", 5, FIRST[0])]).result(timeout=60)
    if service.state.label_table.labels.get(5) != FIRST[0]:
        wrong.append("a label after the cut is not kept")
    service.close()
    with sqlite3.connect(folder / "texts.dubito" / "labels.sqlite") as connection:
        integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()
    return wrong if integrity == "ok" else [*wrong, f"integrity check: {integrity}"]


def cut_power(folder: Path, n_labels: int, n_prefixes: int) -> dict[str, Any]:
    """Record a project's work, cut it off at so many places, and count what is wrong afterwards."""
    changes = record_work(folder, n_labels)
    assert is_whole(folder, changes), "the recording does not give the files that were written"
    n_cuts, wrong = 0, list[str]()
    for problems in cut(folder, changes, n_labels, n_prefixes):
        n_cuts += 1
        wrong += problems
        if n_cuts % 60 == 0:
            print(
                f"power cuts: {n_cuts} of {len(WAYS) * min(n_prefixes, len(changes))}, {len(wrong)} wrong", flush=True
            )
    return {
        "changes": len(changes),
        "syncs": sum(change.call == "sync" for change in changes),
        "prefixes": min(n_prefixes, len(changes)),
        "cuts": n_cuts,
        "wrong": len(wrong),
        "examples": wrong[:20],
    }
