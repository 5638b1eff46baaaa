"""The page of results, out of the record; a claim that the numbers do not bear out is not written."""

from typing import Any

Record = dict[str, Any]
MACHINE = ("cores", "server_cores", "machine", "python", "sqlite", "load")
TITLES = {
    "kills": "kills",
    "a crowd, SQLite": "crowd",
    "a crowd, PostgreSQL": "crowd_postgres",
    "requests": "requests",
    "an hour": "hour",
    "a large pool": "large",
}


def page(record: Record) -> str:
    """docs/results/labelling.md."""
    check(record)
    kills, crowd, postgres = record["kills"], record["crowd"], record["crowd_postgres"]
    requests, hour, large = record["requests"], record["hour"], record["large"]
    statuses = ", ".join(f"{status} {n:,} times" for status, n in requests["statuses"].items())
    return f"""# What labels live through

Measured by `make labelling`, with clients and server on the same machine. This page is made out of `labelling.json`
beside it; a sentence that its numbers do not bear out is refused. Short forms are among the tests.

{_machines(record)}

## Kills

The server was killed with `kill -9` {kills["kills"]} times while {kills["people"]} people labelled, skipped and undid
through the API, and sent again, with the same key, whatever had not been acknowledged.

| what | how many |
| --- | --- |
| acknowledged | {kills["acknowledged"]:,} |
| in the log | {kills["in_the_log"]:,} |
| lost, changed, doubled | {kills["lost"]}, {kills["changed"]}, {kills["doubled"]} |
| sent again | {kills["sent_again"]} |
| `PRAGMA integrity_check` | {kills["integrity"]} |
| restart, seconds: median, longest | {kills["restart_s"]["median"]}, {kills["restart_s"]["most"]} |

A restart is from the start of the process to its first answer, while the {kills["people"]} people knock at the door.

## A crowd

{crowd["people"]} people label {crowd["items"]:,} items, each of which {crowd["overlap"]} of them answer, as fast as the
server lets them: nobody pauses to look. Rounds of learning and picking run meanwhile.

| | SQLite | PostgreSQL |
| --- | --- | --- |
| labels | {crowd["labels"]:,} | {postgres["labels"]:,} |
| labels a second | {crowd["labels_per_s"]} | {postgres["labels_per_s"]} |
| a label, ms: median, 99th percentile, longest | {_ms(crowd["label_ms"])} | {_ms(postgres["label_ms"])} |
| the next eight items, ms | {_ms(crowd["next_ms"])} | {_ms(postgres["next_ms"])} |
| items that more than {crowd["overlap"]} got | {crowd["beyond_overlap"]} | {postgres["beyond_overlap"]} |
| errors | {len(crowd["odd"])} | {len(postgres["odd"])} |

## Requests that are made up

{requests["requests"]:,} requests out of the OpenAPI description ({requests["operations"]} operations, right and wrong
ones by turns, by schemathesis), and each of them once more without the token: none broke the server, and without the
token all were 401. With it: {statuses}.

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


def _machines(record: Record) -> str:
    """Which parts were measured where."""
    parts: dict[tuple[Any, ...], list[str]] = {}
    for title, name in TITLES.items():
        machine = record[name]["machine"]
        parts.setdefault(tuple(machine.get(each, "–") for each in MACHINE), []).append(title)
    rows = [f"| {', '.join(titles)} | {' | '.join(map(str, where))} |" for where, titles in parts.items()]
    names = ["part", "cores", "of them for the server", "machine", "Python", "SQLite", "load, all work counted"]
    return "\n".join([f"| {' | '.join(names)} |", "| --- " * len(names) + "|", *rows])


def _ms(spread: dict[str, float]) -> str:
    return f"{spread['median']}, {spread['p99']}, {spread['most']}"


def check(record: Record) -> None:
    """Refuse a page whose sentences the numbers do not bear out."""
    kills, requests = record["kills"], record["requests"]
    faults = [kills[name] for name in ("lost", "changed", "doubled", "gaps")]
    held = {
        "kills: nothing lost, changed or doubled": not any(faults) and not kills["odd"] and kills["kills"] >= 100,
        "kills: the integrity check passes": kills["integrity"] == "ok",
        "kills: a restart takes less than 3 s": kills["restart_s"]["median"] < 3.0,
        "requests: 10,000, and none broke it": requests["requests"] >= 10_000 and not requests["broken"],
        "hour: better than chance": record["hour"]["accuracy"] > record["hour"]["random"]["mean"],
        "large: the next item in 100 ms": record["large"]["next_ms"]["p99"] < 100.0,
    }
    for name in ("crowd", "crowd_postgres"):
        found = record[name]
        held[f"{name}: nobody beyond the overlap"] = found["beyond_overlap"] == 0 and not found["odd"]
        held[f"{name}: never locked"] = not found["is_locked"]
        held[f"{name}: everything labelled"] = found["labels"] == found["items"] * found["overlap"]
        held[f"{name}: a label in 100 ms"] = found["label_ms"]["p99"] < 100.0
    for claim, is_so in held.items():
        if not is_so:
            raise SystemExit(f"the record does not bear this out: {claim}")
