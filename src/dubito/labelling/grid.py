"""Items by what the model takes them for: a screen of one class, where a person marks the odd ones."""

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TypeVar

import numpy as np

from dubito.labelling.state import State

Before = TypeVar("Before")
After = TypeVar("After")


def guessed_items(state: State, annotator: str, now: float) -> dict[str, list[int]]:
    """By class, the items that nobody has answered and this person may be asked for, the surest first."""
    model = state.model
    if model is None or model.probabilities is None:
        return {}
    is_left = np.ones(len(state.contents), dtype=np.bool_) if state.is_open is None else state.is_open.copy()
    if state.book.answers:
        is_left[[item for item, said in state.book.answers.items() if said]] = False
    for item in state.waiting.held(now):
        is_left[item] &= state.waiting.may_hold(item, annotator, now)
    rows = np.flatnonzero(is_left)
    likeliest, sure = model.probabilities[rows].argmax(axis=1), model.probabilities[rows].max(axis=1)
    order = np.argsort(-sure, kind="stable")
    return {
        name: rows[order[likeliest[order] == place]].tolist()
        for place, name in enumerate(model.classes)
        if (likeliest == place).any()
    }


def then(future: "Future[Before]", change: "Callable[[Future[Before]], After]") -> "Future[After]":
    """A future of what becomes of another's result."""
    changed: Future[After] = Future()

    def settle(done: "Future[Before]") -> None:
        if not changed.set_running_or_notify_cancel():
            return
        try:
            changed.set_result(change(done))
        except (Exception, CancelledError) as error:
            changed.set_exception(error)

    future.add_done_callback(settle)
    return changed
