"""Boxes of pictures, as a detector predicts them: each becomes an item, with its picture as its group.

COCO JSON holds predictions (a list) or annotations (an object with ``images``); the box of a mask is its bounding box.
A folder of YOLO text files has one file for each picture with boxes. A CSV has columns for the picture, the box, and
optionally its class and score. Boxes that cannot be used are listed and left out.
"""

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from dubito.doubt import margin_doubt
from dubito.embedding.decoder import Crop, upright_size, with_margin
from dubito.embedding.embedder import Takes
from dubito.embedding.folder import PictureFolder
from dubito.embedding.source import Content, LeftOut, ShardItems
from dubito.errors import InvalidArgument, InvalidData
from dubito.io.cells import is_missing
from dubito.io.missing_values import missing_as_nan
from dubito.io.opening import open_source
from dubito.io.source import Entry, as_one_array, reading, suffix_of
from dubito.registry import require
from dubito.request.ids import text_key
from dubito.request.labels import label_keys

MARGIN = 0.1
"""A crop is larger than its box by this share of the box on each side."""
MOST_BOXES = 10_000
"""Maximum number of boxes in a picture."""
EMPTY_DOUBT = 0.5
"""The doubt of a picture without boxes, about which the detector says nothing."""
NO_CORNERS = (math.nan, math.nan, math.nan, math.nan)
COLUMNS: dict[str, tuple[str, ...]] = {
    "picture": ("image", "image_id", "path", "file", "file_name", "filename", "picture"),
    "left": ("x", "x1", "xmin", "x_min", "left"),
    "top": ("y", "y1", "ymin", "y_min", "top"),
    "right": ("x2", "xmax", "x_max", "right"),
    "bottom": ("y2", "ymax", "y_max", "bottom"),
    "width": ("w", "width", "bbox_width"),
    "height": ("h", "height", "bbox_height"),
    "predicted": ("class", "label", "category", "category_id", "predicted", "name"),
    "score": ("score", "confidence", "conf"),
}
"""Names of the columns of a CSV."""


@dataclass(frozen=True, slots=True)
class Box:
    name: str
    """Its name in messages, such as ``annotation 7``."""
    picture: str
    """A path, a name with or without suffix, or a number."""
    corners: tuple[float, float, float, float]
    """Left, top, right and bottom."""
    is_share: bool = False
    """Whether the corners are shares of the picture."""
    predicted: str | None = None
    score: float | None = None
    doubt: float | None = None
    """Computed from class scores; None without class scores, NaN if they are invalid."""


@dataclass(frozen=True, slots=True)
class Item:
    """A row of the pool."""

    id: str
    picture: str
    corners: tuple[float, float, float, float]
    predicted: str | None
    score: float | None
    doubt: float | None
    is_whole: bool = False


@dataclass(frozen=True)
class BoxSource:
    """Crops as items: pictures in natural order, and the boxes of a picture in the order of their file."""

    path: str
    items: tuple[Item, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    fingerprint: str
    margin: float
    sizes: Mapping[str, tuple[int, int]]
    """Width and height of each picture that could be measured."""
    takes: Takes = "pictures"
    shown: str = "path"
    has_ids: bool = True

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def columns(self) -> dict[str, str]:
        return {"boxes": "yes", "margin": f"{self.margin:g}"}

    def shards(self, n_rows: int) -> Iterator[ShardItems]:
        for start in range(0, len(self.items), n_rows):
            items = self.items[start : start + n_rows]
            yield ShardItems([self._content(each) for each in items], self._table(items))

    def contents(self) -> Iterator[Content]:
        return map(self._content, self.items)

    def _content(self, item: Item) -> Content:
        path = os.path.join(self.path, item.picture)
        if item.is_whole:
            return path
        return Crop(path, with_margin(item.corners, self.margin, *self.sizes[item.picture]))

    def _table(self, items: Sequence[Item]) -> Any:
        pyarrow = require("pyarrow", extra="files")
        boxes = np.array([each.corners for each in items])
        columns = {
            "id": pyarrow.array([each.id for each in items], pyarrow.string()),
            "path": pyarrow.array([each.picture for each in items], pyarrow.string()),
            "left": pyarrow.array(boxes[:, 0]),
            "top": pyarrow.array(boxes[:, 1]),
            "width": pyarrow.array(boxes[:, 2] - boxes[:, 0]),
            "height": pyarrow.array(boxes[:, 3] - boxes[:, 1]),
            "picture_width": pyarrow.array([self.sizes[each.picture][0] for each in items]),
            "picture_height": pyarrow.array([self.sizes[each.picture][1] for each in items]),
            "predicted": pyarrow.array([each.predicted for each in items], pyarrow.string()),
            "confidence": pyarrow.array([each.score for each in items], pyarrow.float64()),
        }
        if all(each.doubt is not None for each in self.items):
            columns["doubt"] = pyarrow.array([each.doubt for each in items], pyarrow.float64())
        return pyarrow.table(columns)


def open_boxes(folder: PictureFolder, path: str, margin: float) -> BoxSource:
    """The boxes of a folder's pictures.

    Raises InvalidData if a picture has more than `MOST_BOXES`, or none of the boxes is in a picture of the folder.
    """
    boxes = read_boxes(path)
    find = picture_finder(folder.names)
    by_picture: dict[str, list[Box]] = {}
    left_out = list(folder.left_out)
    for box in boxes:
        name = find(box.picture)
        if name is None:
            problem = f"is in the picture {box.picture!r}, which names no file or several files in {folder.path}"
            left_out.append(LeftOut(box.name, problem))
        else:
            by_picture.setdefault(name, []).append(box)
    if boxes and not by_picture:
        problem = f"none of the {len(boxes)} boxes of {path} is in a picture of {folder.path}: {left_out[-1]}"
        raise InvalidData(problem, hint="name pictures by their path in the folder, or by their name.")
    name, most = max(((name, len(found)) for name, found in by_picture.items()), key=lambda x: x[1], default=("", 0))
    if most > MOST_BOXES:
        problem = f"{path} holds {most:,} boxes in the picture {name}, more than the {MOST_BOXES:,} that are read"
        raise InvalidData(problem, hint="keep its boxes with the largest scores.")
    items, sizes = list[Item](), dict[str, tuple[int, int]]()
    n_clipped = 0
    for name in folder.names:
        size = upright_size(os.path.join(folder.path, name))
        sizes[name] = size or (1, 1)
        kept = list[Item]()
        for number, box in enumerate(by_picture.get(name, [])):
            # A picture that cannot be read is reported once, when it is decoded.
            corners, problem = ((0.0, 0.0, 1.0, 1.0), "") if size is None else clip(box, *size)
            if problem:
                left_out.append(LeftOut(f"{name}#{number}", f"({box.name}) {problem}"))
            elif size is not None:
                n_clipped += corners != scaled(box, *size)
                doubt = box.doubt if box.doubt is not None or box.score is None else 1.0 - box.score
                kept.append(Item(f"{name}#{number}", name, corners, box.predicted, box.score, doubt))
        whole = 0.0, 0.0, float(sizes[name][0]), float(sizes[name][1])
        items += kept or [Item(name, name, whole, None, None, EMPTY_DOUBT, is_whole=True)]
    notes = [_summary(path, items)]
    notes += [f"{n_clipped:,} boxes reach beyond their pictures and were clipped."] if n_clipped else []
    if any(each.doubt is None for each in items):
        notes.append("some boxes have no score, so the pool has no doubt.")
    digest = hashlib.blake2b(f"{folder.fingerprint} {boxes!r}".encode("utf-8", "surrogateescape"), digest_size=16)
    return BoxSource(folder.path, tuple(items), tuple(left_out), tuple(notes), digest.hexdigest(), margin, sizes)


def _summary(path: str, items: Sequence[Item]) -> str:
    n_whole, n_pictures = sum(each.is_whole for each in items), len({each.picture for each in items})
    return (
        f"{path}: {len(items) - n_whole:,} boxes in {n_pictures - n_whole:,} pictures; {n_whole:,} more have no "
        "boxes, and are one row each. Pick whole pictures with --group-column path."
    )


def scaled(box: Box, width: int, height: int) -> tuple[float, float, float, float]:
    """The corners in pixels."""
    left, top, right, bottom = box.corners
    across, down = (width, height) if box.is_share else (1, 1)
    return left * across, top * down, right * across, bottom * down


def clip(box: Box, width: int, height: int) -> tuple[tuple[float, float, float, float], str]:
    """The part of a box that is inside its picture, and what is wrong with the box, if anything.

    Examples
    --------
    >>> clip(Box("a", "a", (-5.0, 0.0, 10.0, 10.0)), 20, 20)
    ((0.0, 0.0, 10.0, 10.0), '')
    >>> clip(Box("a", "a", (5, 0, 5, 10)), 20, 20)[1]
    'is empty: 0 x 10 pixels'
    """
    left, top, right, bottom = corners = scaled(box, width, height)
    shown = f"{right - left:g} x {bottom - top:g} pixels"
    if all(map(math.isnan, corners)):
        return corners, "has no box, and no mask that can be read"
    if not all(map(math.isfinite, corners)):
        return corners, "has a corner that is not a finite number"
    if box.score is not None and not 0.0 <= box.score <= 1.0:
        return corners, f"has the score {box.score:g}, which is not from 0 to 1"
    if box.doubt is not None and math.isnan(box.doubt):
        return corners, "has class scores that are not a list of numbers, negative, or all 0"
    if right < left or bottom < top:
        return corners, f"has a negative size: {shown}"
    if right == left or bottom == top:
        return corners, f"is empty: {shown}"
    if right <= 0 or bottom <= 0 or left >= width or top >= height:
        return corners, f"lies outside its picture of {width} x {height} pixels"
    return (max(left, 0.0), max(top, 0.0), min(right, float(width)), min(bottom, float(height))), ""


def picture_finder(names: Sequence[str]) -> Callable[[str], str | None]:
    """A function that finds a picture by its path, name, stem or number; it returns None for none or several."""
    by_key: dict[str, str | None] = {}

    def add(key: str, name: str) -> None:
        key = text_key(key)
        by_key[key] = name if by_key.get(key, name) == name else None

    for name in names:
        path = PurePosixPath(name)
        stem = path.stem
        for key in {name, str(path.with_suffix("")), path.name, stem, *([str(int(stem))] if stem.isdecimal() else [])}:
            add(key, name)
    exact = set(names)

    @cache
    def find(picture: str) -> str | None:
        path = PurePosixPath(picture.replace("\\", "/"))
        keys = [str(path), str(path.with_suffix("")) if path.suffix else "", path.name, path.stem]
        return (
            str(path) if str(path) in exact else next(filter(None, (by_key.get(text_key(key)) for key in keys)), None)
        )

    return find


def read_boxes(path: str) -> list[Box]:
    """The boxes of a COCO file, a folder of YOLO text files or a CSV."""
    if os.path.isdir(path):
        return list(_read_yolo(path))
    suffix = suffix_of(path)
    if suffix == ".json":
        return list(_read_coco(path))
    if suffix in (".csv", ".tsv", ".parquet", ".jsonl"):
        return list(_read_table(path))
    hint = "pass COCO JSON (.json), a folder of YOLO text files, or a table (.csv)."
    raise InvalidArgument(f"{path} has the suffix {suffix!r}", argument="boxes", hint=hint)


def _read_coco(path: str) -> Iterator[Box]:
    with reading(path), open(path, "rb") as file:
        content = json.load(file)
    is_whole = isinstance(content, Mapping) and isinstance(content.get("images"), list)
    parts = content if is_whole else {"annotations": content}
    records, images, kinds = (parts.get(name, []) for name in ("annotations", "images", "categories"))
    if not all(
        isinstance(part, list) and all(isinstance(each, Mapping) for each in part) for part in (records, images, kinds)
    ):
        hint = "pass an object with images and annotations, or a list of predictions."
        raise InvalidData(f"{path} is not a COCO file", hint=hint)
    names = dict[str, str]()
    for image in images:
        name, key = image.get("file_name"), str(image.get("id"))
        if not isinstance(name, str) or "id" not in image:
            problem = f"{path} has an image without an id or a file_name: {str(image)[:100]}"
            raise InvalidData(problem, hint="give each image both.")
        if key in names:
            problem = f"{path} has two images with the id {key} ({names[key]} and {name})"
            raise InvalidData(problem, hint="give each image its own id.")
        names[key] = name
    categories = {str(each.get("id")): str(each.get("name", each.get("id"))) for each in kinds}
    for parts, one, plural in ((records, "box", "boxes"), (kinds, "category", "categories")):
        used = Counter(str(each["id"]) for each in parts if "id" in each)
        repeated = next((key for key, count in used.items() if count > 1), None)
        if repeated is not None:
            problem = f"{path} has {used[repeated]} {plural} with the id {repeated}"
            raise InvalidData(problem, hint=f"give each {one} its own id, or none.")
    for number, each in enumerate(records):
        name = f"annotation {each['id']}" if "id" in each else f"box {number} of {os.path.basename(path)}"
        image_id = str(each.get("image_id", each.get("file_name", "")))
        category = each.get("category_id", each.get("category"))
        yield Box(
            name,
            names.get(image_id, f"id {image_id}" if is_whole else image_id),
            _coco_corners(each),
            predicted=None if category is None else categories.get(str(category), str(category)),
            score=_number(each["score"]) if each.get("score") is not None else None,
            doubt=None if each.get("scores") is None else _class_doubt(each["scores"]),
        )


def _coco_corners(record: Mapping[str, Any]) -> tuple[float, float, float, float]:
    """The corners from ``bbox`` (left, top, width, height), or from a mask: polygons, or run lengths."""
    box, mask = record.get("bbox"), record.get("segmentation")
    if isinstance(box, list) and len(box) == 4:
        left, top, width, height = map(_number, box)
        return left, top, left + width, top + height
    if isinstance(mask, list) and mask and all(isinstance(each, list) and len(each) >= 6 for each in mask):
        points = np.array(
            [(_number(x), _number(y)) for each in mask for x, y in zip(each[::2], each[1::2], strict=False)]
        )
        (left, top), (right, bottom) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
        return left, top, right, bottom
    if isinstance(mask, Mapping) and isinstance(mask.get("size"), list) and mask.get("counts"):
        with suppress(TypeError, ValueError, OverflowError):
            return _mask_corners(mask["counts"], *map(int, mask["size"]))
    return NO_CORNERS


def _mask_corners(counts: list[int] | str, height: int, width: int) -> tuple[float, float, float, float]:
    """The box of a run-length encoded mask: lengths of runs outside and inside in turn, column by column.

    Examples
    --------
    >>> _mask_corners([7, 2, 3, 2, 6], 5, 4), _mask_corners("72303", 5, 4)
    ((1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 3.0, 4.0))
    """
    runs = np.array(counts if isinstance(counts, list) else _unpacked(counts))
    if runs.ndim != 1 or len(runs) == 0 or runs.min() < 0:
        return NO_CORNERS
    ends = np.cumsum(runs)
    starts, stops = ends[0:-1:2], ends[1::2]
    starts, stops = starts[stops > starts], stops[stops > starts] - 1
    if not len(starts) or height < 1 or ends[-1] != height * width:
        return NO_CORNERS
    tops, bottoms = starts % height, stops % height
    is_tall = starts // height != stops // height
    top, bottom = (0, height - 1) if is_tall.any() else (tops.min(), bottoms.max())
    return float(starts[0] // height), float(top), float(stops[-1] // height + 1), float(bottom + 1)


MOST_BITS = 60
"""Maximum number of bits of a compressed count."""


def _unpacked(text: str) -> list[int]:
    """The lengths in COCO's compressed text: five bits per character; from the fourth on, differences to two before."""
    counts, value, shift = list[int](), 0, 0
    for code in text.encode():
        bits = code - 48
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32 and shift < MOST_BITS:
            continue
        value -= (1 << shift) if bits & 16 else 0
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value = shift = 0
    return counts


def _class_doubt(scores: object) -> float | None:
    """The doubt from class scores, which need not add up to 1; None for a single score, NaN for invalid ones.

    Examples
    --------
    >>> _class_doubt([0.8, 0.4, 0.4]), _class_doubt([0.9]), _class_doubt([2, -1])
    (0.75, None, nan)
    """
    numbers = np.array([_number(each) for each in scores] if isinstance(scores, list) else [math.nan])
    with np.errstate(over="ignore"):
        total = float(numbers.sum())
    if not math.isfinite(total) or (numbers < 0.0).any() or (len(numbers) > 0 and total == 0.0):
        return math.nan
    return None if len(numbers) < 2 else float(margin_doubt((numbers / total)[None])[0])


def _read_yolo(folder: str) -> Iterator[Box]:
    """Read lines of class, center and size as shares of the picture, and maybe a score; or of class and polygon."""
    with reading(folder):
        paths = (os.path.join(inner, name) for inner, _, names in os.walk(folder) for name in names)
        files = sorted(os.path.relpath(path, folder) for path in paths if path.endswith(".txt"))
        files = [name for name in files if name != "classes.txt"]
        classes = dict[str, str]()
        if os.path.exists(os.path.join(folder, "classes.txt")):
            with open(os.path.join(folder, "classes.txt"), encoding="utf-8") as file:
                classes = {str(number): line.strip() for number, line in enumerate(file)}
    if not files:
        raise InvalidData(f"{folder} holds no text files", hint="pass the folder of YOLO's labels.")
    for each in files:
        with reading(os.path.join(folder, each)), open(os.path.join(folder, each), encoding="utf-8") as file:
            lines = [(number, line.split()) for number, line in enumerate(file, 1) if line.strip()]
        for number, parts in lines:
            values = [_number(part) for part in parts[1:]]
            if len(values) < 4:
                problem = f"{os.path.join(folder, each)} has {len(parts)} values in line {number}"
                raise InvalidData(problem, hint="write the class, the center, the size and maybe a score.")
            score, corners = _yolo_box(values)
            predicted = classes.get(parts[0], parts[0])
            yield Box(f"line {number} of {each}", each[:-4], corners, True, predicted, score)


def _yolo_box(values: Sequence[float]) -> tuple[float | None, tuple[float, float, float, float]]:
    if len(values) <= 5:
        x, y, width, height = values[:4]
        score = values[4] if len(values) == 5 else None
        return score, (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    points, score = values[: len(values) // 2 * 2], values[-1] if len(values) % 2 else None
    return score, (min(points[::2]), min(points[1::2]), max(points[::2]), max(points[1::2]))


def _read_table(path: str) -> Iterator[Box]:
    source = open_source(path)
    by_lower = {name.lower(): source.entry(name) for name in source.names}
    usual = {role: next((name for name in names if name in by_lower), None) for role, names in COLUMNS.items()}
    entries = {role: by_lower[name] for role, name in usual.items() if name is not None}
    has_size = "width" in entries and "height" in entries
    for role in ("picture", "left", "top", *(() if has_size else ("right", "bottom"))):
        if role not in entries:
            problem = f"{path} has no column for {role} (one of {', '.join(COLUMNS[role])})"
            raise InvalidData(problem, hint=f"it holds {source.listing()}.")
    with missing_as_nan():
        numbers = {role: _numbers(entry) for role, entry in entries.items() if role not in ("picture", "predicted")}
    pictures = label_keys(entries["picture"].values())
    predicted = label_keys(entries["predicted"].values()) if "predicted" in entries else [""] * len(pictures)
    is_scored = [not is_missing(str(each)) for each in entries["score"].values().tolist()] if "score" in entries else []
    for number, picture in enumerate(pictures):
        row = {role: values[number] for role, values in numbers.items()}
        right = row["left"] + row["width"] if has_size else row["right"]
        bottom = row["top"] + row["height"] if has_size else row["bottom"]
        yield Box(
            f"row {number} of {os.path.basename(path)}",
            picture,
            (row["left"], row["top"], right, bottom),
            predicted=predicted[number] or None,
            score=row["score"] if is_scored and is_scored[number] else None,
        )


def _numbers(entry: Entry) -> list[float]:
    """A column as numbers, with decimal commas if the file has them; NaN for missing values and other text."""
    if entry.content == "numbers":
        return [float(each) for each in as_one_array(entry.read()).tolist()]
    return list(map(_number, entry.values().tolist()))


def _number(value: object) -> float:
    """The value as a number; NaN if it is not one, which is reported for its box."""
    try:
        return float(str(value))
    except ValueError:
        return math.nan
