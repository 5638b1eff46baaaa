"""Training and selection in the background: a thread that sends jobs to a worker process."""

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

import numpy as np

from dubito.errors import DubitoError
from dubito.io.durable import load_with_checksum, write_atomically
from dubito.labeling.project import FAILURE, USER_PROBABILITIES, model_file
from dubito.labeling.state import LEARNED, State, read_model
from dubito.labeling.store import Pick, RoundRecord, Statements, Writer, add_picks, add_round, drop_picks, put_fact

RESERVE = 4
"""Batches selected in addition to the requested one, for people to label while the next round runs."""
MAX_PICKS = 1_000
PICKS_PER_WRITE = 50
FIRST_RETRY, MAX_RETRY = 5.0, 300.0
"""Seconds before a retry: the first delay, doubled after each consecutive failure up to the second value."""

Announce = Callable[[str, dict[str, Any]], None]


class WorkerFailed(Exception):
    """The worker process died or reported an error."""


class LearningLoop:
    """Runs a round (fit a model, select the next items) whenever a batch of labels is complete.

    Parameters
    ----------
    state : State
        Read and changed under its lock.
    writer : Writer
        Stores each round.
    announce : callable
        Called with every change.
    """

    def __init__(self, state: State, writer: Writer, announce: Announce) -> None:
        self._state, self._writer, self._announce = state, writer, announce
        self._wake = threading.Condition()
        self._is_requested = self._is_retry = self._stopped = self._has_layout_failed = self._is_pool_old = False
        self._worker: subprocess.Popen[str] | None = None
        self._labels_during_round = self._n_failed = 0
        self.is_fitting = False
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="dubito-loop", daemon=True)

    def start(self) -> None:
        with suppress(OSError):
            os.unlink(self._state.project.path(FAILURE))  # Left by an earlier server.
        self._thread.start()

    def request_round(self) -> None:
        """Start a round as soon as possible."""
        with self._wake:
            self._is_requested = True
            self._wake.notify()

    def reload_pool(self, *, is_urgent: bool) -> None:
        """Use the pool as it is now from the next round on, which starts now if it is urgent."""
        with self._wake:
            self._is_pool_old = True
            self._has_layout_failed = False
            self._is_requested |= is_urgent
            self._wake.notify()

    def wake_if_due(self) -> None:
        if not self.is_fitting and self._is_due():
            with self._wake:
                self._wake.notify()

    def close(self) -> None:
        """Stop the thread and the worker process."""
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
        """Run rounds until closed; a failure is reported and retried after a delay."""
        while self._wait():
            # The map is computed right after the first round; otherwise fast labelers could delay it forever.
            is_round = self._is_due() and not (self._state.rounds and self._lacks_layout())
            try:
                if is_round:
                    self._is_requested = self._is_retry = False
                    self._run_round()
                else:
                    self._lay_out()
                self._n_failed = 0
                self._set_failure(None)
            except Exception as error:
                self.is_fitting = False
                if not self._stopped:
                    self._n_failed += 1
                    self._is_retry |= is_round
                    self._has_layout_failed |= not is_round
                    self._set_failure(str(error) or type(error).__name__)
                    self._announce("model", {})
                    self._pause()
            finally:
                self.is_fitting = False

    def _set_failure(self, failure: str | None) -> None:
        """Record the failure for the page and, if possible, in a file for ``dubito status``."""
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
        """Wait until there is something to do; False if the loop was closed."""
        with self._wake:
            while not self._stopped and not self._is_due() and not self._lacks_layout():
                self._wake.wait(timeout=60.0)
            return not self._stopped

    def _pause(self) -> None:
        """Wait before the next retry, or until a round is requested."""
        with self._wake:
            self._wake.wait_for(lambda: self._stopped or self._is_requested, timeout=_retry_delay(self._n_failed))

    def _is_due(self) -> bool:
        with self._state.lock:
            if self._is_requested or self._is_retry or not self._state.rounds:
                return True
            batch = self._state.project.settings.batch
            is_merged = self._state.label_table.last_merge > (self._state.learned or 0)
            return is_merged or self._state.changes_since_round() >= batch or self._is_exhausted()

    def _is_exhausted(self) -> bool:
        """Whether all picks are answered, there are new answers since the last round, and unanswered items are left."""
        state = self._state
        is_new = state.changes_since_round() > 0 if state.learned is None else state.label_table.last > state.learned
        if not is_new or state.queue.has_unanswered():
            return False
        answered = state.label_table.labels.keys() | state.label_table.skipped
        return sum(map(state.may_ask, answered)) < state.n_open()

    def _lacks_layout(self) -> bool:
        return self._state.places is None and not self._has_layout_failed

    def _lay_out(self) -> None:
        """Load the map; if there is none that fits the pool, have the worker compute it."""
        self._state.read_layout()
        if self._state.places is None:
            self._send({"task": "layout"})
            self._state.read_layout()
        if self._state.places is None:
            raise WorkerFailed("the map that the worker wrote does not fit the pool; was the pool file replaced?")
        self._announce("map", {})

    def _run_round(self) -> None:
        self.is_fitting = True
        self._announce("model", {})
        job = self._job()
        facts = self._send(job)
        number, state = facts["round"], self._state
        model = read_model(state.project, number, len(state.contents))
        if model is None:
            raise WorkerFailed("what the worker wrote cannot be read")
        picks = _read_picks(state, number)
        known = {**facts, "at": time.time()}
        record = RoundRecord(**{name: known[name] for name in RoundRecord.__dataclass_fields__})
        learned = job["last_event"]

        # Write a few picks at a time, so that labels do not wait; they count only once the round record is written.
        self._writer.run(lambda statements: drop_picks(statements, number))
        for start in range(0, len(picks), PICKS_PER_WRITE):
            self._writer.run(partial(add_picks, picks=picks[start : start + PICKS_PER_WRITE]))

        def store(statements: Statements) -> None:
            add_round(statements, record)
            put_fact(statements, LEARNED, json.dumps({"round": number, "event": learned}))
            state.learned = learned
            state.rounds.append(record)
            state.picks += picks
            state.use_model(model)
            state.queue.replace(picks)
            state.version += 1

        self._writer.run(store)
        self._has_layout_failed = False  # Retry a map that failed.
        _remove_old_models(state, number)
        self.is_fitting = False
        n_labeled = len(state.label_table.labels.keys() - state.label_table.shared.keys())
        self._labels_during_round = max(self._labels_during_round // 2, n_labeled - record.labels)
        self._announce("round", {"round": number, "picks": len(picks)})
        self._announce("model", {})

    def _job(self) -> dict[str, Any]:
        """The worker's job as JSON; later labels are part of the next round."""
        state = self._state
        with state.lock:
            settings, table = state.project.settings, state.label_table
            # Not those of exact copies, which would be both in the training and in the held-out data.
            labels = {item: label for item, label in table.labels.items() if item not in table.shared}
            closed = state.queue.held(time.monotonic()) | table.skipped
            closed.update(item for item in table.copies if not state.may_ask(item))
            only = None if state.is_open is None else np.flatnonzero(state.open_items()).tolist()
            return {
                "task": "round",
                "round": state.round + 1,
                "items": list(labels),
                "labels": list(labels.values()),
                "closed": sorted(closed - labels.keys()),
                "only": only,
                "budget": min(settings.batch * (1 + RESERVE) + 3 * self._labels_during_round, MAX_PICKS),
                "audit": settings.audit,
                "strategy": settings.strategy,
                "audited": state.audited(),
                "last_batch": _blind_hits(state),
                "own": os.path.exists(state.project.path(USER_PROBABILITIES)),
                "class_changes": table.class_changes,
                "last_event": table.last,
            }

    def _send(self, job: dict[str, Any]) -> dict[str, Any]:
        """Send a job to the worker and return its response; a dead worker is restarted once."""
        if self._is_pool_old:
            self._is_pool_old = False
            self._end_worker()
        worker = self._worker
        line = "" if worker is None else _exchange(worker, job)
        if not line and not self._stopped:
            line = _exchange(self._start(), job)
        if not line:
            raise WorkerFailed(self._exit_reason())
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            self._end_worker()
            raise WorkerFailed("the answer of the worker that fits and picks broke off; it is started again") from None
        if "error" in answer:
            raise WorkerFailed(answer["error"])
        return answer

    def _exit_reason(self) -> str:
        """Describe why a worker ended without a response."""
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


def _retry_delay(n_failed: int) -> float:
    """Seconds before the next retry, after `n_failed` consecutive failures.

    Examples
    --------
    >>> [_retry_delay(n_failed) for n_failed in (1, 2, 3, 1000)]
    [5.0, 10.0, 20.0, 300.0]
    """
    return min(FIRST_RETRY * 2.0 ** min(n_failed - 1, 20), MAX_RETRY)


def _exchange(worker: "subprocess.Popen[str]", job: dict[str, Any]) -> str:
    """Send a job and read the response line; empty if the worker is gone."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps(job) + "\n")
        worker.stdin.flush()
        return worker.stdout.readline()
    except (OSError, ValueError):
        return ""


def _read_picks(state: State, number: int) -> list[Pick]:
    arrays = load_with_checksum(state.project.path(model_file(number)))
    return [
        Pick(number, rank, item, why)
        for rank, (item, why) in enumerate(zip(arrays["picks"].tolist(), arrays["why"].tolist(), strict=True))
    ]


def _blind_hits(state: State) -> list[int] | None:
    """Of the labels since the last round: how many the model predicted correctly before it was trained on them, and the
    total; None if there are none.
    """
    recent = [counts for round, counts in state.guessed().items() if round >= state.round]
    return [sum(right for right, _ in recent), sum(total for _, total in recent)] if recent else None


def _remove_old_models(state: State, number: int) -> None:
    with suppress(OSError):  # They do no harm.
        for name in os.listdir(state.project.folder):
            if name.startswith("round-") and name.endswith(".npz") and name != model_file(number):
                with suppress(OSError):
                    os.unlink(state.project.path(name))
