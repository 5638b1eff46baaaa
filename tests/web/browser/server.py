"""`dubito label` in a process of its own, which can be killed and started again at the same address."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field

TOKEN = "a-token-for-tests-0123456789"


@dataclass
class Server:
    """`dubito label` on some source, which can be killed and started again at the same address."""

    arguments: list[str]
    port: str = "0"
    address: str = ""
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def start(self) -> None:
        command = [sys.executable, "-m", "dubito", "label", *self.arguments]
        command += ["--port", self.port, "--token", TOKEN, "--no-browser"]
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **threads})
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        found = re.search(r":(\d+)/", self.address)
        assert found, f"dubito label said {self.address!r}"
        self.port = found[1]

    def stop(self, with_signal: int = signal.SIGINT) -> None:
        if self.process is None:
            return
        self.process.send_signal(with_signal)
        self.process.communicate(timeout=120)
        self.process = None
