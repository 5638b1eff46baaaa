"""An hour of labeling, played on several kinds of data: is the model better than with random labels, and is what the
page says about it true?

``python benchmarks/labeling_hour.py photos=photos.npz texts=texts.npz`` labels 600 items of digits and of each archive
(``features`` and ``labels``) through `LabelingService`, as `dubito label` does with its defaults: every 20 labels the
player waits for the round. It writes ``docs/results/labeling-hour.json`` and ``labeling-hour.md``. At every round the
accuracy that the page shows is compared with that of the model's predictions on all items without a label.
"""

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_digits

import dubito
from dubito.labeling.creation import open_project
from dubito.labeling.project import Settings
from dubito.labeling.service import AnswerIn, LabelingService
from dubito.labeling.views import model_facts, round_progress

N_LABELS, N_POOL, N_TEST, N_DRAWS, AT_ONCE = 600, 2500, 1000, 5, 10
DOCS = Path(__file__).parents[1] / "docs" / "results"


def read(path: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of an archive, or of digits, without rows that occur more than once."""
    if path is None:
        features, labels = load_digits(return_X_y=True)
        return features / 16.0, labels.astype(str)
    with np.load(path) as data:
        return data["features"].astype(np.float32), data["labels"].astype(str)


def play(service: LabelingService, truth: np.ndarray) -> list[dict]:
    """Label by the truth; returns what the page shows after each round, and the accuracy on what has no label."""
    rounds: list[dict] = []
    wait(lambda: bool(service.state.rounds))
    while len(service.state.label_table.labels) < N_LABELS:
        left = N_LABELS - len(service.state.label_table.labels)
        due = round_progress(service)
        count = min(AT_ONCE, left, due["of"] - due["done"])
        picks = service.ask("ann", max(1, count)).result()[: max(1, count)]
        answers = [AnswerIn(f"item-{pick.item}", "ann", pick.item, str(truth[pick.item])) for pick in picks]
        before = service.state.round
        service.answer(answers).result()
        due = round_progress(service)
        if due["done"] >= due["of"] or len(service.state.label_table.labels) == N_LABELS:
            service.loop.request_round()
            wait(lambda before=before: service.state.round > before and not service.loop.is_fitting)
            rounds.append(look(service, truth))
    return rounds


def wait(holds, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "a round took five minutes"
        time.sleep(0.02)


def look(service: LabelingService, truth: np.ndarray) -> dict:
    """What the header shows, and the share of the items without a label that the model predicts correctly."""
    with service.state.lock:
        facts, model = model_facts(service), service.state.model
        rest = np.setdiff1d(np.arange(len(truth)), list(service.state.label_table.labels))
        predicted = None if model is None or model.probabilities is None else model.probabilities[rest].argmax(axis=1)
    shown = {name: facts[name] for name in ("labels", "accuracy", "low", "high", "basis")}
    right = None if predicted is None else float((np.array(model.classes)[predicted] == truth[rest]).mean())
    return shown | {"truth": right}


def accuracy(pool: np.ndarray, labels: np.ndarray, rows: np.ndarray, test: np.ndarray, expected: np.ndarray) -> float:
    """Of dubito's own model on the test set, after these rows of the pool are labeled."""
    everything = np.concatenate([pool, test])
    predicted = dubito.fit(everything, labels[rows], labeled=rows).predicted[len(pool) :]
    return float((predicted.astype(str) == expected).mean())


def hour(path: str | None, seed: int) -> dict:
    """Play one kind of data once."""
    features, labels = read(path)
    order = np.random.default_rng(seed).permutation(len(labels))
    n_test = min(N_TEST, len(labels) // 4)
    test, pool = order[:n_test], order[n_test : n_test + N_POOL]
    with TemporaryDirectory() as folder:
        source = Path(folder) / "items.npz"
        ids = [f"item-{row}" for row in range(len(pool))]
        np.savez(source, features=features[pool], ids=ids)
        settings = Settings()
        service = LabelingService(*open_project(str(source), classes=sorted(set(labels)), settings=settings))
        service.start()
        started = time.monotonic()
        try:
            rounds = play(service, labels[pool])
            labeled = np.array(sorted(service.state.label_table.labels))
        finally:
            service.close()
        seconds = time.monotonic() - started
    rng = np.random.default_rng([seed, 1])
    args = features[test], labels[test]
    draws = [accuracy(features[pool], labels[pool], np.sort(rng.permutation(len(pool))[:N_LABELS]), *args)
             for _ in range(N_DRAWS)]  # fmt: skip
    return {
        "seed": seed, "pool": len(pool), "test": n_test, "width": features.shape[1], "classes": len(set(labels)),
        "labels": len(labeled), "rounds": rounds, "random": draws, "seconds": round(seconds, 1),
        "accuracy": accuracy(features[pool], labels[pool], labeled, *args),
    }  # fmt: skip


def covered(runs: list[dict], basis: str) -> tuple[int, int]:
    """Of the rounds with this basis, how many showed an interval with the true accuracy in it, and their number."""
    rounds = [each for run in runs for each in run["rounds"] if each["basis"] == basis and each["truth"] is not None]
    return sum(each["low"] <= each["truth"] <= each["high"] for each in rounds), len(rounds)


def page(record: dict) -> str:
    lines = [
        "# An hour of labeling, on several kinds of data",
        "",
        f"A script labels {N_LABELS} items as `dubito label` asks for them, with its default settings, and waits for",
        f"every round. The final model is tested on items that are not in the pool, and compared with {N_DRAWS}",
        "models of as many random labels. At every round, the accuracy that the page shows is compared with that of",
        "the model's predictions on all items without a label.",
        "",
        "| data | pool | classes | accuracy | random labels | rounds with the truth in the interval shown |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, runs in record["kinds"].items():
        ours = ", ".join(f"{run['accuracy']:.1%}" for run in runs)
        chance = ", ".join(f"{np.mean(run['random']):.1%} ± {np.std(run['random'], ddof=1):.1%}" for run in runs)
        inside, total = covered(runs, "drawn")
        lines.append(
            f"| {name} | {runs[0]['pool']:,} | {runs[0]['classes']} | {ours} | {chance} | {inside} of {total} |"
        )
    before, all_before = covered([run for runs in record["kinds"].values() for run in runs], "held out")
    lines += [
        "",
        "Several numbers in a cell are several seeds; ± is the standard deviation of the draws. The interval is a 95%",
        "interval of the estimate from randomly drawn items. Before there are five of those, the page shows the",
        "accuracy on held-out labels, and says so; its interval had the accuracy on the other items in",
        f"{before} of {all_before} rounds.",
        "",
        *[f"- {name}: {what}" for name, what in record["sources"].items()],
        "",
        "`python benchmarks/labeling_hour.py` measures and writes this page; `labeling-hour.json` is the record.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archives", nargs="*", metavar="NAME=FILE")
    parser.add_argument("--describe", action="append", default=[], metavar="NAME=TEXT", help="a line for the page")
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    path = DOCS / "labeling-hour.json"
    record = json.loads(path.read_text()) if path.exists() else {"kinds": {}, "sources": {}}
    record["sources"] |= {"digits": "pixels of scikit-learn's handwritten digits"}
    record["sources"] |= dict(each.split("=", 1) for each in asked.describe)
    for name, archive in {"digits": None, **dict(each.split("=", 1) for each in asked.archives)}.items():
        runs = record["kinds"].setdefault(name, [])
        for seed in range(len(runs), asked.seeds):
            runs.append(hour(archive, seed))
            print(name, seed, runs[-1]["accuracy"], np.mean(runs[-1]["random"]), covered(runs, "drawn"), flush=True)
            path.write_text(json.dumps(record) + "\n")
            path.with_suffix(".md").write_text(page(record))


if __name__ == "__main__":
    main()
