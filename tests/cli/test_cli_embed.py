"""``dubito embed``: from a folder or a table to picks by commands alone, and each complaint in one line."""

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from dubito.cli.commands.embed import SOME_LEFT_OUT

from .conftest import Program

DIGITS = load_digits()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for row in range(60):
        picture = (DIGITS.images[row] * 255 / 16).astype(np.uint8)
        Image.fromarray(picture).save(folder / f"{row}.png")
    return folder


def rows_of(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path(path).read_text(encoding="utf-8").splitlines()))


def test_a_folder_becomes_picks_and_labels_come_back(run: Program, photos: Path) -> None:
    ran = run("embed", "photos")
    assert ran.code == 0, ran.err
    assert ran.out == ""
    assert "60 pictures embedded by pixels, 64 numbers each" in ran.err
    assert "written to pool.parquet" in ran.err
    assert "select pool.parquet -b 30 -o batch.csv" in ran.err
    assert "timm:mobilenetv3_small_100" in ran.err
    ran = run("select", "pool.parquet", "-b", "5", "--strategy", "coverage", "-o", "one.csv", "--sheet", "one.html")
    assert ran.code == 0, ran.err
    assert "(5 pictures)" in ran.err
    picks = rows_of("one.csv")
    assert [pick["path"] for pick in picks] == [pick["id"] for pick in picks]
    with open("done.csv", "w") as file:
        file.write("id,label\n" + "".join(f"{pick['id']},{DIGITS.target[int(pick['index'])]}\n" for pick in picks))
    ran = run("select", "pool.parquet", "-b", "5", "--strategy", "coverage", "--labeled", "done.csv", "-o", "two.csv")
    assert ran.code == 0, ran.err
    assert {pick["id"] for pick in picks}.isdisjoint(pick["id"] for pick in rows_of("two.csv"))


def test_what_is_left_out_is_listed_and_in_the_exit_code(run: Program, photos: Path) -> None:
    for number in range(13):
        (photos / f"=bad{number}.png").write_bytes(b"x" * number)
    ran = run("embed", "photos", "--errors", "errors.csv", "--json")
    assert ran.code == SOME_LEFT_OUT
    assert "left out: =bad0.png is empty (0 bytes)" in ran.err
    assert "left out: 3 more; errors.csv lists them all" in ran.err
    assert "; 13 left out; written to pool.parquet." in ran.err
    listed = rows_of("errors.csv")
    assert len(listed) == 13
    assert listed[0] == {"id": "'=bad0.png", "problem": "is empty (0 bytes)"}
    described = json.loads(ran.out)
    assert (described["rows"], len(described["left_out"]), described["path"]) == (60, 13, "pool.parquet")
    again = run("embed", "photos", "--errors", "errors.csv")
    assert again.code == SOME_LEFT_OUT
    assert "pool.parquet was already complete" in again.err
    assert len(rows_of("errors.csv")) == 13


def test_a_table_of_texts_becomes_picks_with_their_texts(run: Program) -> None:
    lines = [f"{row},{'card is late' if row % 2 else 'rate is wrong'} {row}" for row in range(40)]
    Path("texts.csv").write_text("id,review\n" + "\n".join(lines) + "\n")
    ran = run("embed", "texts.csv", "-o", "shards", "--shard", "16")
    assert ran.code == 0, ran.err
    assert "texts.csv: texts are in 'review', ids are in 'id'" in ran.err
    assert len(list(Path("shards").glob("part-*.parquet"))) == 3
    ran = run("select", "shards", "-b", "4", "--strategy", "coverage", "-o", "picks.csv", "-q")
    assert ran.code == 0, ran.err
    assert all(pick["text"].endswith(f" {pick['id']}") for pick in rows_of("picks.csv"))


def test_broken_lines_of_a_table_are_listed_by_their_numbers(run: Program) -> None:
    Path("t.jsonl").write_text('{"text": "card is late"}\n{"text": "cut\n\n{"text": "rate is wrong"}\n')
    ran = run("embed", "t.jsonl", "--errors", "errors.csv")
    assert ran.code == SOME_LEFT_OUT
    assert "left out: line 2 is not valid JSON" in ran.err
    assert [row["id"] for row in rows_of("errors.csv")] == ["line 2"]
    assert "2 texts embedded" in ran.err


def test_every_row_that_has_a_class_folder_can_still_be_picked(run: Program, photos: Path) -> None:
    for path in sorted(photos.iterdir()):
        place = photos / str(DIGITS.target[int(path.stem)])
        place.mkdir(exist_ok=True)
        path.rename(place / path.name)
    ran = run("embed", "photos")
    assert ran.code == 0, ran.err
    assert "became the column label; to pick among all of them pass --ignore-columns label" in ran.err
    ran = run("select", "pool.parquet", "-b", "4", "--strategy", "coverage", "--ignore-columns", "label")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("gone",), 2, "gone does not exist"),
        (("photos", "-o", "no/pool.parquet"), 2, "no/pool.parquet cannot be written: its folder does not exist"),
        (("photos", "--embedder", "pixle"), 2, "--embedder pixle is not known; did you mean 'pixels'?"),
        (("photos", "--embedder", "words"), 2, "--embedder words takes texts, and the source holds pictures"),
        (("photos", "--embedder", "onnx"), 2, "--embedder onnx names no file; write onnx:FILE."),
        (("photos", "--embedder", "pixels:3"), 2, "text after the colon, which pixels does not use; write just pixels"),
        (("photos", "--embedder", "onnx:gone.onnx"), 2, "onnx:gone.onnx names no file"),
        (("photos", "--option", "sise=8"), 2, "pixels has no option 'sise'; did you mean 'size'?"),
        (("photos", "--option", "size"), 2, "--option size is not KEY=VALUE"),
        (("photos", "--option", "size=big"), 2, "write the side in pixels"),
        (("photos", "--shard", "0"), 2, "--shard 0 is too small"),
        (("photos", "--batch", "many"), 2, "--batch many is not a whole number"),
        (("photos", "--text", "a"), 2, "--text is for tables, and photos is a folder of pictures"),
        (("photos", "--errors", "photos/0.png"), 2, "photos/0.png exists"),
        (("photos", "--errors", "no/e.csv"), 2, "no/e.csv cannot be written"),
        (("t.csv", "--text", "txt"), 2, "t.csv has no column 'txt'; did you mean 'text'?"),
        (("t.csv", "-o", "t.csv"), 2, "t.csv is read, and would be lost"),
    ],
)
def test_each_complaint_is_one_line(
    run: Program, photos: Path, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    Path("t.csv").write_text("text\na\n")
    ran = run("embed", *arguments)
    assert ran.code == code
    assert complaint in ran.complaint
    assert not Path("pool.parquet.parts").exists()


@pytest.mark.parametrize("name", ["timm:resnet18", "clip:ViT-B-32", "sentence:mini"])
def test_a_package_that_is_missing_is_reported_with_its_command(
    run: Program, photos: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(photos.parent / "t.csv").write_text("text\na\n")
    source = "t.csv" if name.startswith("sentence") else "photos"
    for package in ("timm", "open_clip", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, package, None)
    ran = run("embed", source, "--embedder", name)
    assert ran.code == 1
    assert "pip install" in ran.complaint


def test_ctrl_c_says_how_to_go_on(photos: Path, wait_until: Callable[[Callable[[], bool]], None]) -> None:
    command = [sys.executable, "-m", "dubito", "embed", "photos", "--shard", "1", "--processes", "1"]
    running = subprocess.Popen(command, cwd=photos.parent, stderr=subprocess.PIPE, text=True, start_new_session=True)
    parts = photos.parent / "pool.parquet.parts"
    wait_until(lambda: len(list(parts.glob("part-*"))) > 1 or running.poll() is not None)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate()
    assert running.returncode == 130, said
    assert (
        said.splitlines()[-1]
        == "dubito: error: interrupted; run the same command again to continue from pool.parquet.parts."
    )
