"""Time dubito inside scikit-activeml, modAL and small-text beside what they bring. See README.md beside this file.

Everybody is called as its library calls it, on the same rows in one process, in turn. Everything is in
``results/integrations.json``, and the page is made of that alone.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import machine
import numpy as np
from timing import Contestant, Outcome, time_in_turn
from workloads import CLASSES, Array, Ints, Workload, generate_workload, read_workload

import dubito

TITLES = {
    "1": "One BLAS thread for everybody",
    "": "Threads as each library chooses",
    "busy": "Threads as each library chooses, on a busier machine",
}
"""Runs by their threads; the one on a busier machine was made once, and is kept beside."""
RESULTS = Path(__file__).parent / "results"
Record = dict[str, Any]
Ask = Callable[[], Any]


@dataclass(frozen=True)
class Round:
    """What everybody is given: rows of a pool, the labeled ones behind them, and how many to pick."""

    workload: Workload
    budget: int

    @property
    def rows(self) -> Array:
        return np.concatenate([self.workload.pool, self.workload.labeled])

    @property
    def n(self) -> int:
        return len(self.workload.pool)

    @property
    def answers(self) -> Ints:
        """Classes that features decide: those of a direction each."""
        directions = np.random.default_rng(0).standard_normal((self.rows.shape[1], CLASSES))
        return (self.rows @ directions).argmax(axis=1)

    def radius(self, picks: Ints, is_cosine: bool) -> float:
        """How far the farthest row of the pool lies from what is labeled or picked."""
        rows = self.rows.astype(np.float64)
        if is_cosine:
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        near, lengths = np.full(self.n, np.inf), (rows**2).sum(axis=1)
        centers = np.append(np.arange(self.n, len(rows)), picks)
        for block in np.array_split(centers, max(len(centers) // 500, 1)):
            squared = lengths[: self.n, None] + lengths[block] - 2.0 * rows[: self.n] @ rows[block].T
            near = np.minimum(near, squared.min(axis=1))
        return float(np.sqrt(max(near.max(), 0.0)))


def scikit_activeml(given: Round, theirs: tuple[str, ...], ours: dict[str, dict[str, object]]) -> dict[str, Ask]:
    """Query strategies of both by name, on one matrix with gaps among its labels."""
    rows, labels = given.rows, given.answers.astype(np.float64)
    labels[: given.n] = np.nan
    pool, adapter = import_module("skactiveml.pool"), import_module("dubito.integrations.skactiveml")
    made = {f"dubito {name}": getattr(adapter, name)(random_state=0, **options) for name, options in ours.items()}
    settings = {"ProbCover": {"n_classes": CLASSES}}
    made |= {f"its own {name}": getattr(pool, name)(random_state=0, **settings.get(name, {})) for name in theirs}
    return {name: lambda each=each: each.query(rows, labels, batch_size=given.budget) for name, each in made.items()}


def modal(given: Round) -> dict[str, Ask]:
    """A learner taught the labeled rows, and asked by each."""
    base, batch = import_module("modAL.models"), import_module("modAL.batch")
    adapter, uncertainty = import_module("dubito.integrations.modal"), import_module("modAL.uncertainty")
    select, density = import_module("modAL.utils.selection"), import_module("modAL.density")
    pool, answers = given.workload.pool, given.answers[given.n :]

    def by_density(learner: Any, points: Array, n_instances: int) -> Any:
        """As modAL's documentation writes it."""
        worth = uncertainty.classifier_uncertainty(learner, points) * density.information_density(points, "euclidean")
        return select.multi_argmax(worth, n_instances=n_instances)

    strategies = {
        "dubito doubt-coreset": adapter.Sampling("doubt-coreset"),
        "dubito doubt-coverage": adapter.Sampling("doubt-coverage"),
        "its own ranked batch": batch.uncertainty_batch_sampling,
        "its own uncertainty × information density": by_density,
    }
    model = import_module("sklearn.linear_model").LogisticRegression(max_iter=200)
    learners = {
        name: base.ActiveLearner(model, strategy, given.workload.labeled, answers)
        for name, strategy in strategies.items()
    }
    return {name: lambda each=each: each.query(pool, n_instances=given.budget)[0] for name, each in learners.items()}


def small_text(given: Round) -> dict[str, Ask]:
    """Query strategies handed embeddings; both of its core-sets normalize rows, so ours goes by cosine, too."""
    coresets = import_module("small_text.query_strategies.coresets")
    adapter, data = import_module("dubito.integrations.small_text"), import_module("small_text.data.datasets")
    rows, answers = given.rows, given.answers
    dataset = data.SklearnDataset(rows, answers, target_labels=np.arange(CLASSES))
    fresh, known = np.arange(given.n), np.arange(given.n, len(rows))
    strategies = {
        "dubito coreset": adapter.QueryStrategy("coreset", metric="cosine"),
        "dubito coverage": adapter.QueryStrategy("coverage", metric="cosine"),
        "its own GreedyCoreset": coresets.GreedyCoreset(),
        "its own LightweightCoreset": coresets.LightweightCoreset(),
    }
    return {
        name: lambda each=each: each.query(None, dataset, fresh, known, answers[known], n=given.budget, embeddings=rows)
        for name, each in strategies.items()
    }


@dataclass(frozen=True)
class Row:
    """A library, what is asked, and who is held against whom."""

    library: str
    n: int
    m: int
    budget: int
    asks: Callable[[Round], dict[str, Ask]]
    yardsticks: dict[str, str]
    """Which of dubito's each of theirs is compared with; picks must be equal where it is the same rule."""
    equal: str = ""
    is_cosine: bool = False


def rows_of(quick: int) -> list[Row]:
    """The sizes are those that the others can hold, and finish in minutes."""
    core = {"its own CoreSet": "dubito Coreset"}
    cover = {"its own MaxHerding": "dubito Coverage", "its own ProbCover": "dubito Coverage"}
    cover["its own TypiClust"] = "dubito TypiClust"
    ranked = {"its own ranked batch": "dubito doubt-coreset"}
    ranked["its own uncertainty × information density"] = "dubito doubt-coverage"
    texts = {"its own GreedyCoreset": "dubito coreset", "its own LightweightCoreset": "dubito coreset"}
    return [
        Row("scikit-activeml", 20_000 // quick, 1_000 // quick, 500 // quick,
            lambda each: scikit_activeml(each, ("CoreSet",), {"Coreset": {}}), core, "its own CoreSet"),
        Row("scikit-activeml", 5_000 // quick, 200 // quick, 100 // quick,
            lambda each: scikit_activeml(each, ("MaxHerding", "ProbCover", "TypiClust"),
                                         {"Coverage": {}, "TypiClust": {"neighbors": 5}}), cover),
        Row("modAL-python", 5_000 // quick, 200 // quick, 20, modal, ranked),
        Row("small-text", 5_000 // quick, 200 // quick, 100 // quick, small_text, texts, "its own GreedyCoreset", True),
    ]  # fmt: skip


def timed(ask: Ask) -> Outcome:
    """What is picked, and the seconds that cores spent on it: other work on the machine does not count there."""
    started = time.process_time()
    picks = np.asarray(ask(), dtype=np.int64)
    return Outcome(picks, parts={"cores": time.process_time() - started})


def measure(row: Row, workload: Workload, repeats: int) -> Record:
    """Everybody in turn; what each covers is looked at after its last repeat."""
    given = Round(workload.head(row.n, row.m), row.budget)
    asks, radii, found = row.asks(given), dict[str, float](), dict[str, Ints]()
    warm = row.asks(Round(workload.head(400, 60), 5))

    def check(name: str, outcome: Outcome) -> str:
        found[name] = outcome.picks
        radii[name] = given.radius(outcome.picks, row.is_cosine)
        return f"radius {radii[name]:.4g}"

    contestants = [
        Contestant(
            name,
            lambda ask=ask: timed(ask),
            warm[name],
            check=lambda outcome, name=name: check(name, outcome),
            repeats=5 if name.startswith("dubito") else 3,
            cap=60.0,
        )
        for name, ask in asks.items()
    ]
    print(f"{row.library}: {row.n:,} rows, {row.m:,} labeled, {row.budget} picks", flush=True)
    timings = time_in_turn(contestants, repeats)
    for name, timing in timings.items():
        timing["radius"] = radii[name]
        if name in row.yardsticks:
            timing["beside"] = row.yardsticks[name]
        if name == row.equal:
            mine = found[row.yardsticks[name]]
            timing["same_picks"] = int((found[name] == mine).sum())
    version = machine.installed(row.library)
    about = {"library": row.library, "version": version, "n": row.n, "d": int(given.rows.shape[1]), "m": row.m}
    return about | {"budget": row.budget, "metric": "cosine" if row.is_cosine else "euclidean", "contestants": timings}


def page(document: Record) -> str:
    """The page of all runs, a run a number of threads."""
    lines = [
        "# Inside other people's libraries, measured",
        "",
        "Made by `benchmarks/integrations.py`; every repeat is in `integrations.json`. Each is called as its library",
        "calls it, on the same rows in one process, in turn. *Cores* are the seconds that cores spent on it; ratios",
        "are of the least times, and of those. The radius is how far the farthest row lies from what is labeled or",
        "picked: core-sets keep it small, and coverage has another aim.",
        "",
    ]
    for threads, record in document.items():
        lines += [f"## {TITLES.get(threads, f'{threads} BLAS threads')}", "", about(record), ""]
        lines += [line for row in record["rows"] for line in table(row)]
    return "\n".join(lines)


def about(record: Record) -> str:
    """The machine of a run in a few lines."""
    where = record["machine"]
    return (
        f"{where['processor'] or where['system']}, {where['cores']} cores, shared with other work{where['how']}: load "
        f"{where['load_at_start']} when the run began and {where['load_at_end']} when it ended; NumPy "
        f"{where['versions']['numpy']}, scikit-learn {where['versions']['scikit-learn']}, float32 products at "
        f"{where['sgemm_gflops']} GFlop/s; {where['date']}. Features: {record['data']}."
    )


def table(row: Record) -> list[str]:
    """One library's."""
    lines = [
        f"### {row['library']} {row['version']}",
        "",
        f"{row['n']:,} rows × {row['d']}, {row['m']:,} labeled, {row['budget']} picks, {row['metric']}.",
        "",
        "| | least, s | median, s | cores, s | times dubito's: least | cores | radius | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, each in row["contestants"].items():
        beside, note = row["contestants"].get(each.get("beside")), ""
        if "same_picks" in each:
            note = f"{each['same_picks']} of {row['budget']} picks are the same, in order"
        times = ("", "")
        if beside:
            ratios = each["least"] / beside["least"], each["parts"]["cores"] / beside["parts"]["cores"]
            times = (f"{ratios[0]:.3g}× {each['beside']}", f"{ratios[1]:.3g}×")
        spent = (f"{each['least']:.3g}", f"{each['median']:.3g}", f"{each['parts']['cores']:.3g}")
        cells = (name, *spent, *times, f"{each['radius']:.4g}", note)
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def run(workload: Workload, is_quick: bool) -> Record:
    """Every row."""
    where = machine.describe() | {"how": ", over which it had priority" if os.nice(0) < 0 else ""}
    rows = [measure(row, workload, 1 if is_quick else 5) for row in rows_of(10 if is_quick else 1)]
    where["load_at_end"] = round(os.getloadavg()[0], 2)
    return {"machine": where, "data": workload.title, "dubito": dubito.__version__, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pool", type=Path, help="an .npz with features, logits and labeled; else a generated pool")
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes: shows that everything runs")
    parser.add_argument("--page", action="store_true", help="measure nothing, make the page anew")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    path = asked.out / "integrations.json"
    document: Record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not asked.page:
        warnings.simplefilter("ignore")  # small-text and modAL use what is deprecated.
        workload = generate_workload(20_000, 1_000) if asked.pool is None else read_workload(asked.pool)
        document[os.environ.get("OPENBLAS_NUM_THREADS", "")] = run(workload, asked.quick)
        asked.out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    text = page(document)
    (asked.out / "integrations.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
