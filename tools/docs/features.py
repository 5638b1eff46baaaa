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
from PIL import Image

from dubito.cli.commands.report import about_run
from dubito.experiments.plots.style import save_figure
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
    """The run of a part of the study, ``cifar10-clean-0123abcd`` or ``cifar10-clean``; None where it is not there."""
    name = "cifar10-clean-slow" if part == "badge" else f"cifar10-{part}"
    found = [each for each in sorted(folder.glob(f"{name}*")) if each.name.count("-") <= name.count("-") + 1]
    found = [each for each in found if not each.name.startswith(f"{name}-slow")]
    if len(found) > 1:
        raise SystemExit(f"{folder} holds {len(found)} runs of {name}; one is needed.")
    return found[0] if found else None


def about(folder: Path) -> About:
    """What a report says, without the paths of the machine it was run on."""
    experiment = read_folder(folder)
    described = about_run(replace(experiment, data=replace(experiment.data, path=DATA)), folder)
    return replace(described, classes=CLASSES)


def radii(rounds: Sequence[Round], described: Summary) -> dict[str, dict[str, list[list[float]]]]:
    """δ and δ̂ of each strategy: a row for each seed, a column for each training."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for name in described.names:
        by_seed = [
            sorted((r for r in rounds if (r.strategy, r.seed) == (name, s)), key=lambda r: r.turn)
            for s in described.seeds
        ]
        found[name] = {
            kind: [[round(float(getattr(each, kind)), 3) for each in played] for played in by_seed]
            for kind in ("radius", "scaled_radius")
        }
    return found


def keep(part: str, folder: Path) -> None:
    """A part's report and records, and its picture."""
    rounds, where = read_rounds(folder), RECORDS / part
    described, said = summarize(rounds), about(folder)
    where.mkdir(parents=True, exist_ok=True)
    (where / "results.json").write_text(
        json.dumps({**described.as_dict(), "about": said.as_dict()}) + "\n", encoding="utf-8"
    )
    (where / "radii.json").write_text(json.dumps(radii(rounds, described)) + "\n", encoding="utf-8")
    (where / "report.html").write_text(
        render_report(described, said, {"results.json": "results.json"}), encoding="utf-8"
    )
    if part not in ("badge", "slow"):
        draw(described, part)


def draw(described: Summary, part: str) -> None:
    """The learning curves, in a palette of 200 colors."""
    target = PICTURES / f"features-{part}.png"
    detail = f"CIFAR-10 through a frozen VGG16, linear probe, {part} pool"
    for path in save_figure(curves_picture(described, detail), target.with_suffix(""), force=True):
        if path != target:
            path.unlink()
    with Image.open(target) as picture:
        small = picture.convert("RGB").quantize(200, dither=Image.Dither.NONE)
    small.save(target, optimize=True)


def records() -> Iterator[Record]:
    """What is kept of each part."""
    for part in (each for each in PARTS if (RECORDS / each).exists()):
        results, found = (
            (RECORDS / part / name).read_text(encoding="utf-8") for name in ("results.json", "radii.json")
        )
        kinds = {
            name: {kind: np.array(rows) for kind, rows in each.items()} for name, each in json.loads(found).items()
        }
        yield Record(part, json.loads(results), kinds)


def main() -> None:
    """Write everything, or the page alone."""
    if len(sys.argv) > 1:
        runs = {part: run_folder(Path(sys.argv[1]), part) for part in PARTS}
        if not any(runs.values()):
            raise SystemExit(f"{sys.argv[1]} holds no run of the study.")
        for part, run in runs.items():
            if run is not None:
                keep(part, run)
    PAGE.write_text(page({each.part: each for each in records()}), encoding="utf-8")


if __name__ == "__main__":
    main()
