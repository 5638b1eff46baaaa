"""``python -m endurance``: play the long forms one after another, record what they found, and write the page of it."""

import argparse
import json
import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from endurance.crowd import gather
from endurance.fuzzing import fuzz
from endurance.hour import play
from endurance.kills import kill_again_and_again
from endurance.large import measure
from endurance.page import page
from endurance.servers import CORES, serving
from labelling.projects import make_project
from postgres.cluster import Cluster, programs

Part = Callable[[Path], dict[str, Any]]


def kills(folder: Path) -> dict[str, Any]:
    """A hundred kills while eight people label."""
    return kill_again_and_again(Path(make_project(folder, n_rows=100_000)[0].folder), n_kills=100)


def crowd(folder: Path) -> dict[str, Any]:
    """Sixteen people, ten thousand items, each of which two of them answer."""
    return gather(Path(make_project(folder, n_rows=10_000, overlap=2)[0].folder), n_people=16, overlap=2)


def crowd_postgres(folder: Path) -> dict[str, Any]:
    """The same in PostgreSQL."""
    place = programs()
    assert place is not None, "there is no PostgreSQL here: apt install postgresql"
    server = Cluster(place)
    try:
        project, _ = make_project(folder, n_rows=10_000, overlap=2, store=server.url)
        return gather(Path(project.folder), n_people=16, overlap=2)
    finally:
        server.remove()


def requests(folder: Path) -> dict[str, Any]:
    """Ten thousand requests that are made up."""
    project, _ = make_project(folder)
    with serving(Path(project.folder)) as server:
        return fuzz(server, 16_000)


def hour(folder: Path) -> dict[str, Any]:
    """Six hundred labels on two thousand pictures, three a second at most."""
    return play(folder, n_pictures=2000, n_labels=600, seconds=0.3)


def large(folder: Path) -> dict[str, Any]:
    """A hundred thousand items."""
    return measure(folder, n_rows=100_000)


PARTS: dict[str, Part] = {
    "kills": kills,
    "crowd": crowd,
    "crowd_postgres": crowd_postgres,
    "requests": requests,
    "hour": hour,
    "large": large,
}


def machine() -> dict[str, Any]:
    """What it was measured on."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "server_cores": CORES.count(",") + 1 if CORES else len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load": round(os.getloadavg()[1], 1),
    }


def main(words: list[str]) -> int:
    """Play the parts that are named, or all."""
    parser = argparse.ArgumentParser(prog="endurance")
    parser.add_argument("--record", type=Path, required=True, help="the JSON to write; the page goes beside it")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all if none is named")
    asked = parser.parse_args(words)
    if not set(asked.parts) <= set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}")
    record = json.loads(asked.record.read_text(encoding="utf-8")) if asked.record.exists() else {"schema": 1}
    for name in asked.parts or PARTS:
        with tempfile.TemporaryDirectory(prefix="dubito-") as folder:
            record[name] = PARTS[name](Path(folder)) | {"machine": machine()}
        print(name, json.dumps(record[name]), flush=True)
        asked.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if set(PARTS) <= set(record):
        asked.record.with_suffix(".md").write_text(page(record), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
