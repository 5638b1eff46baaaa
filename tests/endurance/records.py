"""A record for tests of the page."""

from typing import Any

from endurance.outages import FAULTS
from endurance.page import OUTAGES

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
OUTAGE: dict[str, Any] = {
    "faults": 100,
    "people": 8,
    "acknowledged": 9,
    **dict.fromkeys(FAULTS, 0),
    "sent_again": 1,
    "refused": {"503": 2},
    "odd": [],
    "recovery_s": {"median": 0.1, "most": 2.5},
    "restart_s": {"median": 2.0, "most": 2.5},
    "rounds": 3,
    "integrity": "ok",
    "machine": MACHINE,
}
MALFORMED: dict[str, Any] = {"requests": 10_000, "statuses": {"200": 10_000}, "broken": [], "changed_unasked": []}
RECORD: dict[str, Any] = {
    **dict.fromkeys(OUTAGES, OUTAGE),
    "power_cuts": {"changes": 900, "syncs": 90, "prefixes": 300, "cuts": 900, "wrong": 0, "machine": MACHINE},
    "requests": {"malformed": MALFORMED, "described": {**MALFORMED, "operations": 21}, "machine": MACHINE},
    "requests_postgres": {"malformed": MALFORMED, "machine": MACHINE},
    "crowd": CROWD,
    "crowd_postgres": CROWD,
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
