"""Several processes that decode pictures ahead of the model; results come in the order of the questions."""

import json
import queue
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import astuple
from types import TracebackType
from typing import Self

import numpy as np

from dubito.embedding.base import Framing
from dubito.matrix import AnyArray

CHUNK = 16
"""Pictures that are asked for at once."""
AHEAD = 4
"""Chunks for each process that may be decoded and not yet used."""

Decoded = AnyArray | str
"""A picture, or what is wrong with it."""


class Decoder:
    """One process, begun again where a picture killed it."""

    def __init__(self, framing: Framing) -> None:
        self.framing = framing
        self.process = self._begun()

    def _begun(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "dubito.embedding.decoder"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def decode(self, contents: Sequence[str | bytes]) -> list[Decoded]:
        """Pictures out of paths or bytes. The one that the process dies of is found by asking for each alone."""
        try:
            return self._asked(contents)
        except (EOFError, BrokenPipeError):
            self.close()
            self.process = self._begun()
            if len(contents) == 1:
                return ["ends the process that decodes it"]
            return [each for content in contents for each in self.decode([content])]

    def _asked(self, contents: Sequence[str | bytes]) -> list[Decoded]:
        stdin, stdout, frame = self.process.stdin, self.process.stdout, self.framing
        assert stdin is not None
        assert stdout is not None
        items = [each if isinstance(each, str) else len(each) for each in contents]
        stdin.write(json.dumps({"framing": astuple(frame), "items": items}).encode() + b"\n")
        stdin.writelines(each for each in contents if isinstance(each, bytes))
        stdin.flush()
        line = stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        problems = {int(place): str(text) for place, text in json.loads(line)["problems"].items()}
        shape = len(contents) - len(problems), frame.height, frame.width, frame.channels
        pixels = stdout.read(int(np.prod(shape)))
        if len(pixels) < np.prod(shape):
            raise EOFError
        pictures = iter(np.frombuffer(pixels, dtype=np.uint8).reshape(shape))
        return [problems[place] if place in problems else next(pictures) for place in range(len(contents))]

    def close(self) -> None:
        """Let the process go."""
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        self.process.kill()
        self.process.wait()


class Decoders:
    """So many processes; to be closed."""

    def __init__(self, n_processes: int, framing: Framing, ahead: int = AHEAD) -> None:
        self.threads = ThreadPoolExecutor(n_processes)
        self.ahead = n_processes * ahead
        self.processes = [Decoder(framing) for _ in range(n_processes)]
        self.idle: queue.SimpleQueue[Decoder] = queue.SimpleQueue()
        for each in self.processes:
            self.idle.put(each)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)
        for each in self.processes:
            each.process.kill()
        self.threads.shutdown()
        for each in self.processes:
            each.close()

    def map(self, chunks: Iterable[Sequence[str | bytes]]) -> Iterator[list[Decoded]]:
        """Each chunk decoded, in order; a bounded number of them ahead of whoever takes them."""
        waiting: deque[Future[list[Decoded]]] = deque()
        for chunk in chunks:
            waiting.append(self.threads.submit(self._decoded, chunk))
            if len(waiting) > self.ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _decoded(self, chunk: Sequence[str | bytes]) -> list[Decoded]:
        decoder = self.idle.get()
        try:
            return decoder.decode(chunk)
        finally:
            self.idle.put(decoder)
