"""Simulated labeling projects: how often the interval of the estimated accuracy contains the truth, and how wide it is.

python benchmarks/accuracy_interval.py [--projects 1000] [--page-only]

Each project has a pool of its own and runs the rounds of a labeling project (`dubito.labeling.rounds`): the default
strategy picks, a share of the items is drawn at random, the true labels answer. The accuracy that is estimated, that of
the last model on the items without a label, is then known. Writes docs/results/accuracy.json and accuracy.md; a second
call continues the record.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dubito.labeling.rounds import Job, RoundRunner
from dubito.models.held_out import Share

RECORD = Path(__file__).parents[1] / "docs" / "results" / "accuracy.json"
LABELS, BATCH = 100, 50
SHARES = (0.1, 0.2, 0.4)
NONE = np.empty(0, dtype=np.int64)


def digits(rng: np.random.Generator) -> tuple[Any, Any]:
    """A thousand of scikit-learn's digits."""
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    rows = rng.permutation(len(features))[:1000]
    return features[rows], labels[rows]


def table(rng: np.random.Generator) -> tuple[Any, Any]:
    """A table with two overlapping classes."""
    from sklearn.datasets import make_classification

    seed = int(rng.integers(1 << 30))
    return make_classification(1500, 10, n_informative=5, n_redundant=2, flip_y=0.15, class_sep=0.8, random_state=seed)


def texts(rng: np.random.Generator) -> tuple[Any, Any]:
    """Generated texts of six topics with common words, as principal components of their word counts."""
    n, n_words, n_topics = 1200, 400, 6
    topics = rng.dirichlet(np.full(n_words, 0.08), n_topics)
    common = rng.dirichlet(np.full(n_words, 0.3))
    labels = rng.choice(n_topics, n, p=rng.dirichlet(np.full(n_topics, 5.0)))
    shares = rng.beta(1.5, 3.0, n)
    words = np.stack(
        [
            rng.multinomial(int(rng.integers(10, 60)), (1.0 - share) * common + share * topics[label])
            for label, share in zip(labels, shares, strict=True)
        ]
    )
    counts = np.log1p(words.astype(np.float64))
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    counts -= counts.mean(axis=0)
    vectors = np.linalg.eigh(counts.T @ counts)[1][:, ::-1][:, :40]
    return counts @ vectors, labels


KINDS: dict[str, Callable[[np.random.Generator], tuple[Any, Any]]] = {"digits": digits, "table": table, "texts": texts}


def run_project(seed: int) -> dict[str, Any]:
    """Run a project; the seed decides on the kind of data and the share of the audit."""
    kind, share = list(KINDS)[seed % 3], SHARES[seed // 3 % 3]
    features, labels = KINDS[kind](np.random.default_rng([seed, 1]))
    shuffled = np.random.default_rng([seed, 2]).permutation(len(features))
    features, names = features[shuffled], [str(each) for each in labels[shuffled].tolist()]
    runner = RoundRunner(features, True if kind == "table" else None)
    answered: list[int] = []
    audited: list[int] = []
    while True:
        order = np.argsort(np.array(answered, dtype=np.int64))
        items = np.array(answered, dtype=np.int64)[order]
        job = Job(
            round=10 * seed + 1 + len(answered) // BATCH,  # Rounds draw at random by their number.
            items=items,
            labels=[names[item] for item in items.tolist()],
            closed=NONE,
            allowed=None,
            budget=BATCH,
            audit=share,
            strategy="auto",
            audited=np.array(sorted(audited), dtype=np.int64),
            order=np.argsort(order),
            last_batch=None,
        )
        arrays, facts = runner.run(job)
        if len(answered) >= LABELS:
            break
        answered += arrays["picks"].tolist()
        audited += arrays["picks"][arrays["why"] == "audit"].tolist()
    rest = np.setdiff1d(np.arange(len(features)), answered)
    predicted = arrays["classes"][arrays["probabilities"][rest].argmax(axis=1)]
    truth = float((predicted == np.array(names)[rest]).mean())
    naive = None if facts["audited"] is None else Share(facts["audited_right"], facts["audited"])
    return {
        "seed": seed,
        "kind": kind,
        "share": share,
        "audited": len(audited),
        "truth": truth,
        "held_out": facts["n_right"] / facts["n_tested"],
        "estimate": None if facts["estimated"] is None else [facts[f"estimated{end}"] for end in ("", "_low", "_high")],
        "naive": None if naive is None else [naive.value, *naive.interval],
    }


def summary(projects: list[dict[str, Any]]) -> dict[str, float]:
    """Coverage and width of both intervals, and the errors of three estimates, in points."""
    truth = np.array([each["truth"] for each in projects])
    ours, naive = (np.array([each[name] for each in projects]) for name in ("estimate", "naive"))
    held_out = np.array([each["held_out"] for each in projects])

    def covered(found: Any) -> float:
        return float(((found[:, 1] <= truth) & (truth <= found[:, 2])).mean())

    def error(found: Any) -> float:
        return float(100.0 * (found - truth).mean())

    widths = (ours[:, 2] - ours[:, 1]).mean(), (naive[:, 2] - naive[:, 1]).mean()
    return {
        "projects": len(projects),
        "truth": float(100.0 * truth.mean()),
        "covered": covered(ours),
        "covered_naive": covered(naive),
        "width": float(100.0 * widths[0]),
        "width_naive": float(100.0 * widths[1]),
        "ratio": float(widths[0] / widths[1]),
        "error": error(ours[:, 0]),
        "error_naive": error(naive[:, 0]),
        "error_held_out": error(held_out),
    }


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def page(projects: list[dict[str, Any]]) -> str:
    """The page of results."""
    known = [each for each in projects if each["estimate"] is not None]
    rows = []
    for name in (*KINDS, "all"):
        for share in (*SHARES, None) if name == "all" else SHARES:
            chosen = [each for each in known if name in (each["kind"], "all") and share in (each["share"], None)]
            if not chosen:
                continue
            found = summary(chosen)
            audited = np.median([each["audited"] for each in chosen])
            shares = [f"{found[each]:.1%}" for each in ("covered", "covered_naive")]
            widths = [f"{found[each]:.1f}" for each in ("width", "width_naive")]
            errors = [f"{found[each]:+.1f}" for each in ("error", "error_naive", "error_held_out")]
            first = [name, "all" if share is None else f"{share:.0%}", f"{found['projects']}", f"{audited:.0f}"]
            rows.append(_row([*first, f"{found['truth']:.1f}", *shares, *widths, f"{found['ratio']:.2f}", *errors]))
    everything = summary(known)
    inside = "inside" if 0.93 <= everything["covered"] <= 0.97 else "outside"
    cost = 1.0 / everything["ratio"] ** 2
    return PAGE.format(
        n=len(projects),
        left_out=len(projects) - len(known),
        covered=f"{everything['covered']:.1%}",
        inside=inside,
        ratio=f"{everything['ratio']:.2f}",
        cost=f"{(2.0 * everything['ratio']) ** 2:.1f}",
        worth=f"{cost:.2f}",
        held=f"{everything['error_held_out']:+.1f}",
        labels=LABELS,
        head=_row(HEAD) + "\n" + _row(["---"] * len(HEAD)),
        rows="\n".join(rows),
    )


HEAD = [
    *("pool", "random share", "projects", "random labels, median", "truth, %", "interval contains truth"),
    *("the same, naive", "width, points", "naive width", "ratio", "mean error, points", "naive", "held-out labels"),
]
PAGE = """\
# Estimated accuracy

In {n} simulated labeling projects, the 95% interval of the [estimated accuracy](../explanation/accuracy.md)
contains the true accuracy in {covered}, which is {inside} the range of 93% to 97%. Its width is {ratio} times that of
the naive interval, Wilson's on the same randomly drawn labels. This page is written by
`python benchmarks/accuracy_interval.py` from `accuracy.json`.

Each project has a pool of its own: 1,000 of scikit-learn's digits, a generated table of 1,500 rows with two
overlapping classes (`make_classification`, 15% of the labels random), or 1,200 generated texts of six topics. The
rounds of a labeling project label {labels} items, 50 at a time: the default strategy picks, and a share is drawn at
random. The truth is the accuracy of the last model on all items without a label. Not counted are {left_out} projects
with fewer than 5 randomly drawn labels, for which nothing is estimated.

{head}
{rows}

The last three columns are the mean differences to the truth: of the estimate, of the share of randomly drawn labels
that are predicted correctly, and of the accuracy on all held-out labels, most of which were chosen to be hard.

Half the naive width is not reached. Whether a model is right on an item is only partly known from its confidence, and
the rest of the uncertainty shrinks with the number of random labels alone: half the naive width takes {cost} times the
random labels, and a random label is worth {worth} of the naive interval's. The estimate does not trust the calibration
of the model, which with few labels and overlapping classes may be far off.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--projects", type=int, default=1000)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    path: Path = options.record
    projects = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []

    def save() -> None:
        lines = ",\n".join(f" {json.dumps(each)}" for each in projects)
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")

    for seed in range(len(projects), 0 if options.page_only else options.projects):
        projects.append(run_project(seed))
        if len(projects) % 20 == 0:
            save()
            print(
                f"{len(projects)} of {options.projects}: {summary([p for p in projects if p['estimate']])}", flush=True
            )
    save()
    path.with_suffix(".md").write_text(page(projects), encoding="utf-8")


if __name__ == "__main__":
    main()
