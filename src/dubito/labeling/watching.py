"""Watch the pool and the source of a project that a server has open."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from dubito.errors import DubitoError
from dubito.labeling.project import Project

POOL_SECONDS, SOURCE_SECONDS = 2.0, 10.0
"""Seconds between two checks of the pool file and of the source."""


class PoolWatcher:
    """Calls `add_new_items` when the pool file was written, and embeds new items of the source if `watch` is set.

    Embedding runs in a child process, so that labeling does not wait for it.

    Parameters
    ----------
    project : Project
        The project of the server.
    add_new_items : callable
        Adds new rows of the pool as items of the project.
    report : callable
        Called with messages about files that are newly left out.
    watch : bool
        Whether to watch the source as well.
    """

    def __init__(
        self,
        project: Project,
        add_new_items: Callable[[], object],
        report: Callable[[Sequence[str]], None],
        *,
        watch: bool,
    ) -> None:
        self._report = report
        self._left_out: set[str] | None = None
        self._project, self._add_new_items, self._watch = project, add_new_items, watch
        self._stopped = threading.Event()
        self._pool_state, self._source_state = _file_state(project.pool_path), ""
        self._child: subprocess.Popen[bytes] | None = None
        self.failure: str | None = None
        """Why the last change could not be applied."""
        self._thread = threading.Thread(target=self._run, name="dubito-watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        child = self._child
        if child is not None:
            child.kill()
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)

    def _run(self) -> None:
        waited = SOURCE_SECONDS
        while not self._stopped.wait(POOL_SECONDS):
            waited += POOL_SECONDS
            if self._watch and waited >= SOURCE_SECONDS:
                waited = 0.0
                self._embed_source()
            self._check_pool()

    def _check_pool(self) -> None:
        found = _file_state(self._project.pool_path)
        if found is not None and found != self._pool_state:
            self._pool_state = found
            self._attempt(self._add_new_items)

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            action()
            self.failure = None
        except (DubitoError, OSError, ValueError) as error:
            self.failure = " ".join(str(error).split())

    def _embed_source(self) -> None:
        found = source_state(self._project.source_path)
        if found != self._source_state:
            self._source_state = found
            self._attempt(self._run_update)

    def _run_update(self) -> None:
        command = [sys.executable, "-m", "dubito", "update", self._project.folder]
        self._child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, self._child.pid, 10)
        printed = self._child.communicate()[1].decode(errors="replace").splitlines()
        lines = [line.removeprefix("dubito: ") for line in printed]
        if self._child.returncode and not self._stopped.is_set():
            raise OSError(lines[-1] if lines else f"it ended with code {self._child.returncode}")
        left_out = [line for line in lines if line.startswith("left out: ")]
        new = [] if self._left_out is None else [line for line in left_out if line not in self._left_out]
        self._left_out = set(left_out)  # Those of the first update were reported when the project was opened.
        if new:
            self._report(new)


def source_state(path: str) -> str:
    """A text that changes whenever the pictures of a folder, or a table, change."""
    from dubito.embedding.folder import PictureFolder, find_pictures

    try:
        if os.path.isdir(path):
            return PictureFolder(path, tuple(find_pictures(path)), (), ()).fingerprint
        return str(_file_state(path))
    except (DubitoError, OSError):
        return ""


def _file_state(path: str) -> tuple[int, int, int] | None:
    """A value that changes when the file is written or replaced; None if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
