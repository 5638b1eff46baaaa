"""Open a source of items to embed: a folder of pictures, a table, or a Hugging Face data set."""

import os
from dataclasses import replace
from typing import Literal, get_args

from dubito.embedding.boxes import MARGIN, open_boxes
from dubito.embedding.folder import UNREAD, PictureFolder, find_pictures, open_folder, unread_format
from dubito.embedding.sentences import sentences_of
from dubito.embedding.source import ItemSource
from dubito.embedding.table import PoolTable, choose_columns, is_saved, read_arrow, read_cells, read_saved
from dubito.errors import PASS, InvalidArgument, InvalidData, MissingFile, named
from dubito.experiments.images import SUFFIXES
from dubito.io.durable import NotRegularFile, check_regular
from dubito.io.source import reading, suffix_of
from dubito.request.arrays import check_choice

Split = Literal["sentences", "frames"]
VIDEOS = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg")
ARROW = (".parquet", ".feather", ".arrow")
CELLS = (".csv", ".tsv", ".jsonl", ".json", ".xlsx", ".csv.gz", ".tsv.gz", ".jsonl.gz", ".json.gz")


def open_items(
    path: str,
    *,
    text: str | None = None,
    image: str | None = None,
    id_column: str | None = None,
    labels: bool = True,
    boxes: str | None = None,
    margin: float = MARGIN,
    split: Split | None = None,
) -> ItemSource:
    """Open a source of items to embed. The arguments are those of `dubito.embed`."""
    if split is not None:
        check_choice("split", split, get_args(Split))
        if boxes is not None:
            problem = f"{named('split')} and {named('boxes')} are both given"
            raise InvalidArgument(problem, hint=f"{PASS} one of them.")
    with reading(path):
        found = os.stat(path)
    if not os.path.isdir(path):
        try:
            check_regular(found)  # Reading a pipe, socket or device might never end.
        except NotRegularFile as error:
            raise InvalidArgument(f"{path} {error}", hint="write the table to a file, and pass its path.") from None
    if os.path.isdir(path) and not is_saved(path):
        of_tables = {"text": text, "image": image, "id_column": id_column}
        table_option = next((name for name, value in of_tables.items() if value), "")
        if boxes is not None:
            return open_boxes(_open_folder(path, table_option, labels=False), boxes, margin)
        if split == "sentences":
            raise InvalidArgument("is for texts", argument="split", value=split, hint="leave it out.")
        opened = _open_folder(path, table_option, labels and split is None)
        return replace(opened, has_folders=split == "frames")
    if split == "frames":
        raise InvalidArgument("is for a folder of pictures", argument="split", value=split, hint="leave it out.")
    if boxes is not None:
        raise InvalidArgument("is for a folder of pictures", argument="boxes", value=boxes, hint="leave it out.")
    if os.path.isdir(path):
        rows = read_saved(path)
    elif suffix_of(path) in ARROW:
        rows = read_arrow(path)
    elif suffix_of(path) in CELLS:
        if not found.st_size:
            raise InvalidData(f"{path} is empty (0 bytes).")
        rows = read_cells(path)
    elif suffix_of(path) in SUFFIXES:
        raise InvalidArgument(f"{path} is one picture", hint="pass the folder that contains it.")
    else:
        raise InvalidArgument(
            f"{path} has the suffix {suffix_of(path)!r}",
            hint=f"pass a folder of pictures, or a table: {', '.join((*ARROW, *CELLS))}.",
        )
    if not rows.n_rows:
        raise InvalidData(f"{path} holds no rows.")
    table = PoolTable(rows, choose_columns(rows, text, image, id_column))
    table.check_ids()
    return table if split is None else sentences_of(table)


def _open_folder(path: str, table_option: str, labels: bool) -> PictureFolder:
    names = find_pictures(path)
    if not names:
        tables = sorted(name for name in os.listdir(path) if suffix_of(name) in (*ARROW, *CELLS))
        hint = f"pass a table in it, such as {os.path.join(path, tables[0])}." if tables else "pass another folder."
        unread = find_pictures(path, UNREAD)
        if unread:
            raise InvalidData(
                f"none of the {len(unread)} pictures in {path} can be read: {unread[0]} {unread_format(unread[0])}"
            )
        videos = find_pictures(path, VIDEOS)
        if videos:
            frames = f"ffmpeg -i {videos[0]} -vf fps=1 frames/{os.path.splitext(videos[0])[0]}/%06d.jpg"
            hint = f"write their frames to a folder for each, as {frames}, then pass frames/ with --split frames."
            raise InvalidData(f"the folder {path} holds videos ({videos[0]}), which are not read", hint=hint)
        raise MissingFile(f"the folder {path} holds no pictures ({', '.join(SUFFIXES)})", hint=hint)
    if table_option:
        raise InvalidArgument(
            f"{named(table_option)} is for tables, and {path} is a folder of pictures", hint="leave it out."
        )
    return open_folder(path, names, labels=labels)
