"""Whatever stops a labeling server, again and again while people label: what was acknowledged is there, once."""

import csv
import random
import secrets
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import text

from dubito.labeling.database import open_engine
from dubito.labeling.project import read_project
from endurance.crowd import spread
from endurance.servers import Client, Server, start_process
from labeling.projects import CLASSES
from postgres.cluster import Cluster

ENOUGH = 10
"""Answers that are acknowledged before the next fault."""
PASSING = (0, 503, 507)
"""What a client may be reported while something is broken: no answer, not now, no room. It sends the same again."""
PATIENCE = 120.0
"""Seconds after which a request that is sent again and again is given up."""
PROMPT = 5.0
"""Seconds within which requests are answered once the cause of a fault is gone."""
FAULTS = ("lost", "changed", "doubled", "gaps", "unasked", "wrong_items", "slow", "tracebacks")
"""What is counted, and must be 0."""


Entry = tuple[int, str, str, str, int, str | None]


class Service:
    """A server, and what it depends on."""

    def __init__(self, project: Path, cluster: Cluster | None = None, disk: Path | None = None) -> None:
        self.project, self.cluster, self.disk = project, cluster, disk
        self.server = Server(project)
        self.restarts: list[float] = []
        self.said: list[str] = []
        self.refused: Counter[int] = Counter()
        """How often clients received what is in `PASSING`."""

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self.said.append(self.server.kill())

    def start(self) -> None:
        """Start it again, where clients expect it."""
        self.server = Server(self.project, "--port", str(self.server.port))
        self.restarts.append(self.server.seconds)

    def stop(self) -> None:
        """End it as Ctrl-C does, if it runs."""
        if self.server.process.poll() is None:
            self.said.append(self.server.stop())


Cause = Callable[[Service, random.Random], None]
"""Breaks something, and returns once the cause is gone."""


def kill(service: Service, chance: random.Random) -> None:
    """Kill the server: in some cases while a round is under way, or just over; in some again while it starts."""
    if chance.random() < 0.2:
        with Client(service.server) as client:
            client.ask("POST", "/api/round")
        time.sleep(chance.uniform(0.0, 4.0))
    service.kill()
    if chance.random() < 0.25:
        early = start_process(service.project, "--port", str(service.server.port), errors=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.0, 2.5))
        early.kill()
        early.communicate()
    service.start()


def restart_database(service: Service, chance: random.Random) -> None:
    """Stop PostgreSQL at once, as a crash would, leave it down for a moment, and start it."""
    assert service.cluster is not None
    service.cluster.stop()
    time.sleep(chance.choice([0.0, 0.5, 2.0]))
    service.cluster.start()


def cut_connections(service: Service, chance: random.Random) -> None:
    """End the connections of PostgreSQL."""
    assert service.cluster is not None
    service.cluster.end_connections()


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
connection.execute("BEGIN IMMEDIATE")
print(flush=True)
sys.stdin.read()
"""


def lock_database(service: Service, chance: random.Random) -> None:
    """Another program locks the SQLite file: for a moment, or for longer than the server waits (10 s)."""
    command = [sys.executable, "-c", HOLDER, str(service.project / "labels.sqlite")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        time.sleep(12.0 if chance.random() < 0.1 else chance.uniform(0.2, 3.0))


def fill_disk(service: Service, chance: random.Random) -> None:
    """Fill the disk that the labels are on until requests are refused; in some cases kill the server then."""
    assert service.disk is not None
    filler, before = service.disk / "filler", service.refused.total()
    room = chance.choice([0, 4096, chance.randrange(300_000)])
    with filler.open("wb", buffering=0) as file:
        while (free := shutil.disk_usage(service.disk).free - room) > 0:
            file.write(bytes(min(free, 1 << 20)))
    end = time.monotonic() + 10.0
    while service.refused.total() < before + 3 and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(chance.uniform(0.0, 0.5))
    is_killed = chance.random() < 0.2
    if is_killed:
        service.kill()
    filler.unlink()
    if service.cluster is not None:
        service.cluster.start_again()
    if is_killed:
        service.start()


class Person(threading.Thread):
    """Labels, relabels, skips and undoes rows of their own; sends again, by the same key, what was not acknowledged."""

    def __init__(self, number: int, rows: Sequence[int], service: Service, pause: float) -> None:
        super().__init__(daemon=True)
        self.who, self._rows, self._service, self._pause = f"person-{number}", rows, service, pause
        self.stopped, self.going, self.busy = threading.Event(), threading.Event(), threading.Lock()
        self.going.set()
        self.acknowledged: dict[str, tuple[int, str, int, str | None]] = {}
        """By key: the number of the event, its kind, the row, and the class."""
        self.standing: list[tuple[int, str | None]] = []
        """Answers that were not undone."""
        self.sent_again = 0
        self.odd: list[str] = []
        self._chance = random.Random(number)

    def run(self) -> None:
        """Work until stopped; between two requests whenever somebody looks."""
        while not self.stopped.is_set():
            self.going.wait()
            with self.busy:
                self.step()
            time.sleep(self._pause)

    def step(self) -> None:
        """One request, until it is answered."""
        draw = self._chance.random()
        if draw < 0.1:
            self._ask("GET", "/api/next", annotator=self.who, count=4)
        elif draw < 0.2 and self.standing:
            self._undo()
        elif draw < 0.25:
            self._label_many()
        else:
            self.label()

    def label(self) -> None:
        """Label or skip a row."""
        row, label = self._chance.choice(self._rows), self._chance.choice([*CLASSES, *CLASSES, None])
        key = secrets.token_hex(8)
        body = {"key": key, "annotator": self.who, "row": row, "class": label, "guess_seen": False}
        if (answer := self._ask("POST", "/api/labels", body)) is not None:
            self._keep(key, answer["event"], row, label)

    def _label_many(self) -> None:
        label = self._chance.choice(CLASSES)
        labels: list[dict[str, Any]] = [
            {"key": secrets.token_hex(8), "row": row, "class": label} for row in self._chance.sample(self._rows, 3)
        ]
        answer = self._ask("POST", "/api/labels/many", {"annotator": self.who, "labels": labels})
        for each, number in zip(labels, [] if answer is None else answer["events"], strict=answer is not None):
            self._keep(each["key"], number, each["row"], label)

    def _keep(self, key: str, number: int, row: int, label: str | None) -> None:
        self.acknowledged[key] = number, "skip" if label is None else "label", row, label
        self.standing.append((row, label))

    def _undo(self) -> None:
        key = secrets.token_hex(8)
        if (answer := self._ask("POST", "/api/undo", {"key": key, "annotator": self.who})) is not None:
            row, _ = self.standing.pop()
            self.acknowledged[key] = answer["event"], "undo", row, None

    def _ask(self, method: str, path: str, body: Any = None, **query: object) -> Any:
        """Until there is an answer; None, and a note of it, where there is none or an odd one."""
        end, turn = time.monotonic() + PATIENCE, 0
        while time.monotonic() < end:
            with Client(self._service.server) as client:
                status, answer = client.ask(method, path, body, **query)
            if status in (200, 201):
                self.sent_again += turn > 0
                return answer
            if status not in PASSING:
                self.odd.append(f"{path}: {status} {answer}")
                return None
            self._service.refused[status] += 1
            turn += 1
            time.sleep(0.02)
        self.odd.append(f"{path}: not answered in {PATIENCE:.0f} s")
        return None


@contextmanager
def quiet(people: Sequence[Person]) -> Iterator[None]:
    """Nobody has a request under way while the block runs."""
    for person in people:
        person.going.clear()
    for person in people:
        person.busy.acquire()
    try:
        yield
    finally:
        for person in people:
            person.busy.release()
            person.going.set()


def read_log(project: Path) -> list[Entry]:
    """The number, key, kind, annotator, row and class of every event."""
    found = read_project(str(project))
    query = text("SELECT number, key, kind, annotator, item, label FROM dubito_events ORDER BY number")
    with open_engine(found.folder, found.store, read_only=True).connect() as connection:
        return [(*row,) for row in connection.execute(query)]


def read_labels(server: Server) -> dict[int, str]:
    """The labels that a server exports, by row."""
    with Client(server) as client:
        status, exported = client.ask("GET", "/api/export", format="csv")
    assert status == 200, exported
    return {int(each["index"]): each["label"] for each in csv.DictReader(exported.decode().splitlines())}


def compare(log: Sequence[Entry], exported: Mapping[int, str], people: Sequence[Person]) -> Counter[str]:
    """Hold the log, and the labels that are exported, against what was acknowledged."""
    by_key = {entry[1]: entry for entry in log}
    sent = {
        key: (number, key, kind, person.who, row, label)
        for person in people
        for key, (number, kind, row, label) in person.acknowledged.items()
    }
    last = {row: label for person in people for row, label in person.standing}
    return Counter(
        lost=len(sent.keys() - by_key.keys()),
        changed=sum(by_key[key] != sent[key] for key in sent.keys() & by_key.keys()),
        doubled=len(log) - len(by_key),
        gaps=(log[-1][0] if log else 0) - len(log),
        unasked=len(by_key.keys() - sent.keys()),
        wrong_items=sum(exported.get(row) != last.get(row) for row in exported.keys() | last.keys()),
    )


def check(service: Service, people: Sequence[Person]) -> Counter[str]:
    """Compare what a server that nobody asks at the moment has with what was acknowledged."""
    return compare(read_log(service.project), read_labels(service.server), people)


def endure(
    service: Service,
    causes: Sequence[Cause],
    n_people: int = 8,
    seed: int = 0,
    pause: float = 0.01,
    name: str = "",
) -> dict[str, Any]:
    """Cause faults one after another while people label, and check everything after each."""
    chance = random.Random(seed)
    with Client(service.server) as client:
        n_rows = client.ask("GET", "/api/project")[1]["items"]
    # Half of the items stay unlabeled, so that there is always something to learn and pick.
    people = [
        Person(number, range(number, n_rows // 2, n_people + 1), service, pause) for number in range(n_people + 1)
    ]
    *crowd, probe = people
    found, recoveries = Counter[str](), list[float]()
    try:
        for person in crowd:
            person.start()
        for number, cause in enumerate(causes, start=1):
            _wait_for_answers(people)
            time.sleep(chance.uniform(0.0, 0.5))
            cause(service, chance)
            begun = time.monotonic()
            probe.label()
            with quiet(crowd):
                recoveries.append(time.monotonic() - begun)
                found += check(service, people)
            found["slow"] += recoveries[-1] > PROMPT
            if name and (number % 5 == 0 or number == len(causes)):
                _tell(f"{name}: {number} of {len(causes)}", people, found)
        n_rounds = _learn(service)
        for person in crowd:
            person.stopped.set()
        for person in crowd:
            person.join(timeout=2 * PATIENCE)
        found += check(service, people)
    finally:
        for person in crowd:
            person.stopped.set()
        service.stop()
    found["tracebacks"] = sum("Traceback" in said for said in service.said)
    return {
        "faults": len(causes),
        "people": n_people,
        "acknowledged": sum(len(person.acknowledged) for person in people),
        **{each: found[each] for each in FAULTS},
        "sent_again": sum(person.sent_again for person in people),
        "refused": {str(status): n for status, n in sorted(service.refused.items())},
        "odd": [each for person in people for each in person.odd][:10],
        "recovery_s": spread(recoveries, 3),
        **({"restart_s": spread(service.restarts, 3)} if service.restarts else {}),
        "rounds": n_rounds,
        "integrity": _integrity(service),
        "said": [said[-2000:] for said in service.said if "Traceback" in said][:3],
    }


def _tell(what: str, people: Sequence[Person], found: Counter[str]) -> None:
    wrong = {each: found[each] for each in FAULTS if found[each]} or "nothing wrong"
    acknowledged = sum(len(person.acknowledged) for person in people)
    print(f"{what}, {acknowledged:,} acknowledged, {wrong}", flush=True)


def _wait_for_answers(people: Sequence[Person], seconds: float = 60.0) -> None:
    """Until some more are acknowledged, so that a fault comes in the middle of work."""
    end, wanted = time.monotonic() + seconds, sum(len(person.acknowledged) for person in people) + ENOUGH
    while sum(len(person.acknowledged) for person in people) < wanted and time.monotonic() < end:
        time.sleep(0.01)


def _learn(service: Service, seconds: float = 300.0) -> int:
    """Ask for a round and wait until it is finished; its number, or 0 where it never is."""
    end = time.monotonic() + seconds
    with Client(service.server) as client:
        before = client.ask("GET", "/api/project")[1]["round"]
        client.ask("POST", "/api/round")
        while time.monotonic() < end:
            if (now := int(client.ask("GET", "/api/project")[1]["round"])) > before:
                return now
            time.sleep(0.1)
    return 0


def _integrity(service: Service) -> str:
    path = service.project / "labels.sqlite"
    if not path.exists():
        return "ok"
    connection = sqlite3.connect(path)
    found = str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    connection.close()
    return found
