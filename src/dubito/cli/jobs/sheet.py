"""The contact sheet of ``dubito select``: picks as a page to label from."""

import os
from dataclasses import dataclass
from pathlib import Path

from dubito.cli.inputs.carried import picture_folders
from dubito.cli.printing.messages import say
from dubito.errors import InvalidArgument, MissingFile, OutputExists
from dubito.files import write_atomically
from dubito.problem import Selection


@dataclass(frozen=True, slots=True)
class Page:
    """Where a contact sheet goes, and where its pictures come from."""

    path: str
    folders: tuple[Path, ...]
    force: bool

    def write(self, selection: Selection, *, quiet: bool) -> None:
        """Render the picks and say where they are."""
        from dubito.reports.sheet import Sheet, picture_column, picture_paths, render_sheet

        names = [str(name) for name in (selection.indices if selection.ids is None else selection.ids).tolist()]
        texts = {name: [str(value) for value in values] for name, values in selection.carried.items()}
        shown = picture_column({**texts, "": names})
        pictures = None if shown is None else picture_paths({**texts, "": names}[shown], self.folders)
        lost = pictures is not None and None in pictures
        shown_texts = {name: values for name, values in texts.items() if name != shown or lost}
        title = f"{len(selection)} picks by {selection.strategy}"
        page = render_sheet(Sheet(title, names, selection.priorities.tolist(), shown_texts, pictures))
        write_atomically(self.path, page.encode("utf-8", "replace"), new=not self.force)
        kind = "texts" if pictures is None else f"{sum(path is not None for path in pictures)} pictures"
        say(f"a page of {len(selection)} picks ({kind}) is written to {self.path}.", quiet=quiet)


def check_sheet(path: str, pool: str, pictures: str | None, force: bool) -> Page:
    """Refuse a page that could not be written, before anything is computed."""
    if not path.lower().endswith((".html", ".htm")):
        raise InvalidArgument(f"--sheet {path} is no page", mend="give it the suffix .html.")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise MissingFile(f"{path} cannot be written: its folder does not exist", mend="make it first.")
    if os.path.exists(path) and not force:
        raise OutputExists(f"{path} exists", mend="pass --force to replace it, or another path.")
    return Page(path, tuple(picture_folders(pool, pictures)), force)
