"""A record for tests of the page."""

from typing import Any

MACHINE = {"cores": 2, "server_cores": 2, "machine": "x", "python": "3.11", "sqlite": "3.40.1", "load": 1.0}
SPREAD = {"median": 1.0, "p99": 2.0, "most": 3.0}
CROWD: dict[str, Any] = {
    "people": 16,
    "items": 100,
    "overlap": 2,
    "labels": 200,
    "labels_per_s": 300.0,
    "label_ms": SPREAD,
    "next_ms": SPREAD,
    "beyond_overlap": 0,
    "odd": [],
    "is_locked": False,
    "machine": MACHINE,
}
RECORD: dict[str, Any] = {
    "kills": {
        "kills": 100,
        "people": 8,
        "acknowledged": 9,
        "in_the_log": 9,
        "lost": 0,
        "changed": 0,
        "doubled": 0,
        "gaps": 0,
        "sent_again": 1,
        "odd": [],
        "integrity": "ok",
        "restart_s": {"median": 2.0, "most": 2.5},
        "machine": MACHINE,
    },
    "crowd": CROWD,
    "crowd_postgres": CROWD,
    "requests": {"requests": 10_000, "operations": 21, "statuses": {"200": 10_000}, "broken": [], "machine": MACHINE},
    "hour": {
        "labels": 600,
        "pictures": 2000,
        "seconds_a_label": 0.3,
        "rounds": 30,
        "tested_on": 400,
        "accuracy": 0.97,
        "random": {"mean": 0.95, "draws": [0.95]},
        "first_item_s": 1.0,
        "wait_s": {"all": 3.0, "after_a_minute": 0.5},
        "longest_wait_ms": 9.0,
        "machine": MACHINE,
    },
    "large": {
        "items": 100_000,
        "width": 64,
        "labels": 200,
        "start_s": 1.0,
        "restart_s": 1.0,
        "first_picks_s": 1.0,
        "next_ms": SPREAD,
        "label_ms": SPREAD,
        "map_ms": SPREAD,
        "machine": MACHINE,
    },
}
