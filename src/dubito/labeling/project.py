"""A project: a folder beside the source with its settings, its pool, its labels, and what was learned of them."""

import fcntl
import json
import os
import re
import secrets
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any

from dubito.errors import InvalidArgument, InvalidData, MissingFile, shorten
from dubito.io.durable import explain_write_errors, try_lock, write_atomically
from dubito.io.source import reading
from dubito.labeling.events import check_name, check_text

SCHEMA = 1
NAME = "project.toml"
IDENT = "ident"
MOST_CLASSES = 500
LAYOUT, OWN, FAILURE = "layout.npz", "probabilities.npz", "learning-failure.txt"
"""The map, what the user's own model says, and why learning failed, while it does."""
KINDS = {int: "a whole number", float: "a number", str: "text in quotes", list: "names in quotes", dict: "a table"}
"""What a file is to say, in words."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How labels are asked for."""

    batch: int = 20
    """Labels between two rounds."""
    overlap: int = 1
    """How many people answer each item."""
    audit: float = 0.0
    """The share of items that are drawn at random."""
    strategy: str = "auto"

    def __post_init__(self) -> None:
        _within("batch", self.batch, 1, 10_000)
        _within("overlap", self.overlap, 1, 100)
        _within("audit", self.audit, 0.0, 1.0)


def _within(name: str, value: float, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidArgument("is out of bounds", argument=name, value=value, hint=f"pass {least:g} to {most:g}.")


@dataclass(frozen=True, slots=True)
class Project:
    """What ``project.toml`` says."""

    folder: str
    ident: str
    """Tells the project from others, whatever its folder is called."""
    source: str
    """What the pool was made of, seen from the project's folder."""
    pool: str
    """The pool file, seen from there."""
    classes: tuple[str, ...] = ()
    guidelines: str = ""
    settings: Settings = field(default_factory=Settings)
    store: str | None = None
    """The address of a database; None for SQLite in the folder."""
    class_keys: Mapping[str, str] = field(default_factory=dict)
    """By class, the key of the request that added it: the same request sent again is answered, not refused."""

    @property
    def name(self) -> str:
        """What a person calls it."""
        return os.path.basename(os.path.abspath(self.folder)).removesuffix(".dubito")

    @property
    def pool_path(self) -> str:
        """Where the pool is."""
        return os.path.normpath(os.path.join(self.folder, self.pool))

    @property
    def source_path(self) -> str:
        """Where the source is."""
        return os.path.normpath(os.path.join(self.folder, self.source))

    def path(self, name: str) -> str:
        """A file of the project."""
        return os.path.join(self.folder, name)

    def with_class(self, name: str, key: str | None = None) -> "Project":
        """The same with a class more, added by the request with that key."""
        clean = check_name("class", name)
        if clean in self.classes:
            raise InvalidArgument(f"there is a class {clean!r} already", hint="choose another name.")
        if len(self.classes) >= MOST_CLASSES:
            raise InvalidArgument(f"there are {MOST_CLASSES} classes", hint="label with fewer.")
        keys = self.class_keys if key is None else {**self.class_keys, clean: key}
        return replace(self, classes=(*self.classes, clean), class_keys=keys)

    def with_guidelines(self, text: str) -> "Project":
        """The same with other guidelines."""
        return replace(self, guidelines=check_text("guidelines", text))

    def save(self) -> None:
        """Write ``project.toml``, whole or not at all.

        It is made for its owner alone. Somebody may let others read it, unless it has the address of a store.
        """
        is_private = self.store is not None or not os.path.exists(self.path(NAME))
        write_atomically(self.path(NAME), self.as_toml().encode(), private=is_private)

    def as_toml(self) -> str:
        """The text of it."""
        lines = [
            f"schema = {SCHEMA}",
            f"ident = {_quoted(self.ident)}",
            f"source = {_quoted(self.source)}",
            f"pool = {_quoted(self.pool)}",
            f"classes = [{', '.join(map(_quoted, self.classes))}]",
            f"guidelines = {_quoted(self.guidelines)}",
        ]
        lines += [] if self.store is None else [f"store = {_quoted(self.store)}"]
        known = ((each.name, getattr(self.settings, each.name)) for each in fields(Settings))
        lines += ["", "[settings]", *(f"{name} = {_toml(value)}" for name, value in known)]
        if self.class_keys:
            lines += [
                "",
                "[class_keys]",
                *(f"{_quoted(name)} = {_quoted(key)}" for name, key in self.class_keys.items()),
            ]
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A string of TOML: JSON's, less what TOML wants escaped besides."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml(value: object) -> str:
    return _quoted(value) if isinstance(value, str) else repr(value)


def model_file(round: int) -> str:
    """Where the arrays of a round are."""
    return f"round-{round}.npz"


def is_project(path: str) -> bool:
    """Whether a path is the folder of a project."""
    return os.path.isfile(os.path.join(path, NAME))


def read_ident(folder: str) -> str | None:
    """The id of a project that is being made in a folder, where that was begun before."""
    with suppress(OSError), open(os.path.join(folder, IDENT), encoding="ascii") as file:
        return file.read().strip() or None
    return None


def keep_ident(folder: str) -> str:
    """The id of a project that is being made, written down so that a store that was begun is known again."""
    ident = read_ident(folder)
    if ident is None:
        ident = secrets.token_hex(8)
        write_atomically(os.path.join(folder, IDENT), f"{ident}\n".encode(), private=True)
    return ident


def read_project(folder: str) -> Project:
    """The project in a folder."""
    path = os.path.join(folder, NAME)
    if not os.path.isfile(path):
        raise MissingFile(f"{folder} is no project: it has no {NAME}", hint="make one with dubito label SOURCE.")
    with reading(path), open(path, "rb") as file:
        found = tomllib.load(file)
    if _kept(path, found, "schema", int) != SCHEMA:
        problem = f"{path} has schema {found['schema']!r}, and this dubito knows {SCHEMA}"
        raise InvalidData(problem, hint="open it with the dubito that wrote it, or a newer one.")
    try:
        return Project(
            folder,
            _kept(path, found, "ident", str),
            _kept(path, found, "source", str),
            _kept(path, found, "pool", str),
            tuple(check_name("classes", each) for each in _kept(path, found, "classes", list)),
            check_text("guidelines", _kept(path, found, "guidelines", str)),
            _read_settings(path, _kept(path, found, "settings", dict)),
            _kept(path, found, "store", str) if "store" in found else None,
            _read_class_keys(path, found),
        )
    except InvalidArgument as error:
        raise InvalidData(f"{path}: {error.problem}", hint=error.hint) from error


def _read_class_keys(path: str, found: dict[str, Any]) -> dict[str, str]:
    """Those of classes that there are: a person may have renamed or removed others."""
    keys = _kept(path, found, "class_keys", dict) if "class_keys" in found else {}
    return {name: _kept(path, keys, name, str) for name in keys if name in found["classes"]}


def _kept(path: str, found: dict[str, Any], name: str, kind: type) -> Any:
    """What a file says under a name, where it is of that kind."""
    if name not in found:
        raise InvalidData(f"{path} has no {name}", hint="restore it from a copy, or write it in.")
    value = found[name]
    is_right = isinstance(value, int | float if kind is float else kind) and not isinstance(value, bool)
    if not is_right or (kind is list and not all(isinstance(each, str) for each in value)):
        raise InvalidData(f"{path} has {name} = {shorten(value)}", hint=f"write {KINDS[kind]}.")
    return value


def _read_settings(path: str, found: dict[str, Any]) -> Settings:
    kinds = {each.name: type(each.default) for each in fields(Settings)}
    odd = next((name for name in found if name not in kinds), None)
    if odd is not None:
        raise InvalidData(f"{path} has a setting {odd!r}", hint=f"there are {', '.join(kinds)}: leave it out.")
    return Settings(**{name: _kept(path, found, name, kinds[name]) for name in found})


class ProjectLock:
    """One server a project: held until the process ends, however it ends."""

    def __init__(self, project: Project) -> None:
        path = project.path(".lock")
        with explain_write_errors(path):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not try_lock(self._file):
            where = _address_in(path)
            os.close(self._file)
            problem = f"another dubito label has {project.folder} open{where}"
            raise InvalidArgument(problem, hint="use the page of that one, or stop it first.")

    def tell(self, address: str) -> None:
        """Leave the address for whoever tries next."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, address.encode(), 0)

    def close(self) -> None:
        """Let go."""
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)


def _address_in(path: str) -> str:
    with suppress(OSError, UnicodeDecodeError), open(path, encoding="ascii") as file:
        found = re.fullmatch(r"https?://[\w.:\[\]-]{1,200}/?", file.read(300))
        return f", at {found[0]}" if found else ""
    return ""


def read_token(project: Project) -> tuple[str, bool]:
    """The project's token, and whether it was made just now; the file is its owner's alone."""
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
