"""The page of results, out of the record; a claim that the numbers do not bear out is not written."""

from typing import Any

Record = dict[str, Any]


def page(record: Record) -> str:
    """docs/results/label-studio.md."""
    check(record)
    many, watching, faults = record["many"], record["watching"], record["faults"]
    expiry, guide, machine, at_once = record["expiry"], record["guide"], record["machine"], record["at_once"]
    rows = "\n".join(f"| {name} | {n} |" for name, n in faults["happened"].items())
    removed = faults.get("copies_removed")
    copies = "" if removed is None else f"| copies that requests which came late had made, taken away | {removed} |\n"
    moments = ", ".join(f"{name} {n}" for name, n in sorted(faults["killed_at"].items()))
    restarts = " and ".join(f"{seconds} s" for seconds in faults["server_restarts_s"])
    return f"""# What was tried with Label Studio

Measured by what `make label-studio-test` plays, with Label Studio {record["label_studio"]} as it is installed (SQLite,
its own server), on {machine["cores"]} cores ({machine["machine"]}) with other work on them, Python
{machine["python"]}, in {record["minutes"]} minutes. Two people with accounts of their own label through the API, each
asking the server for the next item. This page is made out of `label-studio.json` beside it; a sentence that its numbers
do not bear out is refused. `make test` replays answers that this server gave.

## Many items

| what | how many |
| --- | --- |
| items pushed, in the order of the picks | {many["items"]:,} in {many["push_s"]} s |
| sent when pushed again | {many["pushed_again"]} |
| labels by two people | {many["labels"]} ({many["by_each"][0]} and {many["by_each"][1]}) |
| items that were none of the first {many["handed"]} picks, or out of order for a person | 0 |
| items handed out twice | {many["handed_twice"]} |
| labels lost, wrong, doubled | {many["handed"] - many["labels"]}, {many["wrong"]}, {many["doubled"]} |

The two ask for their next item one after the other. Where they ask in the same moment, again and again, this Label
Studio (SQLite) gave {at_once["handed_twice"]} of {at_once["labels"]} items to both of them: their answers are two votes
for one item, and {at_once["lost"]} were lost.

## Round after round

`dubito label-studio watch` for {watching["rounds"]} rounds of {watching["batch"]} while the two label:
{watching["labels"]} labels, in the order of the picks, no item twice. The same rounds with files alone (`select`,
`export`, an upload, a download, `import`) gave the same picks, labels and agreement, row for row.

## Access that has run out

A personal token opens the server for 300 s. {expiry["waited_s"]} s later, the same connection pushed
{expiry["pushed"]} items: access was asked for again {expiry["traded_again"]} time{"s" * (expiry["traded_again"] != 1)},
and {expiry["on_the_server"]} items were on the server.

## Everything at once

The same {watching["rounds"]} rounds once more, through a network that loses or delays {disturbed(faults)} of
{faults["requests"]} requests or their answers (what is late comes after dubito has given up waiting), while lines are
cut for three seconds at a time, the server is killed and started again ({restarts} away), and dubito is killed with
`kill -9` {faults["kills"]} times and started again. A batch goes in many small requests, so that it also dies between
two parts of a round; of {faults["imports"]} of these {faults["imports_disturbed"]} were lost or late, or their answers.

| what happened to a request | how often |
| --- | --- |
{rows}

| what came of it | how many |
| --- | --- |
| items answered | {faults["labels"]} |
| labels lost, wrong | {faults["lost"]}, {faults["wrong"]} |
{copies}| tasks, answers doubled in the end | {faults["doubled_tasks"]}, {faults["doubled_answers"]} |
| items that people were shown twice | {faults["handed_twice"]} |

The labels are those of the run without faults, item for item. When it was killed, by the request that the network had
just got (before) or passed on (after): {moments}.

## The guide

All {guide["commands"]} commands of [the how-to page](../how-to/label-studio.md) ran as they are printed there, with the
pool and the folders of a reader; the server showed {guide["pictures_shown"]} pictures from its own disk.
"""


def disturbed(faults: Record) -> int:
    """Requests that were lost or late, or their answers."""
    return sum(n for name, n in faults["happened"].items() if name.endswith(("lost", "late")))


def check(record: Record) -> None:
    """Refuse to write what is not so."""
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
        raise SystemExit(f"the record does not bear this out: {'; '.join(broken)}")
