"""Where published files are kept."""

import os
from pathlib import Path

from dubito.errors import InvalidArgument, MissingFile

DATA_VARIABLE = "DUBITO_DATA"
"""Of the environment: the folder of published files."""


def default_folder() -> Path:
    """Where published collections are kept unless a folder is named.

    What the environment variable ``DUBITO_DATA`` says, else ``dubito`` in the user's cache.
    """
    named = os.environ.get(DATA_VARIABLE)
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "dubito")


def data_folder(data_dir: str | os.PathLike[str] | None, download: bool) -> Path:
    """The folder of published files, by its name or the default; it must exist unless a download may make it."""
    if data_dir is None:
        return default_folder()
    folder = Path(data_dir).expanduser()
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument(
            "is a file", argument="data_dir", value=str(folder), mend="pass the folder that holds it."
        )
    if not folder.exists() and not download:
        raise MissingFile("does not exist", argument="data_dir", value=str(folder), mend="check the path.")
    return folder
