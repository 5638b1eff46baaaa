"""Send picks to a project in their order, each exactly once, even if requests or responses are lost."""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dubito.errors import DubitoError, InvalidData
from dubito.integrations.exchange.formats import task_data
from dubito.integrations.label_studio.client import ResponseLost, ServerRefused
from dubito.integrations.label_studio.picking import Suggestion
from dubito.integrations.label_studio.projects import BATCH, RANK, ROUND, LabelStudioProject, LabelStudioTask

MAX_TASKS, MAX_REQUEST_BYTES = 1000, 4 << 20
"""Limits of one request; the server adds all of its tasks or none."""
MAX_TASK_BYTES = 2 << 20
SEQUENTIAL, UNCERTAINTY = "Sequential sampling", "Uncertainty sampling"
SCORE_SCALE = 1e6
"""Scores are ranks divided by this number; Label Studio shows the lowest score first."""


class Pushed(NamedTuple):
    round: int
    added: int
    there: int
    """Number of picks that the server already had."""
    removed: int
    """Number of removed duplicates, which lost responses can cause."""


class SendOptions(NamedTuple):
    round: int
    jump_ahead: bool = False
    batch: int | None = None
    """Number of tasks in the complete round."""

    @property
    def model_version(self) -> str:
        """The version of the predictions, which differs by round if later rounds should be shown first."""
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
    names = {pick.item.name for pick in picks}
    tasks = project.tasks()
    rounds = [task.round for task in tasks if task.name in names]
    latest = max((task.round for task in tasks), default=0)
    return send(project, picks, SendOptions(max(rounds) if rounds else latest + 1, jump_ahead), tasks)


def send(
    project: LabelStudioProject,
    picks: Sequence[Suggestion],
    options: SendOptions,
    existing: Sequence[LabelStudioTask] | None = None,
) -> Pushed:
    """Send the picks of a round, each once; ``existing`` are the tasks in the project, if known."""
    tasks = _task_bodies(project, picks, options)
    found = project.tasks() if existing is None else existing
    known = {task.name for task in found}
    missing = [task for task in tasks if task.name not in known]
    has_copies = len(known) < len(found)
    added, tried = len(missing), 0
    while missing:
        request = next(_requests(missing))
        try:
            project.server.add(f"{project.path}/import", [task.body for task in request])
            known |= {task.name for task in request}
            tried = 0
        except ResponseLost:
            tried, has_copies = tried + 1, True  # There may be copies, since the request may still arrive.
            if tried >= project.server.retry_policy.tries:
                raise
            found = _tasks_after_lost_response(project, request, tried)
            known = {task.name for task in found}
        missing = [task for task in missing if task.name not in known]
    removed = remove_copies(project) if has_copies else 0
    show_round_first(project, options)
    return Pushed(options.round, added, len(tasks) - added, removed)


def show_round_first(project: LabelStudioProject, options: SendOptions) -> None:
    """With ``jump_ahead``, configure the server to show this round first, unless it does already."""
    wanted = {"sampling": UNCERTAINTY, "model_version": options.model_version}
    if options.jump_ahead and options.round:
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


class _TaskBody(NamedTuple):
    name: str
    body: dict[str, object]
    size: int


def _task_bodies(project: LabelStudioProject, picks: Sequence[Suggestion], options: SendOptions) -> list[_TaskBody]:
    tasks: dict[str, _TaskBody] = {}
    for rank, pick in enumerate(picks, start=1):
        name = pick.item.name
        project.control.check_kind(pick.item.kind)
        if name in tasks:
            raise InvalidData(f"the item {name!r} is among the picks twice", hint="pass it once.")
        body = _body(project, pick, rank, options)
        size = len(json.dumps(body))
        if size > MAX_TASK_BYTES:
            raise InvalidData(f"the item {name!r} takes {size:,} bytes", hint=f"show {MAX_TASK_BYTES:,} or fewer.")
        tasks[name] = _TaskBody(name, body, size)
    return list(tasks.values())


def _body(project: LabelStudioProject, pick: Suggestion, rank: int, options: SendOptions) -> dict[str, object]:
    meta: dict[str, object] = {**pick.item.payload, ROUND: options.round, RANK: rank}
    if options.batch is not None:
        meta[BATCH] = options.batch
    body: dict[str, object] = {"data": task_data(pick.item, project.control.field), "meta": meta}
    if pick.guess is None and not options.jump_ahead:
        return body
    result = []
    if pick.guess is not None:
        project.control.check_label(pick.guess)
        result = project.control.result(pick.guess)
    score = rank / SCORE_SCALE if options.jump_ahead else pick.confidence
    return {**body, "predictions": [{"model_version": options.model_version, "score": score, "result": result}]}


def _requests(tasks: Sequence[_TaskBody]) -> Iterator[list[_TaskBody]]:
    """Split the tasks into requests within the limits of the server."""
    part: list[_TaskBody] = []
    size = 0
    for task in tasks:
        if part and (len(part) == MAX_TASKS or size + task.size > MAX_REQUEST_BYTES):
            yield part
            part, size = [], 0
        part.append(task)
        size += task.size
    yield part


def _tasks_after_lost_response(
    project: LabelStudioProject, request: Sequence[_TaskBody], tried: int
) -> tuple[LabelStudioTask, ...]:
    """The tasks after a lost response; waits for one of the request, since the server may still be adding them."""
    names = {task.name for task in request}
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
    return f"project {project.id} has {str(sampling).lower()}: annotators do not see the picks in their order."


def check_storage(project: LabelStudioProject, folder: str) -> None:
    """Add a local folder of the server to the storages of the project, unless it is one of them."""
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
