"""Pictures that are shown again come from the disk, never for another picture, and never at a disk's mercy."""

import asyncio
import io
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from dubito.errors import MissingFile
from dubito.labeling import pictures as module
from dubito.labeling.contents import Contents
from dubito.labeling.decoder import PIXELS_AT_ONCE, DecoderUnavailable, ShownPicture, UndisplayablePicture
from dubito.labeling.pictures import Pictures
from dubito.labeling.thumbnails import ThumbnailCache

RED, BLUE = (255, 0, 0), (0, 0, 255)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("a.bmp", "b.bmp"):
        Image.new("RGB", (60, 40), RED).save(folder / name)
    return folder


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pictures]:
    """Over a cache that keeps pictures of files that were written a moment ago."""
    monkeypatch.setattr(module, "MIN_AGE", -1.0)
    made = Pictures(ThumbnailCache(str(tmp_path / "thumbnails"), keep_free=0), 2)
    yield made
    made.close()


def contents_of(folder: Path, *shown: object) -> Contents:
    given = shown or ("a.bmp", "b.bmp")
    return Contents("pictures", [f"item {place}" for place in range(len(given))], given, {}, (), str(folder))


def show(pictures: Pictures, contents: Contents, item: int = 0, edge: int = 64) -> ShownPicture:
    return asyncio.run(pictures.show(contents, item, edge))


def color(shown: ShownPicture) -> object:
    with Image.open(io.BytesIO(shown.data)) as opened:
        return opened.convert("RGB").getpixel((0, 0))


def kept(pictures: Pictures) -> list[Path]:
    folder = Path(pictures.cache.folder)
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_a_picture_is_decoded_once_for_each_size(pictures: Pictures, photos: Path) -> None:
    contents = contents_of(photos, "a.bmp", (photos / "b.bmp").read_bytes())
    first = [show(pictures, contents, 0), show(pictures, contents, 0, 32), show(pictures, contents, 1)]
    assert len(kept(pictures)) == 3
    pictures.small.close()
    assert [show(pictures, contents, 0), show(pictures, contents, 0, 32), show(pictures, contents, 1)] == first
    with pytest.raises(DecoderUnavailable):
        show(pictures, contents, 0, 16)


def test_a_replaced_picture_is_shown_though_its_size_and_time_are_the_same(pictures: Pictures, photos: Path) -> None:
    contents, path, found = contents_of(photos), photos / "a.bmp", os.stat(photos / "a.bmp")
    assert color(show(pictures, contents)) == RED
    Image.new("RGB", (60, 40), BLUE).save(photos / "new.bmp")
    os.utime(photos / "new.bmp", ns=(found.st_atime_ns, found.st_mtime_ns))
    os.replace(photos / "new.bmp", path)
    assert (os.stat(path).st_size, os.stat(path).st_mtime_ns) == (found.st_size, found.st_mtime_ns)
    assert color(show(pictures, contents)) == BLUE


def test_a_picture_that_changed_just_now_is_not_kept(
    pictures: Pictures, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_AGE", 3600.0)
    show(pictures, contents_of(photos))
    assert kept(pictures) == []


def test_a_picture_that_is_gone_or_a_pipe_is_not_shown_from_the_cache(pictures: Pictures, photos: Path) -> None:
    contents, path = contents_of(photos), photos / "a.bmp"
    show(pictures, contents)
    path.unlink()
    with pytest.raises(MissingFile, match=r"item 0 cannot be opened: no such file"):
        show(pictures, contents)
    os.mkfifo(path)
    with pytest.raises(MissingFile, match=r"the picture item 0 is a named pipe, not a regular file; skip it"):
        show(pictures, contents)


def make_pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def make_link(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x"),
        lambda path: path.write_bytes(path.read_bytes().replace(b"image/png", b"text/html")),
        lambda path: os.replace(make_pipe(path.with_name("pipe")), path),
        lambda path: os.replace(make_link(path.with_name("link")), path),
    ],
)
def test_a_damaged_file_is_made_again(pictures: Pictures, photos: Path, damage: Callable[[Path], object]) -> None:
    contents = contents_of(photos)
    first = show(pictures, contents)
    (path,) = kept(pictures)
    whole = path.read_bytes()
    damage(path)
    assert show(pictures, contents) == first
    assert kept(pictures) == [path]
    assert path.read_bytes() == whole


def test_a_full_disk_and_a_folder_that_cannot_be_written_stop_no_picture(pictures: Pictures, photos: Path) -> None:
    contents, limits = contents_of(photos), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        shown = show(pictures, contents)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert color(shown) == RED
    assert kept(pictures) == []
    pictures.cache.keep_free = 10**18
    assert color(show(pictures, contents)) == RED
    assert kept(pictures) == []
    os.rmdir(pictures.cache.folder)
    Path(pictures.cache.folder).write_text("a file")
    assert color(show(pictures, contents)) == RED


def test_a_picture_that_is_cached_again_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ThumbnailCache(str(tmp_path / "cache"), max_bytes=20_000, keep_free=0)
    cache.save("0" * 32, ShownPicture(bytes(1000), "image/png"))
    n_files = list[int]()
    files = cache._files

    def count_files() -> list[tuple[str, os.stat_result]]:
        found = files()
        n_files.append(len(found))
        return found

    monkeypatch.setattr(cache, "_files", count_files)
    for number in range(30):
        cache.save("0" * 32, ShownPicture(bytes([number]) * 1000, "image/png"))
    assert n_files == []  # There is room, so no file has to be removed.
    found = cache.load("0" * 32)
    assert found is not None
    assert found.data == bytes([29]) * 1000


def test_the_oldest_files_make_room_and_others_are_left_alone(tmp_path: Path) -> None:
    cache = ThumbnailCache(str(tmp_path / "cache"), max_bytes=20_000, keep_free=0)
    os.mkdir(cache.folder)
    interrupted = tmp_path / "cache" / f"{0:032x}.thumbnail.01234567.tmp"
    interrupted.write_bytes(b"half")
    os.utime(interrupted, (0, 0))
    (tmp_path / "cache" / "note.txt").write_text("mine")
    os.utime(tmp_path / "cache" / "note.txt", (0, 0))
    for number in range(30):
        cache.save(f"{number:032x}", ShownPicture(bytes([number]) * 1000, "image/png"))
        with suppress(FileNotFoundError):
            os.utime(tmp_path / "cache" / f"{number:032x}.thumbnail", (number + 1, number + 1))
        assert sum(each.stat().st_size for each in (tmp_path / "cache").glob("*.thumbnail")) <= cache.max_bytes
    found = [number for number in range(30) if cache.load(f"{number:032x}") is not None]
    assert found == list(range(found[0], 30))
    assert len(found) > 10
    assert not interrupted.exists()
    assert (tmp_path / "cache" / "note.txt").exists()
    cache.save(f"{99:032x}", ShownPicture(b"x" * 5000, "image/png"))
    assert cache.load(f"{99:032x}") is None


def test_a_picture_that_cannot_be_shown_is_not_tried_again_at_once(pictures: Pictures, photos: Path) -> None:
    (photos / "a.bmp").write_bytes((photos / "a.bmp").read_bytes()[:100])
    contents = contents_of(photos)
    for _ in range(2):
        with pytest.raises(UndisplayablePicture, match="the picture item 0 is cut short or damaged"):
            show(pictures, contents)
        pictures.small.close()
    Image.new("RGB", (60, 40), RED).save(photos / "a.bmp")
    with pytest.raises(DecoderUnavailable):
        show(pictures, contents)


def test_a_picture_that_hangs_holds_up_no_other(pictures: Pictures, photos: Path) -> None:
    contents = contents_of(photos)
    show(pictures, contents, 0)
    (stopped,) = pictures.small.process_ids

    async def watch() -> tuple[bool, ShownPicture, ShownPicture, ShownPicture]:
        os.kill(stopped, signal.SIGSTOP)
        hanging = asyncio.ensure_future(pictures.show(contents, 0, 32))
        while pictures.small._idle:
            await asyncio.sleep(0.01)
        other, from_disk = await pictures.show(contents, 1, 32), await pictures.show(contents, 0, 64)
        was_done = hanging.done()
        os.kill(stopped, signal.SIGKILL)
        return was_done, await hanging, other, from_disk

    was_done, *shown = asyncio.run(watch())
    assert not was_done
    assert [color(each) for each in shown] == [RED] * 3


def test_large_pictures_that_wait_for_memory_hold_up_no_small_one(pictures: Pictures, photos: Path) -> None:
    pictures.small.max_pixels = 3000
    Image.new("RGB", (100, 100), BLUE).save(photos / "b.bmp")
    contents = contents_of(photos)

    async def watch() -> list[ShownPicture]:
        with pictures.large.budget.admitted(PIXELS_AT_ONCE):
            waiting = [asyncio.ensure_future(pictures.show(contents, 1, 50 + each)) for each in range(4)]
            while len(pictures.large.process_ids) < 2:
                await asyncio.sleep(0.01)
            small = await pictures.show(contents, 0, 32)
            assert not any(each.done() for each in waiting)
        return [small, *await asyncio.gather(*waiting)]

    assert [color(each) for each in asyncio.run(watch())] == [RED, *4 * [BLUE]]
    assert pictures.small.budget.peak == 60 * 40
    assert pictures.large.budget.peak == PIXELS_AT_ONCE


def test_where_too_many_pictures_wait_one_more_is_refused(
    pictures: Pictures, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 1)
    contents = contents_of(photos)
    show(pictures, contents, 0)
    (stopped,) = pictures.small.process_ids

    async def ask_two() -> ShownPicture:
        os.kill(stopped, signal.SIGSTOP)
        hanging = asyncio.ensure_future(pictures.show(contents, 0, 32))
        while pictures.small._idle:
            await asyncio.sleep(0.01)
        with pytest.raises(DecoderUnavailable, match=r"1 pictures wait to be decoded; try again in a moment"):
            await pictures.show(contents, 1, 32)
        os.kill(stopped, signal.SIGKILL)
        return await hanging

    assert color(asyncio.run(ask_two())) == RED
    assert color(show(pictures, contents, 1, 32)) == RED


def test_paths_that_none_can_be_and_files_that_are_too_large_are_refused(pictures: Pictures, photos: Path) -> None:
    with open(photos / "large.png", "wb") as file:
        file.truncate(module.MAX_BYTES + 1)
    contents = contents_of(photos, "a\0b.png", "large.png")
    with pytest.raises(MissingFile, match="the path of the picture item 0 contains a NUL character"):
        show(pictures, contents, 0)
    with pytest.raises(
        UndisplayablePicture, match=r"item 1 has 64,000,001 bytes, more than the 64,000,000 that are shown"
    ):
        show(pictures, contents, 1)
