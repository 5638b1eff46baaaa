"""Run changes of `auto` that were tried, and keep them out of the package: none was better everywhere.

``python tools/docs/regret_tries.py POOLS`` runs `CANDIDATES` on the pools of the board whose files are in POOLS
(`regret_pools` writes them), and on `UNSEEN`, on all cores, and writes ``docs/results/regret-tries.json``: of each pool
and candidate the mean accuracy over the curve, in points, for each seed. ``tools/docs/regret.py`` shows them.
"""

import json
import multiprocessing
import os
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import numpy as np
from regret import CHOSEN, DIRECTIONS, KEPT, SHARPENED, TRIED, batch_of, first_half, pool_of
from regret_pools import UNSEEN

from dubito.core.distances import read_rows
from dubito.core.problem import Request
from dubito.experiments import Arm, Data, Experiment, Schedule, run_experiment
from dubito.experiments.models.kinds import model_from_table
from dubito.experiments.plan import parse_strategy
from dubito.experiments.runner import THREADS
from dubito.matrix import FloatArray, len_of
from dubito.strategies import BUILT_IN
from dubito.strategies.auto import FROZEN
from dubito.strategies.base import Choice
from dubito.strategies.constraints import solve_with_constraints

SEEDS = range(15)
EVERYWHERE = (
    SHARPENED, DIRECTIONS, "tried:spread=0.9", CHOSEN, "tried:spread=0.9,few=10", "tried:spread=0.9,few=20",
)  # fmt: skip
FIRST_HALF = (
    "tried:spread=0.5", "tried:spread=0.75", "tried:strength=1.0", "tried:strength=2.0", "tried:factor=0.7",
    "tried:factor=1.0", "tried:factor=2.5", "tried:own=1.0", "tried:own=2.0",
)  # fmt: skip
"""Run with 10 labels a round only, on the half of the pools on which the choice was made."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What `auto` uses for frozen features, with changes."""

    name: ClassVar[str] = "tried"
    uses_engine: ClassVar[bool] = True
    strength: float = FROZEN.strength
    factor: float = FROZEN.factor
    own: float = 0.0
    """A gain counts times the doubt about the picked row itself, to this power."""
    spread: float = 0.0
    """Rows nearer to the mean of the pool than this quantile are moved away from it, to that distance."""
    few: float = np.inf
    """Nothing is moved once there are so many labels for each class."""

    def plan(self, request: Request) -> None:
        """Nothing to check."""

    def choose(self, request: Request) -> Choice:
        assert request.probabilities is not None
        n_classes = request.probabilities.shape[-1]
        if self.spread and len_of(request.references) < self.few * n_classes:
            points = spread_out(read_rows(request.pool, slice(0, len_of(request.pool))), self.spread)
            moved = {"pool": points, "references": points[request.labeled], "largest": float(np.abs(points).max())}
            request = replace(request, known=None, **moved)  # type: ignore[arg-type]
        problem = replace(FROZEN, strength=self.strength, factor=self.factor).plan(request)
        if self.own:
            doubt = np.maximum(problem.weights ** (1.0 / self.strength), 1e-3)
            problem = replace(problem, costs=doubt**-self.own)
        return solve_with_constraints(request, problem)


def spread_out(points: FloatArray, quantile: float) -> FloatArray:
    """Points relative to their mean, none nearer to it than a quantile of their distances."""
    centered = points - points.mean(axis=0)
    sizes = np.maximum(np.linalg.norm(centered, axis=1, keepdims=True), 1e-12)
    return np.asarray(centered / sizes * np.maximum(sizes, np.quantile(sizes, quantile)))


BUILT_IN[Tried.name] = Tried


def experiments(folder: Path) -> dict[str, Experiment]:
    """Of each pool whose file is there: the settings of the board, and its candidates."""
    found = {}
    for path in sorted(KEPT.glob("*.json")):
        held = json.loads(path.read_text(encoding="utf-8"))
        if batch_of(held["name"]):
            settings = tomllib.loads(next(iter(held["settings"].values())))
            schedule = {key: settings["schedule"][key] for key in ("initial", "budget", "rounds")}
            found[held["name"]] = settings["data"]["path"], settings["data"]["rows"], Schedule(**schedule)
    for name, (rows, *schedules) in UNSEEN.items():
        found |= {f"{name}-{each[1]}": (f"{name}.npz", rows, Schedule(*each)) for each in schedules}
    model = model_from_table({"kind": "linear", "c": 1.0, "iterations": 300})
    return {
        name: Experiment(name, arms_of(name), Data(path=str(folder / file), rows=rows), schedule, model)
        for name, (file, rows, schedule) in found.items()
        if (folder / file).exists()
    }


def arms_of(pool: str) -> tuple[Arm, ...]:
    """Words have rows without any value but 0, which cosine distances do not allow."""
    names = [name for name in EVERYWHERE if name != DIRECTIONS or not pool.startswith("words")]
    is_first = batch_of(pool) == "10" and pool.rpartition("-")[0] in first_half()
    return tuple(map(parse_strategy, [*names, *(FIRST_HALF if is_first else ())]))


def run(experiment: Experiment) -> tuple[str, dict[str, float]]:
    """The area of every candidate on one pool with one seed."""
    with TemporaryDirectory() as folder:
        run_experiment(experiment, Path(folder))
        areas = pool_of(Path(folder)).areas()
    return experiment.name, {name: each[str(experiment.seeds[0])] for name, each in areas.items()}


def main(folder: Path) -> None:
    os.environ.update(dict.fromkeys(THREADS, "1"))
    plans = experiments(folder.resolve())
    tasks = [replace(experiment, seeds=(seed,)) for seed in SEEDS for experiment in plans.values()]
    kept: dict[str, dict[str, list[float]]] = {name: {} for name in plans}
    with multiprocessing.get_context("spawn").Pool() as workers:
        for number, (pool, areas) in enumerate(workers.imap(run, tasks), start=1):
            for name, area in areas.items():
                kept[pool].setdefault(name, []).append(round(area, 3))
            if number % len(plans) == 0:  # All pools have one seed more.
                lines = [f"  {json.dumps(pool)}: {json.dumps(areas)}" for pool, areas in kept.items()]
                TRIED.write_text('{\n "areas": {\n' + ",\n".join(lines) + "\n }\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
