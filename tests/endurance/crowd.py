"""Many people at once: nobody gets what enough others have, and nobody waits."""

import secrets
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from endurance.servers import Client, serving
from labeling.projects import truth


class Annotator(threading.Thread):
    """Labels until nothing is left, and notes how long each answer took."""

    def __init__(self, number: int, server: Any, pause: float) -> None:
        super().__init__(daemon=True)
        self.who, self._client, self._pause = f"annotator-{number}", Client(server), pause
        self.label_ms: list[float] = []
        self.next_ms: list[float] = []
        self.given: list[int] = []
        self.odd: list[str] = []

    def run(self) -> None:
        """Work."""
        while items := self._next():
            for item in items:
                self._label(item["row"])
                time.sleep(self._pause)
        self._client.close()

    def _next(self) -> list[dict[str, Any]]:
        for _ in range(2000):
            begun = time.perf_counter()
            status, found = self._client.ask("GET", "/api/next", annotator=self.who, count=8)
            self.next_ms.append(1000 * (time.perf_counter() - begun))
            if status != 200:
                self.odd.append(f"{status} {found}")
            elif found["items"] or not str(found["waiting"]).startswith("The first"):
                self.given += [item["row"] for item in found["items"]]
                return list(found["items"])
            time.sleep(0.05)
        return []

    def _label(self, row: int) -> None:
        body = {
            "key": secrets.token_hex(8),
            "annotator": self.who,
            "row": row,
            "class": truth(row),
            "guess_seen": False,
        }
        begun = time.perf_counter()
        status, answer = self._client.ask("POST", "/api/labels", body)
        self.label_ms.append(1000 * (time.perf_counter() - begun))
        if status != 201:
            self.odd.append(f"{status} {answer}")


def gather(project: Path, n_people: int, overlap: int, pause: float = 0.0) -> dict[str, Any]:
    """So many people label all of a project at once."""
    with serving(project) as server:
        people = [Annotator(number, server, pause) for number in range(n_people)]
        begun = time.perf_counter()
        for person in people:
            person.start()
        for person in people:
            person.join()
        seconds = time.perf_counter() - begun
        with Client(server) as client:
            _, facts = client.ask("GET", "/api/project")
        said = server.stop()
    holders: dict[int, set[str]] = defaultdict(set)
    for person in people:
        for row in person.given:
            holders[row].add(person.who)
    n_labels = sum(len(person.label_ms) for person in people)
    return {
        "people": n_people,
        "items": facts["items"],
        "overlap": overlap,
        "labels": n_labels,
        "labeled": facts["labeled"],
        "rounds": facts["round"],
        "seconds": round(seconds, 1),
        "labels_per_s": round(n_labels / seconds, 1),
        "beyond_overlap": sum(len(who) > overlap for who in holders.values()),
        "holders": {str(n): count for n, count in sorted(Counter(len(who) for who in holders.values()).items())},
        "label_ms": spread([ms for person in people for ms in person.label_ms]),
        "next_ms": spread([ms for person in people for ms in person.next_ms]),
        "odd": [each for person in people for each in person.odd][:10],
        "is_locked": "database is locked" in said,
    }


def spread(values: Sequence[float], digits: int = 1) -> dict[str, float]:
    """Median, 99th percentile and the longest."""
    ordered = sorted(values)
    places = {"median": len(ordered) // 2, "p99": min(len(ordered) - 1, int(0.99 * len(ordered))), "most": -1}
    return {name: round(ordered[place], digits) for name, place in places.items()}
