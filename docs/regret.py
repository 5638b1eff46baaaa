"""The board of regret: how far every strategy stays behind the best one, on every pool that was recorded.

``python docs/regret.py RUN...`` keeps the curves of runs, as ``dubito run`` leaves them, in ``docs/results/regret``: a
file for each pool, to which strategies of later runs are added. Then, and without any run, it writes the page out of
what is kept there and in the records of the studies on features and on networks.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from regret_page import page

from dubito.experiments.runner import read_folder, read_rounds
from dubito.matrix import FloatArray

RESULTS = Path(__file__).parent / "results"
KEPT = RESULTS / "regret"
FLAWS = ("clean", "redundant", "ambiguous", "imbalanced", "mislabelled")
PLACES = 5


@dataclass(frozen=True, slots=True)
class Pool:
    """Curves of every strategy on one pool: a row of accuracies for each seed."""

    name: str
    labels: list[int]
    curves: dict[str, dict[str, list[float]]]
    settings: dict[str, str] = field(default_factory=dict)
    """What was run, as TOML, by the name of the experiment."""

    def areas(self) -> dict[str, dict[str, float]]:
        """Of each strategy and seed the mean accuracy over the curve, in points."""
        width = self.labels[-1] - self.labels[0]
        return {
            name: {seed: 100.0 * float(np.trapezoid(each, self.labels)) / width for seed, each in rows.items()}
            for name, rows in self.curves.items()
        }

    def with_curves(self, curves: dict[str, dict[str, list[float]]], settings: dict[str, str]) -> "Pool":
        """With more strategies, or with more seeds of one."""
        joined = {name: self.curves.get(name, {}) | rows for name, rows in curves.items()}
        return Pool(self.name, self.labels, self.curves | joined, self.settings | settings)


def pool_of(run: Path) -> Pool:
    """What a run's journal says; seeds that are not finished are left out."""
    experiment = read_folder(run)
    labels = experiment.schedule.labels.tolist()
    curves: dict[str, dict[str, list[float]]] = {}
    for each in sorted(read_rounds(run), key=lambda each: each.turn):
        curves.setdefault(each.strategy, {}).setdefault(str(each.seed), []).append(round(each.test_accuracy, PLACES))
    whole = {
        name: {seed: curve for seed, curve in rows.items() if len(curve) == len(labels)}
        for name, rows in curves.items()
    }
    name = re.sub(r"^(.*)-main$", r"images-\1", experiment.name.replace("coverage-", ""))
    # Where the file lay on the machine that ran it is nobody's business.
    plain = re.sub(r'^path = ".*?([^/"]+)"$', r'path = "\1"', experiment.to_toml(), flags=re.MULTILINE)
    return Pool(name, labels, {name: rows for name, rows in whole.items() if rows}, {experiment.name: plain})


def keep(run: Path) -> None:
    """Add a run's strategies to what is kept of its pool."""
    found = pool_of(run)
    path = KEPT / f"{found.name}.json"
    if path.exists():
        found = read(path).with_curves(found.curves, found.settings)
    lines = [f"  {json.dumps(name)}: {json.dumps(rows)}" for name, rows in found.curves.items()]
    head = json.dumps({"name": found.name, "labels": found.labels, "settings": found.settings}, indent=1)
    KEPT.mkdir(parents=True, exist_ok=True)
    path.write_text(head[:-2] + ',\n "curves": {\n' + ",\n".join(lines) + "\n }\n}\n", encoding="utf-8")


def read(path: Path) -> Pool:
    held = json.loads(path.read_text(encoding="utf-8"))
    return Pool(held["name"], held["labels"], held["curves"], held["settings"])


def features(flaw: str) -> dict[str, dict[str, list[float]]]:
    """Curves of the study on frozen features."""
    held = json.loads((RESULTS / "features" / flaw / "results.json").read_text(encoding="utf-8"))
    seeds = [str(seed) for seed in held["seeds"]]
    return {each["strategy"]: dict(zip(seeds, each["accuracy"], strict=True)) for each in held["strategies"]}


def networks(flaw: str) -> dict[str, dict[str, list[float]]]:
    """Curves of the study on networks; none of CIFAR-100, where one run has them all."""
    if flaw == "cifar100":
        return {}
    record = f"images-strength-{flaw}" if flaw in FLAWS else f"{flaw}-main"
    held = json.loads((RESULTS / "networks" / f"{record}.json").read_text(encoding="utf-8"))
    at = {name: held["columns"].index(name) for name in ("strategy", "seed", "turn", "test_accuracy")}
    curves: dict[str, dict[str, list[float]]] = {}
    for row in sorted(held["rounds"], key=lambda row: row[at["turn"]]):
        name = held["strategies"][row[at["strategy"]]]
        curves.setdefault(name, {}).setdefault(str(row[at["seed"]]), []).append(row[at["test_accuracy"]])
    return curves


def pools() -> Iterator[Pool]:
    """Everything recorded."""
    for path in sorted(KEPT.glob("*.json")):
        found = read(path)
        study, _, flaw = found.name.partition("-")
        if study == "features":
            found = found.with_curves(features(flaw), {})
        if study == "images":
            found = found.with_curves(networks(flaw), {})
        yield found


def areas_in_common(pool: Pool) -> dict[str, FloatArray]:
    """(seeds,) of each strategy, over the seeds that all have."""
    areas = pool.areas()
    seeds = set.intersection(*(set(rows) for rows in areas.values()))
    return {name: np.array([rows[seed] for seed in sorted(seeds, key=int)]) for name, rows in areas.items()}


def firsts(pool: Pool) -> dict[str, float]:
    """The mean accuracy of each strategy before its first pick, in points, over the seeds that all have."""
    seeds = set.intersection(*(set(rows) for rows in pool.curves.values()))
    return {name: 100.0 * float(np.mean([rows[seed][0] for seed in seeds])) for name, rows in pool.curves.items()}


def main(arguments: Sequence[str]) -> None:
    """Keep the runs, and write the page."""
    for each in arguments:
        keep(Path(each))
    board = {each.name: areas_in_common(each) for each in pools()}
    settings = {each.name: each.settings for each in pools()}
    starts = {each.name: firsts(each) for each in pools()}
    (RESULTS / "regret.md").write_text(page(board, settings, starts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
