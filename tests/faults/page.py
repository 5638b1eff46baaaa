"""The page of results, out of the record alone."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .trying import VERDICTS

GROUPS = {
    "kills": (
        "Killed at any moment",
        "`SIGKILL` at moments drawn at random: of `dubito run` by one process, by three at once, and with worker "
        "processes (half of the time the workers are left alone and must notice); of `dubito select` once the file to "
        "come shows. A run is killed twice and then left to come to its end: every round is there once, and is "
        "the round of a run that was never disturbed. A file of picks is as it was or whole, and the next write leaves "
        "no temporary file behind.",
    ),
    "crowds": (
        "Several at once",
        "Two to four processes that begin at the same moment. With `--append` the file holds what they would have left "
        "one after another; without `--force` one makes the file and the others are refused.",
    ),
    "full disks": (
        "Full disks",
        "Room for none, some, all but one byte, or all of what is written, with streams buffered and not (as with "
        "`PYTHONUNBUFFERED=1`), by a limit on the size of files, `/dev/full`, and a disk of 64 kB. Output is whole, or "
        "the command fails; a file is as it was; with room again the same command does what it should.",
    ),
    "damaged pools": (
        "Damaged pools",
        "A pool of 40 rows in every form that dubito reads. *As it stands* are files that are still sound and say "
        "something else: the picks are those from what another reader (Python's own, NumPy, pyarrow, openpyxl, h5py, "
        "torch, safetensors) finds in them.",
    ),
    "damaged picks": (
        "Damaged files of picks",
        "As what is labeled, and as what the next round is added to: all rows stay, none is there twice.",
    ),
    "damaged runs": (
        "Damaged folders of runs",
        "Journals, data and notes carry checksums, and the plan's hash is in the journal. What is read of a journal is "
        "what its whole lines say; a run that is resumed gives what it would have given. *As it stands* are journals "
        "that lost whole lines, or their end, as a kill leaves them.",
    ),
    "damaged plans": ("Damaged plans", "Experiments as TOML: what is read is what another reader of TOML finds."),
    "damaged saved pools": (
        "Damaged saved pools",
        "What `Pool.save` wrote: the file, and its arrays with the archive's own checksums made anew.",
    ),
    "bombs": (
        "Bombs",
        "Small files that unpack to large ones, promise what they do not hold, or nest without end, under "
        "`--input-limit 100MB`: refused in one line, with less than 400 MB held at any time.",
    ),
}
"""Titles, and what is tried."""
WIDTH = 120
HEADS = ("tries", "same answer", "as it stands", "refused", "faults")


def render(record: Mapping[str, Any]) -> str:
    """The page, as Markdown."""
    return "\n".join([*_opening(record), *_tables(record["scenarios"]), *_closing(record)]) + "\n"


def count(scenarios: Sequence[Mapping[str, Any]], verdict: str) -> int:
    """Over several scenarios."""
    return sum(each[verdict] for each in scenarios)


def _opening(record: Mapping[str, Any]) -> Iterator[str]:
    scenarios = record["scenarios"]
    tries, faults = count(scenarios, "tries"), count(scenarios, "fault")
    yield "# Kills, full disks, damage and bombs"
    yield from paragraph(
        """What dubito does when everything around it goes wrong. The rule: **the answer of the undamaged, or a refusal
        in one line with exit code 1, 2 or 3**. Nothing is lost, nothing is silently wrong, nothing is unexplained: a
        traceback, a hang, a crash, or the words "this is a fault in dubito" are faults."""
    )
    yield from paragraph(
        f"{tries:,} tries in {len(scenarios)} scenarios: **{faults or 'no'} fault{'' if faults == 1 else 's'}**."
    )
    for note in record.get("notes", []):
        yield from paragraph(note)
    yield ""


def paragraph(text: str) -> Iterator[str]:
    """Text in lines as the pages have them, after an empty one."""
    yield ""
    yield from textwrap.wrap(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def _tables(scenarios: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for group, (title, text) in GROUPS.items():
        found = [each for each in scenarios if each["group"] == group]
        if not found:
            continue
        yield f"## {title}"
        yield from paragraph(text)
        yield ""
        yield f"| what | {' | '.join(HEADS)} |"
        yield f"| --- |{' ---: |' * len(HEADS)}"
        for each in found:
            yield f"| {each['name']} | {_tried(each)} | {' | '.join(f'{each[verdict]:,}' for verdict in VERDICTS)} |"
        sums = [count(found, key) for key in ("tries", *VERDICTS)]
        yield f"| **all** | {' | '.join(f'{value:,}' for value in sums)} |"
        yield ""


def _tried(scenario: Mapping[str, Any]) -> str:
    """The tries, and of how many where the time was over before."""
    short = "" if scenario["tries"] >= scenario["goal"] else f" of {scenario['goal']:,}"
    return f"{scenario['tries']:,}{short}"


def _closing(record: Mapping[str, Any]) -> Iterator[str]:
    versions = ", ".join(f"{name} {found}" for name, found in record["versions"].items())
    yield "## Do it again"
    yield ""
    yield "```bash"
    yield "make faults-files                # 30 minutes at most, on one core"
    yield "make faults-files MINUTES=5      # less of everything"
    yield "```"
    yield from paragraph(
        f"""It needs Linux; a disk of its own needs the right to mount one, and is left out otherwise. What is drawn at
        random is drawn from a seed (here {record["seed"]}), but moments of kills are moments, and no two plays are the
        same. A short form is among the tests, which also have the library read 300 damaged files of every form. The
        tables above are written from `docs/results/faults.json`."""
    )
    yield from paragraph(
        f"""Played in {record["seconds"] / 60:.0f} minutes on {record["machine"]}, Python {record["python"]},
        {versions}."""
    )
    yield from paragraph(
        """**What is not tried**: failing memory, disks that lie about having written, clocks that jump, two machines on
        one network folder, and files made by somebody who knows the checksums and means harm; `SECURITY.md` says what a
        stranger's file can do."""
    )
