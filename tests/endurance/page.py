"""The page of results, generated from the record, whose numbers must support its claims."""

from typing import Any

from endurance.outages import FAULTS, PROMPT
from faults.page import paragraph

Record = dict[str, Any]
MACHINE = ("cores", "server_cores", "machine", "python", "sqlite", "load")
OUTAGES = {
    "kills": "`kill -9` of the server, SQLite",
    "kills_postgres": "`kill -9` of the server, PostgreSQL",
    "restarts_postgres": "PostgreSQL stopped (immediate mode) and restarted",
    "cuts_postgres": "connections to PostgreSQL closed",
    "locks": "SQLite locked by another program",
    "full_disks": "disk full, SQLite",
    "full_disks_postgres": "disk full, PostgreSQL",
}
TITLES = OUTAGES | {
    "power_cuts": "power cuts",
    "requests": "requests, SQLite",
    "requests_postgres": "requests, PostgreSQL",
    "crowd": "many people, SQLite",
    "crowd_postgres": "many people, PostgreSQL",
    "hour": "simulated session",
    "large": "large pool",
}


def page(record: Record) -> str:
    """docs/results/labeling.md."""
    check(record)
    crowd, postgres, hour, large = record["crowd"], record["crowd_postgres"], record["hour"], record["large"]
    return f"""# Durability of labels

No acknowledged label was lost, changed or duplicated in any of these tests of the labeling server. They are run by
`make faults-labeling`, with clients and server on the same machine, and the page is generated from `labeling.json`,
whose numbers are checked against its claims. Short versions are part of the tests.

{_machines(record)}

## Faults under load

{_load(record)}

{_outages(record)}

{_recovery(record)}

## Power cuts

{_cuts(record)}

## Many people

{crowd["people"]} simulated people label {crowd["items"]:,} items, {crowd["overlap"]} answers for each, without pauses,
while rounds of training and selection run.

| | SQLite | PostgreSQL |
| --- | --- | --- |
| labels | {crowd["labels"]:,} | {postgres["labels"]:,} |
| labels per second | {crowd["labels_per_s"]} | {postgres["labels_per_s"]} |
| saving a label, ms: median, 99th percentile, maximum | {_ms(crowd["label_ms"])} | {_ms(postgres["label_ms"])} |
| fetching the next eight items, ms | {_ms(crowd["next_ms"])} | {_ms(postgres["next_ms"])} |
| items given to more than {crowd["overlap"]} people | {crowd["beyond_overlap"]} | {postgres["beyond_overlap"]} |
| errors | {len(crowd["odd"])} | {len(postgres["odd"])} |

## Malformed requests

{_requests(record)}

## A simulated session

{hour["labels"]} labels on {hour["pictures"]:,} images of digits, sent through the API as the page does, one every
{hour["seconds_a_label"]} s (people are slower), with a round every 20 labels ({hour["rounds"]} in total) and 5% random
items.

| measure | value |
| --- | --- |
| accuracy of dubito's model on {hour["tested_on"]} unlabeled images | {hour["accuracy"]:.1%} |
| with as many random labels (mean of {len(hour["random"]["draws"])} draws) | {hour["random"]["mean"]:.1%} |
| wait for the first item | {hour["first_item_s"]} s |
| total wait for {hour["labels"]} commits and next items | {hour["wait_s"]["all"]} s |
| longest of these waits | {hour["longest_wait_ms"]} ms |

## A large pool

{large["items"]:,} items with {large["width"]} features, {large["labels"]} labels.

| measure | value |
| --- | --- |
| start, restart | {large["start_s"]} s, {large["restart_s"]} s |
| first picks after the start | {large["first_picks_s"]} s |
| next item, ms: median, 99th percentile, maximum | {_ms(large["next_ms"])} |
| saving a label, ms | {_ms(large["label_ms"])} |
| map, ms | {_ms(large["map_ms"])} |
"""


def _outages(record: Record) -> str:
    heads = [
        "fault",
        "times",
        "acknowledged",
        "lost, changed, duplicated",
        "wrong items",
        "recovery, s: median, maximum",
    ]
    rows = []
    for name, title in OUTAGES.items():
        found = record[name]
        faults = f"{found['lost']}, {found['changed']}, {found['doubled']}"
        recovery = f"{found['recovery_s']['median']}, {found['recovery_s']['most']}"
        cells = [title, found["faults"], f"{found['acknowledged']:,}", faults, found["wrong_items"], recovery]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|", *rows])


def _load(record: Record) -> str:
    return _wrapped(
        f"""{record["kills"]["people"]} simulated people label, relabel, skip and undo through the API of a real server
        process, and repeat unacknowledged requests with the same key. After each fault they pause, and the log and the
        exported labels are compared with the acknowledged answers: none is lost, changed or duplicated, and the label
        of every item is the last acknowledged answer."""
    )


def _recovery(record: Record) -> str:
    refused, restart = sum(sum(record[name]["refused"].values()) for name in OUTAGES), record["kills"]["restart_s"]
    return _wrapped(
        f"""*Recovery* is the time from the end of the fault (server or database restarted, lock released, disk space
        available) until a new label is acknowledged and all waiting requests are answered; it never exceeds
        {PROMPT:.0f} s. Until then, requests were refused with 503 or 507 or not answered {refused:,} times; there were
        no other errors. At the end of every part a round of training was requested and finished. A killed server
        answered again after {restart["median"]} s (median), at most {restart["most"]} s, including the start of Python
        on a busy machine. Random cases add a round of training shortly before the kill, a second kill during the
        restart, a kill while the disk is full, or a lock of 12 s, longer than the server's timeout."""
    )


def _cuts(record: Record) -> str:
    cuts = record["power_cuts"]
    return _wrapped(
        f"""The {cuts["changes"]:,} writes, renames and syncs of a project that is created, labeled, changed and trained
        on were recorded with strace, cut off at {cuts["prefixes"]} points, and replayed to disk in three ways:
        everything written, only what was synced, and a random part of the rest (missing or torn writes, missing new
        names, renames and removals). All {cuts["cuts"]} resulting projects opened with every acknowledged answer once
        and in order, with the correct export, classes and settings, and accepted further labels. PostgreSQL's own files
        are not included; the other files of a project are the same with both databases."""
    )


def _requests(record: Record) -> str:
    ours, theirs = record["requests"]["malformed"], record["requests_postgres"]["malformed"]
    described = record["requests"]["described"]
    return _wrapped(
        f"""{ours["requests"]:,} malformed requests to a server on SQLite and {theirs["requests"]:,} to one on
        PostgreSQL (unusual, huge, damaged or almost valid methods, paths, headers, bodies, names and numbers), and
        {described["requests"]:,} generated from the OpenAPI description by schemathesis ({described["operations"]}
        operations, valid and invalid), each repeated without the token: no 5xx, no request that hangs, always 401
        without the token, and labels changed only by acknowledged requests that name the item. Responses to the
        malformed ones on SQLite: {_statuses(ours)}; 0 means no response, for instance to an incomplete request."""
    )


def _wrapped(text: str) -> str:
    return "\n".join(paragraph(text)).strip()


def _statuses(found: Record) -> str:
    return ", ".join(f"{status} {n:,} times" for status, n in found["statuses"].items())


def _machines(record: Record) -> str:
    """The machines, with the parts that were measured on each."""
    parts: dict[tuple[Any, ...], list[str]] = {}
    for name, title in TITLES.items():
        machine = record[name]["machine"]
        parts.setdefault(tuple(machine.get(each, "–") for each in MACHINE), []).append(title)
    rows = [f"| {', '.join(titles)} | {' | '.join(map(str, where))} |" for where, titles in parts.items()]
    names = ["part", "cores", "for the server", "machine", "Python", "SQLite", "total load"]
    return "\n".join([f"| {' | '.join(names)} |", "| --- " * len(names) + "|", *rows])


def _ms(spread: dict[str, float]) -> str:
    return f"{spread['median']}, {spread['p99']}, {spread['most']}"


def wrong_in(found: Record) -> list[str]:
    """The counts of a part that must be 0 or empty but are not."""
    names = (*FAULTS, "odd", "wrong", "broken", "changed_unasked", "events_unasked", "events_lost")
    wrong = [name for name in names if found.get(name)]
    wrong += ["integrity"] * (found.get("integrity", "ok") != "ok") + ["rounds"] * (found.get("rounds") == 0)
    return wrong + [each for inner in ("malformed", "described") if inner in found for each in wrong_in(found[inner])]


def check(record: Record) -> None:
    """Exit if the numbers do not support the claims of the page."""
    held = {f"{name}: nothing wrong": not wrong_in(record[name]) for name in TITLES}
    held["hour: better than chance"] = record["hour"]["accuracy"] > record["hour"]["random"]["mean"]
    for name in ("crowd", "crowd_postgres"):
        found = record[name]
        held[f"{name}: nobody beyond the overlap"] = found["beyond_overlap"] == 0
        held[f"{name}: never locked"] = not found["is_locked"]
        held[f"{name}: everything labeled"] = found["labels"] == found["items"] * found["overlap"]
    for claim, is_so in held.items():
        if not is_so:
            raise SystemExit(f"the record does not support this claim: {claim}")
