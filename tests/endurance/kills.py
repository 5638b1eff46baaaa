"""Kill -9 again and again while people label: what was acknowledged is there, once, and nothing else is."""

import random
import secrets
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from endurance.servers import Client, Server
from labelling.projects import truth

PEOPLE = 8
ENOUGH = 10
"""Labels that are acknowledged before the next kill."""


class Person(threading.Thread):
    """Labels, skips and undoes until told to stop; sends again, with the same key, what was not acknowledged."""

    def __init__(self, number: int, get_server: Any) -> None:
        super().__init__(daemon=True)
        self.who, self._get = f"person-{number}", get_server
        self.stopped = threading.Event()
        self.acknowledged: dict[str, tuple[int, dict[str, Any]]] = {}
        """By key: the number of the event, and what was sent."""
        self.sent_again = 0
        self.odd: list[str] = []
        self._chance = random.Random(number)

    def run(self) -> None:
        """Work."""
        while not self.stopped.is_set():
            with Client(self._get()) as client:
                status, found = client.ask("GET", "/api/next", annotator=self.who, count=4)
            if status != 200 or not found["items"]:
                time.sleep(0.02)
                continue
            for item in found["items"]:
                self._send("/api/labels", self._label(item["row"]))
                if self._chance.random() < 0.05:
                    self._send("/api/undo", {"key": secrets.token_hex(8), "annotator": self.who})

    def _label(self, row: int) -> dict[str, Any]:
        label = None if self._chance.random() < 0.05 else truth(row)
        return {"key": secrets.token_hex(8), "annotator": self.who, "row": row, "class": label, "guess_seen": False}

    def _send(self, path: str, body: dict[str, Any]) -> None:
        """Until there is an answer."""
        for turn in range(10_000):
            with Client(self._get()) as client:
                status, answer = client.ask("POST", path, body)
            if status in (200, 201):
                self.acknowledged[body["key"]] = answer["event"], {**body, "path": path}
                self.sent_again += turn > 0
                return
            if status == 409 and path == "/api/undo":
                return
            if status not in (0, 507):
                self.odd.append(f"{status} {answer}")
                return
            time.sleep(0.01)


def kill_again_and_again(
    project: Path, n_kills: int, seed: int = 0, every: float = 0.7, n_people: int = PEOPLE
) -> dict[str, Any]:
    """So many kills while people label; what was found out about the log."""
    chance = random.Random(seed)
    server = Server(project)
    people = [Person(number, lambda: server) for number in range(n_people)]
    for person in people:
        person.start()
    starts = []
    for _ in range(n_kills):
        _wait_for_labels(people)
        time.sleep(chance.uniform(0.05, 2 * every))
        port = str(server.port)
        server.kill()
        server = Server(project, "--port", port)
        starts.append(server.seconds)
    _wait_for_labels(people)
    time.sleep(0.5)
    for person in people:
        person.stopped.set()
    for person in people:
        person.join(timeout=120)
    server.stop()
    return {"kills": n_kills, "people": n_people, "restart_s": _spread(starts), **check_log(project, people)}


def _wait_for_labels(people: list[Person], seconds: float = 60.0) -> None:
    """Until some more are acknowledged, so that a kill comes in the middle of work; not without end, as all may be."""
    wanted, end = _acknowledged(people) + ENOUGH, time.monotonic() + seconds
    while _acknowledged(people) < wanted and time.monotonic() < end:
        time.sleep(0.01)


def _acknowledged(people: list[Person]) -> int:
    return sum(len(person.acknowledged) for person in people)


def _spread(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {"median": round(ordered[len(ordered) // 2], 3), "most": round(ordered[-1], 3)}


def check_log(project: Path, people: list[Person]) -> dict[str, Any]:
    """Every acknowledged event is in the log once and as it was sent; numbers have no gap; SQLite finds no damage."""
    connection = sqlite3.connect(project / "labels.sqlite")
    integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
    rows = connection.execute("SELECT number, key, kind, annotator, item, label FROM dubito_events ORDER BY number")
    log = {key: (number, kind, who, item, label) for number, key, kind, who, item, label in rows}
    n_rows = connection.execute("SELECT count(*) FROM dubito_events").fetchone()[0]
    connection.close()
    lost, changed = [], []
    for person in people:
        for key, (number, sent) in person.acknowledged.items():
            if key not in log:
                lost.append(key)
            elif log[key][0] != number or log[key][2] != person.who or not _is_same(log[key], sent):
                changed.append(key)
    return {
        "acknowledged": _acknowledged(people),
        "in_the_log": n_rows,
        "lost": len(lost),
        "changed": len(changed),
        "doubled": n_rows - len(log),
        "gaps": n_rows - max((entry[0] for entry in log.values()), default=0),
        "sent_again": sum(person.sent_again for person in people),
        "odd": [each for person in people for each in person.odd][:10],
        "integrity": integrity,
    }


def _is_same(entry: tuple[int, str, str, int, str | None], sent: dict[str, Any]) -> bool:
    if sent["path"] == "/api/undo":
        return entry[1] == "undo"
    return (entry[3], entry[4]) == (sent["row"], sent["class"])
