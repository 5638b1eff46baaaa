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
from dubito.io.durable import load_with_checksum, save_with_checksum
from dubito.labeling.contents import features_of, merge_columns, read_contents
from dubito.labeling.events import ClassChange, names_since
from dubito.labeling.layout import compute_layout
from dubito.labeling.project import LAYOUT, USER_PROBABILITIES, Project, model_file, read_project
from dubito.labeling.rounds import Job, RoundRunner
from dubito.matrix import AnyArray, FloatArray, IntArray, len_of
from dubito.models.held_out import Share


def main(folder: str) -> int:
    """Run jobs until standard input is closed."""
    _lower_priority()
    requests, responses = _reserve_pipes()
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(requests, jobs), daemon=True).start()
    pool: ProjectPool | None = None
    project = read_project(folder)
    while True:
        job = json.loads(jobs.get())
        try:
            pool = pool or ProjectPool(project)
            response = _run_job(project, pool, job)
        except (DubitoError, OSError, MemoryError, ValueError, np.linalg.LinAlgError) as error:
            response = {"error": " ".join(str(error).split()) or type(error).__name__}
        print(json.dumps(response), file=responses, flush=True)


def _reserve_pipes() -> tuple[TextIO, TextIO]:
    """Reserve stdin and stdout for jobs and responses; what libraries print goes to stderr."""
    sys.stdout.flush()
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, responses


def _lower_priority() -> None:
    """Give the server priority, and leave real-time scheduling, which would starve the kernel's disk threads."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with suppress(OSError, AttributeError):
        os.nice(10)


def _read_jobs(requests: TextIO, jobs: "queue.SimpleQueue[str]") -> None:
    """Queue jobs as they arrive; exit as soon as the pipe is closed."""
    for line in requests:
        jobs.put(line)
    os._exit(0)


class ProjectPool:
    """The rows of the pool that are items of the project. Items that are gone have no row."""

    def __init__(self, project: Project) -> None:
        rows = read_contents(project).rows
        self.items = None if rows is None or (rows >= 0).all() else np.flatnonzero(rows >= 0)
        """(n,) the item of each row; None if they are the same."""
        self.n_items: int | None = None if rows is None else len(rows)
        features, is_table = features_of(project, rows if rows is None or self.items is None else rows[self.items])
        self.runner = RoundRunner(features, True if is_table else None)

    def rows_of(self, items: Sequence[int]) -> IntArray:
        """The rows of the items that are not gone."""
        given = np.array(items, dtype=np.int64)
        if self.items is None:
            return given
        rows = np.minimum(np.searchsorted(self.items, given), len(self.items) - 1)
        return np.asarray(rows[self.items[rows] == given])

    def items_of(self, rows: AnyArray) -> AnyArray:
        return rows if self.items is None else self.items[rows]

    def values_by_item(self, values: AnyArray, missing: float) -> AnyArray:
        """Reorder values of rows as values of items; items that are gone get `missing`."""
        if self.items is None or self.n_items is None:
            return values
        found = np.full((self.n_items, *values.shape[1:]), missing, dtype=values.dtype)
        found[self.items] = values
        return found


def _run_job(project: Project, pool: ProjectPool, job: dict[str, Any]) -> dict[str, Any]:
    """Run a job and save its arrays; returns the response."""
    if job["task"] == "layout":
        layout = compute_layout(pool.runner.features, standardize=pool.runner.is_table)
        by_item = pool.values_by_item(layout.astype(np.float32), 0.0)
        save_with_checksum(project.path(LAYOUT), {"places": by_item}, private=True)
        return {"task": "layout"}
    arrays, facts = pool.runner.run(_parse_job(project, pool, job))
    for name in ("picks", "held_rows"):
        if name in arrays:
            arrays[name] = pool.items_of(arrays[name])
    if "probabilities" in arrays:
        arrays["probabilities"] = pool.values_by_item(arrays["probabilities"], 1.0 / len(arrays["classes"]))
    save_with_checksum(project.path(model_file(job["round"])), arrays, private=True)
    return facts


def _parse_job(project: Project, pool: ProjectPool, job: dict[str, Any]) -> Job:
    """The job of a round, with rows of the pool instead of items."""
    changes = [ClassChange(*each) for each in job["class_changes"]]
    probabilities, classes = _user_probabilities(project, pool, changes) if job["own"] else (None, ())
    label_of = dict(zip(job["items"], job["labels"], strict=True))
    labeled = pool.rows_of(sorted(label_of))
    return Job(
        round=job["round"],
        items=labeled,
        labels=[label_of[item] for item in pool.items_of(labeled).tolist()],
        closed=pool.rows_of(job["closed"]),
        allowed=None if job["only"] is None else pool.rows_of(job["only"]),
        budget=job["budget"],
        audit=job["audit"],
        strategy=job["strategy"],
        audited=pool.rows_of(job["audited"]),
        order=np.searchsorted(labeled, pool.rows_of(job["items"])),
        last_batch=None if job["last_batch"] is None else Share(*job["last_batch"]),
        probabilities=probabilities,
        classes=classes,
    )


def _user_probabilities(
    project: Project, pool: ProjectPool, changes: Sequence[ClassChange]
) -> tuple[FloatArray | None, tuple[str, ...]]:
    """The probabilities of the user's own model by row, and their classes, under the current names.

    Rows of newer items have equal probabilities. The probabilities are None if all classes were removed.
    """
    arrays = load_with_checksum(project.path(USER_PROBABILITIES))
    names = names_since(changes, int(arrays.get("class_event", 0)))
    classes, probabilities = merge_columns(arrays["classes"].tolist(), arrays["probabilities"], names)
    if probabilities is None:
        return None, classes
    items = pool.items_of(np.arange(len_of(pool.runner.features)))
    by_row = np.full((len(items), probabilities.shape[1]), 1.0 / probabilities.shape[1])
    by_row[items < len(probabilities)] = probabilities[items[items < len(probabilities)]]
    return by_row, classes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
