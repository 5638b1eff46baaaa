"""A process that decodes pictures for another: ``python -m dubito.embedding.decoder``, asked on stdin.

A question is a line of JSON, the frame and for every picture its path or how many bytes of it follow, and those bytes.
The answer, on stdout, is a line of JSON with what is wrong with which picture, and the bytes of all others. Nothing is
pickled. The process ends when nobody asks any more; one that a picture kills takes no other with it.
"""

import json
import signal
import sys
from typing import IO

from dubito.embedding.decoding import BrokenPicture, decode
from dubito.embedding.embedder import Framing


def answer(question: bytes, stdin: IO[bytes], stdout: IO[bytes]) -> None:
    asked = json.loads(question)
    framing = Framing(*asked["framing"])
    problems: dict[int, str] = {}
    decoded: list[bytes] = []
    for place, item in enumerate(asked["items"]):
        content = item if isinstance(item, str) else stdin.read(item)
        try:
            decoded.append(decode(content, framing).tobytes())
        except BrokenPicture as error:
            problems[place] = str(error)
    stdout.write(json.dumps({"problems": problems}).encode() + b"\n")
    stdout.writelines(decoded)
    stdout.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Whoever asks is interrupted, too, and stops asking.
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # Nothing that prints may come between the answers.
    while question := stdin.readline():
        answer(question, stdin, stdout)


if __name__ == "__main__":
    main()
