"""A real server in a process of its own, and clients that speak to it over a socket."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

CORES = os.environ.get("DUBITO_SERVER_CORES", "")
"""The cores that servers are held to, as 0,1; wherever the system likes if empty."""


class Server:
    """``dubito label`` on a project."""

    def __init__(self, source: Path, *options: str) -> None:
        begun = time.monotonic()
        # A file: nobody reads a pipe while the server runs, and it stops at one that is full.
        self._errors = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self.process = start_process(source, *options, errors=self._errors)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise AssertionError(self._close())
        found = urlsplit(line.strip())
        self.host, self.port = found.hostname or "", found.port or 0
        self.token = parse_qs(found.query)["token"][0]
        with Client(self) as client:
            while client.ask("GET", "/api/project")[0] != 200:
                time.sleep(0.01)
        self.seconds = time.monotonic() - begun
        """From the start of the process to its first answer."""

    def kill(self) -> str:
        """No warning, no time; what it said on stderr."""
        return self._end(signal.SIGKILL)

    def stop(self) -> str:
        """As Ctrl-C does; what it said on stderr."""
        return self._end(signal.SIGINT)

    def _end(self, number: int) -> str:
        self.process.send_signal(number)
        self.process.wait()
        return self._close()

    def _close(self) -> str:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.seek(0)
        with self._errors:
            return self._errors.read()


def start_process(source: Path, *options: str, errors: IO[str] | int) -> "subprocess.Popen[str]":
    """The command alone, which need not come to listen."""
    command = [sys.executable, "-m", "dubito", "label", str(source), "--no-browser", *options]
    if "--port" not in options:
        command += ["--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    if CORES:
        os.sched_setaffinity(process.pid, {int(core) for core in CORES.split(",")})
    return process


@contextmanager
def serving(source: Path, *options: str) -> Iterator[Server]:
    """A server for as long as the block runs."""
    server = Server(source, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


class Client:
    """Asks over one connection that stays open, and opens another where that one broke."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._connection: HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, method: str, path: str, body: object = None, **query: object) -> tuple[int, Any]:
        """The status and the answer; 0 where there was none."""
        connection = self._connection or HTTPConnection(self.server.host, self.server.port, timeout=60)
        headers = {"Authorization": f"Bearer {self.server.token}"}
        data = None if body is None else json.dumps(body)
        if body is not None:
            headers["Content-Type"] = "application/json"
        place = f"{path}?{urlencode(query)}" if query else path
        try:
            connection.request(method, place, data, headers)
            answer = connection.getresponse()
            content = answer.read()
        except OSError as error:
            connection.close()
            self._connection = None
            return 0, str(error)
        except Exception as error:  # A server that dies in the middle of an answer.
            connection.close()
            self._connection = None
            return 0, repr(error)
        self._connection = connection
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.status, json.loads(content) if is_json else content


def children_of(process: int) -> list[int]:
    """The processes that a process started."""
    threads = Path(f"/proc/{process}/task").glob("*/children")
    return [int(each) for path in threads for each in path.read_text().split()]


def is_alive(process: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
