"""A user of the labeling page, who presses keys and records errors of the browser."""

import re
import time
from collections.abc import Callable
from typing import Any

from sklearn.datasets import load_digits

PATIENCE = 240.0
DIGITS = load_digits().target.tolist()

TRAIN = """async () => (await fetch(
  "/api/round", { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } },
)).status"""

OUTCOME = """before => {
  const id = document.querySelector(".caption .id");
  if (id && id.textContent !== before || document.querySelector(".stage .empty")) return "the next item, or none";
  const hint = document.querySelector(".is-hint");
  return hint && hint.textContent.includes("not on the screen yet") ? "too early" : null;
}"""


class Person:
    """One page in one browser, seen by a person."""

    def __init__(self, page: Any, address: str, name: str) -> None:
        self.page, self.address, self.name = page, address.split("?")[0], name
        self.complaints: list[str] = []
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on("dialog", self._refuse)

    def _hear(self, kind: str, text: str) -> None:
        if kind == "error":
            self.complaints.append(text)

    def _refuse(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def go_to(self, view: str) -> "Person":
        """A view by its name, once it is there."""
        place = {"label": "labeling", "grid": "gridding", "items": "listing"}
        place |= {"map": "mapping", "curve": "curving", "review": "reviewing"}
        if not self.page.url.endswith(f"#{view}"):
            self.page.goto(f"{self.address}#{view}")
        self.page.wait_for_selector(f".{place[view]}")
        return self

    def shown(self) -> str:
        """The id of the item on the stage, once it can be seen."""
        return str(self.page.wait_for_selector(".work:not(.is-coming) .caption .id").text_content())

    def answer(self) -> str:
        """What the digit on the stage is."""
        found = re.search(r"digit-(\d+)", self.shown())
        assert found
        return str(DIGITS[int(found[1])])

    def press(self, key: str) -> str:
        """A key that brings another item; returns the one that was there."""
        return self.answer_by(lambda: self.page.keyboard.press(key))

    def answer_by(self, action: Callable[[], object]) -> str:
        """A key or a click that brings another item; returns the one that was there."""
        before = self.shown()
        action()
        while self.page.wait_for_function(OUTCOME, arg=before).json_value() == "too early":
            # A round that came between the two lines above showed its item again.
            self.wait("() => !document.querySelector('.is-hint')")
            before = self.shown()
            action()
        return before

    def label(self, many: int) -> list[str]:
        """So many digits, each by the key of what it is; returns their ids."""
        return [self.press(self.answer()) for _ in range(many)]

    def wait(self, condition: str, argument: Any = None) -> None:
        """Until something is true in the page."""
        self.page.wait_for_function(condition, arg=argument)

    def ask(self, path: str) -> Any:
        """What the server answers this person's browser."""
        return self.page.evaluate("async path => await (await fetch(path)).json()", path)

    def standing(self) -> dict[str, Any]:
        """The project as the server has it."""
        return dict(self.ask("/api/project"))

    def labeled(self) -> int:
        return int(self.standing()["labeled"])

    def mine(self) -> int:
        """How many labels are this person's."""
        people = self.ask("/api/annotators")["annotators"]
        return int(next((each["labels"] for each in people if each["name"] == self.name), 0))

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Until something is true of the server."""
        give_up = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < give_up, f"{is_so} never came true"
            self.page.wait_for_timeout(100)

    def wait_for_model(self, labels: int = 1) -> None:
        """Until a model has learned from so many labels, and the page knows; asked for: the last round may be older."""
        assert self.page.evaluate(TRAIN) == 202
        self.wait_until(lambda: int(self.standing()["model"]["labels"]) >= labels)
        self.wait("() => /accuracy \\d+%/.test(document.getElementById('project-status').textContent)")
