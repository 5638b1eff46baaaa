"""A project: a folder with the settings, pool, labels and models of a labeling task."""

import os
import re
import secrets
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from dubito.errors import InvalidArgument, InvalidData, MissingFile, shorten
from dubito.experiments.toml import write_toml
from dubito.io.durable import explain_write_errors, try_lock, write_all, write_atomically
from dubito.io.source import reading
from dubito.labeling.events import Event, check_name, check_text
from dubito.request.arrays import check_choice

SCHEMA = 1
NAME = "project.toml"
IDENT = "ident"
MAX_CLASSES = 500
LETTERS = "abdefjknopqsuvwxyz"
KEYS = f"123456789{LETTERS}"
"""Keys of classes in the order in which they are assigned, followed by 0; the page uses the other letters."""
LAYOUT, USER_PROBABILITIES, FAILURE = "layout.npz", "probabilities.npz", "learning-failure.txt"
"""Files of the project: the map, the probabilities of the user's own model, and why the last round failed."""
TYPE_NAMES = {int: "a whole number", float: "a number", str: "text in quotes", list: "names in quotes", dict: "a table"}
"""How hints describe the type of a value."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The labeling settings of a project."""

    batch: int = 20
    """Number of new labels that starts a round."""
    overlap: int = 1
    """Number of annotators who answer each item."""
    audit: float = 0.1
    """Share of the picks that are drawn at random, to estimate the accuracy."""
    strategy: str = "auto"
    copies: str = "share"
    """Whether exact copies ``share`` a label, or are labeled one by one (``separate``)."""

    def __post_init__(self) -> None:
        _check_range("batch", self.batch, 1, 10_000)
        _check_range("overlap", self.overlap, 1, 100)
        _check_range("audit", self.audit, 0.0, 1.0)
        check_choice("copies", self.copies, ("share", "separate"))


def _check_range(name: str, value: float, minimum: float, maximum: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not minimum <= value <= maximum:
        raise InvalidArgument("is out of bounds", argument=name, value=value, hint=f"pass {minimum:g} to {maximum:g}.")


def assign_keys(classes: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """The key of every class: the chosen one, or a free one; classes are left out when no key is free.

    Classes whose names are free keys get these first, since people press 3 for a class named 3; for the same reason,
    other numbers get letters first.

    Examples
    --------
    >>> assign_keys(["cat", "1", "10", "dog"], {"dog": "c"})
    {'cat': '2', '1': '1', '10': 'a', 'dog': 'c'}
    """
    keys = {name: chosen[name] for name in classes if name in chosen}
    free = (set(KEYS) | {"0"}) - set(keys.values())
    for name in classes:
        if name not in keys and name.lower() in free:
            keys[name] = name.lower()
            free.discard(keys[name])
    for name in classes:
        order = LETTERS + KEYS if name.isascii() and name.isdigit() else KEYS
        found = next((each for each in order if each in free), None)
        if name not in keys and found is not None:
            keys[name] = found
            free.discard(found)
    return {name: keys[name] for name in classes if name in keys}


@dataclass(frozen=True, slots=True)
class Project:
    """The contents of ``project.toml``."""

    folder: str
    ident: str
    """Unique id, independent of the folder name."""
    source: str
    """Path of the source, relative to the project folder."""
    pool: str
    """Path of the pool file, relative to the project folder."""
    classes: tuple[str, ...] = ()
    guidelines: str = ""
    settings: Settings = field(default_factory=Settings)
    store: str | None = None
    """URL of a database; None for SQLite in the project folder."""
    class_keys: Mapping[str, str] = field(default_factory=dict)
    """By class, the idempotency key of the request that added it, so that a repeated request succeeds."""
    chosen_keys: Mapping[str, str] = field(default_factory=dict)
    """By class, its key on the keyboard; classes of older projects have none here."""
    class_event: int = 0
    """Number of the last event of the log that is applied to `classes`."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """How the source was read: ``text``, ``image``, ``id_column``, ``label_column`` if given; ``labels``: yes or no."""

    @property
    def name(self) -> str:
        """The name of the folder without its suffix."""
        return os.path.basename(os.path.abspath(self.folder)).removesuffix(".dubito")

    @property
    def pool_path(self) -> str:
        return os.path.normpath(os.path.join(self.folder, self.pool))

    @property
    def source_path(self) -> str:
        return os.path.normpath(os.path.join(self.folder, self.source))

    def path(self, name: str) -> str:
        """Path of a file in the project folder."""
        return os.path.join(self.folder, name)

    def with_class(self, name: str, key: str | None = None) -> "Project":
        """A copy with another class, added by the request with that key."""
        clean = check_name("class", name)
        if clean in self.classes:
            raise InvalidArgument(f"there is a class {clean!r} already", hint="choose another name.")
        if len(self.classes) >= MAX_CLASSES:
            raise InvalidArgument(f"there are {MAX_CLASSES} classes", hint="label with fewer.")
        keys = self.class_keys if key is None else {**self.class_keys, clean: key}
        return self.with_classes((*self.classes, clean), self.keys, class_keys=keys)

    @property
    def keys(self) -> dict[str, str]:
        """By class, its key on the keyboard."""
        return assign_keys(self.classes, self.chosen_keys)

    def with_classes(self, classes: Sequence[str], keys: Mapping[str, str], **others: Any) -> "Project":
        """A copy with these classes and keys; classes without a key get free ones.

        The keys of removed classes are remembered, in case the change is undone.
        """
        former = {name: key for name, key in self.keys.items() if name not in classes}
        earlier = {name: key for name, key in self.chosen_keys.items() if name not in classes}
        chosen = {**earlier, **former, **assign_keys(classes, keys)}
        return replace(self, classes=tuple(classes), chosen_keys=chosen, **others)

    def with_order(self, classes: Sequence[str] | None, keys: Mapping[str, str] | None) -> "Project":
        """A copy with the classes in another order, or with other keys; a class that had such a key gets a free one."""
        order = self.classes if classes is None else tuple(classes)
        if sorted(order) != sorted(self.classes):
            hint = f"load the classes again: they are {', '.join(self.classes[:20])}."
            raise InvalidArgument("the order does not have the current classes", hint=hint)
        given = dict(keys or {})
        unknown = next((name for name in given if name not in self.classes), None)
        if unknown is not None:
            raise InvalidArgument(f"there is no class {unknown!r}", hint="load the classes again.")
        bad = next((key for key in given.values() if key not in (*KEYS, "0")), None)
        if bad is not None:
            raise InvalidArgument(f"{bad!r} cannot be the key of a class", hint=f"choose one of 0{KEYS}.")
        if len(set(given.values())) < len(given):
            raise InvalidArgument("two classes have the same key", hint="choose another for one of them.")
        kept = {name: key for name, key in self.keys.items() if key not in given.values()}
        return self.with_classes(order, {**kept, **given})

    def with_change(self, event: Event, undone: Event | None = None) -> "Project":
        """A copy after a change of a class, or after the undo of the change `undone`."""
        classes, keys = list(self.classes), self.keys
        if event.kind == "undo":
            assert undone is not None
            assert undone.label is not None
            if undone.label not in classes:
                classes.insert(undone.item, undone.label)
                former = self.chosen_keys.get(undone.label)
                keys |= {} if former is None or former in keys.values() else {undone.label: former}
        elif event.label in classes:
            position, key = classes.index(event.label), keys.pop(event.label, None)
            classes.remove(event.label)
            if event.kind == "rename" and event.new_label is not None and event.new_label not in classes:
                classes.insert(position, event.new_label)
                keys |= {} if key is None else {event.new_label: key}
        return self.with_classes(classes, keys, class_event=event.number)

    def with_guidelines(self, text: str) -> "Project":
        return replace(self, guidelines=check_text("guidelines", text))

    def save(self) -> None:
        """Write ``project.toml`` atomically.

        A new file is readable by its owner only. The owner may change that, unless the file holds a database URL.
        """
        is_private = self.store is not None or not os.path.exists(self.path(NAME))
        write_atomically(self.path(NAME), self.as_toml().encode(), private=is_private)

    def as_toml(self) -> str:
        table = {
            "schema": SCHEMA,
            "ident": self.ident,
            "source": self.source,
            "pool": self.pool,
            "classes": self.classes,
            "guidelines": self.guidelines,
            "store": self.store,
            "settings": asdict(self.settings),
            "class_keys": self.class_keys or None,
            "keys": self.chosen_keys or None,
            "class_event": self.class_event or None,
            "columns": self.columns or None,
        }
        return write_toml(table)


def model_file(round: int) -> str:
    """File name of the model of a round."""
    return f"round-{round}.npz"


def is_project(path: str) -> bool:
    return os.path.isfile(os.path.join(path, NAME))


def read_ident(folder: str) -> str | None:
    """The id of a project whose creation was interrupted; None if there is none."""
    with suppress(OSError), open(os.path.join(folder, IDENT), encoding="ascii") as file:
        return file.read().strip() or None
    return None


def ensure_ident(folder: str) -> str:
    """The id of a project that is being created, stored so that an interrupted creation can resume."""
    ident = read_ident(folder)
    if ident is None:
        ident = secrets.token_hex(8)
        write_atomically(os.path.join(folder, IDENT), f"{ident}\n".encode(), private=True)
    return ident


def read_project(folder: str) -> Project:
    path = os.path.join(folder, NAME)
    if not os.path.isfile(path):
        raise MissingFile(f"{folder} is not a project: it has no {NAME}", hint="create one with dubito label SOURCE.")
    with reading(path), open(path, "rb") as file:
        found = tomllib.load(file)
    if _typed_value(path, found, "schema", int) != SCHEMA:
        problem = f"{path} has schema {found['schema']!r}, and this dubito knows {SCHEMA}"
        raise InvalidData(problem, hint="open it with the dubito that wrote it, or a newer one.")
    try:
        return Project(
            folder,
            _typed_value(path, found, "ident", str),
            _typed_value(path, found, "source", str),
            _typed_value(path, found, "pool", str),
            tuple(check_name("classes", each) for each in _typed_value(path, found, "classes", list)),
            check_text("guidelines", _typed_value(path, found, "guidelines", str)),
            _read_settings(path, _typed_value(path, found, "settings", dict)),
            _typed_value(path, found, "store", str) if "store" in found else None,
            _read_strings(path, found, "class_keys"),
            _read_strings(path, found, "keys"),
            _typed_value(path, found, "class_event", int) if "class_event" in found else 0,
            _read_strings(path, found, "columns"),
        )
    except InvalidArgument as error:
        raise InvalidData(f"{path}: {error.problem}", hint=error.hint) from error


def _read_strings(path: str, found: dict[str, Any], name: str) -> dict[str, str]:
    """A table of strings; empty if it is missing. It may name classes that were renamed or removed since."""
    values = _typed_value(path, found, name, dict) if name in found else {}
    return {each: _typed_value(path, values, each, str) for each in values}


def _typed_value(path: str, found: dict[str, Any], name: str, kind: type) -> Any:
    """The value of a name, or `InvalidData` if it is missing or of another type."""
    if name not in found:
        raise InvalidData(f"{path} has no {name}", hint="restore the file from a copy, or add it.")
    value = found[name]
    is_right = isinstance(value, int | float if kind is float else kind) and not isinstance(value, bool)
    if not is_right or (kind is list and not all(isinstance(each, str) for each in value)):
        raise InvalidData(f"{path} has {name} = {shorten(value)}", hint=f"write {TYPE_NAMES[kind]}.")
    return value


def _read_settings(path: str, found: dict[str, Any]) -> Settings:
    kinds = {each.name: type(each.default) for each in fields(Settings)}
    unknown = next((name for name in found if name not in kinds), None)
    if unknown is not None:
        hint = f"the settings are {', '.join(kinds)}; leave it out."
        raise InvalidData(f"{path} has an unknown setting {unknown!r}", hint=hint)
    return Settings(**{name: _typed_value(path, found, name, kinds[name]) for name in found})


class ProjectLock:
    """Allows one server per project; the operating system releases the lock when the process ends."""

    def __init__(self, project: Project) -> None:
        path = project.path(".lock")
        with explain_write_errors(path):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if not try_lock(self._file):
            where = _address_in(path)
            os.close(self._file)
            problem = f"another labeling server has {project.folder} open{where}"
            raise InvalidArgument(problem, hint="use its page, or stop it first.")

    def write_address(self, address: str) -> None:
        """Write the server's address to the lock file, for the error message of a second server."""
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        write_all(self._file, address.encode())

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._file)


def _address_in(path: str) -> str:
    with suppress(OSError, UnicodeDecodeError), open(path, encoding="ascii") as file:
        found = re.fullmatch(r"https?://[\w.:\[\]-]{1,200}/?", file.read(300))
        return f", at {found[0]}" if found else ""
    return ""


def read_token(project: Project) -> tuple[str, bool]:
    """The project's token, and whether it was just created; only its owner can read the file."""
    path = project.path("token")
    with suppress(FileNotFoundError), open(path, encoding="ascii") as file:
        found = file.read().strip()
        if len(found) >= 32:
            os.chmod(path, 0o600)
            return found, False
    token = secrets.token_urlsafe(32)
    with explain_write_errors(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(token)
            file.flush()
            os.fsync(file.fileno())
    return token, True


TRACES = re.compile(r"round-\d+\.npz|labels-\d+\.csv|labell?ed\.npz")
"""Names of files that exist only if there were labels."""


def lost_labels(project: Project) -> str | None:
    """A warning if the label database is missing or empty although there were labels; otherwise None."""
    path = project.path("labels.sqlite")
    if project.store is not None or (os.path.exists(path) and os.path.getsize(path)):
        return None
    evidence = next(filter(TRACES.fullmatch, sorted(os.listdir(project.folder))), None)
    if evidence is None:
        return None
    return (
        f"{path} is missing or empty, although {evidence} shows that there were labels: the project begins without "
        "any. If you have a copy, stop the server, restore the copy and start again."
    )
