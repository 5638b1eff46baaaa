"""People who label what Label Studio hands them, as fast as it does, and remember what they said."""

import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from label_studio_live.servers import LabelStudio


class Handed(NamedTuple):
    """An item that somebody was shown, and answered."""

    who: str
    task: int
    name: str
    rank: int
    round: int


@dataclass
class Crowd:
    """Two people at one project. ``allowed`` says how many items may be answered so far.

    With SQLite, Label Studio gives one item to two people who ask for the next in the same moment. These ask one after
    the other, unless they ask ``at_once``.
    """

    server: LabelStudio
    project: int
    truth: Callable[[str], str]
    allowed: Callable[[], int]
    at_once: bool = False
    handed: list[Handed] = field(default_factory=list)
    taken: int = 0
    is_over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    asking: threading.Lock = field(default_factory=threading.Lock)

    def work(self, who: str) -> None:
        """Ask for the next item, answer it, and so on; where the server is away, try again."""
        token = self.server.tokens[who]
        while not self.is_over:
            if not self._may_take():
                time.sleep(0.05)
                continue
            while not self.is_over:
                try:
                    if self._answer_one(who, token):
                        break
                except OSError:
                    pass
                time.sleep(0.2)

    def _may_take(self) -> bool:
        with self.lock:
            if self.taken >= self.allowed():
                return False
            self.taken += 1
            return True

    def _answer_one(self, who: str, token: str) -> bool:
        """Whether there was one, and the answer is on the server."""
        try:
            with nullcontext() if self.at_once else self.asking:
                task = self.server.call("GET", f"/api/projects/{self.project}/next", token=token)
        except urllib.error.HTTPError as error:
            error.close()
            return False
        meta, data = task["meta"] or {}, task["data"]
        name = data["dubito_id"]
        with self.lock:
            self.handed.append(Handed(who, task["id"], name, meta.get("dubito_rank", 0), meta.get("dubito_round", 0)))
        choice = {"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": [self.truth(name)]}}
        body = {"result": [choice], "lead_time": 1.0}
        while not self.is_over:
            try:
                self.server.call("POST", f"/api/tasks/{task['id']}/annotations/", body, token=token)
                return True
            except OSError as error:
                if getattr(error, "code", None) == 404:
                    return True  # A copy, taken away meanwhile.
                time.sleep(0.5)
                if self._is_answered(task["id"], token):
                    return True
        return True

    def _is_answered(self, task: int, token: str) -> bool:
        while not self.is_over:
            try:
                found: Any = self.server.call("GET", f"/api/tasks/{task}/", token=token)
                return bool(found["annotations"])
            except OSError as error:
                if getattr(error, "code", None) == 404:
                    return True
                time.sleep(0.5)
        return True


@contextmanager
def labeling(
    server: LabelStudio,
    project: int,
    truth: Callable[[str], str],
    allowed: Callable[[], int] = lambda: 1 << 30,
    *,
    at_once: bool = False,
) -> Iterator[Crowd]:
    """Two people who label while the block runs."""
    crowd = Crowd(server, project, truth, allowed, at_once)
    threads = [threading.Thread(target=crowd.work, args=(who,), daemon=True) for who in ("owner", "second")]
    for thread in threads:
        thread.start()
    try:
        yield crowd
    finally:
        crowd.is_over = True
        for thread in threads:
            thread.join()
