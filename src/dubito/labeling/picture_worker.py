"""The child process that decodes pictures for `dubito.labeling.decoder`: run by its path, it imports Pillow alone.

A message is two lengths of four bytes each (big-endian), JSON, and data. The request says how to decode and has the
file's bytes as data. The first reply tells how many pixels will be in memory. Then the worker waits for one byte: after
``y`` it decodes them, and the second reply is the encoded picture; after ``n`` it waits for the next request. A reply
with a ``problem`` is the last one to its request.

The worker ends when its input does, and on Linux with the thread that started it. An alarm kills it where opening or
decoding takes longer than the request allows, whether or not anybody is left who waits for it.
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

LENGTHS = struct.Struct(">II")
PLUGINS = ("Bmp", "Gif", "Jpeg", "Png", "Ppm", "Tiff", "WebP")
PR_SET_PDEATHSIG = 1
LOSSLESS_FORMATS = ("PNG", "GIF", "BMP", "WEBP", "TIFF")


class TooManyPixels(Exception):
    """A picture that is larger than what is decoded."""


def main(memory: int) -> None:
    """Answer requests until there are no more."""
    stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Nothing that a library prints may come between the replies.
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
    """Bound what the process may take, as far as the system can."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the server, too, which ends this process.
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with suppress(ImportError):
        import resource

        for kind, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
            with suppress(OSError, ValueError):  # Not every system has them all.
                resource.setrlimit(kind, (limit, limit))
    if sys.platform == "linux":
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")  # Where memory runs out, this process goes before the server.


def read_message(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next message; None where there is none, or not all of it."""
    lengths = stream.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    n_text, n_data = LENGTHS.unpack(lengths)
    text, data = stream.read(n_text), stream.read(n_data)
    return None if len(text) + len(data) < n_text + n_data else (json.loads(text), data)


def write_message(stream: IO[bytes], facts: dict[str, Any], data: bytes = b"") -> None:
    """Send a message."""
    text = json.dumps(facts).encode()
    stream.write(LENGTHS.pack(len(text), len(data)))
    stream.write(text)
    stream.write(data)
    stream.flush()


def answer(
    request: dict[str, Any], data: bytes, stdin: IO[bytes], stdout: IO[bytes]
) -> tuple[dict[str, Any], bytes] | None:
    """Decode one picture, with its memory free again; what is wrong with it is a reply like another."""
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
        return {"problem": "is no picture of a known format", "subject": "file", "hint": hint}, b""
    except TooManyPixels as error:
        return {"problem": str(error), "hint": "skip it, or make it smaller."}, b""
    except Image.DecompressionBombError:
        return {"problem": f"claims more than the {request['most_pixels']:,} pixels that are shown", "hint": hint}, b""
    except MemoryError:
        return {"problem": "takes more memory than decoding a picture may take", "hint": hint}, b""
    except Exception as error:
        # Broad on purpose: on a damaged picture the decoders raise a dozen unrelated kinds.
        detail = " ".join(str(error).split())[:100]
        return {"problem": f"is cut short or damaged ({detail})", "hint": hint}, b""
    finally:
        if opened is not None:
            opened.close()
        del opened
        gc.collect()  # Some of Pillow's objects hold each other, and with them a whole picture.


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Have the kernel end the process where the block takes longer."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)


def open_picture(data: bytes, request: dict[str, Any]) -> tuple[Any, int]:
    """The picture with nothing decoded yet, and how many pixels decoding it holds in memory."""
    from PIL import Image

    opened = Image.open(io.BytesIO(data), formats=request["formats"])
    whole = opened.width * opened.height
    if whole > request["most_pixels"]:
        size = f"{opened.width:,} x {opened.height:,}"
        raise TooManyPixels(f"is {size} pixels, more than the {request['most_pixels']:,} that are shown")
    is_progressive = "progressive" in opened.info or "progression" in opened.info
    opened.draft("RGB", (request["edge"], request["edge"]))
    # Of a progressive JPEG all coefficients are held, whatever size it is decoded at.
    return opened, whole if is_progressive else opened.width * opened.height


def encode(opened: Any, request: dict[str, Any]) -> tuple[str, bytes]:
    """The picture turned as the camera was held, no larger than asked for, with nothing but its pixels."""
    from PIL import ImageOps

    is_lossless = opened.format in LOSSLESS_FORMATS
    opened.load()
    ImageOps.exif_transpose(opened, in_place=True)
    plain = to_eight_bits(opened)
    plain.thumbnail((request["edge"], request["edge"]), reducing_gap=3.0)
    small = plain.copy()
    small.info.clear()
    buffer = io.BytesIO()
    if small.mode == "RGBA" or (is_lossless and small.width * small.height <= request["most_lossless_pixels"]):
        small.save(buffer, "PNG")
        return "image/png", buffer.getvalue()
    small.save(buffer, "JPEG", quality=88)
    return "image/jpeg", buffer.getvalue()


def to_eight_bits(picture: Any) -> Any:
    """Grey, RGB or RGBA of eight bits; the picture itself where it is that already."""
    if picture.mode.startswith(("I", "F")):
        low, high = picture.getextrema()
        spread = (high - low) or 1
        return picture.point(lambda value: (value - low) * (255.0 / spread)).convert("L")
    if "A" in picture.mode or "transparency" in picture.info:
        return picture if picture.mode == "RGBA" else picture.convert("RGBA")
    return picture if picture.mode in ("L", "RGB") else picture.convert("RGB")


if __name__ == "__main__":
    main(int(sys.argv[1]))
