"""Training and selection in the background: a thread sends jobs to a worker process."""

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
from dubito.labeling.state import TRAINED_EVENT, State, read_model
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
        self._is_requested = self._is_retry = self._stopped = self._has_layout_failed = self._is_pool_outdated = False
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
        """Use the current pool file from the next round on; an urgent reload starts that round now."""
        with self._wake:
            self._is_pool_outdated = True
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
            is_merged = self._state.label_table.last_merge > (self._state.trained_event or 0)
            return is_merged or self._state.changes_since_round() >= batch or self._is_exhausted()

    def _is_exhausted(self) -> bool:
        """Whether all picks are answered, although other items are not, and there are answers since the last round."""
        state = self._state
        is_new = (
            state.changes_since_round() > 0
            if state.trained_event is None
            else state.label_table.last > state.trained_event
        )
        if not is_new or state.queue.has_unanswered():
            return False
        answered = state.label_table.labels.keys() | state.label_table.skipped
        return sum(map(state.may_ask, answered)) < state.n_open()

    def _lacks_layout(self) -> bool:
        return self._state.layout is None and not self._has_layout_failed

    def _lay_out(self) -> None:
        """Load the map; if it is missing or does not match the pool, have the worker compute it."""
        self._state.read_layout()
        if self._state.layout is None:
            self._send({"task": "layout"})
            self._state.read_layout()
        if self._state.layout is None:
            raise WorkerFailed("the map from the worker process does not match the pool; was the pool file replaced?")
        self._announce("map", {})

    def _run_round(self) -> None:
        self.is_fitting = True
        self._announce("model", {})
        job = self._job()
        facts = self._send(job)
        number, state = facts["round"], self._state
        model = read_model(state.project, number, len(state.contents))
        if model is None:
            raise WorkerFailed("the model file from the worker process cannot be read")
        arrays = load_with_checksum(state.project.path(model_file(number)))
        reasons = zip(arrays["picks"].tolist(), arrays["why"].tolist(), strict=True)
        picks = [Pick(number, rank, item, why) for rank, (item, why) in enumerate(reasons)]
        facts["at"] = time.time()
        record = RoundRecord(**{name: facts[name] for name in RoundRecord.__dataclass_fields__})
        trained_event = job["last_event"]

        # Write a few picks at a time, so that labels do not wait; they count only once the round record is written.
        self._writer.run(lambda statements: drop_picks(statements, number))
        for start in range(0, len(picks), PICKS_PER_WRITE):
            self._writer.run(partial(add_picks, picks=picks[start : start + PICKS_PER_WRITE]))

        def store(statements: Statements) -> None:
            add_round(statements, record)
            put_fact(statements, TRAINED_EVENT, json.dumps({"round": number, "event": trained_event}))
            state.trained_event = trained_event
            state.rounds.append(record)
            state.picks += picks
            state.use_model(model)
            state.queue.replace(picks)
            state.version += 1

        self._writer.run(store)
        self._has_layout_failed = False  # Try again to compute the map.
        _remove_old_models(state, number)
        self.is_fitting = False
        n_labeled = len(state.label_table.labels.keys() - state.label_table.shared.keys())
        self._labels_during_round = max(self._labels_during_round // 2, n_labeled - record.labels)
        self._announce("round", {"round": number, "picks": len(picks)})
        self._announce("model", {})

    def _job(self) -> dict[str, Any]:
        """The worker's job as JSON, with the current labels; later ones are part of the next round."""
        state = self._state
        with state.lock:
            settings, table = state.project.settings, state.label_table
            # Leave out exact copies, which would be in both the training and the held-out data.
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
        if self._is_pool_outdated:
            self._is_pool_outdated = False
            self._end_worker()
        worker = self._worker
        line = "" if worker is None else _exchange(worker, job)
        if not line and not self._stopped:
            line = _exchange(self._start(), job)
        if not line:
            raise WorkerFailed(self._exit_reason())
        try:
            response: dict[str, Any] = json.loads(line)
        except ValueError:
            self._end_worker()
            raise WorkerFailed("the response of the training process was cut off; it will be restarted") from None
        if "error" in response:
            raise WorkerFailed(response["error"])
        return response

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
        return f"the training process {how}; it will be restarted"

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


def _blind_hits(state: State) -> list[int] | None:
    """Of the labels since the last round, how many the model predicted correctly, and the total; None without any."""
    recent = [counts for round, counts in state.blind_hits().items() if round >= state.round]
    return [sum(right for right, _ in recent), sum(total for _, total in recent)] if recent else None


def _remove_old_models(state: State, number: int) -> None:
    with suppress(OSError):  # Old files are harmless.
        for name in os.listdir(state.project.folder):
            if name.startswith("round-") and name.endswith(".npz") and name != model_file(number):
                with suppress(OSError):
                    os.unlink(state.project.path(name))
