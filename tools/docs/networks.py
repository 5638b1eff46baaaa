"""Write the page of the experiments on images.

``python tools/docs/networks.py FOLDER...`` takes folders of runs, as written by ``dubito run``, or folders that contain
such folders. For each shipped experiment it writes a small record (all rounds without the picked rows) to
``docs/results/networks``, draws the curves, and writes the page. Without a folder, only the page is written, from the
existing records. ``--machine TEXT`` describes the machine of the runs.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from networks_page import EXPERIMENTS, Record, page
from PIL import Image

from dubito.experiments.plan import Experiment
from dubito.experiments.plots.style import save_figure
from dubito.experiments.records import Round
from dubito.experiments.report import curves_picture
from dubito.experiments.runner import EXPERIMENT, is_finished, read_folder, read_headers, read_rounds
from dubito.experiments.summary import summarize

PAGE = Path(__file__).parents[2] / "docs" / "results" / "networks.md"
COLUMNS = (
    "strategy",
    "seed",
    "turn",
    "labels",
    "test_accuracy",
    "train_accuracy",
    "core_set_loss",
    "radius",
    "scaled_radius",
    "uncertainty",
    "picks",
    "train_seconds",
    "select_seconds",
    "recall",
)
"""Of a round, in this order; ``picks`` is how many rows were asked for, ``strategy`` its place among the names."""


def runs_in(folder: Path) -> Iterator[Path]:
    """The folder, or the runs in it."""
    found = (
        [folder] if (folder / EXPERIMENT).is_file() else sorted(each.parent for each in folder.glob(f"*/{EXPERIMENT}"))
    )
    if not found:
        raise SystemExit(f"{folder} holds no run.")
    yield from found


def keep(run: Path, folder: Path, machine: str | None) -> None:
    """A run's record and its picture."""
    experiment = read_folder(run)
    if experiment.name not in EXPERIMENTS:
        raise SystemExit(f"{run} is a run of {experiment.name}, which the page does not know.")
    if not is_finished(run):
        raise SystemExit(f"{run} is not finished; go on with: dubito resume {run}")
    folder.mkdir(parents=True, exist_ok=True)
    text = described(experiment, read_rounds(run), read_headers(run), machine)
    (folder / f"{experiment.name}.json").write_text(text, encoding="utf-8")
    draw(read(folder / f"{experiment.name}.json"), folder.parent / "images")


def described(experiment: Experiment, rounds: Sequence[Round], headers: Sequence[dict], machine: str | None) -> str:
    """A record as JSON, a line for each round."""
    names = [arm.name for arm in experiment.strategies]
    last = headers[-1] if headers else {}
    where = experiment.data.images or ""
    plain = replace(experiment, data=replace(experiment.data, images=re.split(r"[/\\]", where)[-1] or None))
    head = {
        "schema": 1,
        "name": experiment.name,
        "experiment": experiment.hash8,
        "settings": plain.to_toml(),
        "machine": machine or f"{last.get('machine')}, {last.get('gpu') or last.get('device')}",
        "versions": {"python": last.get("python"), **last.get("versions", {})},
        "weights": last.get("weights"),
        "begun": headers[0].get("started") if headers else None,
        "times_begun": len(headers),
        "strategies": names,
        "columns": list(COLUMNS),
    }
    lines = [json.dumps(row_of(each, names)) for each in rounds]
    return json.dumps(head, ensure_ascii=False, indent=1)[:-2] + ',\n "rounds": [\n' + ",\n".join(lines) + "\n]}\n"


def row_of(each: Round, names: Sequence[str]) -> list[object]:
    """A round by `COLUMNS`."""
    values = {**each.as_dict(), "strategy": names.index(each.strategy), "picks": len(each.picked)}
    values["recall"] = [None if share is None else round(share, 4) for share in each.recall]
    return [round(value, 6) if isinstance(value := values[name], float) else value for name in COLUMNS]


def read(path: Path) -> Record:
    """A record that was kept."""
    held = json.loads(path.read_text(encoding="utf-8"))
    rounds = []
    for row in held.pop("rounds"):
        values = dict(zip(held["columns"], row, strict=True))
        values["strategy"] = held["strategies"][values["strategy"]]
        values["picked"] = range(values.pop("picks"))
        rounds.append(Round.from_dict(values))
    return Record(held["name"], held, rounds, summarize(rounds))


def draw(record: Record, folder: Path) -> None:
    """The learning curves, in a palette of 200 colors."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"network-{record.name}.png"
    figure = curves_picture(record.summary, f"VGG16, {EXPERIMENTS[record.name].short}")
    for path in save_figure(figure, target.with_suffix(""), force=True):
        if path != target:
            path.unlink()
    with Image.open(target) as picture:
        small = picture.convert("RGB").quantize(200, dither=Image.Dither.NONE)
    small.save(target, optimize=True)


def records(folder: Path) -> dict[str, Record]:
    """Everything kept, in the order of the page."""
    return {name: read(folder / f"{name}.json") for name in EXPERIMENTS if (folder / f"{name}.json").exists()}


def main(arguments: Sequence[str] | None = None, target: Path = PAGE) -> None:
    """Keep what the folders hold, and write the page."""
    parser = argparse.ArgumentParser(description="Make the page of the experiments on images.")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--machine", help="what the runs were made on, such as 'one NVIDIA H200'")
    given = parser.parse_args(arguments)
    folder = target.with_suffix("")
    for each in given.folders:
        for run in runs_in(each):
            keep(run, folder, given.machine)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(records(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
