"""Picked pictures with their boxes, for tools in which annotators draw boxes: a writer for each in `BOX_WRITERS`."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from dubito.errors import InvalidData, MissingFile
from dubito.io import open_source

BOX = ("left", "top", "width", "height")
NEEDED = ("path", *BOX, "picture_width", "picture_height")
UNKNOWN = "object"
"""The class of a box without one."""


class PickedBox(NamedTuple):
    id: str
    left: float
    top: float
    width: float
    height: float
    predicted: str
    score: float | None
    part: float | None
    """Its share of the priority of its picture."""


class PickedPicture(NamedTuple):
    """A picture and its boxes, in the order of the picks file."""

    path: str
    width: int
    height: int
    priority: float | None
    boxes: list[PickedBox]


def read_pictures(path: str, prefix: str = "") -> list[PickedPicture]:
    """Read the pictures from a picks file whose pool ``dubito embed --boxes`` made, in order."""
    entries = open_source(path).entries
    missing = [name for name in NEEDED if name not in entries]
    if missing:
        hint = "export picks of a pool that dubito embed --boxes made, selected with --group-column path."
        raise MissingFile(f"{path} has no column {missing[0]}", hint=hint)
    wanted = (*NEEDED, "id", "predicted", "confidence", "priority", "group_priority")
    columns = {name: entries[name].values().tolist() for name in wanted if name in entries}
    pictures: dict[str, PickedPicture] = {}
    for row, name in enumerate(columns["path"]):
        values = {column: cells[row] for column, cells in columns.items()}
        sizes = (_number_at_least(path, row, values, each, 1.0) for each in ("picture_width", "picture_height"))
        width, height = (round(size) for size in sizes)
        priority = _number(values.get("group_priority", values.get("priority")))
        picture = pictures.setdefault(name, PickedPicture(f"{prefix}{name}", width, height, priority, []))
        row_id = str(values.get("id", row))
        if row_id != name:  # The row that stands for the whole picture has its path as id.
            left, top, box_width, box_height = (_number_at_least(path, row, values, each) for each in BOX)
            predicted = values.get("predicted")
            label = UNKNOWN if predicted is None or predicted != predicted or predicted == "" else str(predicted)
            score, part = _number(values.get("confidence")), _number(values.get("priority"))
            picture.boxes.append(PickedBox(row_id, left, top, box_width, box_height, label, score, part))
    return list(pictures.values())


def _number_at_least(path: str, row: int, values: Mapping[str, object], column: str, least: float = 0.0) -> float:
    """The number in a column; raises `InvalidData` if it is not a number or less than ``least``."""
    number = _number(values[column])
    if number is None or number < least:
        problem = f"column {column!r} of {path} holds {str(values[column])!r} in row {row}"
        raise InvalidData(problem, hint=f"write a number >= {least:g}, as dubito embed --boxes does.")
    return number


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def write_images(pictures: Sequence[PickedPicture], classes: Sequence[str] = ()) -> bytes:
    """A line of JSON for each picture with its boxes."""
    records = (
        {"rank": rank, **picture._asdict(), "boxes": [box._asdict() for box in picture.boxes]}
        for rank, picture in enumerate(pictures, 1)
    )
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def write_coco(pictures: Sequence[PickedPicture], classes: Sequence[str] = ()) -> bytes:
    """The pictures as COCO, with the predicted boxes as annotations."""
    names = _classes(pictures, classes)
    images = [
        {"id": number, "file_name": picture.path, "width": picture.width, "height": picture.height}
        for number, picture in enumerate(pictures, 1)
    ]
    annotations: list[dict[str, object]] = []
    for number, picture in enumerate(pictures, 1):
        for box in picture.boxes:
            annotation: dict[str, object] = {"id": len(annotations) + 1, "image_id": number}
            annotation["category_id"] = names.index(box.predicted) + 1
            annotation["bbox"] = [box.left, box.top, box.width, box.height]
            annotation |= {"area": box.width * box.height, "iscrowd": 0, "segmentation": []}
            annotations.append(annotation if box.score is None else {**annotation, "score": box.score})
    categories = [{"id": number, "name": name} for number, name in enumerate(names, 1)]
    return (json.dumps({"images": images, "annotations": annotations, "categories": categories}) + "\n").encode()


def write_yolo(pictures: Sequence[PickedPicture], classes: Sequence[str] = ()) -> bytes:
    """A list of pictures, in the form that ``train:`` of a YOLO data set accepts; without boxes."""
    return "".join(f"{picture.path}\n" for picture in pictures).encode()


def write_cvat(pictures: Sequence[PickedPicture], classes: Sequence[str] = ()) -> bytes:
    """Annotations to upload to a task of these pictures, as "CVAT for images 1.1"."""
    labels = "".join(f"<label><name>{escape(name)}</name></label>" for name in _classes(pictures, classes))
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<annotations>", "<version>1.1</version>"]
    lines.append(f"<meta><task><labels>{labels}</labels></task></meta>")
    for number, picture in enumerate(pictures):
        size = f'width="{picture.width}" height="{picture.height}"'
        lines.append(f'<image id="{number}" name={quoteattr(picture.path)} {size}>')
        for box in picture.boxes:
            corners = f'xtl="{box.left:.2f}" ytl="{box.top:.2f}" xbr="{box.left + box.width:.2f}" '
            corners += f'ybr="{box.top + box.height:.2f}"'
            label = f"label={quoteattr(box.predicted)}"
            lines.append(f'<box {label} source="auto" occluded="0" {corners} z_order="0"></box>')
        lines.append("</image>")
    return ("\n".join([*lines, "</annotations>"]) + "\n").encode()


def write_label_studio_boxes(pictures: Sequence[PickedPicture], classes: Sequence[str] = ()) -> bytes:
    """Tasks to import, with the predicted boxes as predictions; positions are percentages there."""
    tasks = []
    for rank, picture in enumerate(pictures, 1):
        results = [
            {
                "id": f"box{number}",
                "from_name": "label",
                "to_name": "image",
                "type": "rectanglelabels",
                "original_width": picture.width,
                "original_height": picture.height,
                "image_rotation": 0,
                "value": {
                    "x": 100.0 * box.left / picture.width,
                    "y": 100.0 * box.top / picture.height,
                    "width": 100.0 * box.width / picture.width,
                    "height": 100.0 * box.height / picture.height,
                    "rotation": 0,
                    "rectanglelabels": [box.predicted],
                },
                **({} if box.score is None else {"score": box.score}),
            }
            for number, box in enumerate(picture.boxes)
        ]
        data = {"image": picture.path, "dubito_rank": rank, "dubito_priority": picture.priority}
        tasks.append({"data": data, "predictions": [{"model_version": "detector", "result": results}]})
    return (json.dumps(tasks, ensure_ascii=False, indent=1) + "\n").encode()


def box_config(pictures: Sequence[PickedPicture], classes: Sequence[str] = ()) -> str:
    """The labeling config of a Label Studio project for such tasks."""
    labels = "".join(f"<Label value={quoteattr(name)}/>" for name in _classes(pictures, classes))
    shown = '<Image name="image" value="$image"/>'
    return f'<View>{shown}<RectangleLabels name="label" toName="image">{labels}</RectangleLabels></View>'


def _classes(pictures: Sequence[PickedPicture], classes: Sequence[str]) -> list[str]:
    """The given classes, followed by all other predicted ones."""
    return [*classes, *sorted({box.predicted for picture in pictures for box in picture.boxes} - set(classes))]


BoxWriter = Callable[[Sequence[PickedPicture], Sequence[str]], bytes]
BOX_WRITERS: Mapping[str, BoxWriter] = {
    "images": write_images,
    "coco": write_coco,
    "yolo": write_yolo,
    "cvat": write_cvat,
    "label-studio-boxes": write_label_studio_boxes,
}
