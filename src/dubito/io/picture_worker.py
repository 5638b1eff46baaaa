"""The child process that decodes pictures for `dubito.labeling.decoder`; run by path, it imports only Pillow.

`dubito.embedding.decoder` uses its limits as well.

A message consists of two lengths of four bytes each (big-endian), JSON, and data. A request has the decoding options as
JSON and the bytes of the file as data. The first reply has the number of pixels that decoding will hold in memory. Then
the worker waits for one byte: after ``y`` it decodes, and the second reply is the encoded picture; after ``n`` it waits
for the next request. A reply with a ``problem`` is the last one to its request.

The worker ends when its input is closed, and on Linux with the thread that started it. An alarm kills it if opening or
decoding takes longer than the request allows, even if the server is gone.
"""

import gc
import io
import json
import os
import signal
import struct
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import IO, Any

SECONDS = 30.0
"""Time limit for opening a picture, and again for decoding it."""
LENGTHS = struct.Struct(">II")
PLUGINS = ("Bmp", "Gif", "Jpeg", "Png", "Ppm", "Tiff", "WebP")
PR_SET_PDEATHSIG = 1
LOSSLESS_FORMATS = ("PNG", "GIF", "BMP", "WEBP", "TIFF")


class TooManyPixels(Exception):
    """A picture has more pixels than allowed."""


def main(memory: int) -> None:
    """Handle requests until the input is closed."""
    stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Keep the output of libraries out of the replies.
    for name in PLUGINS:
        import_module(f"PIL.{name}ImagePlugin")
    limit_process(memory)
    warnings.simplefilter("ignore")
    while (request := read_message(stdin)) is not None:
        reply = answer(*request, stdin, stdout)
        if reply is not None:
            write_message(stdout, *reply)
        del request, reply


def limit_process(memory: int) -> None:
    """Limit memory, file size and lifetime of the process, as far as the system supports it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the server, which ends this process.
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with suppress(ImportError):
        import resource

        for kind, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
            with suppress(OSError, ValueError):  # Not every system has all of them.
                resource.setrlimit(kind, (limit, limit))
    if sys.platform == "linux":
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")  # If memory runs out, the kernel kills this process before the server.


def read_message(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next message; None at the end of the stream or if it is incomplete."""
    lengths = stream.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    n_text, n_data = LENGTHS.unpack(lengths)
    text, data = stream.read(n_text), stream.read(n_data)
    return None if len(text) + len(data) < n_text + n_data else (json.loads(text), data)


def write_message(stream: IO[bytes], facts: dict[str, Any], data: bytes = b"") -> None:
    text = json.dumps(facts).encode()
    stream.write(LENGTHS.pack(len(text), len(data)))
    stream.write(text)
    stream.write(data)
    stream.flush()


def answer(
    request: dict[str, Any], data: bytes, stdin: IO[bytes], stdout: IO[bytes]
) -> tuple[dict[str, Any], bytes] | None:
    """Handle a request and free its memory; a problem with the picture is a normal reply."""
    from PIL import Image, UnidentifiedImageError

    opened, hint = None, "skip it, or fix the file."
    try:
        with alarm(request["seconds"]):
            opened, n_pixels = open_picture(data, request)
        write_message(stdout, {"pixels": n_pixels})
        if stdin.read(1) != b"y":
            return None
        with alarm(request["seconds"]):
            media, encoded = encode(opened, request)
        return {"media": media}, encoded
    except UnidentifiedImageError:
        return {"problem": "is not a picture of a known format", "subject": "file", "hint": hint}, b""
    except TooManyPixels as error:
        return {"problem": str(error), "hint": "skip it, or make it smaller."}, b""
    except Image.DecompressionBombError:
        return {"problem": f"claims more than the {request['max_pixels']:,} pixels that are shown", "hint": hint}, b""
    except MemoryError:
        return {"problem": "takes more memory than decoding a picture may take", "hint": hint}, b""
    except Exception as error:
        # Broad on purpose: on damaged pictures the decoders raise many unrelated exceptions.
        detail = " ".join(str(error).split())[:100]
        return {"problem": f"is cut short or damaged ({detail})", "hint": hint}, b""
    finally:
        if opened is not None:
            opened.close()
        del opened
        gc.collect()  # Some Pillow objects form reference cycles that hold a whole picture.


@contextmanager
def alarm(seconds: float, *, is_cpu_time: bool = False) -> Iterator[None]:
    """Have the kernel kill the process if the block takes longer: with SIGALRM, or SIGPROF if CPU time counts."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    kind = signal.ITIMER_PROF if is_cpu_time else signal.ITIMER_REAL
    signal.setitimer(kind, seconds)
    try:
        yield
    finally:
        signal.setitimer(kind, 0)


def open_picture(data: bytes, request: dict[str, Any]) -> tuple[Any, int]:
    """Open a picture without decoding it; returns it and the number of pixels that decoding holds in memory."""
    from PIL import Image

    opened = Image.open(io.BytesIO(data), formats=request["formats"])
    n_pixels = opened.width * opened.height
    if n_pixels > request["max_pixels"]:
        size = f"{opened.width:,} x {opened.height:,}"
        raise TooManyPixels(f"is {size} pixels, more than the {request['max_pixels']:,} that are shown")
    is_progressive = "progressive" in opened.info or "progression" in opened.info
    opened.draft("RGB", (request["edge"], request["edge"]))
    # For a progressive JPEG all coefficients are held in memory, whatever the decoded size.
    return opened, n_pixels if is_progressive else opened.width * opened.height


def encode(opened: Any, request: dict[str, Any]) -> tuple[str, bytes]:
    """Encode the picture upright, scaled to the requested size, without metadata; returns media type and data."""
    from PIL import ImageOps

    is_lossless = opened.format in LOSSLESS_FORMATS
    opened.load()
    ImageOps.exif_transpose(opened, in_place=True)
    plain = to_eight_bits(opened)
    plain.thumbnail((request["edge"], request["edge"]), reducing_gap=3.0)
    small = plain.copy()
    small.info.clear()
    buffer = io.BytesIO()
    if small.mode == "RGBA" or (is_lossless and small.width * small.height <= request["max_lossless_pixels"]):
        small.save(buffer, "PNG")
        return "image/png", buffer.getvalue()
    small.save(buffer, "JPEG", quality=88)
    return "image/jpeg", buffer.getvalue()


def to_eight_bits(picture: Any) -> Any:
    """Convert to 8-bit grayscale, RGB or RGBA if necessary."""
    if picture.mode.startswith(("I", "F")):
        low, high = picture.getextrema()
        spread = (high - low) or 1
        return picture.point(lambda value: (value - low) * (255.0 / spread)).convert("L")
    if "A" in picture.mode or "transparency" in picture.info:
        return picture if picture.mode == "RGBA" else picture.convert("RGBA")
    return picture if picture.mode in ("L", "RGB") else picture.convert("RGB")


if __name__ == "__main__":
    main(int(sys.argv[1]))
