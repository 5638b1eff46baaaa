"""Files of a published collection: as they were unpacked, or inside their tar archive."""

import tarfile
from collections.abc import Collection
from pathlib import Path

from dubito.errors import InvalidData
from dubito.files.entries import reading


def unpacked(folders: Collection[Path], required: Collection[str]) -> Path | None:
    """The first folder that holds every required file, or None."""
    return next((folder for folder in folders if all((folder / name).is_file() for name in required)), None)


def read_unpacked(folder: Path, names: Collection[str]) -> dict[str, bytes]:
    """The contents of those of the files that are there, by name."""
    found = {}
    for name in names:
        if (folder / name).is_file():
            with reading(str(folder / name)):
                found[name] = (folder / name).read_bytes()
    return found


def read_archive(path: Path, required: Collection[str], optional: Collection[str]) -> dict[str, bytes]:
    """The same out of a compressed tar archive, into memory: nothing is written, so no path inside can lead anywhere.

    Files go by the last part of their path. Links and devices are passed over.
    """
    wanted = {*required, *optional}
    found: dict[str, bytes] = {}
    with reading(str(path)), tarfile.open(path, "r:gz") as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            content = archive.extractfile(member) if member.isfile() and name in wanted - found.keys() else None
            if content is not None:
                found[name] = content.read()
    missing = next((name for name in required if name not in found), None)
    if missing is not None:
        raise InvalidData(f"{path} holds no {missing}", mend="it is not the published archive, or only a part of it.")
    return found
