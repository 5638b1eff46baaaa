"""A project of Label Studio: found by its number or its name, or made; and what it holds of ours."""

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
from dubito.io.source import nearest

# The labeling config of a project, read before anything is sent: which control takes a class, and which classes.

MULTIPLE = re.compile(r"<Choices\b[^>]*\bchoice\s*=\s*[\"']multiple[\"']")
MOST_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Control:
    """The choices of a project: one class an item."""

    name: str
    shows: str
    """The name of the tag that shows the item."""
    kind: str
    """``text`` or ``image``: what that tag shows."""
    field: str
    """Where in an item's data it finds that."""
    choices: tuple[str, ...]
    """The classes; none where each item brings its own."""

    def result(self, label: str) -> list[dict[str, object]]:
        """A guess as an annotation has it."""
        return [choice_result(label, self.name, self.shows)]

    def check_label(self, label: str) -> None:
        """Refuse a class that people could not choose: the server takes it, and shows nothing."""
        if self.choices and label not in self.choices:
            shown = ", ".join(self.choices[:MOST_SHOWN]) + (", ..." if len(self.choices) > MOST_SHOWN else "")
            hint = f"there are {shown};{nearest(label, self.choices)} add a Choice to the config, or fix the label."
            raise InvalidArgument(f"the class {label!r} is no choice of the project's labeling config", hint=hint)

    def check_kind(self, kind: str) -> None:
        if kind != self.kind:
            problem = f"the project shows {self.kind}s (${self.field}), and these items are {kind}s"
            raise InvalidArgument(problem, hint="pass another project, or --show COLUMN.")


def find_control(project: Mapping[str, Any]) -> Control:
    """The one control of choices that a project has; raises InvalidArgument where it has none, or several."""
    parsed = project.get("parsed_label_config") or {}
    found = {name: each for name, each in parsed.items() if each.get("type") == "Choices"}
    where = f"the labeling config of project {project.get('id')}"
    if len(found) != 1:
        has = "no <Choices>" if not found else f"{len(found)} <Choices> ({', '.join(sorted(found)[:MOST_SHOWN])})"
        raise InvalidArgument(f"{where} has {has}", hint="give it one, or let dubito make a project: --classes a,b.")
    if MULTIPLE.search(str(project.get("label_config", ""))):
        raise InvalidArgument(f"{where} lets people choose several classes", hint='set choice="single".')
    ((name, control),) = found.items()
    shown = [each for each in control.get("inputs") or [] if each.get("type") in ("Text", "Image")]
    if len(shown) != 1 or len(control.get("to_name") or []) != 1:
        raise InvalidArgument(f"{where} lets people choose for something else than one <Text> or <Image>")
    field = str(shown[0].get("value") or "").removeprefix("$")
    if not re.fullmatch(r"\w+", field):
        raise InvalidArgument(f"{where} shows {field!r}, which is no one field", hint='write value="$text".')
    attributes = control.get("labels_attrs") or {}
    choices = tuple(str((attributes.get(each) or {}).get("alias") or each) for each in control.get("labels") or [])
    return Control(name, control["to_name"][0], shown[0]["type"].lower(), field, choices)


PAGE = 1000
"""Tasks asked for at once."""
EXPORTED = 250
"""Tasks whose answers are asked for at once: their numbers must fit into an address."""
MARK = "Made by dubito."
ROUND, RANK, BATCH = "dubito_round", "dubito_rank", "dubito_batch"
"""In a task's meta: which round it is of, its place among the picks, and how many they are."""
TASKS = "/api/tasks"
WANTED = "id,data,meta,overlap"
A_PROJECT = 'a project with "id", "title" and "parsed_label_config"'
SHORTEST_TITLE, LONGEST_TITLE = 3, 50
"""Letters that Label Studio allows."""


class LabelStudioTask(NamedTuple):
    """An item of ours on the server."""

    id: int
    name: str
    key: str
    round: int
    """0 where nobody said."""
    batch: int | None
    """How many tasks its round has once it is whole, where that was said."""
    overlap: int
    """People who are to answer it."""


class ProjectState(NamedTuple):
    """Everything of ours on the server."""

    tasks: tuple[LabelStudioTask, ...]
    """In the order in which they were added."""
    answers: Mapping[int, Sequence[Answer]]
    """What people said of each task that has an answer."""

    @property
    def said(self) -> list[Answer]:
        return [said for task in self.tasks for said in self.answers.get(task.id, ())]

    def is_open(self, task: LabelStudioTask) -> bool:
        """Whether people are still to answer it; one who skips it has answered."""
        return len(self.answers.get(task.id, ())) < task.overlap


@dataclass(frozen=True, slots=True)
class LabelStudioProject:
    """A project that takes one class an item."""

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
            raise self.server.unexpected_answer(f"{self.path}/", A_PROJECT)
        return found

    def tasks(self) -> tuple[LabelStudioTask, ...]:
        """The items of ours, by the numbers of their tasks; read again where others change them meanwhile."""
        total, seen = 0, dict[int, LabelStudioTask | None]()
        for tried in range(self.server.retry_policy.tries):
            pages = list(self._pages())
            total = pages[-1][0]
            seen = {number: task for _, tasks in pages for number, task in tasks.items()}
            if len(seen) == total:
                return tuple(filter(None, (seen[number] for number in sorted(seen))))
            time.sleep(self.server.retry_policy.pause(tried))
        problem = f"{self.server.url}{TASKS}?project={self.id} says total {total} and lists {len(seen)} tasks"
        raise Unreachable(f"{problem}: they change while they are read, or it miscounts", hint="try again later.")

    def _pages(self) -> Iterator[tuple[int, dict[int, LabelStudioTask | None]]]:
        """How many tasks there are, and those of a page by their numbers; None for those of others."""
        seen, total, number = set[int](), 1, 1
        while len(seen) < total:
            query = {"project": self.id, "page": number, "page_size": PAGE, "include": WANTED, "resolve_uri": "false"}
            try:
                page = self.server.read(TASKS, query)
            except ServerRefused as error:
                if error.status == 404 and number > 1:
                    return  # Tasks were removed meanwhile, and with them the last page.
                raise
            with self.server.parsing(TASKS, 'an object with "total" and "tasks"'):
                total = operator.index(page["total"])
                tasks = {operator.index(task["id"]): _task_of(task) for task in page["tasks"]}
            yield total, tasks
            if seen >= tasks.keys():
                return  # It promised more than it lists.
            seen, number = seen | tasks.keys(), number + 1

    def read_state(self) -> ProjectState:
        """The items of ours, and what people said of them."""
        tasks = self.tasks()
        answers: dict[int, Sequence[Answer]] = {}
        for start in range(0, len(tasks), EXPORTED):
            query: dict[str, object] = {"exportType": "JSON", "download_all_tasks": "false"}
            query["ids[]"] = [task.id for task in tasks[start : start + EXPORTED]]
            found = self.server.read(f"{self.path}/export", query)
            with self.server.parsing(f"{self.path}/export", "a list of tasks with their annotations"):
                for each in found:
                    answers[operator.index(each["id"])] = list(answers_in_tasks(f"project {self.id}", [each]))
        return ProjectState(tasks, answers)


def _task_of(found: Mapping[str, Any]) -> LabelStudioTask | None:
    """A task of ours; None for one that has no ``dubito_id``."""
    meta = found.get("meta") or {}
    for place in (found.get("data") or {}, meta):
        for key in (ID, INDEX):
            if place.get(key) not in (None, ""):
                name, batch = label_key(place[key]), int(meta[BATCH]) if meta.get(BATCH) else None
                overlap = max(1, int(found.get("overlap") or 1))
                return LabelStudioTask(found["id"], name, key, int(meta.get(ROUND) or 0), batch, overlap)
    return None


def find_project(
    server: Server, wanted: str, *, classes: Sequence[str] = (), kind: str | None = None
) -> LabelStudioProject:
    """The project of that number or title; with a ``kind`` of items and ``classes``, made where there is none.

    Parameters
    ----------
    server : Server
        Where it is.
    wanted : str
        Its number, or its whole title.
    classes : sequence of str
        What people are to choose from, in a project that has to be made; one that is there must offer them all.
    kind : {"text", "image"}, optional
        What it is to show; without it, none is made.
    """
    found = _by_number(server, int(wanted)) if wanted.isascii() and wanted.isdigit() else _by_title(server, wanted)
    if found is None:
        found = _make(server, wanted, classes, kind)
    with server.parsing("/api/projects/", A_PROJECT):
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
        problem = f"is no project that this token may see at {server.url}"
        raise InvalidArgument(problem, argument="project", value=number, hint=hint) from None
    if not isinstance(found, dict):
        raise server.unexpected_answer("/api/projects/", A_PROJECT)
    return found


def _by_title(server: Server, title: str) -> Mapping[str, Any] | None:
    """The project of exactly that title; of several, the one that dubito made first, after an answer that came late."""
    if not title.strip() or len(title) > LONGEST_TITLE:
        hint = f"pass a title of {SHORTEST_TITLE} to {LONGEST_TITLE} letters, or a number."
        raise InvalidArgument("is no project's title", argument="project", value=title, hint=hint)
    page = server.read("/api/projects/", {"title": title, "page_size": PAGE})
    with server.parsing("/api/projects/", 'an object with "results", a list of projects'):
        found = sorted((each for each in page["results"] if each["title"] == title), key=lambda each: int(each["id"]))
    if len(found) > 1 and not all(each.get("description") == MARK for each in found):
        numbers = ", ".join(str(each["id"]) for each in found)
        problem = f"is the title of {len(found)} projects"
        raise InvalidArgument(problem, argument="project", value=title, hint=f"pass one of their numbers: {numbers}.")
    return found[0] if found else None


def _make(server: Server, title: str, classes: Sequence[str], kind: str | None) -> Mapping[str, Any]:
    if kind is None or not classes:
        hint = "pass the title or number of one that is there" + (", or --classes to make it." if kind else ".")
        raise InvalidArgument(f"is no project at {server.url}", argument="project", value=title, hint=hint)
    if len(title.strip()) < SHORTEST_TITLE:
        hint = f"pass one of {SHORTEST_TITLE} to {LONGEST_TITLE} letters for a new project."
        raise InvalidArgument("is too short for a title", argument="project", value=title, hint=hint)
    body = {"title": title, "description": MARK, "label_config": labeling_config(kind, classes)}
    for tried in range(server.retry_policy.tries):
        try:
            server.add("/api/projects/", body)
        except ResponseLost:
            if tried + 1 == server.retry_policy.tries:
                raise
            time.sleep(server.retry_policy.pause(tried))
        # Looked up even where an answer came: an earlier one may have come to be meanwhile, and is the first.
        found = _by_title(server, title)
        if found is not None:
            return found
    raise DubitoError(f"the project {title!r} was made at {server.url}, and is not there", hint="look into its log.")


# What people said in a project, as one label an item.


def pull(project: LabelStudioProject) -> Gathered:
    """The label that most people gave each item of ours, with their agreement; skipped and tied ones apart."""
    return gather_answers(project.read_state().said)
