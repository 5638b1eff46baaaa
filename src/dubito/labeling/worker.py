"""The worker process that fits models and selects items for a server: ``python -m dubito.labeling.worker PROJECT``.

It reads jobs as JSON lines from standard input and writes one JSON line per job to standard output; arrays are passed
in files of the project. All other output goes to standard error. It exits when standard input is closed, so it never
outlives the server.
"""

import json
import os
import queue
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TextIO

import numpy as np

from dubito.errors import DubitoError
from dubito.io.durable import load_sealed, save_sealed
from dubito.labeling.contents import features_of, read_contents
from dubito.labeling.events import ClassChange, names_since
from dubito.labeling.layout import compute_layout
from dubito.labeling.project import LAYOUT, USER_PROBABILITIES, Project, model_file, read_project
from dubito.labeling.rounds import Job, RoundRunner
from dubito.labeling.state import merge_columns
from dubito.matrix import FloatArray
from dubito.models.held_out import Share


def main(folder: str) -> int:
    """Run jobs until standard input is closed."""
    _lower_priority()
    requests, responses = _take_streams()
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(requests, jobs), daemon=True).start()
    runner: RoundRunner | None = None
    project = read_project(folder)
    while True:
        job = json.loads(jobs.get())
        try:
            runner = runner or _make_runner(project)
            response = _run_job(project, runner, job)
        except (DubitoError, OSError, MemoryError, ValueError, np.linalg.LinAlgError) as error:
            response = {"error": " ".join(str(error).split()) or type(error).__name__}
        print(json.dumps(response), file=responses, flush=True)


def _take_streams() -> tuple[TextIO, TextIO]:
    """Reserve the pipes for jobs and responses: redirect what libraries print from stdout to stderr."""
    sys.stdout.flush()
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, responses


def _lower_priority() -> None:
    """Give the server priority. Real-time scheduling is not inherited, since it would starve the disk's threads."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with suppress(OSError, AttributeError):
        os.nice(10)


def _read_jobs(requests: TextIO, jobs: "queue.SimpleQueue[str]") -> None:
    """Queue jobs as they arrive; exit as soon as the pipe is closed."""
    for line in requests:
        jobs.put(line)
    os._exit(0)


def _make_runner(project: Project) -> RoundRunner:
    features, is_table = features_of(project, read_contents(project).rows)
    return RoundRunner(features, True if is_table else None)


def _run_job(project: Project, runner: RoundRunner, job: dict[str, Any]) -> dict[str, Any]:
    if job["task"] == "layout":
        places = compute_layout(runner.features, standardize=runner.is_table).astype(np.float32)
        save_sealed(project.path(LAYOUT), {"places": places}, private=True)
        return {"task": "layout"}
    arrays, facts = runner.run(_job_of(project, job))
    save_sealed(project.path(model_file(job["round"])), arrays, private=True)
    return facts


def _job_of(project: Project, job: dict[str, Any]) -> Job:
    changes = [ClassChange(*each) for each in job["class_changes"]]
    probabilities, classes = _user_probabilities(project, changes) if job["own"] else (None, ())
    order = np.argsort(np.array(job["items"], dtype=np.int64))
    return Job(
        round=job["round"],
        items=np.array(job["items"], dtype=np.int64)[order],
        labels=[job["labels"][index] for index in order.tolist()],
        closed=np.array(job["closed"], dtype=np.int64),
        only=None if job["only"] is None else np.array(job["only"], dtype=np.int64),
        budget=job["budget"],
        audit=job["audit"],
        strategy=job["strategy"],
        audited=np.array(job["audited"], dtype=np.int64),
        order=np.argsort(order),
        last_batch=None if job["last_batch"] is None else Share(*job["last_batch"]),
        probabilities=probabilities,
        classes=classes,
    )


def _user_probabilities(project: Project, changes: Sequence[ClassChange]) -> tuple[FloatArray | None, tuple[str, ...]]:
    """The probabilities of the user's own model, with the current names of its classes; None if all were removed."""
    arrays = load_sealed(project.path(USER_PROBABILITIES))
    names = names_since(changes, int(arrays.get("class_event", 0)))
    classes, probabilities = merge_columns(arrays["classes"].tolist(), arrays["probabilities"], names)
    return None if probabilities is None else probabilities.astype(np.float64), classes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
