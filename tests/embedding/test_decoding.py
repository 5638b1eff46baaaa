"""One picture: every mode in the frame that is asked for, and what is wrong with it; processes that decode many."""

import io
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dubito.embedding.decoder import MEMORY, BrokenPicture, decode
from dubito.embedding.embedder import Framing
from dubito.embedding.pipeline import Decoder, Decoders

FRAME = Framing(4, 6)


def saved(picture: Image.Image, kind: str = "PNG", **more: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **more)
    return buffer.getvalue()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_mode_becomes_bytes_in_the_frame(mode: str, channels: int) -> None:
    whites: dict[str, int | tuple[int, ...] | str] = {"I;16": 65535, "CMYK": (0, 0, 0, 0)}
    white = Image.new(mode, (12, 8), whites.get(mode, "white"))
    data = saved(white, "TIFF" if mode in ("CMYK", "I;16") else "PNG")
    found = decode(data, Framing(4, 6, "squash", channels))
    assert found.shape == (4, 6, channels)
    assert (found == 255).all()


def test_transparent_parts_become_white() -> None:
    assert (decode(saved(Image.new("RGBA", (6, 4), (255, 0, 0, 0))), FRAME) == 255).all()


def test_a_camera_held_upright_is_followed() -> None:
    picture = Image.new("RGB", (40, 60), "black")
    picture.paste("white", (0, 0, 40, 30))
    note = Image.Exif()
    note[0x0112] = 8
    found = decode(saved(picture, "JPEG", exif=note, quality=95), Framing(4, 6))
    assert (found[:, :2] > 250).all()
    assert (found[:, 4:] < 5).all()


def test_a_crop_keeps_the_middle_and_its_shape() -> None:
    picture = Image.new("L", (30, 10), 0)
    picture.paste(255, (10, 0, 20, 10))
    assert (decode(saved(picture), Framing(10, 10, "crop", 1)) == 255).all()
    assert (decode(saved(picture), Framing(10, 10, "squash", 1)) == 255).mean() < 0.5


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is empty"),
        (b"GIF89a", "not a picture of a known format|cut short"),
        (saved(Image.new("RGB", (50, 50)))[:60], "cut short or damaged"),
        (saved(Image.effect_noise((64, 64), 90), "JPEG")[:400], "cut short or damaged"),
        (saved(Image.new("F", (3, 3), -5.0), "TIFF"), "values outside 0 to 1"),
    ],
)
def test_what_is_wrong_is_said_in_a_few_words(data: bytes, problem: str) -> None:
    with pytest.raises(BrokenPicture, match=problem):
        decode(data, FRAME)


def claiming(width: int, height: int) -> bytes:
    """A picture of a few bytes whose header claims any size."""
    data = saved(Image.new("L", (1, 1)))
    header = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:]


def test_a_picture_that_claims_to_be_huge_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BrokenPicture, match=r"has more than the 178,956,970 pixels that are decoded"):
        decode(claiming(20_000, 20_000), FRAME)
    # Some packages switch Pillow's own bound off.
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    with pytest.raises(BrokenPicture, match=r"is 20,000 x 30,000 pixels, more than the 178,956,970 that are decoded"):
        decode(claiming(20_000, 30_000), FRAME)


def test_a_file_that_cannot_be_opened_is_reported_so(tmp_path: Path) -> None:
    with pytest.raises(BrokenPicture, match=r"does not exist"):
        decode(str(tmp_path / "gone.png"), FRAME)
    with pytest.raises(BrokenPicture, match=r"is a folder, not a regular file"):
        decode(str(tmp_path), FRAME)


def test_processes_give_pictures_in_order_and_problems_in_their_places(tmp_path: Path) -> None:
    paths = []
    for number in range(50):
        paths.append(str(tmp_path / f"{number}.png"))
        Image.new("L", (6, 4), number).save(paths[-1])
    chunks: list[list[str | bytes]] = [[*paths[start : start + 7], b"broken"] for start in range(0, 50, 7)]
    with Decoders(2, Framing(4, 6, "squash", 1)) as decoders:
        found = [each for part in decoders.map(chunks) for each in part]
    values = [int(each[0, 0, 0]) for each in found if isinstance(each, np.ndarray)]
    assert values == list(range(50))
    assert [place for place, each in enumerate(found) if isinstance(each, str)] == [7, 15, 23, 31, 39, 47, 55, 57]


def test_processes_that_decode_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with Decoders(1, FRAME) as decoders:
        assert list(decoders.map([[b"no picture"]]))
    assert capfd.readouterr() == ("", "")


def test_a_process_that_is_killed_is_begun_again(tmp_path: Path) -> None:
    path = str(tmp_path / "a.png")
    Image.new("L", (6, 4), 9).save(path)
    with Decoders(1, Framing(4, 6, "squash", 1)) as decoders:
        (first,) = decoders.map([[path]])
        decoders.processes[0].process.kill()
        decoders.processes[0].process.wait()
        (again,) = decoders.map([[path, path]])
    assert [int(np.asarray(each)[0, 0, 0]) for each in first + again] == [9, 9, 9]


def test_a_picture_that_takes_too_long_ends_its_process_and_is_named(tmp_path: Path) -> None:
    Image.effect_noise((2000, 2000), 50).save(tmp_path / "slow.png")
    decoder = Decoder(Framing(4, 6, "squash", 1), seconds=0.001)
    try:
        found = decoder.decode([str(tmp_path / "slow.png")])
    finally:
        decoder.close()
    assert found == ["needs more than 0.001 seconds of CPU time to decode"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces a limit on the address space")
def test_a_process_that_decodes_pictures_has_a_memory_limit(tmp_path: Path) -> None:
    decoder = Decoder(Framing(4, 6, "squash", 1))
    try:
        decoder.decode([b""])
        limits = Path(f"/proc/{decoder.process.pid}/limits").read_text()
    finally:
        decoder.close()
    (line,) = (line for line in limits.splitlines() if line.startswith("Max address space"))
    assert str(MEMORY) in line
