"""What used to be ignored without a word is an error or a message."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dubito
from dubito.cli import main
from dubito.errors import InvalidArgument, InvalidData

POINTS = np.random.default_rng(0).normal(size=(60, 3))


@pytest.mark.parametrize("model", ["forest", "nonsense"])
def test_a_model_without_labels_is_an_error(model: str) -> None:
    with pytest.raises(InvalidArgument, match="model"):
        dubito.select(POINTS, 5, model=model)
    assert len(dubito.select(POINTS, 5, model="none")) == 5


def test_classes_in_place_of_row_numbers_are_an_error() -> None:
    classes = np.arange(40) % 10
    with pytest.raises(InvalidArgument, match="holds 40 row numbers, of which only 10 are different"):
        dubito.select(POINTS, 5, labeled=classes)
    assert len(dubito.select(POINTS, 5, labeled=[0, 1, 2, 2])) == 5


@pytest.mark.parametrize("option", [{"classes": [0]}, {"no_label": "?"}, {"model": "forest"}])
def test_shards_refuse_what_they_would_ignore(option: dict[str, object]) -> None:
    shards = dubito.Shards([POINTS[:30], POINTS[30:]])
    with pytest.raises(InvalidArgument, match=f"{next(iter(option))}.* cannot be used with shards"):
        dubito.select(shards, 5, **option)  # type: ignore[arg-type]


def test_texts_are_not_taken_for_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "texts.csv"
    table.write_text("text\n" + "".join(f"message number {row}\n" for row in range(40)))
    dubito.embed(table, out=tmp_path / "pool.parquet")
    out = tmp_path / "out"
    assert main(["simulate", str(tmp_path / "pool.parquet"), "-o", str(out), "-s", "margin"]) == 3
    assert "has no column of labels: the likeliest one has 40 different values in 40 rows" in capsys.readouterr().err
    assert not out.exists()


def test_status_takes_a_pool_of_which_every_row_has_a_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = np.where(POINTS[:, 0] > 0, "high", "low")
    np.savez(tmp_path / "full.npz", features=POINTS, labels=labels)
    assert main(["status", str(tmp_path / "full.npz")]) == 0
    assert "labeled     60 of 60 rows" in capsys.readouterr().out
    assert main(["select", str(tmp_path / "full.npz"), "-b", "5"]) == 2


def test_pictures_in_formats_that_are_not_read_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "phone.HEIC").write_bytes(b"....ftypheic")
    with pytest.raises(InvalidData, match=r"none of the 1 pictures .* can be read: phone.HEIC is in the format HEIC"):
        dubito.embed(folder)
    Image.new("L", (8, 8)).save(folder / "a.png")
    pool = dubito.embed(folder, processes=1)
    assert pool.left_out == (("phone.HEIC", "is in the format HEIC, which is not read; convert it to JPEG or PNG"),)
