"""Learning and picking in the background: one thread that speaks to one worker process."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from dubito.errors import DubitoError
from dubito.io.durable import write_atomically
from dubito.labeling.project import FAILURE, model_file
from dubito.labeling.state import LEARNED, State, read_model
from dubito.labeling.store import Pick, RoundRecord, Writer, add_picks, add_round, drop_picks, put_fact

RESERVE = 4
"""Batches that are picked beyond the one that is asked for: what a person labels while the next is picked."""
MOST_PICKS = 1_000
TOGETHER = 50
"""Picks that are written at once."""
PATIENCE, LONGEST_PATIENCE = 5.0, 300.0
"""Seconds before what failed is tried again; doubled after each failure in a row, up to the second."""

Announce = Callable[[str, dict[str, Any]], None]


class WorkerFailed(Exception):
    """The worker died, or said why it could not."""


class Loop:
    """Fits and picks whenever a batch of labels has come in.

    Parameters
    ----------
    state : State
        Read and changed under its lock.
    writer : Writer
        Keeps each round.
    announce : callable
        Called with every change.
    """

    def __init__(self, state: State, writer: Writer, announce: Announce) -> None:
        self._state, self._writer, self._announce = state, writer, announce
        self._wake = threading.Condition()
        self._asked = self._again = self._stopped = self._has_no_layout = False
        self._worker: subprocess.Popen[str] | None = None
        self._fast = self._n_failed = 0
        self.is_fitting = False
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="dubito-loop", daemon=True)

    def start(self) -> None:
        """Begin."""
        with suppress(OSError):
            os.unlink(self._state.project.path(FAILURE))  # Of an earlier server.
        self._thread.start()

    def ask(self) -> None:
        """A round now."""
        with self._wake:
            self._asked = True
            self._wake.notify()

    def nudge(self) -> None:
        """Look whether one is due."""
        if not self.is_fitting and self._is_due():
            with self._wake:
                self._wake.notify()

    def close(self) -> None:
        """End, and the worker with it."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        worker = self._worker
        if worker is not None:
            worker.kill()
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)
        self._end_worker()

    def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
            worker.wait()
            for stream in (worker.stdin, worker.stdout):
                with suppress(OSError):
                    assert stream is not None
                    stream.close()

    def _run(self) -> None:
        """Learn until the end; whatever fails is shown, and tried again after a while."""
        while self._wait():
            # The map comes right after the first round: labels that come in fast would keep it waiting.
            is_round = self._is_due() and not (self._state.rounds and self._lacks_layout())
            try:
                if is_round:
                    self._asked = self._again = False
                    self._play()
                else:
                    self._lay_out()
                self._n_failed = 0
                self._set_failure(None)
            except Exception as error:
                self.is_fitting = False
                if not self._stopped:
                    self._n_failed += 1
                    self._again |= is_round
                    self._has_no_layout |= not is_round
                    self._set_failure(str(error) or type(error).__name__)
                    self._announce("model", {})
                    self._pause()
            finally:
                self.is_fitting = False

    def _set_failure(self, failure: str | None) -> None:
        """Keep it for the page, and in a file for ``dubito status``, where it can be written."""
        if failure == self.failure:
            return
        self.failure = failure
        path = self._state.project.path(FAILURE)
        with suppress(OSError, DubitoError):
            if failure is None:
                os.unlink(path)
            else:
                write_atomically(path, f"{failure}\n".encode("utf-8", "backslashreplace"), private=True)

    def _wait(self) -> bool:
        """Until there is something to do; False at the end."""
        with self._wake:
            while not self._stopped and not self._is_due() and not self._lacks_layout():
                self._wake.wait(timeout=60.0)
            return not self._stopped

    def _pause(self) -> None:
        """Wait before the next try, longer after each failure: a worker that is killed each time is not kept busy."""
        with self._wake:
            self._wake.wait_for(lambda: self._stopped or self._asked, timeout=_patience(self._n_failed))

    def _is_due(self) -> bool:
        with self._state.lock:
            if self._asked or self._again or not self._state.rounds:
                return True
            batch = self._state.project.settings.batch
            return self._state.changes_since_round() >= batch or self._is_spent()

    def _is_spent(self) -> bool:
        """Whether the picks are answered, something was answered since they were made, and more may be asked for."""
        state = self._state
        is_new = state.changes_since_round() > 0 if state.learned is None else state.book.last > state.learned
        if not is_new or state.waiting.has_left():
            return False
        answered = state.book.labels.keys() | state.book.skipped
        return sum(map(state.may_ask, answered)) < state.n_open()

    def _lacks_layout(self) -> bool:
        return self._state.places is None and not self._has_no_layout

    def _lay_out(self) -> None:
        """Read the map, or have it made where there is none, or one that does not fit the pool."""
        self._state.read_layout()
        if self._state.places is None:
            self._speak({"task": "layout"})
            self._state.read_layout()
        if self._state.places is None:
            raise WorkerFailed("the map that the worker wrote does not fit the pool; was the pool file replaced?")
        self._announce("map", {})

    def _play(self) -> None:
        self.is_fitting = True
        self._announce("model", {})
        job = self._job()
        facts = self._speak(job)
        number, state = facts["round"], self._state
        model = read_model(state.project, number, len(state.contents))
        if model is None:
            raise WorkerFailed("what the worker wrote cannot be read")
        arrays = _picked(state, number)
        known = {**facts, "at": time.time()}
        record = RoundRecord(**{name: known[name] for name in RoundRecord.__dataclass_fields__})
        learned = job["last_event"]

        # A few at a time, so that no label waits behind all of them; without its record a round counts for nothing.
        self._writer.run(lambda connection: drop_picks(connection, number))
        for start in range(0, len(arrays), TOGETHER):
            self._writer.run(partial(add_picks, picks=arrays[start : start + TOGETHER]))

        def keep(connection: Any) -> None:
            add_round(connection, record)
            put_fact(connection, LEARNED, json.dumps({"round": number, "event": learned}))
            state.learned = learned
            state.rounds.append(record)
            state.picks += arrays
            state.model = model
            state.waiting.replace(arrays)
            state.version += 1

        self._writer.run(keep)
        self._has_no_layout = False  # A map that could not be made is tried again.
        _forget(state, number)
        self.is_fitting = False
        self._fast = max(self._fast // 2, len(state.book.labels) - record.labels)
        self._announce("round", {"round": number, "picks": len(arrays)})
        self._announce("model", {})

    def _job(self) -> dict[str, Any]:
        """What the worker is reported; what came in meanwhile is the next round's."""
        state = self._state
        with state.lock:
            settings, book = state.project.settings, state.book
            closed = state.waiting.held(time.monotonic()) | book.skipped
            only = None if state.is_open is None else [row for row in range(len(state.contents)) if state.may_ask(row)]
            return {
                "task": "round",
                "round": state.round + 1,
                "items": list(book.labels),
                "labels": list(book.labels.values()),
                "closed": sorted(closed - set(book.labels)),
                "only": only,
                "budget": min(settings.batch * (1 + RESERVE) + 3 * self._fast, MOST_PICKS),
                "audit": settings.audit,
                "strategy": settings.strategy,
                "audited": state.audited(),
                "foreseen": _foreseen(state),
                "own": state.has_own(),
                "last_event": book.last,
            }

    def _speak(self, job: dict[str, Any]) -> dict[str, Any]:
        """A job to the worker, and its answer; one that has died is replaced, once."""
        worker = self._worker
        line = "" if worker is None else _asked_of(worker, job)
        if not line and not self._stopped:
            line = _asked_of(self._start(), job)
        if not line:
            raise WorkerFailed(self._ending())
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            self._end_worker()
            raise WorkerFailed("the answer of the worker that fits and picks broke off; it is started again") from None
        if "error" in answer:
            raise WorkerFailed(answer["error"])
        return answer

    def _ending(self) -> str:
        """Why a worker that gave no answer has ended."""
        worker, code = self._worker, None
        if worker is not None:
            with suppress(subprocess.TimeoutExpired):
                code = worker.wait(timeout=10.0)
        if code == -9:
            how = "was killed, which happens when memory runs out"
        else:
            how = "ended" if code is None else f"ended with exit code {code}"
        return f"the worker that fits and picks {how}; it is started again"

    def _start(self) -> "subprocess.Popen[str]":
        self._end_worker()
        command = [sys.executable, "-m", "dubito.labeling.worker", self._state.project.folder]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._worker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )
        return self._worker


def _patience(n_failed: int) -> float:
    """Seconds before the next try, after so many failures in a row.

    Examples
    --------
    >>> [_patience(n_failed) for n_failed in (1, 2, 3, 1000)]
    [5.0, 10.0, 20.0, 300.0]
    """
    return min(PATIENCE * 2.0 ** min(n_failed - 1, 20), LONGEST_PATIENCE)


def _asked_of(worker: "subprocess.Popen[str]", job: dict[str, Any]) -> str:
    """The line that a worker answers; nothing where it is gone."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps(job) + "\n")
        worker.stdin.flush()
        return worker.stdout.readline()
    except (OSError, ValueError):
        return ""


def _picked(state: State, number: int) -> list[Pick]:
    from dubito.io.durable import load_sealed

    kept = load_sealed(state.project.path(model_file(number)))
    return [
        Pick(number, rank, item, why)
        for rank, (item, why) in enumerate(zip(kept["picks"].tolist(), kept["why"].tolist(), strict=True))
    ]


def _foreseen(state: State) -> list[int] | None:
    """Of the labels since the last round, how many the model had guessed before, unseen."""
    late = [counts for round, counts in state.guessed().items() if round >= state.round]
    return [sum(right for right, _ in late), sum(of for _, of in late)] if late else None


def _forget(state: State, number: int) -> None:
    """Remove the files of earlier rounds."""
    with suppress(OSError):  # They are in nobody's way.
        for name in os.listdir(state.project.folder):
            if name.startswith("round-") and name.endswith(".npz") and name != model_file(number):
                with suppress(OSError):
                    os.unlink(state.project.path(name))
