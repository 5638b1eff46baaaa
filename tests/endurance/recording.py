"""What a program does to the files of a folder, recorded by strace as a list of changes."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CALLS = (
    "openat,write,pwrite64,lseek,ftruncate,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,"
    "mkdir,mkdirat,rmdir,sendfile,copy_file_range,writev,pwritev,fallocate"
)
UNKNOWN = ("sendfile", "copy_file_range", "writev", "pwritev", "fallocate")
"""Calls that would change a file, and that nothing here knows how to replay."""
LINE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)(?:<(.*?)>)?(?: .*)?")
RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
FOLDER_AND_NAME = re.compile(r'(?:[A-Z_]+|\d+)<(.*?)>, "(.*?)"')


@dataclass(frozen=True, slots=True)
class Change:
    """One call that changed a file, synced it, or changed a name."""

    call: str
    """``create``, ``write``, ``truncate``, ``sync``, ``rename``, ``link``, ``unlink`` or ``mkdir``."""
    path: str
    """Of a rename or link, the old name."""
    offset: int = 0
    """Of a write, where; of a truncate, the new size; None for the end of the file."""
    data: bytes = b""
    target: str = ""
    """Of a rename or link, the new name."""


def record(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> list[Change]:
    """Run a command, and return what it and its processes changed in a folder, in order."""
    trace = folder.parent / f"{folder.name}.strace"
    tracer = ["strace", "-f", "-y", "-xx", "-s", "100000000", "--seccomp-bpf", "-e", f"trace={CALLS}", "-o", str(trace)]
    subprocess.run([*tracer, *command], check=True, env={**os.environ, **environment}, timeout=600)
    try:
        return list(_changes(trace, f"{os.path.realpath(folder)}/"))
    finally:
        trace.unlink()


def _lines(trace: Path) -> Iterator[str]:
    """Calls in the order in which they ended."""
    begun: dict[str, str] = {}
    with trace.open(encoding="ascii") as file:
        for line in map(str.rstrip, file):
            process, _, rest = line.partition(" ")  # Short process numbers are followed by several spaces.
            if rest.endswith("<unfinished ...>"):
                begun[process] = line.removesuffix("<unfinished ...>")
            elif found := RESUMED.fullmatch(rest.strip()):
                yield begun.pop(process) + found[1]
            else:
                yield line


def _text(escaped: str) -> str:
    return os.fsdecode(_bytes(escaped))


def _bytes(escaped: str) -> bytes:
    """Strace writes every byte as \\xNN, or some as themselves in paths that it found."""
    if escaped.count("\\x") * 4 == len(escaped):
        return bytes.fromhex(escaped.replace("\\x", ""))
    return escaped.encode().decode("unicode_escape").encode("latin-1")


def _changes(trace: Path, root: str) -> Iterator[Change]:
    places: dict[tuple[str, str], int | None] = {}
    """By thread and descriptor, where the next plain write goes; None for the end of the file."""
    for line in _lines(trace):
        found = LINE.fullmatch(line.replace(" = ?", " = -1"))
        if found is None or int(found[4]) < 0:
            continue
        thread, call, arguments, result = found[1], found[2], found[3], int(found[4])
        if call in (
            "rename",
            "renameat",
            "renameat2",
            "link",
            "linkat",
            "unlink",
            "unlinkat",
            "mkdir",
            "mkdirat",
            "rmdir",
        ):
            yield from _naming(call, arguments, root)
            continue
        if call == "openat":
            path, flags = _text(found[5] or ""), arguments.rsplit('", ', 1)[1].split(",")[0].split("|")
            places[thread, str(result)] = None if "O_APPEND" in flags else 0
            if path.startswith(root) and "O_CREAT" in flags:
                yield Change("create", path)
            if path.startswith(root) and "O_TRUNC" in flags:
                yield Change("truncate", path, 0)
            continue
        descriptor, _, rest = arguments.partition("<")
        name, _, rest = rest.partition(">")
        path = _text(name)
        if not f"{path}/".startswith(root):
            continue
        if call in UNKNOWN:
            raise NotImplementedError(f"{call} of {path} cannot be replayed")
        if call == "lseek":
            if places.get((thread, descriptor), 0) is not None:  # A file opened with O_APPEND is written at its end.
                places[thread, descriptor] = result
        elif call == "ftruncate":
            yield Change("truncate", path, int(rest.rsplit(", ", 1)[1]))
        elif call in ("fsync", "fdatasync"):
            yield Change("sync", path)
        else:
            data = _bytes(rest[rest.index('"') + 1 : rest.rindex('"')])[:result]
            if call == "pwrite64":
                yield Change("write", path, int(rest.rsplit(", ", 1)[1]), data)
            else:
                place = places.get((thread, descriptor), 0)
                yield Change("write", path, -1 if place is None else place, data)
                places[thread, descriptor] = None if place is None else place + result


def _naming(call: str, arguments: str, root: str) -> Iterator[Change]:
    if "at" in call:
        names = [os.path.join(_text(folder), _text(name)) for folder, name in FOLDER_AND_NAME.findall(arguments)]
    else:
        names = [_text(name) for name in re.findall(r'"(.*?)"', arguments)]
    kind = {"ren": "rename", "lin": "link", "unl": "unlink", "mkd": "mkdir", "rmd": "unlink"}[call[:3]]
    if any(name.startswith(root) for name in names):
        yield Change(kind, names[0], target=names[1] if len(names) > 1 else "")
