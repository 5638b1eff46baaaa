"""Folders of pictures: what they are called, which are classes, and what is left out with a word on why."""

import os
import socket
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import dubito
from dubito.errors import DubitoError, InvalidArgument, InvalidData, MissingFile

from .conftest import MakeDigits, embed


def test_a_flat_folder_gives_ids_paths_and_the_pixels_themselves(make_digits: MakeDigits) -> None:
    pool = dubito.embed(make_digits(30))
    assert pool.ids.tolist() == [f"{row}.png" for row in range(30)]
    assert list(pool.columns) == ["path"]
    wanted = np.floor(load_digits().data[:30] * 255 / 16) / 255
    np.testing.assert_allclose(pool.embedding, wanted, atol=1e-6)
    assert repr(pool) == "Embedded(30 pictures by pixels, 64 wide, in memory)"
    assert len(dubito.select(pool.embedding, 5, strategy="coverage")) == 5


def test_class_folders_become_labels_and_a_note_says_so(make_digits: MakeDigits) -> None:
    folder = make_digits(30, classes=True)
    pool = embed(folder)
    assert pool.columns["label"].tolist() == [name.split("/")[0] for name in pool.ids.tolist()]
    assert any("became the column label" in note for note in pool.notes)
    assert "label" not in embed(folder, labels=False).columns


def test_pictures_in_a_folder_called_unlabeled_have_no_label(make_digits: MakeDigits) -> None:
    folder = make_digits(20, classes=True)
    (folder / "5").rename(folder / "unlabeled")
    labels = embed(folder).columns["label"].tolist()
    assert None in labels
    assert "unlabeled" not in labels


@pytest.mark.parametrize("extra", ["loose.png", "3/deep/er.png"])
def test_folders_are_no_classes_where_a_picture_lies_elsewhere(make_digits: MakeDigits, extra: str) -> None:
    folder = make_digits(20, classes=True)
    (folder / extra).parent.mkdir(exist_ok=True)
    Image.new("L", (8, 8)).save(folder / extra)
    pool = embed(folder)
    assert extra in pool.ids.tolist()
    assert "label" not in pool.columns


def test_hidden_files_and_what_is_no_picture_are_left_alone(make_digits: MakeDigits) -> None:
    folder = make_digits(3)
    (folder / "notes.txt").write_text("no picture")
    (folder / ".hidden.png").write_bytes(b"")
    (folder / ".git").mkdir()
    (folder / ".git" / "x.png").write_bytes(b"")
    pool = embed(folder)
    assert len(pool) == 3
    assert pool.left_out == ()


def test_broken_pictures_are_listed_and_the_rest_embedded(make_digits: MakeDigits) -> None:
    folder = make_digits(5)
    whole = (folder / "0.png").read_bytes()
    Image.new("1", (20_000, 10_000)).save(folder / "huge.png")
    (folder / "cut.png").write_bytes(whole[:-30])
    (folder / "empty.png").write_bytes(b"")
    (folder / "text.jpg").write_text("this is no picture")
    (folder / "folder.png").mkdir()
    os.symlink("nowhere", folder / "gone.png")
    pool = embed(folder, options={"size": 8})
    assert len(pool) == 5
    problems = dict(pool.left_out)
    assert problems["huge.png"] == "has more than the 178,956,970 pixels that are decoded"
    assert problems["empty.png"] == "is empty (0 bytes)"
    assert problems["text.jpg"] == "is not a picture of a known format"
    assert problems["gone.png"] == "does not exist"
    assert problems["cut.png"].startswith("is cut short or damaged (")
    assert len(problems) == 5


def test_pipes_sockets_and_devices_are_listed_and_nobody_waits_for_them(
    make_digits: MakeDigits, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_digits(3)
    os.mkfifo(folder / "pipe.png")
    os.symlink("/dev/zero", folder / "zero.png")
    monkeypatch.chdir(folder)  # The path of a socket must be short.
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.png")
        pool = embed(folder)
    assert len(pool) == 3
    assert dict(pool.left_out) == {
        "pipe.png": "is a named pipe, not a regular file",
        "socket.png": "is a socket, not a regular file",
        "zero.png": "is a device, not a regular file",
    }


def test_a_table_that_is_a_pipe_is_refused_and_so_is_a_path_in_a_table(make_digits: MakeDigits, tmp_path: Path) -> None:
    folder = make_digits(2)
    os.mkfifo(folder / "pipe.png")
    (folder / "table.csv").write_text("id,path\na,0.png\nb,pipe.png\nc,1.png\n")
    assert dict(embed(folder / "table.csv").left_out) == {"b": "is a named pipe, not a regular file"}
    os.mkfifo(tmp_path / "table.parquet")
    with pytest.raises(InvalidArgument, match=r"table.parquet is a named pipe, not a regular file; write the table to"):
        embed(tmp_path / "table.parquet")


ODD = [
    "new\nline.png",
    "-o.png",
    "snow☃😀.png",
    "a b.png",
    '"quoted".png',
    "=1+1.png",
    "tab\t.png",
    "%s{}.png",
]


def test_odd_names_are_kept_and_those_that_are_no_text_are_reported(make_digits: MakeDigits) -> None:
    folder = make_digits(1)
    picture = (folder / "0.png").read_bytes()
    for name in ODD:
        (folder / name).write_bytes(picture)
    with open(os.fsencode(folder) + b"/bad\xff.png", "wb") as file:
        file.write(picture)
    (folder / "e\u0301.png").write_bytes(picture)
    (folder / "\u00e9.png").write_bytes(picture)
    pool = embed(folder)
    assert {"0.png", *ODD} < set(pool.ids.tolist())
    assert len(pool) == len(ODD) + 2
    bad, same = sorted(pool.left_out)
    assert bad == ("bad\\udcff.png", "has a name that is not UTF-8; rename it")
    assert same.problem.startswith("has the same name as")


def test_nothing_to_embed_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="holds no pictures"):
        embed(tmp_path)
    (tmp_path / "texts.csv").write_text("text\na\n")
    with pytest.raises(MissingFile, match=r"pass a table in it, such as .*texts\.csv"):
        embed(tmp_path)
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(InvalidData, match=r"none of the 1 pictures .* can be embedded: a\.png is empty"):
        embed(tmp_path)
    with pytest.raises(InvalidArgument, match="is one picture"):
        embed(tmp_path / "a.png")
    with pytest.raises(MissingFile, match="does not exist"):
        embed(tmp_path / "gone")


def test_options_of_tables_are_refused_for_folders(make_digits: MakeDigits) -> None:
    with pytest.raises(DubitoError, match="text is for tables"):
        embed(make_digits(2), text="text")
