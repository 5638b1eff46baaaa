"""The page of results, generated from the record."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .trying import VERDICTS

GROUPS = {
    "kills": (
        "Kills at random moments",
        "`SIGKILL` at random moments: of `dubito run` with one process, with three at once, and with worker processes "
        "(half of the time only the parent is killed, and the workers must notice); of `dubito select` once its output "
        "file appears. A run is killed twice and then finished: every round exists once and equals that of a run "
        "without kills. A file of picks is unchanged or complete, and the next write leaves no temporary file behind.",
    ),
    "crowds": (
        "Concurrent processes",
        "Two to four processes that start together. With `--append` the file holds what they would have written one "
        "after another; without `--force` one writes the file and the others are refused.",
    ),
    "full disks": (
        "Full disks",
        "Space for none, some, all but one byte, or all of the output, with buffered and unbuffered streams "
        "(`PYTHONUNBUFFERED=1`), by a limit on file sizes, `/dev/full`, and a disk of 64 kB. Output is complete or "
        "the command fails; existing files are unchanged; once there is space, the same command succeeds.",
    ),
    "damaged pools": (
        "Damaged pools",
        "A pool of 40 rows in every format. *Still valid* are files that are intact but have other content: the picks "
        "are those of the values that another reader (Python, NumPy, pyarrow, h5py, torch, safetensors, ...) finds.",
    ),
    "damaged picks": (
        "Damaged files of picks",
        "Used as labeled rows, and appended to by the next round: all rows stay, none occurs twice.",
    ),
    "damaged runs": (
        "Damaged folders of runs",
        "Journals, data and notes carry checksums, and the journal has the hash of the plan. Only complete lines of a "
        "journal are used, and a resumed run gives the same results. *Still valid* are journals that lost complete "
        "lines, or their end, as after a kill.",
    ),
    "damaged plans": ("Damaged plans", "Experiments as TOML: the values are those that another TOML reader finds."),
    "damaged saved pools": (
        "Damaged saved pools",
        "Files of `Pool.save`: the file itself, and its arrays with the archive's checksums recomputed.",
    ),
    "bombs": (
        "Decompression bombs",
        "Small files that decompress to large ones, declare more than they contain, or nest without end, under "
        "`--input-limit 100MB`: refused with one line, using less than 400 MB at any time.",
    ),
}
"""Titles and descriptions."""
WIDTH = 120
HEADS = ("tries", "same result", "still valid", "refused", "faults")


def render(record: Mapping[str, Any]) -> str:
    """Return the page as Markdown."""
    return "\n".join([*_opening(record), *_tables(record["scenarios"]), *_closing(record)]) + "\n"


def count(scenarios: Sequence[Mapping[str, Any]], verdict: str) -> int:
    """Sum a count over scenarios."""
    return sum(each[verdict] for each in scenarios)


def _opening(record: Mapping[str, Any]) -> Iterator[str]:
    scenarios = record["scenarios"]
    tries, faults = count(scenarios, "tries"), count(scenarios, "fault")
    yield "# Kills, full disks and damaged files"
    yield from paragraph(
        """When files are damaged, disks are full or processes are killed, dubito must **return the same result as
        without the damage, or refuse with one line and exit code 1, 2 or 3**. Lost data, a wrong result, a traceback, a
        hang, a crash or an internal error count as faults."""
    )
    yield from paragraph(
        f"{tries:,} tries in {len(scenarios)} scenarios: **{faults or 'no'} fault{'' if faults == 1 else 's'}**."
    )
    for note in record.get("notes", []):
        yield from paragraph(note)
    yield ""


def paragraph(text: str) -> Iterator[str]:
    """Yield an empty line and the wrapped text."""
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
        yield f"| scenario | {' | '.join(HEADS)} |"
        yield f"| --- |{' ---: |' * len(HEADS)}"
        for each in found:
            yield f"| {each['name']} | {_tried(each)} | {' | '.join(f'{each[verdict]:,}' for verdict in VERDICTS)} |"
        sums = [count(found, key) for key in ("tries", *VERDICTS)]
        yield f"| **all** | {' | '.join(f'{value:,}' for value in sums)} |"
        yield ""


def _tried(scenario: Mapping[str, Any]) -> str:
    """The number of tries, and the planned number if time ran out."""
    short = "" if scenario["tries"] >= scenario["goal"] else f" of {scenario['goal']:,}"
    return f"{scenario['tries']:,}{short}"


def _closing(record: Mapping[str, Any]) -> Iterator[str]:
    versions = ", ".join(f"{name} {found}" for name, found in record["versions"].items())
    yield "## Run it again"
    yield ""
    yield "```bash"
    yield "make faults-files                # 30 minutes at most, on one core"
    yield "make faults-files MINUTES=5      # less of everything"
    yield "```"
    yield from paragraph(
        f"""It needs Linux; the scenario with a separate disk needs the right to mount one and is skipped otherwise.
        Random choices come from a seed (here {record["seed"]}), but the moments of kills differ from run to run. The
        tests include a short version, and also read 300 damaged files of every format. The tables are generated from
        `docs/results/faults.json`."""
    )
    yield from paragraph(
        f"""Measured in {record["seconds"] / 60:.0f} minutes on {record["machine"]}, Python {record["python"]},
        {versions}."""
    )
    yield from paragraph(
        """**Not tested**: failing memory, disks that acknowledge writes without storing them, clock changes, two
        machines on one network folder, and malicious files with correct checksums; for untrusted files see
        `SECURITY.md`."""
    )
