"""Picked images with their boxes, read by Datumaro (which CVAT uses) and by pycocotools."""

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dubito.embedding.boxes import read_boxes
from dubito.integrations.exchange.formats import export_picks

datumaro = pytest.importorskip("datumaro", reason="Datumaro is not installed: make integrations")

NAMES = ("a/000.png", "001.png", "002 & <ü>.png", "nothing.png")
BOXES = {
    NAMES[0]: [(0.0, 3.0, 20.0, 10.5, "cat", 0.5), (5.25, 3.0, 20.0, 10.5, "dog & fox", 0.25)],
    NAMES[1]: [(10.0, 20.0, 30.0, 40.0, "dog & fox", 1.0)],
    NAMES[2]: [(1.5, 1.5, 2.0, 2.0, "cat", 0.75)],
    NAMES[3]: [],
}


@pytest.fixture
def picks(tmp_path: Path) -> Path:
    """A table of picked images with their boxes."""
    lines = [
        "rank,index,id,group,priority,path,left,top,width,height,picture_width,picture_height,predicted,confidence"
    ]
    for rank, (name, boxes) in enumerate(BOXES.items(), 1):
        for number, (left, top, width, height, kind, score) in enumerate(boxes):
            box = f"{left},{top},{width},{height},80,60,{kind},{score}"
            lines.append(f"{rank},{len(lines)},{name}#{number},{name},1,{name},{box}")
        if not boxes:
            lines.append(f"{rank},{len(lines)},{name},{name},0,{name},0,0,80,60,80,60,,")
    (tmp_path / "picks.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "picks.csv"


@pytest.mark.parametrize(
    ("tool", "kind", "file"), [("cvat", "cvat", "a.xml"), ("coco", "coco", "annotations/instances_a.json")]
)
def test_datumaro_reads_the_boxes(tool: str, kind: str, file: str, picks: Path) -> None:
    target = picks.parent / tool / file
    target.parent.mkdir(parents=True)
    for name in NAMES:
        image = picks.parent / tool / "images" / name
        image.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (80, 60)).save(image)
    export_picks(str(picks), str(target), tool)
    found = datumaro.Dataset.import_from(str(picks.parent / tool), kind)
    names = found.categories()[datumaro.AnnotationType.label]
    read = {item.id: sorted((*each.get_bbox(), names[each.label].name) for each in item.annotations) for item in found}
    assert read == {name.removesuffix(".png"): sorted(box[:5] for box in boxes) for name, boxes in BOXES.items()}


def test_pycocotools_reads_the_boxes(picks: Path) -> None:
    export_picks(str(picks), str(picks.parent / "coco.json"), "coco")
    coco = import_module("pycocotools.coco").COCO(str(picks.parent / "coco.json"))
    assert [image["file_name"] for image in coco.loadImgs(coco.getImgIds())] == list(NAMES)
    names = {each["id"]: each["name"] for each in coco.loadCats(coco.getCatIds())}
    boxes = coco.loadAnns(coco.getAnnIds())
    wanted = [box for own in BOXES.values() for box in own]
    assert [(*each["bbox"], names[each["category_id"]], each["score"]) for each in boxes] == wanted


def test_masks_have_the_boxes_that_pycocotools_finds(tmp_path: Path) -> None:
    masks, rng = import_module("pycocotools.mask"), np.random.default_rng(0)
    annotations, expected = list[dict[str, object]](), list[tuple[float, ...]]()
    for number in range(300):
        height, width = rng.integers(1, 40, 2).tolist()
        mask = np.zeros((height, width), dtype=np.uint8, order="F")
        mask[rng.random((height, width)) < rng.choice([0.02, 0.3, 0.9])] = 1
        mask[rng.integers(height), rng.integers(width)] = 1
        packed = masks.encode(mask)
        left, top, wide, high = masks.toBbox(packed).tolist()
        expected.append((left, top, left + wide, top + high))
        segmentation = {"size": [height, width], "counts": packed["counts"].decode()}
        annotations.append({"image_id": number, "segmentation": segmentation})
    (tmp_path / "masks.json").write_text(json.dumps(annotations), encoding="utf-8")
    assert [box.corners for box in read_boxes(str(tmp_path / "masks.json"))] == expected
