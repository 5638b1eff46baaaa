"""A large pool: how long the next item and the map take, and a restart."""

import secrets
import time
from pathlib import Path
from typing import Any

import numpy as np

from dubito.labeling.creation import open_project
from endurance.crowd import spread
from endurance.servers import Client, serving


def measure(folder: Path, n_rows: int, width: int = 64, n_asked: int = 200) -> dict[str, Any]:
    """A pool of clusters with so many rows, labeled a little."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 10, n_rows)
    features = (rng.normal(size=(10, width))[kind] * 3 + rng.normal(size=(n_rows, width))).astype(np.float32)
    np.savez(folder / "pool.npz", features=features, ids=np.array([f"item-{row:06d}" for row in range(n_rows)]))
    project, _ = open_project(str(folder / "pool.npz"), classes=[str(each) for each in range(10)])
    with serving(Path(project.folder)) as server, Client(server) as client:
        begun = time.perf_counter()
        while client.ask("GET", "/api/project")[1]["round"] == 0:
            time.sleep(0.02)
        first = time.perf_counter() - begun
        while client.ask("GET", "/api/map")[1]["n"] == 0:
            time.sleep(0.02)
        nexts, labels = _some(client, kind, n_asked)
        maps = []
        for _ in range(5):
            begun = time.perf_counter()
            client.ask("GET", "/api/map")
            maps.append(1000 * (time.perf_counter() - begun))
        rounds = client.ask("GET", "/api/project")[1]["round"]
        started = server.seconds
    with serving(Path(project.folder)) as again:
        restarted = again.seconds
    return {
        "items": n_rows,
        "width": width,
        "start_s": round(started, 2),
        "first_picks_s": round(first, 2),
        "restart_s": round(restarted, 2),
        "labels": n_asked,
        "rounds": rounds,
        "next_ms": spread(nexts),
        "label_ms": spread(labels),
        "map_ms": spread(maps),
    }


def _some(client: Client, kind: Any, n_asked: int) -> tuple[list[float], list[float]]:
    nexts, labels = [], []
    for _ in range(n_asked):
        begun = time.perf_counter()
        _, found = client.ask("GET", "/api/next", annotator="ann", count=1)
        nexts.append(1000 * (time.perf_counter() - begun))
        row = found["items"][0]["row"]
        body = {"key": secrets.token_hex(8), "annotator": "ann", "row": row, "class": str(kind[row])}
        begun = time.perf_counter()
        client.ask("POST", "/api/labels", {**body, "guess_seen": False})
        labels.append(1000 * (time.perf_counter() - begun))
    return nexts, labels
