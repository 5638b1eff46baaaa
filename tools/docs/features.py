"""Write the page of the study on frozen features.

``python tools/docs/features.py FOLDER`` reads the runs in a folder (one per pool, as written by ``dubito run``) and
writes a report, ``results.json``, the recorded radii and a figure for each, and then the page. Records of parts without
a run in the folder are kept. Without a folder, only the page is written, from the records in ``docs/results/features``.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from features_page import PARTS, Record, page
from formatting import save_png

from dubito.cli.commands.report import about_run
from dubito.experiments.records import Round
from dubito.experiments.report import About, curves_picture, render_report
from dubito.experiments.runner import read_folder, read_rounds
from dubito.experiments.summary import Summary, summarize

PAGE = Path(__file__).parents[2] / "docs" / "results" / "features.md"
RECORDS = PAGE.parent / "features"
PICTURES = PAGE.parent / "images"
DATA = "cifar10_vgg16_frozen.npz"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def run_folder(folder: Path, part: str) -> Path | None:
    """The run of a part of the study, such as ``cifar10-clean-0123abcd`` or ``cifar10-clean``; else None."""
    name = "cifar10-clean-slow" if part == "badge" else f"cifar10-{part}"
    runs = [path for path in sorted(folder.glob(f"{name}*")) if path.name.count("-") <= name.count("-") + 1]
    runs = [path for path in runs if not path.name.startswith(f"{name}-slow")]
    if len(runs) > 1:
        raise SystemExit(f"{folder} holds {len(runs)} runs of {name}; one is needed.")
    return runs[0] if runs else None


def about(folder: Path) -> About:
    """The description of the experiment for its report, without paths of the machine."""
    experiment = read_folder(folder)
    description = about_run(replace(experiment, data=replace(experiment.data, path=DATA)), folder)
    return replace(description, classes=CLASSES)


def radii_of(rounds: Sequence[Round], summary: Summary) -> dict[str, dict[str, list[list[float]]]]:
    """δ and δ̂ of each strategy: a row for each seed, a column for each training."""
    radii: dict[str, dict[str, list[list[float]]]] = {}
    for name in summary.names:
        by_seed = [
            sorted((r for r in rounds if (r.strategy, r.seed) == (name, s)), key=lambda r: r.turn)
            for s in summary.seeds
        ]
        radii[name] = {
            kind: [[round(float(getattr(each, kind)), 3) for each in run] for run in by_seed]
            for kind in ("radius", "scaled_radius")
        }
    return radii


def record_run(part: str, run: Path) -> None:
    """Write the report, the records and the figure of a part."""
    rounds, folder = read_rounds(run), RECORDS / part
    summary, description = summarize(rounds), about(run)
    folder.mkdir(parents=True, exist_ok=True)
    results = {**summary.as_dict(), "about": description.as_dict()}
    (folder / "results.json").write_text(json.dumps(results) + "\n", encoding="utf-8")
    (folder / "radii.json").write_text(json.dumps(radii_of(rounds, summary)) + "\n", encoding="utf-8")
    report = render_report(summary, description, {"results.json": "results.json"})
    (folder / "report.html").write_text(report, encoding="utf-8")
    if part not in ("badge", "slow"):
        subtitle = f"CIFAR-10 through a frozen VGG16, linear probe, {part} pool"
        save_png(curves_picture(summary, subtitle), PICTURES / f"features-{part}.png")


def records() -> Iterator[Record]:
    """The records of each part."""
    for part in (each for each in PARTS if (RECORDS / each).exists()):
        results, radii = (
            json.loads((RECORDS / part / name).read_text(encoding="utf-8")) for name in ("results.json", "radii.json")
        )
        arrays = {name: {kind: np.array(rows) for kind, rows in each.items()} for name, each in radii.items()}
        yield Record(part, results, arrays)


def main() -> None:
    """Write the records of the runs in a folder, if one is given, and the page."""
    if len(sys.argv) > 1:
        runs = {part: run_folder(Path(sys.argv[1]), part) for part in PARTS}
        if not any(runs.values()):
            raise SystemExit(f"{sys.argv[1]} holds no run of the study.")
        for part, run in runs.items():
            if run is not None:
                record_run(part, run)
    PAGE.write_text(page({each.part: each for each in records()}), encoding="utf-8")


if __name__ == "__main__":
    main()
