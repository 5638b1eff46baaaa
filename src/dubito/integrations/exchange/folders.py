"""Class folders: pictures to be sorted into one folder a class, and the folders they ended in."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence

from dubito.errors import InvalidData, MissingFile, OutputExists
from dubito.integrations.exchange.items import ID, INDEX, Item, Said, read_json
from dubito.io import write_atomically

LIST = "dubito.json"
"""In the folder: which item each file is."""
UNSORTED = "_unsorted"


def write_folder(items: Sequence[Item], classes: Sequence[str], folder: str, pictures: str) -> None:
    """Copies of the pictures in ``_unsorted``, an empty folder for each class, and the list of what is what."""
    if os.path.exists(folder) and os.listdir(folder):
        raise OutputExists(f"{folder} exists and is not empty", hint="pass another folder.")
    odd = next((name for name in classes if name in (".", "..") or "/" in name or name.startswith("_")), None)
    if odd is not None:
        raise InvalidData(f"the class {odd!r} can be no folder's name", hint="give it another name.")
    places = [os.path.join(pictures, item.shown) for item in items]
    missing = next((place for place in places if not os.path.isfile(place)), None)
    if missing is not None:
        raise MissingFile(f"{missing} is not there", hint="say where the pictures are with --pictures FOLDER.")
    for name in (UNSORTED, *classes):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    listed = {}
    for rank, (item, place) in enumerate(zip(items, places, strict=True), start=1):
        name = f"{rank:05d}-{os.path.basename(place)}"
        shutil.copyfile(place, os.path.join(folder, UNSORTED, name))
        listed[name] = item.payload
    data = json.dumps({"schema": 1, "files": listed}, ensure_ascii=False, indent=1)
    write_atomically(os.path.join(folder, LIST), f"{data}\n".encode())


def read_folder(path: str) -> Iterator[Said]:
    """The class of a file is the folder it lies in; what is still in ``_unsorted``, or gone, was skipped.

    Without the list, an item is called by its path within the folder.
    """
    if not os.path.isdir(path):
        raise MissingFile(f"{path} is no folder", hint="pass the folder of class folders.")
    place = os.path.join(path, LIST)
    listed = read_json(place)["files"] if os.path.isfile(place) else None
    for label in sorted(os.listdir(path)):
        inside = os.path.join(path, label)
        if label.startswith((".", "_")) or not os.path.isdir(inside):
            continue
        for name in sorted(os.listdir(inside)):
            if name.startswith(".") or not os.path.isfile(os.path.join(inside, name)):
                continue
            if listed is not None and name not in listed:
                hint = f"leave names as they are: {LIST} says which item a file is."
                raise InvalidData(f"{os.path.join(inside, name)} is no file that was exported", hint=hint)
            known = {ID: f"{label}/{name}"} if listed is None else listed[name]
            key = INDEX if INDEX in known else ID
            yield Said(str(known[key]), key, label)
