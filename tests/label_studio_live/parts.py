"""What is tried against the real server, and what comes of it."""

import json
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from dubito.integrations.exchange.items import ID, Item
from dubito.integrations.label_studio import (
    AccessToken,
    LabelStudioProject,
    RetryPolicy,
    Server,
    Suggestion,
    find_project,
    pull,
    push,
)
from label_studio_live.people import Crowd, labeling
from label_studio_live.pools import CLASSES, read_table, run, start, truth, write_pool
from label_studio_live.proxy import HAPPENINGS, Network, between
from label_studio_live.servers import LabelStudio

Facts = dict[str, Any]
CHOICES = ",".join(CLASSES)
IGNORED = ("--ignore-columns", "text")
LASTS = 310.0
"""Seconds after which access has run out: it lasts 300."""


def project_of(studio: LabelStudio, title: str) -> LabelStudioProject:
    server = Server(studio.url, AccessToken(studio.tokens["owner"]), RetryPolicy())
    return find_project(server, title, classes=CLASSES, kind="text")


def wait_for(project: LabelStudioProject, n_answers: int) -> None:
    """Until there are so many answers."""
    while project.state()["total_annotations_number"] < n_answers:
        time.sleep(0.5)


def on_server(project: LabelStudioProject) -> Facts:
    """What the server holds in the end, read past dubito's own gathering: tasks by name, and answers."""
    read_state = project.read_state()
    names = Counter(task.name for task in read_state.tasks)
    said = {task.name: [each.label for each in read_state.answers.get(task.id, ())] for task in read_state.tasks}
    return {
        "order": [task.name for task in read_state.tasks],
        "rounds": [task.round for task in read_state.tasks],
        "doubled_tasks": sum(count - 1 for count in names.values()),
        "doubled_answers": sum(len(each) - 1 for each in said.values() if each),
        "said": {name: each[0] for name, each in said.items() if each},
    }


def order_of(crowd: Crowd, wanted: list[str]) -> Facts:
    """Whether people saw the picks in their order: all of the first, none twice, each person's in rising rank."""
    place = {name: rank for rank, name in enumerate(wanted)}
    mine = {who: [place[each.name] for each in crowd.handed if each.who == who] for who in ("owner", "second")}
    n = len(crowd.handed)
    return {
        "handed": n,
        "handed_twice": n - len({each.name for each in crowd.handed}),
        "by_each": sorted(map(len, mine.values())),
        "in_order": all(ranks == sorted(ranks) for ranks in mine.values()),
        "are_the_first": sorted(place[each.name] for each in crowd.handed) == list(range(n)),
    }


def many(studio: LabelStudio, folder: Path, n_rows: int, n_labels: int) -> Facts:
    """Many items pushed, and again; two people label the first of them."""
    pool, picks, labels = folder / "pool.csv", folder / "picks.csv", folder / "labels.csv"
    write_pool(pool, n_rows)
    run("select", pool, *IGNORED, "-b", n_rows, "-s", "coreset", "-o", picks)
    wanted = [row["id"] for row in read_table(picks)]
    token = studio.tokens["personal"]
    begun = time.monotonic()
    words = ("label-studio", "push", picks, "--project", "many", "--classes", CHOICES)
    run(*words, url=studio.url, token=token)
    seconds = time.monotonic() - begun
    again = run(*words, url=studio.url, token=token)
    project = project_of(studio, "many")
    with labeling(studio, project.id, truth, lambda: n_labels) as crowd:
        wait_for(project, n_labels)
    run("label-studio", "pull", "--project", "many", "-o", labels, url=studio.url, token=token)
    found, pulled = on_server(project), read_table(labels)
    return {
        "items": n_rows,
        "push_s": round(seconds, 1),
        "pushed_again": 0 if f"{n_rows} already there" in again else again,
        "order_is_that_of_the_picks": found["order"] == wanted,
        **order_of(crowd, wanted),
        "labels": len(pulled),
        "wrong": sum(row["label"] != truth(row["id"]) for row in pulled),
        "doubled": found["doubled_tasks"] + found["doubled_answers"],
    }


def at_once(studio: LabelStudio, n_labels: int) -> Facts:
    """How often two people who ask in the same moment are given the same item; their answers are two votes for it."""
    project = project_of(studio, "at once")
    push(project, [Suggestion(Item(f"t{row:05d}", ID, "text", f"text {row}", {})) for row in range(2 * n_labels)])
    with labeling(studio, project.id, truth, lambda: n_labels, at_once=True) as crowd:
        wait_for(project, n_labels)
    pulled = pull(project)
    handed = Counter(each.name for each in crowd.handed)
    return {
        "handed": len(crowd.handed),
        "handed_twice": sum(n > 1 for n in handed.values()),
        "labels": len(pulled.names),
        "two_votes": sum(n == 2 for n in pulled.votes),
        "lost": len(handed.keys() - set(pulled.names)),
    }


def by_files(studio: LabelStudio, folder: Path, pool: Path, batch: int, rounds: int) -> list[dict[str, str]]:
    """The same rounds without `dubito label-studio`: a person carries files to and fro."""
    project = project_of(studio, "by files")
    labels: list[dict[str, str]] = []
    picks = folder / "all.csv"
    for number in range(1, rounds + 1):
        known = ("--labeled", folder / "labels.csv") if labels else ()
        run("select", pool, *IGNORED, "-b", batch, *known, "--append", "-o", picks)
        part, tasks, exported = (folder / f"{name}-{number}" for name in ("picks.csv", "tasks.json", "export.json"))
        part = part.with_suffix(".csv")
        lines = picks.read_text(encoding="utf-8").splitlines()
        part.write_text("\n".join([lines[0], *lines[-batch:]]) + "\n", encoding="utf-8")
        run("export", part, "--to", "label-studio", "-o", tasks)
        studio.call("POST", f"{project.path}/import", json.loads(tasks.read_text(encoding="utf-8")))
        with labeling(studio, project.id, truth):
            wait_for(project, batch * number)
        answers = studio.call("GET", f"{project.path}/export?exportType=JSON")
        exported.write_text(json.dumps(answers), encoding="utf-8")
        run("import", exported, "--from", "label-studio", "-o", folder / "labels.csv", "--force")
        labels = read_table(folder / "labels.csv")
    return labels


def watching(
    studio: LabelStudio, folder: Path, n_rows: int, batch: int, rounds: int
) -> tuple[Facts, list[dict[str, str]]]:
    """Rounds by `watch`, with two people who label; and the same by files alone."""
    pool, labels = folder / "pool.csv", folder / "watched.csv"
    write_pool(pool, n_rows)
    project = project_of(studio, "watching")
    words = (
        "label-studio",
        "watch",
        pool,
        *IGNORED,
        "-b",
        batch,
        "--project",
        "watching",
        "-o",
        labels,
        "--rounds",
        rounds,
    )
    process = start(*words, "--every", 1, url=studio.url, token=studio.tokens["personal"])
    with labeling(studio, project.id, truth) as crowd:
        said = process.communicate()[1]
    assert process.returncode == 0, said
    found, watched = on_server(project), read_table(labels)
    plain = by_files(studio, folder, pool, batch, rounds)
    return {
        "rounds": rounds,
        "batch": batch,
        **order_of(crowd, found["order"]),
        "labels": len(watched),
        "doubled": found["doubled_tasks"] + found["doubled_answers"],
        "equal_to_files": watched == plain,
    }, watched


def faults(
    studio: LabelStudio,
    folder: Path,
    wanted: list[dict[str, str]],
    n_rows: int,
    batch: int,
    rounds: int,
    kills: int,
    restarts: int,
) -> Facts:
    """The same rounds while answers are lost and late, the bridge is killed, the server restarts and lines are cut."""
    pool, labels = folder / "pool.csv", folder / "faulty.csv"
    write_pool(pool, n_rows)
    project = project_of(studio, "faults")
    network = Network(studio.port, HAPPENINGS)
    killer = Killer(network, random.Random(5))
    words = [
        "label-studio",
        "watch",
        pool,
        *IGNORED,
        "-b",
        batch,
        "--project",
        "faults",
        "-o",
        labels,
        "--rounds",
        rounds,
    ]
    words += ["--every", 1, "--timeout", 4]

    def allowed() -> int:
        return batch * rounds * (killer.kills + 1) // (kills + 1) if killer.kills < kills else 1 << 30

    away: list[float] = []
    with between(network) as url, labeling(studio, project.id, truth, allowed) as crowd:
        while killer.kills < kills:
            killer.live(start(*words, url=url, token=studio.tokens["personal"], tasks=max(2, batch // 8)))
            if killer.kills % max(1, kills // (restarts + 1)) == 0 and len(away) < restarts:
                studio.kill()
                away.append(round(studio.start(), 1))
            network.is_cut = killer.kills % 7 == 3
            threading.Timer(3.0, lambda: setattr(network, "is_cut", False)).start()
        process = start(*words, url=url, token=studio.tokens["personal"], tasks=max(2, batch // 8))
        said = process.communicate()[1]
        assert process.returncode == 0, said
        time.sleep(network.late + 1.0)
    found, kept = on_server(project), read_table(labels)
    by_name = {row["id"]: row["label"] for row in kept}
    return {
        "kills": killer.kills,
        "killed_at": dict(killer.moments),
        "requests": sum(network.happened[name] for name in ("passed", "cut", *HAPPENINGS)),
        "happened": dict(sorted(network.happened.items())),
        "imports": sum(network.to_imports.values()),
        "imports_disturbed": sum(network.to_imports[name] for name in HAPPENINGS),
        "copies_removed": network.removed,
        "server_restarts_s": away,
        "labels": len(kept),
        "handed": len(crowd.handed),
        "handed_twice": len(crowd.handed) - len({each.name for each in crowd.handed}),
        "lost": sum(found["said"].get(each.name) is None for each in crowd.handed)
        + sum(by_name.get(name) != label for name, label in found["said"].items()),
        "wrong": sum(label != truth(name) for name, label in by_name.items()),
        "doubled_tasks": found["doubled_tasks"],
        "doubled_answers": found["doubled_answers"],
        "equal_to_no_faults": {row["id"]: row["label"] for row in wanted} == by_name,
    }


class Killer:
    """Kills dubito: as soon as the network has seen some number of its requests, or after a while."""

    def __init__(self, network: Network, rng: random.Random) -> None:
        self.rng, self.kills, self.moments = rng, 0, Counter[str]()
        self._seen, self._at, self._when = 0, 0, "before"
        self._is_due = threading.Event()
        network.noticed = self.notice

    def notice(self, moment: str, method: str, path: str) -> None:
        if moment == self._when:
            self._seen += 1
            if self._seen == self._at:
                what = path.partition("?")[0].rstrip("/").rpartition("/")[2]
                self.moments[f"{moment} {method} {'project' if what.isdigit() else what}"] += 1
                self._is_due.set()

    def live(self, process: Any) -> None:
        """One life of it."""
        self._is_due.clear()
        self._seen, self._when = 0, self.rng.choice(["before", "after"])
        by_clock = self.rng.random() < 0.25
        self._at = 1 << 30 if by_clock else self.rng.randint(1, 16)
        if not self._is_due.wait(self.rng.uniform(0.5, 12.0) if by_clock else 120.0):
            self.moments["by the clock"] += 1
        assert process.poll() is None, process.communicate()[1]
        process.kill()
        process.communicate()
        self.kills += 1


def begin_expiry(studio: LabelStudio, url: str) -> tuple[Server, float]:
    """A personal token is traded, and the access waits until it has run out."""
    server = Server(url, AccessToken(studio.tokens["personal"]), RetryPolicy())
    find_project(server, "expiry", classes=CLASSES, kind="text")
    return server, time.monotonic()


def end_expiry(server: Server, begun: float, network: Network, wait: float = LASTS) -> Facts:
    """A push with access that has run out."""
    traded: list[str] = []
    network.noticed = lambda moment, method, path: (
        traded.append(path) if "refresh" in path and moment == "after" else None
    )
    waited = time.monotonic() - begun
    time.sleep(max(0.0, wait - waited))
    project = find_project(server, "expiry")
    items = [Suggestion(Item(f"t{row:05d}", ID, "text", "a text", {})) for row in range(10)]
    pushed = push(project, items)
    return {
        "waited_s": round(max(waited, wait)),
        "pushed": pushed.added,
        "traded_again": len(traded),
        "on_the_server": len(project.tasks()),
    }
