"""The command behind ``make faults-labeling``: play the parts, record what they found, and write the page of it."""

import argparse
import json
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from endurance import outages
from endurance.crowd import gather
from endurance.fuzzing import fuzz, label_some, send_malformed
from endurance.hour import play
from endurance.large import measure
from endurance.outages import Cause, Service, endure
from endurance.page import page, wrong_in
from endurance.powercuts import cut_power
from endurance.servers import CORES, serving
from faults.disks import small_disk
from labeling.projects import make_project
from postgres.cluster import Cluster, programs

Part = Callable[[Path, float], dict[str, Any]]


class LeftOut(Exception):
    """A part that cannot be played here."""


@contextmanager
def cluster(within: Path | None = None) -> Iterator[Cluster]:
    """A PostgreSQL of its own."""
    place = programs()
    if place is None:
        raise LeftOut("there is no PostgreSQL here: apt install postgresql")
    server = Cluster(place, within=within)
    try:
        yield server
    finally:
        server.remove()


def faults(name: str, cause: Cause, count: int, *, in_postgres: bool = False, disk_bytes: int = 0) -> Part:
    """So many faults while eight people label."""

    def part(folder: Path, share: float) -> dict[str, Any]:
        with ExitStack() as stack:
            disk = stack.enter_context(small_disk(disk_bytes)) if disk_bytes else None
            if disk_bytes and disk is None:
                raise LeftOut("a small disk needs the right to mount one")
            if disk is not None:
                disk.chmod(0o777)  # PostgreSQL is another user.
            server = stack.enter_context(cluster(disk)) if in_postgres else None
            place = folder if disk is None or in_postgres else disk
            project, _ = make_project(place, n_rows=4000, batch=200, store=None if server is None else server.url)
            service = Service(Path(project.folder), server, disk)
            return endure(service, [cause] * max(1, round(count * share)), name=name)

    return part


def requests(folder: Path, share: float, store: str | None = None) -> dict[str, Any]:
    """Ten thousand requests that are malformed, and a thousand out of the OpenAPI description."""
    project, _ = make_project(folder, store=store)
    place = Path(project.folder)
    name = "requests" if store is None else "requests_postgres"
    with serving(place) as server:
        label_some(server, 30)
        found = {"malformed": send_malformed(server, place, round(10_000 * share), name=name)}
        if store is None:
            found["described"] = fuzz(server, place, round(2000 * share))
        return found


def requests_postgres(folder: Path, share: float) -> dict[str, Any]:
    """The malformed ones, in PostgreSQL."""
    with cluster() as server:
        return requests(folder, share, server.url)


def power_cuts(folder: Path, share: float) -> dict[str, Any]:
    """Three hundred places at which what a project writes is cut off, in three ways each."""
    if shutil.which("strace") is None:
        raise LeftOut("there is no strace here: apt install strace")
    return cut_power(folder / "work", n_labels=300, n_prefixes=max(10, round(300 * share)))


def crowd(folder: Path, share: float, store: str | None = None) -> dict[str, Any]:
    """Sixteen people, ten thousand items, each of which two of them answer."""
    project, _ = make_project(folder, n_rows=round(10_000 * share), overlap=2, store=store)
    return gather(Path(project.folder), n_people=16, overlap=2)


def crowd_postgres(folder: Path, share: float) -> dict[str, Any]:
    """The same in PostgreSQL."""
    with cluster() as server:
        return crowd(folder, share, server.url)


def hour(folder: Path, share: float) -> dict[str, Any]:
    """Six hundred labels on two thousand pictures, three a second at most."""
    return play(folder, n_pictures=2000, n_labels=round(600 * share), seconds=0.3)


def large(folder: Path, share: float) -> dict[str, Any]:
    """A hundred thousand items."""
    return measure(folder, n_rows=round(100_000 * share))


FAULTS: dict[str, Part] = {
    "power_cuts": power_cuts,
    "kills": faults("kills", outages.kill, 100),
    "kills_postgres": faults("kills_postgres", outages.kill, 100, in_postgres=True),
    "restarts_postgres": faults("restarts_postgres", outages.restart_database, 50, in_postgres=True),
    "locks": faults("locks", outages.lock_database, 50),
    "cuts_postgres": faults("cuts_postgres", outages.cut_connections, 50, in_postgres=True),
    "full_disks": faults("full_disks", outages.fill_disk, 30, disk_bytes=32 << 20),
    "full_disks_postgres": faults("full_disks_postgres", outages.fill_disk, 30, in_postgres=True, disk_bytes=128 << 20),
    "requests": requests,
    "requests_postgres": requests_postgres,
}
"""Several of them may be played at once."""
MEASURED: dict[str, Part] = {"crowd": crowd, "crowd_postgres": crowd_postgres, "hour": hour, "large": large}
"""Each has the machine to itself."""
PARTS = FAULTS | MEASURED


def machine() -> dict[str, Any]:
    """What it was measured on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cores": cores,
        "server_cores": CORES.count(",") + 1 if CORES else cores,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load": round(os.getloadavg()[1], 1),
    }


def play_part(name: str, share: float) -> dict[str, Any] | None:
    """One part; None, and a line, where it cannot be played here."""
    begun = time.monotonic()
    print(f"{name}: begins", flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="dubito-") as folder:
            found = PARTS[name](Path(folder), share)
    except LeftOut as why:
        print(f"{name}: left out: {why}", flush=True)
        return None
    return {**found, "minutes": round((time.monotonic() - begun) / 60, 1), "machine": machine()}


def command(words: list[str]) -> int:
    """Play the parts that are named, or all; each is recorded as soon as it is over."""
    parser = argparse.ArgumentParser(prog="make faults-labeling")
    parser.add_argument("--record", type=Path, required=True, help="the JSON to write; the page goes beside it")
    parser.add_argument("--jobs", type=int, default=2, help="faults that are played at once")
    parser.add_argument("--share", type=float, default=1.0, help="less of everything: 0.1 is a tenth")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all if none is named")
    asked = parser.parse_args(words)
    if not set(asked.parts) <= set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}")
    record = json.loads(asked.record.read_text(encoding="utf-8")) if asked.record.exists() else {"schema": 2}
    failed = []
    for group, jobs in ((FAULTS, asked.jobs), (MEASURED, 1)):
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
            chosen = [name for name in group if name in (asked.parts or PARTS)]
            for future in as_completed(
                under_way := {pool.submit(play_part, name, asked.share): name for name in chosen}
            ):
                name = under_way[future]
                error = future.exception()
                if error is not None:
                    failed.append(name)
                    print(f"{name}: failed: {error!r}", flush=True)
                elif (found := future.result()) is not None:
                    record[name] = found
                    failed += [name] * bool(wrong_in(found))
                    print(f"{name}: {json.dumps(found)}", flush=True)
                    asked.record.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if failed:
        print(f"something is wrong in: {', '.join(failed)}", file=sys.stderr)
    elif set(PARTS) <= set(record):
        asked.record.with_suffix(".md").write_text(page(record), encoding="utf-8")
    return 1 if failed else 0
