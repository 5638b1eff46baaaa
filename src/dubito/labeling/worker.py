"""The process that fits and picks beside a server: ``python -m dubito.labeling.worker PROJECT``.

A job is a line of JSON on its input, the answer a line on its output; arrays go by files of the project. Whatever else
is printed goes to standard error. It ends with the server, however that ends: nobody is left at the other end of its
input.
"""

import json
import os
import queue
import sys
import threading
from contextlib import suppress
from typing import Any, TextIO

import numpy as np

from dubito.errors import DubitoError
from dubito.io.durable import load_sealed, save_sealed
from dubito.labeling.contents import features_of, read_contents
from dubito.labeling.project import LAYOUT, OWN, Project, model_file, read_project
from dubito.labeling.rounds import Job, RoundPlayer
from dubito.matrix import FloatArray, Matrix, blocks, len_of, rows_per_read
from dubito.models.held_out import Share
from dubito.request.scaling import measure_scale, on_scale

# Where each row lies on a map: two numbers a row, computed once.

SAMPLE = 20_000


def lay_out(features: Matrix) -> FloatArray:
    """(n, 2) the two directions in which a standardised sample varies most, each between -1 and 1.

    Examples
    --------
    >>> lay_out(np.array([[0.0, 0.0], [1.0, 0.1], [2.0, -0.1]])).shape
    (3, 2)
    """
    scaled = on_scale(features, measure_scale(features))
    n_rows = len_of(features)
    rows = np.unique(np.linspace(0, n_rows - 1, min(n_rows, SAMPLE)).astype(np.int64))
    sample = np.asarray(scaled[rows], dtype=np.float64)
    middle = sample.mean(axis=0)
    axes = _widest(sample - middle)
    placed = np.zeros((n_rows, 2))
    for span in blocks(n_rows, rows_per_read(scaled)):
        placed[span, : axes.shape[1]] = (np.asarray(scaled[span], dtype=np.float64) - middle) @ axes
    largest = np.abs(placed).max(axis=0)
    return placed / np.where(largest > 0.0, largest, 1.0)


def _widest(centred: FloatArray) -> FloatArray:
    """(d, 2) the directions of the largest spread, or (d, 1) where there is but one."""
    if len(centred) <= centred.shape[1]:
        return np.asarray(np.linalg.svd(centred, full_matrices=False)[2][:2].T)
    return np.asarray(np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :2])


def main(folder: str) -> int:
    """Spoken jobs until there are none."""
    _step_back()
    asked, answers = _take_streams()
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(asked, jobs), daemon=True).start()
    learner: RoundPlayer | None = None
    project = read_project(folder)
    while True:
        job = json.loads(jobs.get())
        try:
            learner = learner or _learner(project)
            answer = _answer(project, learner, job)
        except (DubitoError, OSError, MemoryError, ValueError, np.linalg.LinAlgError) as error:
            answer = {"error": " ".join(str(error).split()) or type(error).__name__}
        print(json.dumps(answer), file=answers, flush=True)


def _take_streams() -> tuple[TextIO, TextIO]:
    """The pipes of the server, for jobs and answers alone: what a library prints must not be taken for an answer."""
    sys.stdout.flush()
    asked = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return asked, answers


def _step_back() -> None:
    """Labels come first. Never in real time, whatever the server is: the disk's own threads would wait."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with suppress(OSError, AttributeError):
        os.nice(10)


def _listen(asked: TextIO, jobs: "queue.SimpleQueue[str]") -> None:
    """Lines as they come; without anyone at the other end, the process ends at once."""
    for line in asked:
        jobs.put(line)
    os._exit(0)


def _learner(project: Project) -> RoundPlayer:
    features, is_table = features_of(project, read_contents(project).rows)
    return RoundPlayer(features, True if is_table else None)


def _answer(project: Project, learner: RoundPlayer, job: dict[str, Any]) -> dict[str, Any]:
    if job["task"] == "layout":
        save_sealed(project.path(LAYOUT), {"places": lay_out(learner.features).astype(np.float32)}, private=True)
        return {"task": "layout"}
    arrays, facts = learner.play(_job_of(project, job))
    save_sealed(project.path(model_file(job["round"])), arrays, private=True)
    return facts


def _job_of(project: Project, job: dict[str, Any]) -> Job:
    own, classes = _own(project) if job["own"] else (None, ())
    order = np.argsort(np.array(job["items"], dtype=np.int64))
    return Job(
        round=job["round"],
        items=np.array(job["items"], dtype=np.int64)[order],
        labels=[job["labels"][place] for place in order.tolist()],
        closed=np.array(job["closed"], dtype=np.int64),
        only=None if job["only"] is None else np.array(job["only"], dtype=np.int64),
        budget=job["budget"],
        audit=job["audit"],
        strategy=job["strategy"],
        audited=np.array(job["audited"], dtype=np.int64),
        foreseen=None if job["foreseen"] is None else Share(*job["foreseen"]),
        probabilities=own,
        classes=classes,
    )


def _own(project: Project) -> tuple[FloatArray, tuple[str, ...]]:
    kept = load_sealed(project.path(OWN))
    return kept["probabilities"].astype(np.float64), tuple(kept["classes"].tolist())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
