"""The page of results, out of the record; a claim that the numbers do not bear out is not written."""

from typing import Any

from endurance.outages import FAULTS, PROMPT
from faults.page import paragraph

Record = dict[str, Any]
MACHINE = ("cores", "server_cores", "machine", "python", "sqlite", "load")
OUTAGES = {
    "kills": "`kill -9` of the server, SQLite",
    "kills_postgres": "`kill -9` of the server, PostgreSQL",
    "restarts_postgres": "PostgreSQL stopped at once and started",
    "cuts_postgres": "connections to PostgreSQL ended",
    "locks": "SQLite locked by another program",
    "full_disks": "disk full, SQLite",
    "full_disks_postgres": "disk full, PostgreSQL",
}
TITLES = OUTAGES | {
    "power_cuts": "power cuts",
    "requests": "requests, SQLite",
    "requests_postgres": "requests, PostgreSQL",
    "crowd": "a crowd, SQLite",
    "crowd_postgres": "a crowd, PostgreSQL",
    "hour": "an hour",
    "large": "a large pool",
}


def page(record: Record) -> str:
    """docs/results/labeling.md."""
    check(record)
    crowd, postgres, hour, large = record["crowd"], record["crowd_postgres"], record["hour"], record["large"]
    return f"""# What labels live through

Measured by `make faults-labeling`, with clients and server on the same machine. This page is made out of
`labeling.json` beside it; a sentence that its numbers do not bear out is refused. Short forms are among the tests.

{_machines(record)}

## Faults under load

{_load(record)}

{_outages(record)}

{_recovery(record)}

## Power cuts

{_cuts(record)}

## A crowd

{crowd["people"]} people label {crowd["items"]:,} items, each of which {crowd["overlap"]} of them answer, as fast as the
server lets them: without pauses. Rounds of learning and picking run meanwhile.

| | SQLite | PostgreSQL |
| --- | --- | --- |
| labels | {crowd["labels"]:,} | {postgres["labels"]:,} |
| labels a second | {crowd["labels_per_s"]} | {postgres["labels_per_s"]} |
| a label, ms: median, 99th percentile, longest | {_ms(crowd["label_ms"])} | {_ms(postgres["label_ms"])} |
| the next eight items, ms | {_ms(crowd["next_ms"])} | {_ms(postgres["next_ms"])} |
| items that more than {crowd["overlap"]} got | {crowd["beyond_overlap"]} | {postgres["beyond_overlap"]} |
| errors | {len(crowd["odd"])} | {len(postgres["odd"])} |

## Requests that are made up

{_requests(record)}

## A person's hour

{hour["labels"]} labels on {hour["pictures"]:,} pictures of real digits, played through the API as the page does it, one
every {hour["seconds_a_label"]} s (a person takes longer), with a round every 20 labels ({hour["rounds"]} in all) and 5%
drawn at random.

| what | how much |
| --- | --- |
| accuracy of dubito's own model, on {hour["tested_on"]} pictures that nobody labels | {hour["accuracy"]:.1%} |
| with as many labels at random (mean of {len(hour["random"]["draws"])} draws) | {hour["random"]["mean"]:.1%} |
| waited for the first item | {hour["first_item_s"]} s |
| waited for all {hour["labels"]} commits and next items together | {hour["wait_s"]["all"]} s |
| the longest of these waits | {hour["longest_wait_ms"]} ms |

## A large pool

{large["items"]:,} items, {large["width"]} numbers each, {large["labels"]} labels.

| what | how long |
| --- | --- |
| start, and start again | {large["start_s"]} s, {large["restart_s"]} s |
| first picks, after the start | {large["first_picks_s"]} s |
| the next item, ms: median, 99th percentile, longest | {_ms(large["next_ms"])} |
| a label, ms | {_ms(large["label_ms"])} |
| the map, ms | {_ms(large["map_ms"])} |
"""


def _outages(record: Record) -> str:
    heads = ["fault", "times", "acknowledged", "lost, changed, doubled", "wrong items", "recovery, s: median, longest"]
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
        f"""{record["kills"]["people"]} people label, relabel, skip and undo through the API of a real server process,
        and send again, by the same key, whatever was not acknowledged. After each fault everyone pauses, and the log
        and the exported labels are held against what was acknowledged: no answer is lost, changed or doubled, and the
        label of every item is the last answer that was acknowledged."""
    )


def _recovery(record: Record) -> str:
    refused, restart = sum(sum(record[name]["refused"].values()) for name in OUTAGES), record["kills"]["restart_s"]
    return _wrapped(
        f"""*Recovery* is the time from the end of the cause (the server or the database is back, the lock or the disk
        is free) until a new label is acknowledged and everyone who waited has an answer; it is never more than
        {PROMPT:.0f} s. Meanwhile requests were refused with 503 or 507, or not answered at all, {refused:,} times; no
        other error came. At the end of every part a round of learning was asked for and finished. A server that was
        killed answered again after {restart["median"]} s (median), {restart["most"]} s at most, the start of Python on
        a busy machine included. In some cases, drawn at random, a round of learning was asked for shortly before the
        kill, the server was killed again while it started, it was killed while the disk was full, or a lock was held
        for 12 s, which is longer than the server waits for one."""
    )


def _cuts(record: Record) -> str:
    cuts = record["power_cuts"]
    return _wrapped(
        f"""The {cuts["changes"]:,} writes, renames and syncs by which a project is made, labeled, changed and learned
        from were recorded with strace, cut off at {cuts["prefixes"]} places, and laid on a disk in three ways:
        everything written, only what was synced, and a random part of the rest (writes missing or torn, new names,
        renames and removals missing). Of the {cuts["cuts"]} projects that this gave, all opened with every acknowledged
        answer once and in order, with the right export, classes and settings, and took further labels. PostgreSQL's own
        files are not part of this; what a project writes besides its database is the same with both."""
    )


def _requests(record: Record) -> str:
    ours, theirs = record["requests"]["malformed"], record["requests_postgres"]["malformed"]
    described = record["requests"]["described"]
    return _wrapped(
        f"""{ours["requests"]:,} malformed requests to a server on SQLite and {theirs["requests"]:,} to one on
        PostgreSQL (methods, paths, headers, bodies, names and numbers that are odd, huge, damaged or nearly right), and
        {described["requests"]:,} out of the OpenAPI description ({described["operations"]} operations, right and wrong
        ones by turns, by schemathesis), each of these once more without the token: no 5xx, no request that hangs, all
        401 without the token, and no label changed but by a request that names its item and was acknowledged. Answers
        to the malformed ones on SQLite: {_statuses(ours)}; 0 stands for no answer, as where a request stops in the
        middle or is not read to its end."""
    )


def _wrapped(text: str) -> str:
    return "\n".join(paragraph(text)).strip()


def _statuses(found: Record) -> str:
    return ", ".join(f"{status} {n:,} times" for status, n in found["statuses"].items())


def _machines(record: Record) -> str:
    """Which parts were measured where."""
    parts: dict[tuple[Any, ...], list[str]] = {}
    for name, title in TITLES.items():
        machine = record[name]["machine"]
        parts.setdefault(tuple(machine.get(each, "–") for each in MACHINE), []).append(title)
    rows = [f"| {', '.join(titles)} | {' | '.join(map(str, where))} |" for where, titles in parts.items()]
    names = ["part", "cores", "of them for the server", "machine", "Python", "SQLite", "load, all work counted"]
    return "\n".join([f"| {' | '.join(names)} |", "| --- " * len(names) + "|", *rows])


def _ms(spread: dict[str, float]) -> str:
    return f"{spread['median']}, {spread['p99']}, {spread['most']}"


def wrong_in(found: Record) -> list[str]:
    """What a part counted that must be 0 or nothing."""
    names = (*FAULTS, "odd", "wrong", "broken", "changed_unasked", "events_unasked", "events_lost")
    wrong = [name for name in names if found.get(name)]
    wrong += ["integrity"] * (found.get("integrity", "ok") != "ok") + ["rounds"] * (found.get("rounds") == 0)
    return wrong + [each for inner in ("malformed", "described") if inner in found for each in wrong_in(found[inner])]


def check(record: Record) -> None:
    """Refuse a page whose sentences the numbers do not bear out."""
    held = {f"{name}: nothing wrong": not wrong_in(record[name]) for name in TITLES}
    held |= {
        "hour: better than chance": record["hour"]["accuracy"] > record["hour"]["random"]["mean"],
        "large: the next item in 100 ms": record["large"]["next_ms"]["p99"] < 100.0,
    }
    for name in ("crowd", "crowd_postgres"):
        found = record[name]
        held[f"{name}: nobody beyond the overlap"] = found["beyond_overlap"] == 0
        held[f"{name}: never locked"] = not found["is_locked"]
        held[f"{name}: everything labeled"] = found["labels"] == found["items"] * found["overlap"]
        held[f"{name}: a label in 100 ms"] = found["label_ms"]["p99"] < 100.0
    for claim, is_so in held.items():
        if not is_so:
            raise SystemExit(f"the record does not bear this out: {claim}")
