"""Predicted boxes in a project of the real server: imported as predictions, accepted by a person, and read again."""

import io
import json
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dubito.embedding.boxes import read_boxes
from dubito.io import open_source
from label_studio_live.servers import LEGACY, LabelStudio

WIDTH, HEIGHT, N_PICTURES = 80, 60, 6


def dubito(*words: str, cwd: Path) -> str:
    command = [sys.executable, "-m", "dubito", *words]
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stderr


def boxes(studio: LabelStudio, folder: Path) -> dict[str, Any]:
    """Embed, select and export boxes; import the tasks; accept the predictions; export them as COCO."""
    place, rng = folder / "boxes", np.random.default_rng(0)
    (place / "photos").mkdir(parents=True)
    made, found = list[tuple[list[int], str, str]](), list[dict[str, object]]()
    for number in range(N_PICTURES):
        Image.fromarray(rng.integers(0, 255, (HEIGHT, WIDTH), dtype=np.uint8)).save(place / "photos" / f"{number}.png")
        for box in rng.integers(1, 30, (number % 3 + 1, 4)).tolist():
            made.append((box, f"{number}.png", "cat" if box[0] % 2 else "dog"))
            score = round(float(rng.random()), 3)
            found.append({"image_id": number, "category_id": made[-1][2], "bbox": box, "score": score})
    (place / "boxes.json").write_text(json.dumps(found), encoding="utf-8")
    dubito("embed", "photos", "--boxes", "boxes.json", "-e", "pixels", cwd=place)
    dubito("select", "pool.parquet", "-b", "4", "--group-column", "path", "-o", "picks.csv", cwd=place)
    said = dubito("export", "picks.csv", "--to", "label-studio-boxes", "-o", "tasks.json", cwd=place)
    config = next(line[line.index("<View>") :] for line in said.splitlines() if "<View>" in line)
    project = studio.call("POST", "/api/projects", {"title": "boxes", "label_config": config})["id"]
    studio.call("POST", f"/api/projects/{project}/import", json.loads((place / "tasks.json").read_text("utf-8")))
    tasks = studio.call("GET", f"/api/tasks?project={project}&fields=all&page_size=100")["tasks"]
    tasks = [studio.call("GET", f"/api/tasks/{task['id']}") for task in tasks]
    shown = {task["data"]["image"]: sorted(map(corners, task["predictions"][0]["result"])) for task in tasks}
    for task in tasks:
        studio.call("POST", f"/api/tasks/{task['id']}/annotations", {"result": task["predictions"][0]["result"]})
    address = f"{studio.url}/api/projects/{project}/export?exportType=COCO&download_resources=false"
    with urllib.request.urlopen(
        urllib.request.Request(address, headers={"Authorization": f"Token {LEGACY}"})
    ) as answer:
        (place / "coco.json").write_bytes(zipfile.ZipFile(io.BytesIO(answer.read())).read("result.json"))
    drawn: dict[str, list[tuple[object, ...]]] = {name: [] for name in shown}
    for box in read_boxes(str(place / "coco.json")):
        # The server puts a hash and two underscores before the names of files.
        drawn[Path(box.picture).name.split("__")[-1]].append((*(round(each, 6) for each in box.corners), box.predicted))
    picked = open_source(str(place / "picks.csv")).entry("path").values().tolist()
    wanted: dict[str, list[tuple[object, ...]]] = {name: [] for name in picked}
    for (left, top, width, height), name, kind in made:
        if name in wanted:
            wanted[name] = sorted([*wanted[name], (*map(float, (left, top, left + width, top + height)), kind)])
    assert shown == wanted, (shown, wanted)
    assert {name: sorted(each) for name, each in drawn.items()} == wanted, (drawn, wanted)
    return {"pictures": len(tasks), "boxes": sum(map(len, shown.values())), "scores": scores(tasks)}


def corners(result: dict[str, Any]) -> tuple[object, ...]:
    """Left, top, right and bottom in pixels, and the class."""
    value = result["value"]
    left, top = value["x"] * WIDTH / 100, value["y"] * HEIGHT / 100
    right, bottom = left + value["width"] * WIDTH / 100, top + value["height"] * HEIGHT / 100
    return (*(round(each, 6) for each in (left, top, right, bottom)), value["rectanglelabels"][0])


def scores(tasks: list[dict[str, Any]]) -> int:
    """How many boxes kept their score."""
    return sum("score" in result for task in tasks for result in task["predictions"][0]["result"])
