"""The contact sheet: picks in order on one page that holds nothing but text and images."""

import base64
import hashlib
import io
import os
import re
from pathlib import Path

import pytest
from PIL import Image

from dubito.experiments import contact_sheet as sheets
from dubito.experiments.contact_sheet import (
    SIDE,
    Sheet,
    html_text,
    picture_column,
    picture_paths,
    render_sheet,
    thumbnail,
)


def picture(path: Path, size: tuple[int, int] = (640, 400), color: str = "red", turned: int = 1) -> Path:
    made = Image.new("RGB", size, color)
    exif = Image.Exif()
    exif[0x0112] = turned
    exif[0x010F] = "A camera with a name"
    made.save(path, exif=exif)
    return path


def decoded(source: str) -> Image.Image:
    kind, _, content = source.partition(",")
    assert kind == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(base64.b64decode(content)))


def test_a_thumbnail_is_small_turned_as_the_camera_was_held_and_holds_pixels_alone(tmp_path: Path) -> None:
    source = thumbnail(picture(tmp_path / "a.jpg", turned=6))
    assert source is not None
    small = decoded(source)
    assert small.size == (SIDE * 400 // 640, SIDE)
    assert not small.getexif()
    assert b"camera" not in base64.b64decode(source.partition(",")[2])


@pytest.mark.parametrize("mode", ["RGBA", "L", "P", "1", "CMYK", "I;16"])
def test_pictures_of_every_kind_are_shown_transparent_ones_on_white(mode: str, tmp_path: Path) -> None:
    path = tmp_path / ("a.tif" if mode in ("CMYK", "I;16") else "a.png")
    Image.new(mode, (40, 30)).save(path)
    source = thumbnail(path)
    assert source is not None
    corner = decoded(source).convert("RGB").getpixel((0, 0))
    assert corner == ((255, 255, 255) if mode in ("RGBA", "CMYK") else (0, 0, 0))


def test_what_is_no_picture_or_claims_to_be_huge_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("not a picture")
    whole = picture(tmp_path / "cut.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    Image.new("1", (20_000, 20_000)).save(tmp_path / "bomb.png")
    os.mkfifo(tmp_path / "pipe.jpg")
    for name in ("text.jpg", "cut.jpg", "bomb.png", "missing.jpg", "pipe.jpg"):
        assert thumbnail(tmp_path / name) is None


def test_a_page_is_one_file_with_a_policy_that_allows_its_style_and_pictures_alone(tmp_path: Path) -> None:
    paths = [picture(tmp_path / "a.jpg"), None, tmp_path / "gone.jpg"]
    page = render_sheet(Sheet("three", ["a", "b", "c"], [3.0, 2.0, float("nan")], {"note": ["x", "", "y"]}, paths))
    style = re.search("<style>(.*?)</style>", page, flags=re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page
    assert set(re.findall(r"<([a-z0-9]+)", page)) <= {
        *("html", "head", "meta", "title", "style", "body", "h1", "p", "ol", "li"),
        *("header", "b", "bdi", "span", "img", "dl", "dt", "dd"),
    }
    assert not re.search(r"https?:|url\(|@import| on[a-z]+=| href", page)
    assert (page.count("<img "), page.count("picture not found"), page.count("picture cannot be read")) == (1, 1, 1)
    assert "3 · nan" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_markup_and_control_characters_of_a_table_are_text_on_the_page() -> None:
    nasty = "</dd><script>alert(1)</script>\x1b[2J\u202egnp.exe\" onload='x'"
    page = render_sheet(Sheet(nasty, [nasty], [1.0], {nasty: [nasty]}))
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert page.count("&lt;script&gt;") == 5
    assert html_text("a\nb\tc") == "a\nb\tc"


def test_long_texts_many_picks_and_many_bytes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = render_sheet(Sheet("many", [str(row) for row in range(1200)], [1.0] * 1200, {"t": ["x" * 5000] * 1200}))
    assert many.count("<li>") == 1000
    assert "The first 1,000 of 1,200 are shown." in many
    assert len(many) < 1000 * 2300
    monkeypatch.setattr(sheets, "MAX_PICTURE_BYTES", 10)
    path = picture(tmp_path / "a.jpg")
    page = render_sheet(Sheet("two", ["a", "b"], [2.0, 1.0], {}, [path, path]))
    assert (page.count("<img "), page.count("picture not shown, the page is full")) == (1, 1)


def test_the_column_of_pictures_is_found_by_how_its_values_end(tmp_path: Path) -> None:
    assert picture_column({"text": ["a.b", "c"], "file": ["x.png", "y.WEBP", "z"]}) == "file"
    assert picture_column({"text": ["a", "b"]}) is None
    picture(tmp_path / "a.jpg")
    found = picture_paths(["a.jpg", "b.jpg"], [tmp_path / "nowhere", tmp_path])
    assert found == [tmp_path / "a.jpg", None]
