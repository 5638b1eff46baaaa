"""Write the board of regret: points of accuracy below the best strategy, for every strategy and recorded pool.

``python tools/docs/regret.py RUN...`` stores the curves of runs, as written by ``dubito run``, in
``docs/results/regret`` (one file per pool, to which later runs add strategies). It then writes the page from these
files and the records of the studies on features and networks; without a run it writes only the page.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dubito.experiments.runner import read_folder, read_rounds
from dubito.matrix import FloatArray
from dubito.strategies.auto import FROZEN, TRAINED

Areas = Mapping[str, FloatArray]
Board = Mapping[str, Areas]

TITLES = {
    "digits": "digits (scikit-learn), logistic regression", "letter": "table: letters, logistic regression",
    "pendigits": "table: pen digits, logistic regression", "segment": "table: image segments, logistic regression",
    "satimage": "table: satellite, logistic regression", "pageblocks": "table: page blocks, logistic regression",
    "trec": "texts: questions of six kinds", "banking": "texts: 77 intents of a bank's customers",
    "mr": "texts: film reviews, for or against", "clinc": "texts: 150 intents",
    "features": "frozen VGG16 features of CIFAR-10, probe", "images": "VGG16 trained through on CIFAR-10",
    "images-cifar100": "VGG16 trained through on CIFAR-100", "images-svhn": "VGG16 trained through on SVHN",
}  # fmt: skip
FIXED = ("digits", "letter", "pendigits", "segment", "trec", "mr", *(
    f"images-{flaw}" for flaw in ("clean", "redundant", "ambiguous", "imbalanced", "mislabelled")
))  # fmt: skip
"""Pools that were looked at while the rule was made."""
NEAR = 0.3
INTRODUCTION = """# The board of regret

Which strategy would nobody have regretted? **Regret** is how far a strategy's mean accuracy over the curve lies below
that of the best strategy on the same pool, in points. A strategy is judged by its worst.

Every number is computed from records beside this page (`docs/results/regret`), from those of
[frozen features](features.md) and from those of [networks](networks.md), by
`python tools/docs/regret.py`; what was not run is left empty. Strategies of a pool share seeds and first labels, and a
regret is over the seeds that all have. The best of many is best by luck, too, so regrets of some tenths mean little:
the column *seeds* and the intervals say how much.
"""
RULE = """## `auto`

`strategy="auto"` asks one question, were the features trained with the labels, and takes `{trained}` where they were
and `{frozen}` where they were not. The data answers it: features were trained if the model doubts labeled rows less
than a hundredth as much as the others, and 99% of them have a labeled neighbor of their own class. On
CIFAR-10 features trained through (5,000 labels) that is so; logistic regression on letters, questions, intents and pen
digits, 200 and 1,000 labels, penalties from usual to next to none, was taken for frozen in all 24 cases tried. You may
answer for it: `"auto:features=trained"`.

The row `auto` is put together from the rows of the strategy that it takes on each pool. The strength was chosen
between 2, 3 and 4 on {fixed}. On `banking`, `satimage` and `pageblocks` and on the five pools of frozen features of
CIFAR-10 it was run after that choice, but its neighbors had been seen there. Not looked at before in any way were
`clinc` and the networks on SVHN; on CIFAR-100 networks had been trained before, with another rate and schedule
([networks](networks.md)), but none of what `auto` takes had been fixed by them. Where regrets of some tenths were in
question there are 10 to 30 seeds.
"""


def page(
    board: Board, settings: Mapping[str, Mapping[str, str]], starts: Mapping[str, Mapping[str, float]] | None = None
) -> str:
    """The whole page."""
    regrets = {pool: regrets_of(with_auto(pool, areas)) for pool, areas in board.items()}
    names = {"frozen": spelled(FROZEN), "trained": spelled(TRAINED)}
    lines = [INTRODUCTION, *verdict(regrets), RULE.format(fixed=", ".join(p for p in FIXED if p in board), **names)]
    lines += [*table(regrets), "", *pools_section(board, starts or {}), "", *experiments(settings)]
    return "\n".join(lines) + "\n"


def spelled(strategy: object) -> str:
    return f"{strategy.name}:strength={strategy.strength:g}"  # type: ignore[attr-defined]


def with_auto(pool: str, areas: Areas) -> dict[str, FloatArray]:
    """With what `auto` would have taken, where that was run."""
    taken = spelled(TRAINED if pool.startswith("images") else FROZEN)
    return {**areas, **({"auto": areas[taken]} if taken in areas else {})}


def regrets_of(areas: Areas) -> dict[str, FloatArray]:
    """(seeds,) of each strategy, against the one of best mean."""
    best = max((name for name in areas if name != "auto"), key=lambda name: float(areas[name].mean()))
    return {name: areas[best] - each for name, each in areas.items()}


def half_width(each: FloatArray) -> float:
    """Of the 95% interval of a mean."""
    from scipy.stats import t

    return float(t.ppf(0.975, len(each) - 1) * each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else np.nan


def worst(regrets: Mapping[str, Mapping[str, FloatArray]], name: str) -> tuple[float, str, int]:
    """The largest regret of a strategy, where, and on how many pools it was run."""
    found = {pool: float(each[name].mean()) for pool, each in regrets.items() if name in each}
    where = max(found, key=lambda pool: found[pool])
    return found[where], where, len(found)


def verdict(regrets: Mapping[str, Mapping[str, FloatArray]]) -> Iterator[str]:
    """What the board says of `auto`."""
    at_most, where, n_pools = worst(regrets, "auto")
    others = {name for each in regrets.values() for name in each} - {"auto"}
    complete = {name: worst(regrets, name) for name in others if worst(regrets, name)[2] == len(regrets)}
    least = min(complete, key=lambda name: complete[name][0])
    interval = half_width(regrets[where]["auto"])
    yield (
        f"**`auto` loses {at_most:.2f} points at worst** (± {interval:.2f}, on {where}), over the {n_pools} of "
        f"{len(regrets)} pools on which what it takes was run. Of the strategies that were run on all, `{least}` loses "
        f"least at worst: {complete[least][0]:.2f} points, on {complete[least][1]}. The aim, {NEAR} points, is "
        f"{'met' if at_most <= NEAR else 'not met'}; {beyond_chance(regrets)}."
    )
    yield ""


def beyond_chance(regrets: Mapping[str, Mapping[str, FloatArray]]) -> str:
    """Where `auto` loses more than the aim with the whole of its interval."""
    known = {pool: each["auto"] for pool, each in regrets.items() if "auto" in each}
    over = [pool for pool, each in known.items() if float(each.mean()) - half_width(each) > NEAR]
    return f"beyond chance it is missed on {', '.join(over)}" if over else "on no pool is it missed beyond chance"


def table(regrets: Mapping[str, Mapping[str, FloatArray]]) -> Iterator[str]:
    """Strategies by pools; the best of a pool, and what is near it, in bold."""
    names = sorted({name for each in regrets.values() for name in each}, key=lambda name: _order(regrets, name))
    yield "## Regret"
    yield ""
    yield f"Points below the best, least worst first; bold is at most {NEAR}."
    yield ""
    yield f"| strategy | worst | mean | pools | {' | '.join(regrets)} |"
    yield f"| --- |{' --- |' * (len(regrets) + 3)}"
    for name in names:
        means = [float(each[name].mean()) for each in regrets.values() if name in each]
        cells = [_cell(float(each[name].mean())) if name in each else "" for each in regrets.values()]
        yield f"| `{name}` | {max(means):.2f} | {np.mean(means):.2f} | {len(means)} | {' | '.join(cells)} |"


def _order(regrets: Mapping[str, Mapping[str, FloatArray]], name: str) -> tuple[bool, int, float]:
    at_most, _, n_pools = worst(regrets, name)
    return name != "auto", -n_pools, at_most


def _cell(regret: float) -> str:
    return f"**{max(regret, 0.0):.2f}**" if regret <= NEAR else f"{regret:.2f}"


def pools_section(board: Board, starts: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """What each pool is, and what was best there."""
    yield "## Pools"
    yield ""
    yield (
        "Networks of two runs are not the same even with the same labels: a GPU adds in any order. *Head start* is how "
        "far what `auto` takes was ahead of random before the first pick, in points; where it is large, a gain over "
        "random shows little. It is 0 where both come from one run, or from one that repeats to the bit."
    )
    yield ""
    yield "| pool | what | seeds | best | over random | `auto` over random | head start |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for pool, areas in board.items():
        best = max(areas, key=lambda name: float(areas[name].mean()))
        taken = with_auto(pool, areas).get("auto")
        gains = [_gain(areas[best] - areas["random"]), "" if taken is None else _gain(taken - areas["random"])]
        gains.append(_head_start(pool, starts.get(pool, {})))
        study, _, flaw = pool.partition("-")
        what = TITLES.get(pool) or TITLES[study] + (f", {flaw}" if flaw else "")
        yield f"| {pool} | {what} | {len(areas['random'])} | `{best}` | {' | '.join(gains)} |"


def _head_start(pool: str, firsts: Mapping[str, float]) -> str:
    taken = spelled(TRAINED if pool.startswith("images") else FROZEN)
    return f"{firsts[taken] - firsts['random']:+.2f}" if {taken, "random"} <= firsts.keys() else ""


def _gain(each: FloatArray) -> str:
    return f"{each.mean():+.2f} ± {half_width(each):.2f}"


def experiments(settings: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """What was run, in full."""
    yield "## What was run"
    yield ""
    yield (
        "Texts are unit vectors of the sentence encoder all-MiniLM-L6-v2 (int8); tables are standardized. "
        "`tools/docs/regret_pools.py` makes both out of the files that their authors publish (it has their places and "
        "licenses, and `sources.sha256` their sums); a quarter of the rows is the test set. Studies of features and "
        "images go by name: `dubito run features-coverage-clean`, `dubito run images-coverage-clean`."
    )
    for pool, runs in settings.items():
        if "-" not in pool:
            text = next(iter(runs.values()))
            yield (
                f'\n??? note "{pool}"\n\n    ```toml\n'
                + "".join(f"    {line}\n" for line in text.splitlines())
                + "    ```"
            )


RESULTS = Path(__file__).parents[2] / "docs" / "results"
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
