"""The picture decoder: no picture takes the server's memory or time, and no child process is missed."""

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from dubito.labeling import decoder as decoders
from dubito.labeling.decoder import WORKER, DecoderUnavailable, LargePicture, PictureDecoder, UndisplayablePicture

WaitUntil = Callable[[Callable[[], bool]], None]
IS_LINUX = sys.platform == "linux"


def picture(size: tuple[int, int] = (60, 40), mode: str = "RGB", kind: str = "PNG", **more: object) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, kind, **more)
    return buffer.getvalue()


SMALL = picture()
HUGE = picture((10_000, 4_000), "1")
"""A few kilobytes that become 160 MB."""


def size_of(data: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(data)) as opened:
        return opened.size


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return not IS_LINUX or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.fixture
def decoder() -> Iterator[PictureDecoder]:
    made = PictureDecoder(2)
    yield made
    made.close()


def test_a_picture_comes_small_upright_and_as_pixels_alone(decoder: PictureDecoder) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "at home"
    for kind in ("JPEG", "TIFF"):
        shown = decoder.decode(picture((60, 40), kind=kind, exif=exif), "turned", 30)
        assert size_of(shown.data) == (20, 30)
        assert b"at home" not in shown.data


def test_pixels_that_are_decoded_at_a_time_are_bounded_and_all_pictures_come() -> None:
    data = picture((1000, 600))
    bounded = PictureDecoder(3, pixels_at_once=1_300_000)
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda name: bounded.decode(data, str(name), 50), range(12)))
    assert bounded.budget.peak == 1_200_000
    larger_than_all = bounded.decode(picture((2000, 1000)), "large", 50)  # Alone.
    bounded.close()
    assert {size_of(each.data) for each in found} == {(50, 30)}
    assert size_of(larger_than_all.data) == (50, 25)
    assert bounded.budget.peak == 2_000_000
    assert bounded.budget.in_flight == 0


def test_small_pictures_do_not_pass_a_large_one_that_waits(wait_until: WaitUntil) -> None:
    budget = decoders.PixelBudget(10)
    order: list[int] = []

    def take(n_pixels: int) -> None:
        with budget.admitted(n_pixels):
            order.append(n_pixels)

    large, small = (threading.Thread(target=take, args=(n_pixels,)) for n_pixels in (10, 1))
    with budget.admitted(5):
        large.start()
        wait_until(budget._turn.locked)
        small.start()
        small.join(0.2)  # There is room for it, but it is not its turn.
        assert order == []
    large.join()
    small.join()
    assert order == [10, 1]
    assert budget.peak == 10


def test_a_picture_that_is_too_large_for_a_decoder_is_not_decoded_and_costs_no_process() -> None:
    small = PictureDecoder(1, max_pixels=10_000)
    with pytest.raises(LargePicture):
        small.decode(picture((200, 100)), "large", 64)
    assert size_of(small.decode(SMALL, "small", 64).data) == (60, 40)
    assert small.n_started == 1
    assert small.budget.peak == 60 * 40
    small.close()


def test_a_large_jpeg_is_decoded_at_a_smaller_size(decoder: PictureDecoder) -> None:
    decoder.decode(picture((4000, 3000), kind="JPEG"), "large", 256)
    assert decoder.budget.peak == 500 * 375
    decoder.decode(picture((2000, 1000), kind="JPEG", progressive=True), "progressive", 256)
    assert decoder.budget.peak == 2_000_000


@pytest.mark.skipif(not IS_LINUX, reason="the system does not bound the memory of a process")
def test_a_picture_that_takes_too_much_memory_is_refused_and_the_next_one_shown() -> None:
    bounded = PictureDecoder(1, memory=150_000_000)
    with pytest.raises(
        UndisplayablePicture, match=r"the picture bomb takes more memory than decoding a picture may take; skip"
    ):
        bounded.decode(HUGE, "bomb", 64)
    assert size_of(bounded.decode(SMALL, "small", 64).data) == (60, 40)
    bounded.close()


@pytest.mark.skipif(not IS_LINUX, reason="peaks of memory are read from /proc")
def test_a_child_process_is_small_and_gives_the_memory_of_a_picture_back(decoder: PictureDecoder) -> None:
    decoder.decode(HUGE, "huge", 64)
    status = Path(f"/proc/{decoder.process_ids[0]}/status").read_text()
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in status.splitlines() if line.startswith("Vm")}
    assert 160_000 < kilobytes["VmHWM"] < 300_000
    assert kilobytes["VmRSS"] < 60_000


def test_a_picture_that_takes_too_long_ends_its_process_alone(decoder: PictureDecoder) -> None:
    decoder.seconds = 0.005
    with pytest.raises(UndisplayablePicture, match=r"the picture slow needs more than 0.005 seconds to decode"):
        decoder.decode(HUGE, "slow", 64)
    assert decoder.process_ids == []
    decoder.seconds = 600.0
    assert size_of(decoder.decode(SMALL, "small", 64).data) == (60, 40)


def test_a_process_that_hangs_is_killed_and_replaced(decoder: PictureDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder.decode(SMALL, "first", 64)
    (hanging,) = decoder.process_ids
    os.kill(hanging, signal.SIGSTOP)
    decoder.seconds = 0.1
    with monkeypatch.context() as patch:
        patch.setattr(decoders, "GRACE", 0.1)
        with pytest.raises(UndisplayablePicture, match=r"needs more than 0\.1 seconds"):
            decoder.decode(SMALL, "second", 64)
    assert not is_running(hanging)
    decoder.seconds = 600.0
    assert size_of(decoder.decode(SMALL, "third", 64).data) == (60, 40)
    assert hanging not in decoder.process_ids


def test_processes_that_were_killed_while_idle_cost_no_picture(decoder: PictureDecoder, wait_until: WaitUntil) -> None:
    with ThreadPoolExecutor(2) as threads, decoder.budget.admitted(decoders.PIXELS_AT_ONCE):
        both = [threads.submit(decoder.decode, SMALL, "first", 64) for _ in range(2)]
        wait_until(lambda: len(decoder.process_ids) == 2)
    assert all(each.result() for each in both)
    for child in decoder.process_ids:
        with suppress(ProcessLookupError):  # On Linux it ends with the thread that made it.
            os.kill(child, signal.SIGKILL)
    assert size_of(decoder.decode(SMALL, "second", 64).data) == (60, 40)
    assert decoder.n_started == 3
    assert len(decoder.process_ids) <= 2


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "out.write(struct.pack('>II', 2**31, 2**31))",
        "out.write(struct.pack('>II', 5, 0) + b'[1,2]')",
        "out.write(struct.pack('>II', 12, 0) + b'no JSON here')",
        "out.write(struct.pack('>II', 13, 0) + b'{\"pixels\": 1}' + struct.pack('>II', 22, 2) "
        "+ b'{\"media\": \"text/html\"}' + b'hi')",
    ],
)
def test_a_process_that_ends_or_replies_nonsense_fails_one_picture(
    decoder: PictureDecoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: str
) -> None:
    (tmp_path / "worker.py").write_text(f"import os, struct\nout = os.fdopen(1, 'wb')\n{reply}\nout.flush()\n")
    with monkeypatch.context() as patch:
        patch.setattr(decoders, "WORKER", str(tmp_path / "worker.py"))
        with pytest.raises(UndisplayablePicture, match=r"the picture odd crashes the process that decodes it; skip it"):
            decoder.decode(SMALL, "odd", 64)
    assert decoder.n_started == 2
    assert decoder.process_ids == []
    assert size_of(decoder.decode(SMALL, "small", 64).data) == (60, 40)


def test_where_no_process_can_be_started_pictures_are_refused_until_one_can(
    decoder: PictureDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(
            DecoderUnavailable, match=r"no process .* can be started: no such file or directory; try again"
        ):
            decoder.decode(SMALL, "small", 64)
    assert size_of(decoder.decode(SMALL, "small", 64).data) == (60, 40)


def test_closing_ends_processes_and_refuses_whoever_waits(wait_until: WaitUntil) -> None:
    closing = PictureDecoder(1)
    closing.decode(SMALL, "first", 64)
    (child,) = closing.process_ids
    os.kill(child, signal.SIGSTOP)
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(closing.decode, SMALL, "second", 64) for _ in range(2)]
        wait_until(lambda: not closing._idle)
        closing.close()
        for each in waiting:
            with pytest.raises(DecoderUnavailable, match="the server is stopping"):
                each.result()
    assert not is_running(child)


SERVER = """
import sys
from dubito.labeling.decoder import PictureDecoder
decoder = PictureDecoder(1)
decoder.decode(sys.stdin.buffer.read(), "picture", 64)
print(decoder.process_ids[0], flush=True)
import time
time.sleep(3600)
"""


@pytest.mark.parametrize("is_busy", [False, pytest.param(True, marks=pytest.mark.skipif(not IS_LINUX, reason="late"))])
def test_no_process_outlives_a_server_that_is_killed(wait_until: WaitUntil, is_busy: bool) -> None:
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(SMALL)
        server.stdin.close()
        child = int(server.stdout.readline())
        assert is_running(child)
        if is_busy:
            os.kill(child, signal.SIGSTOP)
        server.kill()
    wait_until(lambda: not is_running(child))


def test_a_child_process_imports_pillow_and_nothing_large() -> None:
    program = (
        "import runpy, sys; worker = sys.argv[1]; sys.argv[1] = '1500000000'; runpy.run_path(worker, "
        "run_name='__main__'); sys.exit(' '.join({'numpy', 'dubito', 'asyncio'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program, WORKER], stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0
