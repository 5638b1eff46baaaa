"""A process that decodes pictures for another: ``python -m dubito.embedding.decoder``, asked on stdin.

A question is a line of JSON, the frame, the CPU seconds that a picture may take, and for every picture its path or how
many bytes of it follow, and those bytes. The answer on stdout is a line of JSON with what is wrong with which picture,
and the bytes of all others. Nothing is pickled. The process ends when nobody asks any more; one that a picture kills
takes no other with it. A picture that takes too long kills the process; one that takes more than `MEMORY` is reported.
"""

import json
import sys
from typing import IO

from dubito.embedding.decoding import BrokenPicture, decode
from dubito.embedding.embedder import Framing
from dubito.io.picture_worker import alarm, limit_process

MEMORY = 4_000_000_000
"""Address space of the process in bytes: the largest picture that is decoded takes up to 20 bytes a pixel."""


def answer(question: bytes, stdin: IO[bytes], stdout: IO[bytes]) -> None:
    """Decode one lot of pictures."""
    asked = json.loads(question)
    framing = Framing(*asked["framing"])
    problems: dict[int, str] = {}
    decoded: list[bytes] = []
    for place, item in enumerate(asked["items"]):
        content = item if isinstance(item, str) else stdin.read(item)
        try:
            with alarm(asked["seconds"], is_cpu_time=True):
                decoded.append(decode(content, framing).tobytes())
        except BrokenPicture as error:
            problems[place] = str(error)
    stdout.write(json.dumps({"problems": problems}).encode() + b"\n")
    stdout.writelines(decoded)
    stdout.flush()


def main() -> None:
    """Answer until there are no more questions."""
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    limit_process(MEMORY)
    sys.stdout = sys.stderr  # Nothing that prints may come between the answers.
    while question := stdin.readline():
        answer(question, stdin, stdout)


if __name__ == "__main__":
    main()
