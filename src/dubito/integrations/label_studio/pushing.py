"""Send picks to a project in their order, each exactly once, even if requests or responses are lost."""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dubito.errors import DubitoError, InvalidData
from dubito.integrations.exchange.formats import task_data
from dubito.integrations.exchange.items import Item
from dubito.integrations.label_studio.client import ResponseLost, ServerRefused
from dubito.integrations.label_studio.picking import Suggestion
from dubito.integrations.label_studio.projects import BATCH, RANK, ROUND, LabelStudioProject, LabelStudioTask

MOST_TASKS, MOST_BYTES = 1000, 4 << 20
"""Limits of one request, of which the server adds all tasks or none."""
LARGEST_TASK = 2 << 20
SEQUENTIAL, UNCERTAINTY = "Sequential sampling", "Uncertainty sampling"
RANKS = 1e6
"""Scores are ranks divided by this; Label Studio shows the lowest score first."""


class Pushed(NamedTuple):
    round: int
    added: int
    there: int
    """Number of picks that were on the server already."""
    removed: int
    """Number of duplicates removed, which lost responses can cause."""


class SendOptions(NamedTuple):
    round: int
    jump_ahead: bool = False
    batch: int | None = None
    """Number of tasks in the complete round."""

    @property
    def model_version(self) -> str:
        """The version of predictions: one for each round if later rounds should be shown first."""
        return f"dubito round {self.round}" if self.jump_ahead else "dubito"


def push(project: LabelStudioProject, picks: Sequence[Suggestion], *, jump_ahead: bool = False) -> Pushed:
    """Add the picks that the project does not have yet, in their order; repeated calls add nothing twice.

    Parameters
    ----------
    project : LabelStudioProject
        The project.
    picks : sequence of Suggestion
        Items in the order in which to label them, with predictions if there are any.
    jump_ahead : bool
        Show these before the items left from earlier rounds: the project is set to uncertainty sampling with ranks as
        scores. If it has several members, Label Studio then shows items in random order.
    """
    ours = {pick.item.name for pick in picks}
    there = project.tasks()
    mine = [task.round for task in there if task.name in ours]
    latest = max((task.round for task in there), default=0)
    return send(project, picks, SendOptions(max(mine) if mine else latest + 1, jump_ahead), there)


def send(
    project: LabelStudioProject,
    picks: Sequence[Suggestion],
    how: SendOptions,
    there: Sequence[LabelStudioTask] | None = None,
) -> Pushed:
    """Send the picks of a round, each once; ``there`` are the tasks in the project, if known."""
    tasks = list(map(_Ready, *_task_bodies(project, picks, how))) if picks else []
    found = project.tasks() if there is None else there
    known = {task.name for task in found}
    missing = [task for task in tasks if task.name not in known]
    has_copies = len(known) < len(found)
    added, tried = len(missing), 0
    while missing:
        part = next(_parts(missing))
        try:
            project.server.add(f"{project.path}/import", [task.body for task in part])
            known |= {task.name for task in part}
            tried = 0
        except ResponseLost:
            tried, has_copies = tried + 1, True  # Possibly: a request may still arrive.
            if tried >= project.server.retry_policy.tries:
                raise
            found = _tasks_after_lost_response(project, part, tried)
            known = {task.name for task in found}
        missing = [task for task in missing if task.name not in known]
    removed = remove_copies(project) if has_copies else 0
    direct(project, how)
    return Pushed(how.round, added, len(tasks) - added, removed)


def direct(project: LabelStudioProject, how: SendOptions) -> None:
    """With ``jump_ahead``, make the server show this round first, unless it does already."""
    wanted = {"sampling": UNCERTAINTY, "model_version": how.model_version}
    if how.jump_ahead and how.round:
        state = project.state()
        if any(state.get(name) != value for name, value in wanted.items()):
            project.server.change("PATCH", f"{project.path}/", wanted)


def remove_copies(project: LabelStudioProject, tasks: Iterable[LabelStudioTask] | None = None) -> int:
    """Remove duplicate tasks without answers, which delayed requests can create."""
    seen: set[str] = set()
    copies = []
    for task in project.tasks() if tasks is None else tasks:
        if task.name in seen:
            copies.append(task)
        seen.add(task.name)
    return sum(_remove_unanswered(project, task) for task in copies)


def _remove_unanswered(project: LabelStudioProject, task: LabelStudioTask) -> bool:
    path = f"/api/tasks/{task.id}/"
    try:
        found = project.server.read(path)
        with project.server.parsing(path, "a task"):
            if found.get("annotations"):
                return False
        project.server.change("DELETE", path)
    except ServerRefused as error:
        if error.status != 404:
            raise
    return True


class _Ready(NamedTuple):
    name: str
    body: dict[str, object]
    size: int


def _task_bodies(
    project: LabelStudioProject, picks: Sequence[Suggestion], how: SendOptions
) -> tuple[list[str], list[dict[str, object]], list[int]]:
    names, bodies = [], []
    for rank, pick in enumerate(picks, start=1):
        project.control.check_kind(pick.item.kind)
        names.append(pick.item.name)
        bodies.append(_body(project, pick, rank, how))
    twice = next((name for name in names if names.count(name) > 1), None) if len({*names}) < len(names) else None
    if twice is not None:
        raise InvalidData(f"the item {twice!r} is among the picks twice", hint="each can be pushed once.")
    sizes = [len(json.dumps(body)) for body in bodies]
    if max(sizes) > LARGEST_TASK:
        name = names[sizes.index(max(sizes))]
        raise InvalidData(f"the item {name!r} takes {max(sizes):,} bytes", hint=f"show {LARGEST_TASK:,} or fewer.")
    return names, bodies, sizes


def _body(project: LabelStudioProject, pick: Suggestion, rank: int, how: SendOptions) -> dict[str, object]:
    item: Item = pick.item
    meta: dict[str, object] = {**item.payload, ROUND: how.round, RANK: rank}
    if how.batch is not None:
        meta[BATCH] = how.batch
    body: dict[str, object] = {"data": task_data(item, project.control.field), "meta": meta}
    if pick.guess is None and not how.jump_ahead:
        return body
    result = [] if pick.guess is None else project.control.result(pick.guess)
    if pick.guess is not None:
        project.control.check_label(pick.guess)
    score = rank / RANKS if how.jump_ahead else pick.confidence
    return {**body, "predictions": [{"model_version": how.model_version, "score": score, "result": result}]}


def _parts(tasks: Sequence[_Ready]) -> Iterator[list[_Ready]]:
    part: list[_Ready] = []
    size = 0
    for task in tasks:
        if part and (len(part) == MOST_TASKS or size + task.size > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(task)
        size += task.size
    yield part


def _tasks_after_lost_response(
    project: LabelStudioProject, part: Sequence[_Ready], tried: int
) -> tuple[LabelStudioTask, ...]:
    """The tasks after a lost response; waits until one of ``part`` appears, since the server may still be working."""
    names = {task.name for task in part}
    retry_policy, found = project.server.retry_policy, tuple[LabelStudioTask, ...]()
    for looked in range(max(2, tried + 1)):
        time.sleep(retry_policy.pause(looked))
        found = project.tasks()
        if any(task.name in names for task in found):
            break
    return found


def check_sampling(project: LabelStudioProject, *, jump_ahead: bool) -> str | None:
    """A note if the project shows tasks in another order than that of the picks."""
    sampling = project.state().get("sampling")
    if jump_ahead or sampling == SEQUENTIAL:
        return None
    return f"project {project.id} has {str(sampling).lower()}: people do not see the picks in their order."


def check_storage(project: LabelStudioProject, folder: str) -> None:
    """Add a local folder of the server to the storages of the project, unless it has it."""
    path = "/api/storages/localfiles/"
    found = project.server.read(path, {"project": project.id})
    with project.server.parsing(path, "a list of storages"):
        if any(each.get("path") == folder for each in found):
            return
    body = {"project": project.id, "path": folder, "title": "dubito", "use_blob_urls": True}
    try:
        project.server.add(path, body)
    except ServerRefused as error:
        hint = "start Label Studio with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and the folder's parent as "
        hint += "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."
        raise DubitoError(error.problem, hint=hint) from None
