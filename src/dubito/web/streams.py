"""Changes as server-sent events, to every page that listens."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from dubito.labelling.desk import Desk
from dubito.labelling.views import model_facts, project_facts

PING = 15.0
"""Seconds after which a page that hears nothing is told that somebody is there."""
MOST_WAITING = 1000
"""Events that wait for a page that does not read."""


async def stream(desk: Desk, is_stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Events as they come; ends with the server."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(MOST_WAITING)

    def put(kind: str, facts: dict[str, Any]) -> None:
        if not waiting.full():
            waiting.put_nowait((kind, facts))

    def hear(kind: str, facts: dict[str, Any]) -> None:
        with suppress(RuntimeError):  # The server has just stopped.
            loop.call_soon_threadsafe(put, kind, facts)

    stop = desk.listen(hear)
    try:
        yield _event("ping", {})
        while not is_stopping.is_set():
            try:
                kind, facts = await asyncio.wait_for(waiting.get(), PING)
            except TimeoutError:
                kind, facts = "ping", {}
            yield _event(kind, _told(desk, kind, facts))
    finally:
        stop()


def _told(desk: Desk, kind: str, facts: dict[str, Any]) -> dict[str, Any]:
    if kind == "model":
        with desk.state.lock:
            return model_facts(desk)
    if kind == "project":
        found = project_facts(desk)
        return {name: found[name] for name in ("classes", "guidelines", "settings", "restricted")}
    return facts


def _event(kind: str, facts: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(facts)}\n\n".encode()
