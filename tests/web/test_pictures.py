"""Pictures: only those of the pool, only from inside the source, and none that would take the memory."""

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from dubito.embedding.decoder import BrokenPicture, decode
from dubito.embedding.embedder import Framing
from dubito.labeling import pictures
from dubito.labeling.creation import open_project
from dubito.labeling.decoder import PictureDecoder, UndisplayablePicture
from dubito.labeling.service import LabelingService
from web.clients import client_of

UP = ["../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%252f", "..%c0%af", "..\\", "..%5c", "....//", "..;/", "%00../"]
AIMS = ["etc/passwd", "secret.png", "token", "labels.sqlite", "project.toml"]
PLACES = ["/page/", "/api/items/", "/api/items/0/", "/"]
PAYLOADS = [f"{place}{up * deep}{aim}" for place in PLACES for up in UP for deep in (1, 4) for aim in AIMS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures, a secret beside it, and a link that leads to it."""
    root = tmp_path_factory.mktemp("pictures")
    photos = root / "photos"
    photos.mkdir()
    rng = np.random.default_rng(0)
    for number in range(6):
        Image.fromarray(rng.integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(photos / f"{number}.png")
    Image.new("RGB", (50, 50), "red").save(root / "secret.png")
    os.symlink(root / "secret.png", photos / "link.png")
    return root


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    service = LabelingService(*open_project(str(folder / "photos"), classes=["a", "b"]))
    with client_of(service) as opened:
        yield opened


def row_of(client: TestClient, name: str) -> int:
    for row in range(client.get("/api/project").json()["items"]):
        if client.get(f"/api/items/{row}").json()["id"] == name:
            return row
    raise AssertionError(name)


def test_a_picture_is_shown_no_larger_than_asked_for(client: TestClient) -> None:
    answer = client.get("/api/items/0/picture", params={"edge": 16})
    assert answer.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(answer.content)).size == (16, 11)
    assert Image.open(io.BytesIO(client.get("/api/items/0/picture").content)).size == (60, 40)


def test_a_link_that_leads_out_of_the_source_is_refused(client: TestClient) -> None:
    answer = client.get(f"/api/items/{row_of(client, 'link.png')}/picture")
    assert answer.status_code == 404
    assert "outside the source" in answer.json()["error"]


def test_none_of_hundreds_of_ways_out_leads_out(client: TestClient) -> None:
    assert len(PAYLOADS) > 400
    for payload in PAYLOADS:
        answer = client.get(payload)
        assert answer.status_code in (401, 404, 405, 422), payload
        assert b"root:" not in answer.content
        assert b"PNG" not in answer.content
        assert b"SQLite" not in answer.content


@pytest.mark.parametrize(
    ("damage", "described"),
    [
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(b"<svg onload=alert(1)>"), "not a picture of a known format"),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "cut short or damaged"),
        (lambda path: Image.new("1", (10_000, 10_001)).save(path), "more than the 50,000,000"),
    ],
)
def test_a_picture_that_cannot_be_shown_is_415_with_a_sentence(
    client: TestClient, folder: Path, damage: Callable[[Path], object], described: str
) -> None:
    path = folder / "photos" / "3.png"
    before = path.read_bytes()
    damage(path)
    answer = client.get(f"/api/items/{row_of(client, '3.png')}/picture")
    path.write_bytes(before)
    assert answer.status_code == 415
    assert described in answer.json()["error"]


def test_a_picture_that_is_gone_or_a_pipe_is_404_and_nobody_waits(client: TestClient, folder: Path) -> None:
    path = folder / "photos" / "4.png"
    row = row_of(client, "4.png")
    path.unlink()
    assert client.get(f"/api/items/{row}/picture").status_code == 404
    os.mkfifo(path)
    answer = client.get(f"/api/items/{row}/picture")
    assert answer.status_code == 404
    assert answer.json()["error"] == "The picture 4.png is a named pipe, not a regular file; skip it."


def test_while_too_many_pictures_wait_a_request_is_503_and_may_be_sent_again(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pictures, "MAX_WAITING", 0)
        answer = client.get("/api/items/0/picture", params={"edge": 77})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert client.get("/api/items/0/picture", params={"edge": 77}).status_code == 200


def test_a_camera_note_of_a_place_does_not_go_out(client: TestClient, folder: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "at home"
    Image.new("RGB", (30, 20)).save(folder / "photos" / "2.png", exif=exif)
    assert b"at home" not in client.get(f"/api/items/{row_of(client, '2.png')}/picture").content


def test_text_has_no_picture(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("id,text\na,one two\nb,three four\nc,five six\n")
    with client_of(LabelingService(*open_project(str(tmp_path / "texts.csv"), classes=["x", "y"]))) as opened:
        assert opened.get("/api/items/1").json()["text"] == "three four"
        assert opened.get("/api/items/1/picture").status_code == 404


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.fixture(scope="module")
def decoder() -> Iterator[PictureDecoder]:
    made = PictureDecoder(1)
    yield made
    made.close()


def test_a_file_that_only_another_program_could_draw_is_no_picture(folder: Path, decoder: PictureDecoder) -> None:
    """Pillow would start Ghostscript for it."""
    with pytest.raises(BrokenPicture, match="is not a picture of a known format"):
        decode(EPS, Framing(8, 8))
    place = folder / "photos" / "drawn.png"
    place.write_bytes(EPS)
    with pytest.raises(UndisplayablePicture, match=r"the file drawn.png is not a picture of a known format"):
        decoder.decode(place.read_bytes(), "drawn.png", 64)
    place.unlink()


def test_of_a_picture_with_16_bits_the_whole_range_is_shown(folder: Path, decoder: PictureDecoder) -> None:
    place = folder / "photos" / "deep.png"
    Image.fromarray(np.array([[1000, 2000], [1500, 2000]], dtype=np.uint16)).save(place)
    shown = decoder.decode(place.read_bytes(), "deep.png", 64)
    place.unlink()
    with Image.open(io.BytesIO(shown.data)) as picture:
        pixels = np.asarray(picture.convert("L")).astype(int)
    assert abs(pixels - [[0, 255], [127, 255]]).max() <= 1
