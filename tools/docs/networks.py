"""Write the page of the experiments on images.

``python tools/docs/networks.py FOLDER...`` takes folders of runs, as written by ``dubito run``, or folders that contain
such folders. For each shipped experiment it writes a small record (all rounds without the picked rows) to
``docs/results/networks``, draws the curves, and writes the page. Without a folder, only the page is written, from the
existing records. ``--machine TEXT`` describes the machine of the runs.
"""

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from formatting import save_png
from networks_page import EXPERIMENTS, Record, page

from dubito.experiments.plan import Experiment
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
"""Columns of a record; ``picks`` is the number of rows picked, ``strategy`` an index of the strategies."""


def find_runs(folder: Path) -> list[Path]:
    """The folder if it is a run, else the runs in it."""
    if (folder / EXPERIMENT).is_file():
        return [folder]
    runs = sorted(path.parent for path in folder.glob(f"*/{EXPERIMENT}"))
    if not runs:
        raise SystemExit(f"{folder} holds no run.")
    return runs


def record_run(run: Path, folder: Path, machine: str | None) -> None:
    """Write the record of a run and the figure of its learning curves."""
    experiment = read_folder(run)
    if experiment.name not in EXPERIMENTS:
        raise SystemExit(f"{run} is a run of {experiment.name}, which the page does not know.")
    if not is_finished(run):
        raise SystemExit(f"{run} is not finished; go on with: dubito resume {run}")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{experiment.name}.json"
    path.write_text(record_text(experiment, read_rounds(run), read_headers(run), machine), encoding="utf-8")
    subtitle = f"VGG16, {EXPERIMENTS[experiment.name].short}"
    figure = curves_picture(read_record(path).summary, subtitle)
    save_png(figure, folder.parent / "images" / f"network-{experiment.name}.png")


def record_text(experiment: Experiment, rounds: Sequence[Round], headers: Sequence[dict], machine: str | None) -> str:
    """A record as JSON, with one line for each round."""
    names = [arm.name for arm in experiment.strategies]
    last = headers[-1] if headers else {}
    images = re.split(r"[/\\]", experiment.data.images or "")[-1] or None
    without_paths = replace(experiment, data=replace(experiment.data, images=images))
    head = {
        "schema": 1,
        "name": experiment.name,
        "experiment": experiment.hash8,
        "settings": without_paths.to_toml(),
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
    """The values of a round for `COLUMNS`."""
    values = {**each.as_dict(), "strategy": names.index(each.strategy), "picks": len(each.picked)}
    values["recall"] = [None if share is None else round(share, 4) for share in each.recall]
    return [round(value, 6) if isinstance(value := values[name], float) else value for name in COLUMNS]


def read_record(path: Path) -> Record:
    head = json.loads(path.read_text(encoding="utf-8"))
    rounds = []
    for row in head.pop("rounds"):
        values = dict(zip(head["columns"], row, strict=True))
        values["strategy"] = head["strategies"][values["strategy"]]
        values["picked"] = range(values.pop("picks"))
        rounds.append(Round.from_dict(values))
    return Record(head["name"], head, rounds, summarize(rounds))


def records(folder: Path) -> dict[str, Record]:
    """All records, in the order of the page."""
    return {name: read_record(folder / f"{name}.json") for name in EXPERIMENTS if (folder / f"{name}.json").exists()}


def main(arguments: Sequence[str] | None = None, target: Path = PAGE) -> None:
    """Write the records of the runs in the folders, and the page."""
    parser = argparse.ArgumentParser(description="Make the page of the experiments on images.")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--machine", help="the machine of the runs, such as 'one NVIDIA H200'")
    options = parser.parse_args(arguments)
    folder = target.with_suffix("")
    for each in options.folders:
        for run in find_runs(each):
            record_run(run, folder, options.machine)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(records(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
