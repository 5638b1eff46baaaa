"""``python -m label_studio_live``: run everything against a real Label Studio, and write the page."""

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from pathlib import Path

from label_studio.record import record
from label_studio.scenarios import SCENARIOS
from label_studio_live.boxes import boxes
from label_studio_live.guide import follow_the_guide
from label_studio_live.page import page
from label_studio_live.parts import at_once, begin_expiry, end_expiry, faults, many, watching
from label_studio_live.proxy import Network, between
from label_studio_live.servers import label_studio

LONG = {"rows": 5000, "labels": 200, "pool": 2000, "batch": 50, "rounds": 3, "kills": 30, "restarts": 2, "wait": 310.0}
SHORT = {"rows": 300, "labels": 20, "pool": 200, "batch": 8, "rounds": 2, "kills": 4, "restarts": 1, "wait": 0.0}


def play(sizes: dict[str, float], answers: bool) -> dict[str, object]:
    """All parts on one server."""
    n = {name: int(size) for name, size in sizes.items()}
    with tempfile.TemporaryDirectory(prefix="dubito-") as name, label_studio(Path(name)) as studio:
        folder, found = Path(name), dict[str, object]()
        if answers:
            for each in SCENARIOS:
                print(each, record(each, studio.url, studio.tokens), flush=True)
            return {}

        def tell(part: str, facts: object) -> None:
            found[part] = facts
            print(part, json.dumps(facts), flush=True)

        found["label_studio"] = studio.call("GET", "/api/version")["release"]
        network = Network(studio.port)
        with between(network) as url:
            server, begun = begin_expiry(studio, url)
            tell("guide", follow_the_guide(studio, folder))
            tell("boxes", boxes(studio, folder))
            tell("many", many(studio, folder, n["rows"], n["labels"]))
            tell("at_once", at_once(studio, n["labels"] // 2))
            facts, labels = watching(studio, folder, n["pool"], n["batch"], n["rounds"])
            tell("watching", facts)
            tell("expiry", end_expiry(server, begun, network, sizes["wait"]))
        sizes_of_round = n["pool"], n["batch"], n["rounds"]
        tell("faults", faults(studio, folder, labels, *sizes_of_round, n["kills"], n["restarts"]))
        return found


def main(words: list[str]) -> int:
    """The long form, or a short one."""
    parser = argparse.ArgumentParser(prog="label_studio_live")
    parser.add_argument("--record", type=Path, help="the JSON to write; the page goes beside it")
    parser.add_argument("--short", action="store_true", help="a short form, which is not recorded")
    parser.add_argument("--answers", action="store_true", help="record the answers that the tests replay, and stop")
    asked = parser.parse_args(words)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # The server ends with us.
    begun = time.monotonic()
    found = play(SHORT if asked.short else LONG, asked.answers)
    if asked.answers:
        return 0
    machine = {
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    minutes = round((time.monotonic() - begun) / 60.0, 1)
    whole = {"schema": 1, "machine": machine, "minutes": minutes, **found}
    text = page(whole)  # Refuses what the numbers do not bear out, in the short form, too.
    if asked.record is not None and not asked.short:
        asked.record.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        asked.record.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
