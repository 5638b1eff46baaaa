"""A report on disk: the page, the numbers as JSON, and the learning curves as pictures."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from dubito.errors import OutputExists
from dubito.experiments.findings.summary import Summary, summarise
from dubito.experiments.records import Round
from dubito.files import write_atomically
from dubito.plots.style import save_figure
from dubito.reports.about import About
from dubito.reports.page import curves_picture, render_report
from dubito.wording import FORCE

RECORDS = ("experiment.toml", "journal.jsonl")
"""What a run leaves beside its report."""


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A report, and what it says."""

    summary: Summary
    page: Path
    results: Path
    pictures: tuple[Path, ...]


def write_report(
    rounds: Sequence[Round],
    about: About,
    folder: Path,
    *,
    records: Path | None = None,
    targets: Sequence[float] = (),
    planned: Sequence[str] = (),
    detail: str = "",
    force: bool = True,
) -> Written:
    """Write ``report.html``, ``results.json``, ``curves.svg`` and ``curves.png`` into a folder.

    Parameters
    ----------
    rounds : sequence of Round
        What was recorded, also of a run that is not finished.
    about : About
        What was run.
    folder : Path
        Made where it is missing.
    records : Path, optional
        Where the run's own files lie, to link to; the folder itself by default.
    targets : sequence of float
        Accuracies to tell the labels for.
    planned : sequence of str
        Names of all strategies of the run, to tell which are not begun.
    detail : str
        What the picture of the curves says below its headline.
    force : bool
        Replace an earlier report.
    """
    summary = summarise(rounds, targets, planned)
    page, results = folder / "report.html", folder / "results.json"
    if page.exists() and not force:
        raise OutputExists(f"{page} exists", mend=f"pass {FORCE} to replace it, or another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    pictures = save_figure(curves_picture(summary, detail), folder / "curves", force=True)
    content = {**summary.as_dict(), "about": about.as_dict()}
    write_atomically(str(results), (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    links = _links(folder, records or folder, (results, *pictures))
    write_atomically(str(page), render_report(summary, about, links).encode())
    return Written(summary, page, results, tuple(pictures))


def _links(folder: Path, records: Path, own: Sequence[Path]) -> dict[str, str]:
    found = [records / name for name in RECORDS if (records / name).exists()]
    return {each.name: quote(os.path.relpath(each, folder)) for each in (*found, *own)}
