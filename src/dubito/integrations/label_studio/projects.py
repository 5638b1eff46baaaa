"""Projects of Label Studio: find or create one, and read the items that dubito sent to it."""

import operator
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dubito.errors import DubitoError, InvalidArgument
from dubito.integrations.exchange.formats import answers_in_tasks, choice_result, labeling_config
from dubito.integrations.exchange.items import ID, INDEX, Answer, Gathered, gather_answers, label_key
from dubito.integrations.label_studio.client import ResponseLost, Server, ServerRefused, Unreachable
from dubito.io.source import did_you_mean

# The labeling config of a project is checked before anything is sent.

MULTIPLE = re.compile(r"<Choices\b[^>]*\bchoice\s*=\s*[\"']multiple[\"']")
MAX_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Control:
    """The ``<Choices>`` control of a labeling config, with one class per item."""

    name: str
    shown_tag: str
    """The name of the tag that shows the item."""
    kind: str
    """``text`` or ``image``."""
    field: str
    """The field of a task's data that the tag shows."""
    choices: tuple[str, ...]
    """The classes; empty if each task has its own."""

    def result(self, label: str) -> list[dict[str, object]]:
        """A predicted class as the result of an annotation."""
        return [choice_result(label, self.name, self.shown_tag)]

    def check_label(self, label: str) -> None:
        """Raise if annotators cannot choose the class: the server would accept it, but not show it."""
        if self.choices and label not in self.choices:
            shown = ", ".join(self.choices[:MAX_SHOWN]) + (", ..." if len(self.choices) > MAX_SHOWN else "")
            hint = (
                f"there are {shown};{did_you_mean(label, self.choices)} add a Choice to the config, or fix the label."
            )
            raise InvalidArgument(f"the class {label!r} is not a choice of the project's labeling config", hint=hint)

    def check_kind(self, kind: str) -> None:
        if kind != self.kind:
            problem = f"the project shows {self.kind}s (${self.field}), and these items are {kind}s"
            raise InvalidArgument(problem, hint="pass another project, or --show COLUMN.")


def find_control(project: Mapping[str, Any]) -> Control:
    """The ``<Choices>`` control of a project; raises `InvalidArgument` if it has none or several."""
    parsed = project.get("parsed_label_config") or {}
    found = {name: each for name, each in parsed.items() if each.get("type") == "Choices"}
    where = f"the labeling config of project {project.get('id')}"
    if len(found) != 1:
        has = "no <Choices>" if not found else f"{len(found)} <Choices> ({', '.join(sorted(found)[:MAX_SHOWN])})"
        raise InvalidArgument(
            f"{where} has {has}", hint="write exactly one, or let dubito create a project: --classes a,b."
        )
    if MULTIPLE.search(str(project.get("label_config", ""))):
        raise InvalidArgument(f"{where} allows several classes per item", hint='set choice="single".')
    ((name, control),) = found.items()
    shown = [each for each in control.get("inputs") or [] if each.get("type") in ("Text", "Image")]
    if len(shown) != 1 or len(control.get("to_name") or []) != 1:
        raise InvalidArgument(f"the <Choices> of {where} do not refer to exactly one <Text> or <Image>")
    field = str(shown[0].get("value") or "").removeprefix("$")
    if not re.fullmatch(r"\w+", field):
        raise InvalidArgument(f"{where} shows {field!r}, which is not a single field", hint='write value="$text".')
    attributes = control.get("labels_attrs") or {}
    choices = tuple(str((attributes.get(each) or {}).get("alias") or each) for each in control.get("labels") or [])
    return Control(name, control["to_name"][0], shown[0]["type"].lower(), field, choices)


PAGE_SIZE = 1000
"""Tasks per request."""
EXPORT_SIZE = 250
"""Tasks per request for annotations; their ids must fit into a URL."""
DESCRIPTION = "Made by dubito."
ROUND, RANK, BATCH = "dubito_round", "dubito_rank", "dubito_batch"
"""Keys in the metadata of a task: its round, its rank among the picks, and the number of picks."""
TASKS = "/api/tasks"
FIELDS = "id,data,meta,overlap"
PROJECT_FORM = 'a project with "id", "title" and "parsed_label_config"'
MIN_TITLE_LENGTH, MAX_TITLE_LENGTH = 3, 50
"""Limits of Label Studio on the length of a title."""


class LabelStudioTask(NamedTuple):
    """A task on the server that dubito sent."""

    id: int
    name: str
    key: str
    round: int
    """0 if unknown."""
    batch: int | None
    """Number of tasks in the complete round, if known."""
    overlap: int
    """Number of annotators who should answer it."""


class ProjectState(NamedTuple):
    """The tasks that dubito sent, with their answers."""

    tasks: tuple[LabelStudioTask, ...]
    """In the order in which they were created."""
    answers: Mapping[int, Sequence[Answer]]
    """Answers by task id."""

    @property
    def all_answers(self) -> list[Answer]:
        return [answer for task in self.tasks for answer in self.answers.get(task.id, ())]

    def is_open(self, task: LabelStudioTask) -> bool:
        """Whether fewer annotators have answered or skipped the task than should."""
        return len(self.answers.get(task.id, ())) < task.overlap


@dataclass(frozen=True, slots=True)
class LabelStudioProject:
    """A project in which each item gets one class."""

    server: Server
    id: int
    title: str
    control: Control

    @property
    def path(self) -> str:
        return f"/api/projects/{self.id}"

    def state(self) -> Mapping[str, Any]:
        found = self.server.read(f"{self.path}/")
        if not isinstance(found, dict):
            raise self.server.unexpected_response(f"{self.path}/", PROJECT_FORM)
        return found

    def tasks(self) -> tuple[LabelStudioTask, ...]:
        """The tasks that dubito sent, by id; reading starts again if they change in the meantime."""
        total, seen = 0, dict[int, LabelStudioTask | None]()
        for tried in range(self.server.retry_policy.tries):
            pages = list(self._pages())
            total = pages[-1][0]
            seen = {number: task for _, tasks in pages for number, task in tasks.items()}
            if len(seen) == total:
                return tuple(filter(None, (seen[number] for number in sorted(seen))))
            time.sleep(self.server.retry_policy.pause(tried))
        problem = f"{self.server.url}{TASKS}?project={self.id} has total {total}, but lists {len(seen)} tasks"
        raise Unreachable(f"{problem}: they change while they are read, or the total is wrong", hint="try again later.")

    def _pages(self) -> Iterator[tuple[int, dict[int, LabelStudioTask | None]]]:
        """Yield the total number of tasks, and those of a page by id; None for tasks that dubito did not send."""
        seen, total, number = set[int](), 1, 1
        while len(seen) < total:
            query = {
                "project": self.id,
                "page": number,
                "page_size": PAGE_SIZE,
                "include": FIELDS,
                "resolve_uri": "false",
            }
            try:
                page = self.server.read(TASKS, query)
            except ServerRefused as error:
                if error.status == 404 and number > 1:
                    return  # Tasks were removed in the meantime, and so the last page is gone.
                raise
            with self.server.parsing(TASKS, 'an object with "total" and "tasks"'):
                total = operator.index(page["total"])
                tasks = {operator.index(task["id"]): _task_of(task) for task in page["tasks"]}
            yield total, tasks
            if seen >= tasks.keys():
                return  # The total is wrong.
            seen, number = seen | tasks.keys(), number + 1

    def read_state(self) -> ProjectState:
        tasks = self.tasks()
        answers: dict[int, Sequence[Answer]] = {}
        for start in range(0, len(tasks), EXPORT_SIZE):
            query: dict[str, object] = {"exportType": "JSON", "download_all_tasks": "false"}
            query["ids[]"] = [task.id for task in tasks[start : start + EXPORT_SIZE]]
            found = self.server.read(f"{self.path}/export", query)
            with self.server.parsing(f"{self.path}/export", "a list of tasks with their annotations"):
                for each in found:
                    answers[operator.index(each["id"])] = list(answers_in_tasks(f"project {self.id}", [each]))
        return ProjectState(tasks, answers)


def _task_of(found: Mapping[str, Any]) -> LabelStudioTask | None:
    """The task, or None if it has no ``dubito_id``."""
    meta = found.get("meta") or {}
    for source in (found.get("data") or {}, meta):
        for key in (ID, INDEX):
            if source.get(key) not in (None, ""):
                name, batch = label_key(source[key]), int(meta[BATCH]) if meta.get(BATCH) else None
                overlap = max(1, int(found.get("overlap") or 1))
                return LabelStudioTask(found["id"], name, key, int(meta.get(ROUND) or 0), batch, overlap)
    return None


def find_project(
    server: Server, wanted: str, *, classes: Sequence[str] = (), kind: str | None = None
) -> LabelStudioProject:
    """Find a project by id or title, or create it if ``kind`` and ``classes`` are given.

    Parameters
    ----------
    server : Server
        The server.
    wanted : str
        Its id, or its full title.
    classes : sequence of str
        The classes of a new project; an existing one must offer all of them.
    kind : {"text", "image"}, optional
        What a new project shows; without it, none is created.
    """
    found = _by_number(server, int(wanted)) if wanted.isascii() and wanted.isdigit() else _by_title(server, wanted)
    if found is None:
        found = _create(server, wanted, classes, kind)
    with server.parsing("/api/projects/", PROJECT_FORM):
        project = LabelStudioProject(server, operator.index(found["id"]), str(found["title"]), find_control(found))
    if kind is not None:
        project.control.check_kind(kind)
    for label in classes:
        project.control.check_label(label)
    return project


def _by_number(server: Server, number: int) -> Mapping[str, Any]:
    try:
        found = server.read(f"/api/projects/{number}/")
    except ServerRefused as error:
        if error.status != 404:
            raise
        hint = "pass the number in the address of its page, or its title."
        problem = f"is not a project that this token may see at {server.url}"
        raise InvalidArgument(problem, argument="project", value=number, hint=hint) from None
    if not isinstance(found, dict):
        raise server.unexpected_response("/api/projects/", PROJECT_FORM)
    return found


def _by_title(server: Server, title: str) -> Mapping[str, Any] | None:
    """The project with this title; the first if dubito created several because of lost responses."""
    if not title.strip() or len(title) > MAX_TITLE_LENGTH:
        hint = f"pass a title of {MIN_TITLE_LENGTH} to {MAX_TITLE_LENGTH} letters, or a number."
        raise InvalidArgument("is not the title of a project", argument="project", value=title, hint=hint)
    page = server.read("/api/projects/", {"title": title, "page_size": PAGE_SIZE})
    with server.parsing("/api/projects/", 'an object with "results", a list of projects'):
        found = sorted((each for each in page["results"] if each["title"] == title), key=lambda each: int(each["id"]))
    if len(found) > 1 and not all(each.get("description") == DESCRIPTION for each in found):
        numbers = ", ".join(str(each["id"]) for each in found)
        problem = f"is the title of {len(found)} projects"
        raise InvalidArgument(problem, argument="project", value=title, hint=f"pass one of their numbers: {numbers}.")
    return found[0] if found else None


def _create(server: Server, title: str, classes: Sequence[str], kind: str | None) -> Mapping[str, Any]:
    if kind is None or not classes:
        hint = "pass the title or number of an existing one" + (", or --classes to create it." if kind else ".")
        raise InvalidArgument(f"is not a project at {server.url}", argument="project", value=title, hint=hint)
    if len(title.strip()) < MIN_TITLE_LENGTH:
        hint = f"pass one of {MIN_TITLE_LENGTH} to {MAX_TITLE_LENGTH} letters for a new project."
        raise InvalidArgument("is too short for a title", argument="project", value=title, hint=hint)
    body = {"title": title, "description": DESCRIPTION, "label_config": labeling_config(kind, classes)}
    for tried in range(server.retry_policy.tries):
        try:
            server.add("/api/projects/", body)
        except ResponseLost:
            if tried + 1 == server.retry_policy.tries:
                raise
            time.sleep(server.retry_policy.pause(tried))
        # Look it up even after a response: an earlier request may have created a project, which then comes first.
        found = _by_title(server, title)
        if found is not None:
            return found
    raise DubitoError(f"the project {title!r} is missing at {server.url} after its creation", hint="check its log.")


def pull(project: LabelStudioProject) -> Gathered:
    """The majority label of each item with the share of annotators who agree; skipped and tied items separately."""
    return gather_answers(project.read_state().all_answers)
