"""What dubito and people do with a server, step by step: played against a real one to record, and then by the tests."""

import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dubito.cli import main
from dubito.integrations.exchange.items import ID, Gathered, Item
from dubito.integrations.label_studio import (
    AccessToken,
    PoolPicker,
    RetryPolicy,
    Server,
    Suggestion,
    find_project,
    pull,
    push,
    watch,
)
from dubito.integrations.label_studio.client import TOKEN_VARIABLE
from dubito.integrations.label_studio.projects import LabelStudioProject
from dubito.integrations.label_studio.pushing import SendOptions, send
from dubito.integrations.label_studio.watching import WatchPlan
from label_studio.exchanges import OWNER, PERSONAL, SECOND, Fault

PATIENT = RetryPolicy(timeout=60.0, tries=4, first_pause=0.01, longest_pause=0.05)
CLASSES = ["cat", "dog"]
Facts = dict[str, Any]


def server(url: str, token: str = OWNER) -> Server:
    return Server(url, AccessToken(token), PATIENT)


def items(n: int, kind: str = "text") -> list[Item]:
    return [Item(f"i{row:02d}", ID, kind, f"item {row}", {"source": "made up"}) for row in range(n)]


def points(n: int) -> Any:
    """Two heaps, of cats and of dogs."""
    rng = np.random.default_rng(3)
    return rng.normal(size=(n, 3)) + 4.0 * (np.arange(n) % 2)[:, None]


def truth(name: str) -> str:
    return CLASSES[int(name[1:]) % 2]


def answer(project: LabelStudioProject, number: int, label: str | None, token: str = OWNER) -> None:
    """A person chooses a class, or skips the task."""
    result = [] if label is None else project.control.result(label)
    body = {"result": result, "was_cancelled": label is None, "lead_time": 1.0}
    server(project.server.url, token).add(f"/api/tasks/{number}/annotations/", body)


def write_picks(folder: Path, n: int) -> str:
    path = folder / "batch.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["rank", "index", "id", "priority", "text"])
        table.writerows([row + 1, row, f"i{row:02d}", 1.0, f"item {row}"] for row in range(n))
    return str(path)


@contextmanager
def token(text: str) -> Iterator[None]:
    before = os.environ.get(TOKEN_VARIABLE)
    os.environ[TOKEN_VARIABLE] = text
    try:
        yield
    finally:
        del os.environ[TOKEN_VARIABLE]
        if before is not None:
            os.environ[TOKEN_VARIABLE] = before


def typed(*words: str, by: str = OWNER) -> int:
    with token(by):
        return main(["label-studio", *words])


# Scenarios


def commands(url: str, folder: Path) -> Facts:
    """Push, push again, people answer, skip and disagree, pull."""
    where = ("--url", url, "--project", "commands")
    picks, labels, apart = write_picks(folder, 8), str(folder / "labels.csv"), str(folder / "apart.csv")
    codes = [typed("push", picks, *where, "--classes", "cat,dog"), typed("push", picks, *where)]
    project = find_project(server(url), "commands")
    numbers = [task.id for task in project.tasks()]
    for place, said in enumerate(["cat", "dog", None, "cat", "cat"]):
        answer(project, numbers[place], said)
    answer(project, numbers[0], "cat", SECOND)
    answer(project, numbers[3], "dog", SECOND)
    codes += [typed("pull", *where, "-o", labels, "--skipped", apart) for _ in range(2)]
    shown = server(url).read(f"{project.path}/next")["data"]
    return {
        "codes": codes,
        "labels": Path(labels).read_text(),
        "apart": Path(apart).read_text(),
        "names": [task.name for task in project.tasks()],
        "next": shown,
    }


def personal(url: str, folder: Path) -> Facts:
    """The same by a personal token, whose access is refused once."""
    project = find_project(server(url, PERSONAL), "personal", classes=CLASSES, kind="text")
    pushed = push(project, [Suggestion(item, "cat", 0.75) for item in items(3)])
    again = push(project, [Suggestion(item) for item in items(3)])
    return {"added": pushed.added, "again": again.added, "names": [task.name for task in project.tasks()]}


def rounds(url: str, folder: Path, *, jump_ahead: bool = False, title: str = "rounds") -> Facts:
    """Watch for two rounds; people answer each as soon as it is sent, in the order in which the server hands it out."""
    project = find_project(server(url), title, classes=CLASSES, kind="text")
    picker = PoolPicker(points(40), items(40))
    kept: list[Gathered] = []
    handed: list[str] = []

    def tell(text: str) -> None:
        if "items sent" in text:
            for _ in range(6):
                task = server(url).read(f"{project.path}/next")
                handed.append(task["meta"][ID])
                answer(project, task["id"], truth(task["meta"][ID]))

    plan = WatchPlan(6, rounds=2, jump_ahead=jump_ahead, every=0.01)
    watch(project, picker, plan, keep=kept.append, tell=tell)
    tasks = server(url).read("/api/tasks", {"project": project.id, "fields": "all"})["tasks"]
    return {
        "handed": handed,
        "sent": [task["data"][ID] for task in tasks],
        "rounds": [task["meta"]["dubito_round"] for task in tasks],
        "labels": dict(zip(kept[-1].names, kept[-1].labels, strict=True)),
        "guesses": [[each["result"] for each in task["predictions"]] for task in tasks],
        "versions": sorted({each["model_version"] for task in tasks for each in task["predictions"]}),
    }


def jumping(url: str, folder: Path) -> Facts:
    return rounds(url, folder, jump_ahead=True, title="jumping")


def ahead_of(url: str, folder: Path) -> Facts:
    """Later picks before what is left of the first."""
    project = find_project(server(url), "ahead", classes=CLASSES, kind="text")
    push(project, [Suggestion(item) for item in items(4)])
    push(project, [Suggestion(item, "dog", 0.9) for item in items(7)[4:]], jump_ahead=True)
    push(project, [Suggestion(item, "dog", 0.9) for item in items(7)[4:]], jump_ahead=True)
    first = server(url).read(f"{project.path}/next")["meta"][ID]
    return {"first": first, "names": [task.name for task in project.tasks()]}


def lost(url: str, folder: Path) -> Facts:
    """The project's making, and the picks, are done though their answers are lost; and one request never arrives."""
    project = find_project(server(url), "lost", classes=CLASSES, kind="text")
    pushed = push(project, [Suggestion(item) for item in items(5)])
    return {"pushed": pushed, "names": [task.name for task in project.tasks()]}


def doubled(url: str, folder: Path) -> Facts:
    """A request that comes through twice, without an answer: the copies are taken away."""
    project = find_project(server(url), "doubled", classes=CLASSES, kind="text")
    pushed = push(project, [Suggestion(item) for item in items(3)])
    found = pull(project)
    return {"pushed": pushed, "names": [task.name for task in project.tasks()], "labels": found.labels}


def half(url: str, folder: Path) -> Facts:
    """A round of which only a part was sent is finished with the same picks."""
    project = find_project(server(url), "half", classes=CLASSES, kind="text")
    picker = PoolPicker(points(20), items(20))
    picks = picker({}, set(), 6)
    send(project, picks[:2], SendOptions(1, batch=6))
    answer(project, project.tasks()[0].id, "cat")
    said: list[str] = []

    def tell(text: str) -> None:
        said.append(text)
        for task in project.tasks()[1:]:
            answer(project, task.id, truth(task.name))

    watch(project, picker, WatchPlan(6, rounds=1, every=0.01), tell=tell)
    return {"picks": [pick.item.name for pick in picks], "names": [task.name for task in project.tasks()], "said": said}


def make_project(url: str, title: str, written: str) -> None:
    server(url).add("/api/projects/", {"title": title, "label_config": written})


def finished(url: str, folder: Path) -> Facts:
    """A round that is answered: the command writes its labels, and ends; so it does where the pool is at its end."""
    project = find_project(server(url), "finished", classes=CLASSES, kind="text")
    with (folder / "pool.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "text", "x", "y", "z"])
        table.writerows([f"i{row:02d}", f"item {row}", *map(float, point)] for row, point in enumerate(points(6)))
    send(project, [Suggestion(item) for item in items(6)], SendOptions(1, batch=6))
    for task in project.tasks():
        answer(project, task.id, truth(task.name))
    words = ["watch", str(folder / "pool.csv"), "--ignore-columns", "text", "--url", url, "--project", "finished"]
    words += ["-b", "6", "-o", str(folder / "labels.csv")]
    codes = [typed(*words, "--rounds", "1"), typed(*words)]
    return {"codes": codes, "labels": (folder / "labels.csv").read_text()}


def config(tag: str, *controls: str, more: str = "") -> str:
    choices = '<Choice value="cat"/><Choice value="dog" alias="hound"/>'
    written = [f'<Choices name="{name}" toName="item"{more}>{choices}</Choices>' for name in controls]
    return f"<View>{tag}{''.join(written)}</View>"


TEXT = '<Text name="item" value="$text"/>'
CONFIGS = {
    "no choices": f'<View>{TEXT}<TextArea name="words" toName="item"/></View>',
    "two choices": config(TEXT, "a", "b"),
    "several at once": config(TEXT, "a", more=' choice="multiple"'),
    "pictures": config('<Image name="item" value="$image"/>', "a"),
    "other words": config('<Text name="item" value="$sentence"/>', "mood"),
}


def refusals(url: str, folder: Path) -> Facts:
    """Whatever a person may get wrong, by the command line."""
    picks, labels = write_picks(folder, 2), str(folder / "labels.csv")
    for title, written in CONFIGS.items():
        make_project(url, title, written)
    make_project(url, "twice", CONFIGS["pictures"])
    make_project(url, "twice", CONFIGS["pictures"])
    tries: Sequence[tuple[str, ...]] = [
        ("pull", "--url", url, "--project", "4711", "-o", labels),
        ("pull", "--url", url, "--project", "nowhere", "-o", labels),
        ("push", picks, "--url", url, "--project", "nowhere"),
        ("pull", "--url", url, "--project", "twice", "-o", labels),
        ("pull", "--url", f"{url}/projects", "--project", "twice", "-o", labels),
        *(("push", picks, "--url", url, "--project", title) for title in list(CONFIGS)[:4]),
        ("push", picks, "--url", url, "--project", "other words", "--classes", "cat,hund"),
        ("push", picks, "--url", url, "--project", "other words", "--local-files", "/nowhere/photos"),
    ]
    codes = [typed(*words) for words in tries]
    return {"codes": [*codes, typed(*tries[0], by="not-a-token")]}


def other_field(url: str, folder: Path) -> Facts:
    """A project that was there before, with names of its own."""
    make_project(url, "sentences", CONFIGS["other words"])
    project = find_project(server(url), "sentences", kind="text")
    push(project, [Suggestion(item, "hound", 0.5) for item in items(2)])
    task = server(url).read(f"{project.path}/next")
    return {"control": project.control, "data": task["data"], "guess": task["predictions"][0]["result"]}


SCENARIOS: Mapping[str, tuple[Callable[[str, Path], Facts], Sequence[Fault]]] = {
    "commands": (commands, ()),
    "personal": (personal, [Fault("POST", "/import", 1, "spoil")]),
    "rounds": (rounds, ()),
    "jumping": (jumping, ()),
    "ahead": (ahead_of, ()),
    "lost": (
        lost,
        [
            Fault("POST", "/api/projects/", 1, "lose"),
            Fault("POST", "/import", 1, "cut"),
            Fault("POST", "/import", 2, "lose"),
            Fault("GET", "/api/tasks", 2, "lose"),
        ],
    ),
    "doubled": (doubled, [Fault("POST", "/import", 1, "double")]),
    "half": (half, ()),
    "finished": (finished, ()),
    "refusals": (refusals, ()),
    "fields": (other_field, ()),
}
