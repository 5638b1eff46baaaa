"""The page of results, generated from the record, whose numbers must support its claims."""

from typing import Any

Record = dict[str, Any]
EFFECTS = {
    "answer late": "response late",
    "answer lost": "response lost",
    "cut": "connection interrupted",
    "nobody waits": "client had given up",
    "passed": "forwarded",
    "server away": "server down",
}
"""Names of effects where the record has others."""


def page(record: Record) -> str:
    """docs/results/label-studio.md."""
    check(record)
    many, watching, faults = record["many"], record["watching"], record["faults"]
    expiry, guide, machine, at_once = record["expiry"], record["guide"], record["machine"], record["at_once"]
    rows = "\n".join(f"| {EFFECTS.get(name, name)} | {n} |" for name, n in faults["happened"].items())
    removed = faults.get("copies_removed")
    copies = "" if removed is None else f"| copies made by late requests, deleted | {removed} |\n"
    moments = ", ".join(f"{name} {n}" for name, n in sorted(faults["killed_at"].items()))
    restarts = " and ".join(f"{seconds} s" for seconds in faults["server_restarts_s"])
    return f"""# Tests with Label Studio

With a real Label Studio server, no label was lost, changed or duplicated, even with lost requests and killed processes.
`make label-studio-test` runs these tests: Label Studio {record["label_studio"]} with its defaults (SQLite, its own
server), {machine["cores"]} busy cores ({machine["machine"]}), Python {machine["python"]}, {record["minutes"]} minutes.
Two people with their own accounts label through the API. The page is generated from `label-studio.json`, whose numbers
are checked against its claims. `make test` replays recorded responses of this server.

## Many items

| measure | value |
| --- | --- |
| items pushed, in the order of the picks | {many["items"]:,} in {many["push_s"]} s |
| items sent by a second push | {many["pushed_again"]} |
| labels by two people | {many["labels"]} ({many["by_each"][0]} and {many["by_each"][1]}) |
| items not among the first {many["handed"]} picks, or out of order for a person | 0 |
| items given out twice | {many["handed_twice"]} |
| labels lost, wrong, duplicated | {many["handed"] - many["labels"]}, {many["wrong"]}, {many["doubled"]} |

Here the two ask for the next item one after the other. When they ask at the same moment, again and again, this Label
Studio (SQLite) gives {at_once["handed_twice"]} of {at_once["labels"]} items to both; their answers count as two votes,
and {at_once["lost"]} were lost.

{boxes_of(record)}## Several rounds

`dubito label-studio watch` with {watching["rounds"]} rounds of {watching["batch"]} items: {watching["labels"]} labels,
in the order of the picks, no item twice. The same rounds with files (`select`, `export`, upload, download, `import`)
gave the same picks, labels and agreement, row for row.

## Expired tokens

A personal token gives access for 300 s. {expiry["waited_s"]} s later, the same connection pushed
{expiry["pushed"]} items: it renewed its access {expiry["traded_again"]} time{"s" * (expiry["traded_again"] != 1)}, and
all {expiry["on_the_server"]} items were on the server.

## All faults together

The same {watching["rounds"]} rounds with a network that loses or delays {disturbed(faults)} of {faults["requests"]}
requests or their responses (delayed ones arrive after dubito has given up), connections interrupted for three seconds
at a time, a server that is killed and restarted ({restarts} down), and dubito killed with `kill -9`
{faults["kills"]} times and restarted. A batch is sent in many small requests, so that kills also happen within a round;
{faults["imports_disturbed"]} of {faults["imports"]} of these or their responses were lost or late.

| effect on a request | count |
| --- | --- |
{rows}

| result | count |
| --- | --- |
| items answered | {faults["labels"]} |
| labels lost, wrong | {faults["lost"]}, {faults["wrong"]} |
{copies}| tasks, answers duplicated in the end | {faults["doubled_tasks"]}, {faults["doubled_answers"]} |
| items shown twice | {faults["handed_twice"]} |

The labels equal those of the run without faults, item for item. Moments of the kills, by the request that the network
had just received (before) or forwarded (after): {moments}.

## The how-to page

All {guide["commands"]} commands of [the how-to page](../how-to/label-studio.md) ran as printed; the server displayed
{guide["pictures_shown"]} images from its own disk.
"""


def boxes_of(record: Record) -> str:
    """The section on boxes; empty for records without it."""
    found = record.get("boxes")
    if found is None:
        return ""
    return f"""## Predicted boxes

{found["boxes"]} predicted boxes of {found["pictures"]} pictures, exported by `dubito export --to label-studio-boxes`,
are shown as predictions, {found["scores"]} of them with their scores. Accepted by a person and exported as COCO, they
are the same boxes with the same classes.

"""


def disturbed(faults: Record) -> int:
    """Count lost or late requests and responses."""
    return sum(n for name, n in faults["happened"].items() if name.endswith(("lost", "late")))


def check(record: Record) -> None:
    """Exit if the numbers do not support the claims of the page."""
    many, watching, faults, expiry = (record[name] for name in ("many", "watching", "faults", "expiry"))
    at_once = record["at_once"]
    claims = {
        "items go once and in order": many["pushed_again"] == 0 and many["order_is_that_of_the_picks"] is True,
        "people see them in order": many["in_order"] and many["are_the_first"] and not many["handed_twice"],
        "no label is lost or doubled": many["labels"] == many["handed"] and not many["wrong"] + many["doubled"],
        "two votes are one label": at_once["handed_twice"] == at_once["two_votes"] and not at_once["lost"],
        "rounds are in order": watching["in_order"] and not watching["handed_twice"] + watching["doubled"],
        "files give the same": watching["equal_to_files"] is True,
        "access is had again": expiry["pushed"] == expiry["on_the_server"] == 10
        and (expiry["traded_again"] > 0 or expiry["waited_s"] < 300),
        "a quarter are lost or late": disturbed(faults) > 0.25 * faults["requests"] or faults["kills"] < 30,
        "faults lose nothing": not faults["lost"] + faults["wrong"],
        "faults double nothing": not faults["doubled_tasks"] + faults["doubled_answers"],
        "faults change nothing": faults["equal_to_no_faults"] is True,
        "pictures are shown": record["guide"]["pictures_shown"] == 3,
    }
    broken = [claim for claim, is_so in claims.items() if not is_so]
    if broken:
        raise SystemExit(f"the record does not support this claim: {'; '.join(broken)}")
