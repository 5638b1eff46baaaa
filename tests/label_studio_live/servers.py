"""Label Studio as a process of its own, with two people who have tokens."""

import http.cookiejar
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("LABEL_STUDIO", ROOT / ".venv-studio" / "bin" / "label-studio"))
OWNER, SECOND = "owner@example.org", "second@example.org"
PASSWORD = "a-Long-password-1"
LEGACY = "0123456789abcdef0123456789abcdef01234567"
PATIENCE = 900.0
SETTINGS = {
    "COLLECT_ANALYTICS": "false",
    "LATEST_VERSION_CHECK": "false",
    "SENTRY_DSN": "",
    "FRONTEND_SENTRY_DSN": "",
    "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "true",
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@dataclass
class LabelStudio:
    """The server, which may be killed and started again."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> float:
        """Seconds until it answers."""
        begun = time.monotonic()
        files = self.folder / "files"
        files.mkdir(exist_ok=True)
        words: list[str | Path] = [
            PROGRAM,
            "start",
            "--no-browser",
            "--internal-host",
            "127.0.0.1",
            "--port",
            str(self.port),
        ]
        words += ["--data-dir", self.folder / "data", "--username", OWNER, "--password", PASSWORD]
        words += ["--user-token", LEGACY, "--enable-legacy-api-token"]
        settings = {**os.environ, **SETTINGS, "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT": str(files)}
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(words, env=settings, stdout=log, stderr=log, start_new_session=True)
        while True:
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/api/version", timeout=5):
                return time.monotonic() - begun
            assert self.process.poll() is None, (self.folder / "server.log").read_text(errors="replace")[-2000:]
            assert time.monotonic() - begun < PATIENCE, "Label Studio did not start"
            time.sleep(0.5)

    def kill(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def gather_tokens(self) -> None:
        """The owner's, a second person's, and a personal one of the owner's."""
        self.tokens = {
            "owner": LEGACY,
            "second": self._sign_up(),
            "personal": self.call("POST", "/api/token/", {})["token"],
        }

    def _sign_up(self) -> str:
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        browser = urllib.request.build_opener(cookies, urllib.request.ProxyHandler({}))
        address = f"{self.url}/user/signup/"
        page = browser.open(address, timeout=60).read().decode()
        secret = re.search(r'csrfmiddlewaretoken" value="([^"]+)', page)
        assert secret is not None
        form = {"csrfmiddlewaretoken": secret[1], "email": SECOND, "password": PASSWORD, "allow_newsletters": "false"}
        sent = urllib.request.Request(address, urllib.parse.urlencode(form).encode(), {"Referer": address})
        browser.open(sent, timeout=60).close()
        token: str = json.load(browser.open(f"{self.url}/api/current-user/token", timeout=60))["token"]
        return token

    def call(self, method: str, path: str, body: Any = None, *, token: str = LEGACY, timeout: float = 120.0) -> Any:
        """As people's browsers do it; raises OSError where no answer comes."""
        headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=timeout) as response:
            found = response.read()
        return json.loads(found) if found else None


@contextmanager
def label_studio(folder: Path) -> Iterator[LabelStudio]:
    """A server that nobody has used, and its people."""
    assert PROGRAM.exists(), f"{PROGRAM} is not there; run make label-studio-test, or set LABEL_STUDIO to the program"
    server = LabelStudio(folder)
    try:
        server.start()
        server.gather_tokens()
        yield server
    finally:
        server.kill()
