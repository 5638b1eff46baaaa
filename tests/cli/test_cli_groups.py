"""Whole pictures by their boxes: ``embed --boxes``, ``select --group-column`` and ``export``."""

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import dubito
from dubito.embedding.boxes import MOST_BOXES, open_boxes, picture_finder, read_boxes
from dubito.embedding.decoder import Crop, decode
from dubito.embedding.embedder import Framing
from dubito.embedding.folder import open_folder
from dubito.errors import InvalidArgument, InvalidData
from dubito.integrations.exchange.formats import export_picks

from .conftest import Program

WIDTH, HEIGHT = 80, 60


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Six pictures; a red square of 10 pixels at (20, 10), and the number of the picture as gray around it."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(6):
        pixels = np.full((HEIGHT, WIDTH, 3), 30 * number, dtype=np.uint8)
        pixels[10:20, 20:30] = (255, 0, 0)
        Image.fromarray(pixels).save(folder / f"{number:04d}.png")
    return folder


def predictions(*more: dict[str, object]) -> list[dict[str, object]]:
    rng = np.random.default_rng(0)
    return [
        {"image_id": n % 5, "category_id": n % 3, "bbox": [4 * n, 2 * n, 12, 9], "score": float(rng.random())}
        for n in range(12)
    ] + list(more)


def opened(photos: Path, path: Path) -> tuple[list[tuple[str, tuple[float, ...]]], list[str]]:
    source = open_boxes(open_folder(str(photos), [f"{n:04d}.png" for n in range(6)], labels=False), str(path), 0.0)
    return [(each.id, each.corners) for each in source.items], [str(each) for each in source.left_out]


def test_boxes_become_picks_of_whole_pictures_for_every_tool(run: Program, photos: Path) -> None:
    Path("boxes.json").write_text(json.dumps(predictions()), encoding="utf-8")
    ran = run("embed", "photos", "--boxes", "boxes.json")
    assert ran.code == 0, ran.err
    assert "12 boxes in 5 pictures" in ran.err
    assert "--group-column path" in ran.err
    picked = run(
        "select", "pool.parquet", "-b", "3", "--group-column", "path", "-o", "picks.csv", "--sheet", "sheet.html"
    )
    assert picked.code == 0, picked.err
    assert "3 of 6 groups" in picked.err
    rows = list(csv.DictReader(Path("picks.csv").read_text(encoding="utf-8").splitlines()))
    names = list(dict.fromkeys(row["path"] for row in rows))
    assert [row["rank"] for row in rows] == [str(names.index(row["path"]) + 1) for row in rows]
    assert all(row["group"] == row["path"] for row in rows)
    assert Path("sheet.html").read_text(encoding="utf-8").count("<li>") == 3
    for tool in ("images", "coco", "yolo", "cvat", "label-studio-boxes"):
        assert run("export", "picks.csv", "--to", tool, "-o", f"out.{tool}").code == 0
    lines = [json.loads(line) for line in Path("out.images").read_text(encoding="utf-8").splitlines()]
    assert [line["path"] for line in lines] == names
    assert lines[0]["boxes"][0]["part"] == max(box["part"] for box in lines[0]["boxes"])
    assert Path("out.yolo").read_text(encoding="utf-8").split() == names
    coco = json.loads(Path("out.coco").read_text(encoding="utf-8"))
    assert [image["file_name"] for image in coco["images"]] == names
    own = [each for each in predictions() if f"{each['image_id']:04d}.png" in names]
    assert sorted(each["bbox"] for each in coco["annotations"]) == sorted(list(each["bbox"]) for each in own)  # type: ignore[call-overload]
    images = ElementTree.parse("out.cvat").getroot().findall("image")
    assert [image.get("name") for image in images] == names
    assert sum(len(image.findall("box")) for image in images) == len(own)
    tasks = json.loads(Path("out.label-studio-boxes").read_text(encoding="utf-8"))
    value = tasks[0]["predictions"][0]["result"][0]["value"]
    box = lines[0]["boxes"][0]
    assert value["x"] == pytest.approx(100 * box["left"] / WIDTH)
    assert value["height"] == pytest.approx(100 * box["height"] / HEIGHT)
    again = run("select", "pool.parquet", "-b", "2", "--group-column", "path", "--labeled", "picks.csv", "-o", "2.csv")
    assert again.code == 0, again.err
    assert "3 groups, 3 of them in the pool, count as labeled" in again.err
    assert not set(names) & {row["path"] for row in csv.DictReader(Path("2.csv").read_text("utf-8").splitlines())}
    # Other boxes in the same images, as a detector predicts them after training.
    found: list[dict[str, object]] = [{"image_id": n % 6, "bbox": [3 * n, n, 20, 20], "score": 0.5} for n in range(18)]
    Path("new.json").write_text(json.dumps(found), encoding="utf-8")
    assert run("embed", "photos", "--boxes", "new.json", "-o", "new.parquet").code == 0
    ran = run("select", "new.parquet", "-b", "3", "--group-column", "path", "--labeled", "picks.csv", "-o", "3.csv")
    assert ran.code == 0, ran.err
    rest = {row["path"] for row in csv.DictReader(Path("3.csv").read_text("utf-8").splitlines())}
    assert rest == {f"{n:04d}.png" for n in range(6)} - set(names)


def test_a_crop_is_the_box_with_its_margin(photos: Path) -> None:
    red = decode(Crop(str(photos / "0002.png"), (20, 10, 30, 20)), Framing(4, 4))
    assert (red == (255, 0, 0)).all()
    table = photos.parent / "b.csv"
    table.write_text("image,x1,y1,x2,y2\n0002.png,20,10,30,20\n", encoding="utf-8")
    pool = dubito.embed(photos, boxes=table, margin=0.5)
    assert pool.ids.tolist()[2] == "0002.png#0"
    assert pool.columns["width"][2] == 10.0
    assert pool.columns["path"].tolist().count("0002.png") == 1
    assert "doubt" not in pool.columns


def test_boxes_that_cannot_be_used_are_listed(photos: Path) -> None:
    bad = [
        ([5, 5, 0, 4], "is empty: 0 x 4 pixels"),
        ([5, 5, -3, 4], "has a negative size: -3 x 4 pixels"),
        ([90, 5, 3, 4], "lies outside its picture of 80 x 60 pixels"),
        ([float("nan"), 5, 3, 4], "not a finite number"),
    ]
    path = photos.parent / "boxes.json"
    more: list[dict[str, object]] = [{"image_id": 3, "bbox": box, "score": 0.5} for box, _ in bad]
    more += [{"image_id": 99, "bbox": [1, 1, 2, 2]}, {"image_id": 3, "bbox": [70, -5, 20, 10], "score": 0.5}]
    more += [{"image_id": 3, "bbox": [1, 1, 2, 2], "score": 7.0}]
    counts: list[object] = ["jU1", [4800], [5, "x"], [-5, 10, 4795], "~" * 10_000]
    masks: list[object] = [{"size": [60, 80], "counts": each} for each in counts]
    masks += [{"size": [float("inf"), 80], "counts": [9, 9]}]
    more += [{"image_id": 3, "segmentation": [[1, "x", 2, 3, 4, 5]]}]
    more += [{"image_id": 3, "segmentation": mask} for mask in (*masks, {"size": [60], "counts": [9, 9]})]
    path.write_text(json.dumps(predictions(*more)), encoding="utf-8")
    items, left_out = opened(photos, path)
    assert len(items) == 12 + 1 + 1
    assert len(left_out) == 14
    assert sum("has no box, and no mask that can be read" in each for each in left_out) == 7
    for text in [text for _, text in bad] + ["which", "not from 0 to 1"]:
        assert any(text in each for each in left_out), text
    assert (70.0, 0.0, 80.0, 5.0) in [corners for _, corners in items]


def test_files_that_mislead_are_refused(photos: Path) -> None:
    path = photos.parent / "boxes.json"
    images = [{"id": 1, "file_name": "0001.png"}, {"id": 1, "file_name": "0002.png"}]
    box = {"image_id": 1, "bbox": [1, 1, 2, 2]}
    for content, problem in [
        ({"images": images, "annotations": []}, "two images with the id 1"),
        ([{**box, "id": 4}, {**box, "id": 4}], "2 boxes with the id 4"),
        ({"boxes": []}, "is not a COCO file"),
        ({"images": [5], "annotations": []}, "is not a COCO file"),
        ({"images": [{"id": 1}], "annotations": []}, "an image without an id or a file_name: {'id': 1}"),
        ([{**box, "id": [4]}, {**box, "id": [4]}], r"2 boxes with the id \[4\]"),
        ([{**box, "image_id": "nowhere.png"}], "none of the 1 boxes"),
        ({"images": images[:1], "annotations": [], "categories": [{"id": 1}, {"id": 1}]}, "2 categories with the id 1"),
        ([box] * (MOST_BOXES + 1), r"10,001 boxes in the picture 0001\.png"),
    ]:
        path.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(InvalidData, match=problem):
            opened(photos, path)
    table = photos.parent / "b.csv"
    table.write_text("image,x,y\na,1,2\n", encoding="utf-8")
    with pytest.raises(InvalidData, match="no column for right"):
        read_boxes(str(table))
    with pytest.raises(InvalidArgument, match=r"suffix '\.txt'"):
        read_boxes("boxes.txt")


def test_formats_of_the_same_box_agree(photos: Path) -> None:
    folder = photos.parent
    images = [{"id": 7, "file_name": "0001.png"}]
    coco: dict[str, dict[str, object]] = {
        "box": {"bbox": [20, 10, 10, 10]},
        "polygon": {"segmentation": [[20, 10, 30, 10, 30, 20, 20, 20]]},
        "mask": {"segmentation": {"size": [60, 80], "counts": [20 * 60 + 10, *([10, 50] * 9), 10, 3040]}},
        # As pycocotools encodes it.
        "packed": {"segmentation": {"size": [60, 80], "counts": "jU1:b100000000000000000^m2"}},
    }
    for name, shape in coco.items():
        content: dict[str, object] = {"images": images, "annotations": [{"image_id": 7, "category_id": 2, **shape}]}
        content["categories"] = [{"id": 2, "name": "cat"}]
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "labels").mkdir()
    (folder / "labels" / "classes.txt").write_text("dog\ncat\n", encoding="utf-8")
    (folder / "labels" / "0001.txt").write_text(f"1 {25 / 80} {15 / 60} {10 / 80} {10 / 60} 0.5\n", encoding="utf-8")
    (folder / "b.csv").write_text("image,x,y,w,h,class,score\n1,20,10,10,10,cat,0.5\n", encoding="utf-8")
    for name in ("box.json", "polygon.json", "mask.json", "packed.json", "labels", "b.csv"):
        items, left_out = opened(photos, folder / name)
        assert not left_out, name
        (corners,) = [corners for each, corners in items if each == "0001.png#0"]
        assert corners == pytest.approx((20.0, 10.0, 30.0, 20.0)), name
        assert read_boxes(str(folder / name))[0].predicted == "cat", name


@pytest.mark.slow
def test_other_boxes_of_the_same_pictures_are_embedded_anew(photos: Path) -> None:
    out, path = photos.parent / "pool.parquet", photos.parent / "boxes.json"
    for shift in (0, 7):
        boxes = [{"image_id": n, "bbox": [15 + shift, 8, 10, 10], "score": 0.5} for n in range(6)]
        path.write_text(json.dumps(boxes), encoding="utf-8")
        made = dubito.embed(photos, "pixels", out, boxes=path, processes=1)
    expected = dubito.embed(photos, "pixels", boxes=path, processes=1).embedding
    assert np.array_equal(made.embedding, expected)
    assert made.changes is not None
    assert len(made.changes.changed) == 6


def test_class_scores_give_the_doubt_of_a_box(photos: Path) -> None:
    path = photos.parent / "boxes.json"
    path.write_text(json.dumps([{"image_id": 1, "bbox": [1, 1, 9, 9], "score": 0.9, "scores": [0.5, 0.3, 0.2]}]))
    assert read_boxes(str(path))[0].doubt == pytest.approx(0.8)


def test_class_scores_need_not_add_up_but_must_be_scores(photos: Path) -> None:
    path = photos.parent / "boxes.json"
    box: dict[str, object] = {"image_id": 1, "bbox": [1, 1, 9, 9], "score": 0.9}
    for scores, doubt in [([0.9, 0.45], 2 / 3), ([50, 30, 20], 0.8), ([0.9], 0.1), ([], 0.1), (None, 0.1)]:
        path.write_text(json.dumps([{**box, "scores": scores}]))
        source = open_boxes(open_folder(str(photos), ["0001.png"], labels=False), str(path), 0.0)
        assert source.items[0].doubt == pytest.approx(doubt), scores
    for bad in ([0.9, -0.1], [0.5, float("nan")], [0, 0], [1e308, 1e308], ["a", 1], {"cat": 1}, "0.5"):
        path.write_text(json.dumps([box, {**box, "scores": bad}]))
        items, left_out = opened(photos, path)
        assert [name for name, _ in items].count("0001.png#1") == 0, bad
        assert left_out == [
            "0001.png#1 (box 1 of boxes.json) has class scores that are not a list of numbers, negative, or all 0"
        ]


def test_a_table_may_have_decimal_commas_and_gaps(photos: Path) -> None:
    table = photos.parent / "b.csv"
    table.write_text("image_id;x;y;width;height;class;score\n1;20,5;10;10;5;3;0,5\n2;1;1;2;2;;\n1;;1;2;2;3;0,5\n")
    first, second, third = read_boxes(str(table))
    assert (first.corners, first.predicted, first.score) == ((20.5, 10.0, 30.5, 15.0), "3", 0.5)
    assert (second.picture, second.predicted, second.score) == ("2", None, None)
    items, left_out = opened(photos, table)
    assert left_out == ["0001.png#1 (row 2 of b.csv) has a corner that is not a finite number"]
    assert len(items) == 6
    assert third.picture == "1"


def test_a_picture_that_could_be_several_is_none_of_them(photos: Path) -> None:
    (photos / "more").mkdir()
    Image.new("L", (9, 9)).save(photos / "more" / "0001.png")
    find = picture_finder(["0001.png", "more/0001.png", "cafe\u0301.png"])
    names = ["0001.png", "more/0001.png", "/data/more/0001.png", "1", "0001.jpg", "caf\u00e9.png", "caf\u00e9"]
    assert [find(name) for name in names] == [
        "0001.png", "more/0001.png", None, None, None, "cafe\u0301.png", "cafe\u0301.png"
    ]  # fmt: skip


def test_boxes_of_folders_in_a_folder_are_read(photos: Path) -> None:
    labels = photos.parent / "labels" / "train"
    labels.mkdir(parents=True)
    (labels / "0001.txt").write_text("0 0.5 0.5 0.5 0.5\n", encoding="utf-8")
    items, left_out = opened(photos, labels.parent)
    assert not left_out
    assert ("0001.png#0", (20.0, 15.0, 60.0, 45.0)) in items
    (labels / "0002.txt").write_bytes(b"\xff")
    with pytest.raises(InvalidData, match=r"0002\.txt cannot be read"):
        read_boxes(str(labels.parent))


def test_new_scores_of_the_same_boxes_are_written(run: Program, photos: Path) -> None:
    for score in (0.5, 0.75):
        Path("b.json").write_text(json.dumps([{"image_id": 1, "bbox": [1, 1, 9, 9], "score": score}]), encoding="utf-8")
        ran = run("embed", "photos", "--boxes", "b.json")
        assert "written to pool.parquet" in ran.err
        assert "select pool.parquet -b 3 --group-column path" in ran.err
        assert dubito.io.read_pool("pool.parquet").source.entry("confidence").values()[1] == score
    assert "the contents are the same" in ran.err


def test_ranks_of_added_groups_continue(run: Program) -> None:
    Path("p.csv").write_text("id,doc,x1\n" + "".join(f"r{n},d{n % 6},{n * n}\n" for n in range(24)), encoding="utf-8")
    for name in ("picks.csv", "picks.jsonl", "picks.parquet"):
        for _ in range(3):
            assert run("select", "p.csv", "-b", "2", "--group-column", "doc", "-o", name, "--append").code == 0
        source = dubito.io.open_source(name)
        ranks = [int(rank) for rank in source.entry("rank").values().tolist()]
        assert ranks == [rank for rank in range(1, 7) for _ in range(4)], name


def test_labeled_groups_that_are_not_in_the_pool_are_refused(run: Program) -> None:
    Path("p.csv").write_text("id,doc,x1\n" + "".join(f"r{n},d{n % 6},{n * n}\n" for n in range(24)), encoding="utf-8")
    Path("labeled.csv").write_text("group\nphotos/d1\n", encoding="utf-8")
    ran = run("select", "p.csv", "-b", "2", "--group-column", "doc", "--labeled", "labeled.csv")
    assert "names the group 'photos/d1'; neither it nor any other group in the file is in the pool" in ran.err
    assert "groups of the pool are like 'd0'" in ran.err
    Path("labeled.csv").write_text("group\nphotos/d1\nd1\n", encoding="utf-8")
    ran = run("select", "p.csv", "-b", "5", "--group-column", "doc", "--labeled", "labeled.csv")
    assert "2 groups, 1 of them in the pool" in ran.err
    assert ran.code == 0


def test_a_sheet_says_which_pictures_have_no_boxes(run: Program, photos: Path) -> None:
    boxes = [{"image_id": 1, "bbox": [1, 1, 9, 9]}, {"image_id": 2, "bbox": [1, 1, 9, 9], "category_id": 7}]
    Path("b.json").write_text(json.dumps(boxes), encoding="utf-8")
    assert run("embed", "photos", "--boxes", "b.json").code == 0
    ran = run("select", "pool.parquet", "-b", "6", "--group-column", "path", "--sheet", "s.html")
    assert ran.code == 0, ran.err
    page = Path("s.html").read_text(encoding="utf-8")
    assert [page.count(f"<bdi>{text}</bdi>") for text in ("a box", "7", "no box")] == [1, 1, 4]
    # Boxes of several pictures are not drawn into one of them.
    ids = dubito.io.read_pool("pool.parquet").ids
    assert ids is not None
    Path("g.csv").write_text("id,group\n" + "".join(f"{name},all\n" for name in ids), encoding="utf-8")
    ran = run("select", "pool.parquet", "-b", "1", "--groups", "g.csv", "--sheet", "s.html", "--force")
    assert ran.code == 0, ran.err
    assert Path("s.html").read_text(encoding="utf-8").count("<img") == 6


def test_export_of_boxes_needs_boxes(tmp_path: Path) -> None:
    (tmp_path / "picks.csv").write_text("rank,index,id,priority\n1,0,a,1\n", encoding="utf-8")
    with pytest.raises(dubito.DubitoError, match="has no column path"):
        export_picks(str(tmp_path / "picks.csv"), str(tmp_path / "out"), "coco")
    header = "path,left,top,width,height,picture_width,picture_height\n"
    for line, column in (
        ("a.png,x,3,4,5,6,7", "left"),
        ("a.png,1,3,4,5,0,7", "picture_width"),
        ("a,1,2,,4,5,6", "width"),
    ):
        (tmp_path / "picks.csv").write_text(f"{header}{line}\n", encoding="utf-8")
        with pytest.raises(
            InvalidData, match=rf"column '{column}' of .*picks\.csv holds '.?' in row 0; write a number"
        ):
            export_picks(str(tmp_path / "picks.csv"), str(tmp_path / "out"), "label-studio-boxes")


def test_group_column_of_a_table(run: Program) -> None:
    rng = np.random.default_rng(0)
    rows = [f"r{n},doc{n % 7},{rng.random()},{rng.random()}" for n in range(40)]
    Path("p.csv").write_text("\n".join(["id,doc,x1,x2", *rows]), encoding="utf-8")
    ran = run("select", "p.csv", "-b", "2", "--group-column", "doc", "-o", "picks.csv")
    assert ran.code == 0, ran.err
    ran = run("select", "p.csv", "-b", "2", "--group-column", "doc", "-o", "picks.csv", "--append")
    assert ran.code == 0, ran.err
    picked = list(csv.DictReader(Path("picks.csv").read_text(encoding="utf-8").splitlines()))
    assert len({row["group"] for row in picked}) == 4
    Path("prices.csv").write_text("doc,minutes\n" + "\n".join(f"doc{n},{1 + 9 * (n > 2)}" for n in range(7)))
    ran = run("select", "p.csv", "-b", "7", "--group-column", "doc", "--costs", "prices.csv", "--spend", "5")
    assert ran.code == 0, ran.err
    assert {row["group"] for row in csv.DictReader(ran.out.splitlines())} == {"doc0", "doc1", "doc2"}
    assert "matched by their order" not in ran.err
    Path("prices.csv").write_text("group,cost\ndoc0,1\ndoc0,2\n")
    ran = run("select", "p.csv", "-b", "7", "--group-column", "doc", "--costs", "prices.csv")
    assert "prices.csv has more than one price of the group 'doc0'" in ran.err
    Path("prices.csv").write_text("group,cost\ndoc0,1\n,2\n")
    ran = run("select", "p.csv", "-b", "7", "--group-column", "doc", "--costs", "prices.csv")
    assert "prices.csv has a price without a group in row 1" in ran.err
    Path("prices.csv").write_text("group,cost\n" + "".join(f"doc{n},{n}\n" for n in range(7)))
    ran = run("select", "p.csv", "-b", "7", "--group-column", "doc", "--costs", "prices.csv")
    assert "(prices.csv) holds the price 0.0 of the group 'doc0'" in ran.err
    Path("prices.csv").write_text("group,cost\ndoc0,1\n")
    ran = run("select", "p.csv", "-b", "7", "--group-column", "doc", "--costs", "prices.csv")
    assert "holds no price of the group 'doc1'" in ran.err
    ran = run("select", "p.csv", "-b", "8", "--group-column", "doc")
    assert "--budget 8 exceeds the 7 groups in the pool" in ran.err
    ran = run("select", "p.csv", "-b", "2", "--group-column", "doc", "--engine", "cluster")
    assert ran.code != 0
