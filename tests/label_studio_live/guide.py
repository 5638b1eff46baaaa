"""The how-to page, followed to the letter: its commands run, in its order, against the server."""

import csv
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from PIL import Image

from dubito.integrations.label_studio import AccessToken, Server, find_project
from label_studio_live.people import labeling
from label_studio_live.servers import ROOT, LabelStudio

PAGE = ROOT / "docs" / "how-to" / "label-studio.md"


def commands() -> list[list[str]]:
    """The commands of each block."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [[line for line in block.splitlines() if line.startswith("dubito ")] for block in blocks]


def mood(name: str) -> str:
    return ("good", "bad")[int(name[1:]) % 2]


def follow_the_guide(studio: LabelStudio, folder: Path) -> dict[str, Any]:
    """Each block in a folder of its own, with what a reader would have there."""
    _, rounds, steps, web, disk = commands()
    done = 0
    for number, (block, is_pictures) in enumerate([(rounds, False), (steps, False), (web, True), (disk, True)]):
        place = folder / f"guide-{number}"
        place.mkdir()
        (write_pictures if is_pictures else write_texts)(studio, place)
        if block is steps:
            shutil.copy(folder / "guide-0" / "pool.parquet", place)
        for command in block:
            done += follow(studio, place, command.replace("/data/", f"{studio.folder}/files/"))
    return {"commands": done, "pictures_shown": shown_pictures(studio)}


def follow(studio: LabelStudio, place: Path, command: str) -> int:
    command = command.replace("--project reviews", f"--project reviews-{place.name}")
    if " watch " in command:
        command += " --rounds 1 --every 1"
    program = f"{sys.executable} -m dubito" + command.removeprefix("dubito")
    words = {"LABEL_STUDIO_URL": studio.url, "LABEL_STUDIO_API_KEY": studio.tokens["personal"]}
    settings = {**os.environ, **words}
    if " watch " not in command and " pull " not in command:
        subprocess.run(program, shell=True, cwd=place, env=settings, check=True)
        return 1
    server = Server(studio.url, AccessToken(studio.tokens["owner"]))
    project = find_project(server, f"reviews-{place.name}", classes=["good", "bad"], kind="text")
    with labeling(studio, project.id, mood):
        while " pull " in command and project.state()["finished_task_number"] < 50:
            time.sleep(0.5)
        subprocess.run(program, shell=True, cwd=place, env=settings, check=True)
    return 1


def write_texts(studio: LabelStudio, place: Path) -> None:
    words = (["great", "fine", "nice", "lovely"], ["awful", "poor", "sad", "dreadful"])
    with (place / "texts.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "text"])
        for row in range(200):
            table.writerow(
                [f"r{row:03d}", " ".join(words[row % 2][(row // each) % 4] for each in (2, 3, 5)) + f" {row}"]
            )


def write_pictures(studio: LabelStudio, place: Path) -> None:
    photos = studio.folder / "files" / "photos"
    photos.mkdir(exist_ok=True)
    with (place / "batch.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["rank", "index", "id", "priority"])
        for row in range(3):
            name = f"a picture {row}.png"
            Image.new("RGB", (8, 8), (40 * row, 0, 0)).save(photos / name)
            table.writerow([row + 1, row, name, 1.0])


def shown_pictures(studio: LabelStudio) -> int:
    """Pictures from the server's own disk that it shows to a person."""
    server = Server(studio.url, AccessToken(studio.tokens["owner"]))
    project = find_project(server, "photos")
    query = {"project": project.id, "fields": "all", "resolve_uri": "false"}
    shown = 0
    for task in server.read("/api/tasks", query)["tasks"]:
        address = task["data"]["image"]
        if address.startswith("/data/local-files/"):
            request = urllib.request.Request(
                studio.url + address, headers={"Authorization": f"Token {studio.tokens['owner']}"}
            )
            with urllib.request.urlopen(request, timeout=60) as response:
                shown += response.read().startswith(b"\x89PNG")
    return shown
