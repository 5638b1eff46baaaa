"""Which images should get boxes next? Pictures of digits on scenes, whose boxes are known and whose classes are not.

``python benchmarks/groups_on_scenes.py`` writes ``docs/results/groups.json`` and the page ``docs/results/groups.md``.
Each scene has 1 to 12 digits, mostly of two classes; two classes are rare; and scenes come in series of 4 that show the
same digits, shifted and with other noise, as frames of a video do. A logistic regression of crops is trained in rounds
on all crops of the labeled images, and tested on other digits, each class counting alike.
"""

import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

import dubito

SEEDS, SERIES, FRAMES, ROUNDS, BATCH = 10, 40, 4, 4, 5
RARE = 0.1
WAYS = {
    "random images": {"strategy": "random"},
    "coverage of image embeddings": {"strategy": "coverage"},
    "sum of doubt": {"strategy": "least-confidence:per_group=sum"},
    "largest doubt": {"strategy": "least-confidence:per_group=max"},
    "groups, coverage": {"strategy": "coverage"},
    "groups, auto": {"strategy": "auto"},
    "groups, auto, per box": {"strategy": "auto"},
}
DOCS = Path(__file__).parents[1] / "docs" / "results"


def scenes(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Crops, their classes and scenes; and digits to test on, with their classes."""
    rng, (pixels, classes) = np.random.default_rng(seed), load_digits(return_X_y=True)
    order = rng.permutation(len(pixels))
    pool, test = order[:1200], order[1200:]
    frequency = np.ones(10)
    frequency[rng.choice(10, 2, replace=False)] = RARE
    crops, labels, images = [], [], []
    for series in range(SERIES):
        weights = np.full(10, 0.2) * frequency
        weights[rng.choice(10, 2, replace=False, p=frequency / frequency.sum())] += 1.0
        chances = weights[classes[pool]] / np.bincount(classes[pool])[classes[pool]]
        rows = rng.choice(pool, rng.integers(1, 13), replace=False, p=chances / chances.sum())
        for frame in range(FRAMES):
            shifted = np.roll(pixels[rows].reshape(-1, 8, 8), rng.integers(-1, 2, 2), axis=(1, 2)).reshape(-1, 64)
            crops.append(shifted + rng.normal(0.0, 1.0, shifted.shape))
            labels.append(classes[rows])
            images.append(np.full(len(rows), FRAMES * series + frame))
    shift = [np.roll(pixels[test].reshape(-1, 8, 8), by, axis=2).reshape(-1, 64) for by in (-1, 0, 1)]
    return *map(np.concatenate, (crops, labels, images, shift)), np.tile(classes[test], 3)


def run(way: str, seed: int) -> list[tuple[int, int, float]]:
    """Labeled images, labeled boxes and accuracy after each round."""
    crops, labels, images, test, test_labels = scenes(seed)
    crops, test = crops / 16.0, test / 16.0
    n_images, rng = images.max() + 1, np.random.default_rng(seed)
    whole = np.stack([crops[images == image].mean(axis=0) for image in range(n_images)])
    chosen = rng.choice(n_images, BATCH, replace=False).tolist()
    found = []
    for number in range(ROUNDS + 1):
        is_labeled = np.isin(images, chosen)
        model = LogisticRegression(max_iter=1000).fit(crops[is_labeled], labels[is_labeled])
        accuracy = balanced_accuracy_score(test_labels, model.predict(test))
        found.append((len(chosen), int(is_labeled.sum()), float(accuracy)))
        given = {**WAYS[way], "seed": 100 * seed + number}
        if way == "coverage of image embeddings":
            chosen += dubito.select(whole, BATCH, labeled=np.array(chosen), **given).indices.tolist()
            continue
        probabilities = model.predict_proba(crops)
        if given["strategy"] != "coverage":
            given["probabilities"] = probabilities
        if way.endswith("per box"):
            given["costs"] = np.ones(len(crops))
        picked = dubito.select(crops, BATCH, labeled=np.flatnonzero(is_labeled), groups=images, **given)
        chosen += picked.groups.names.astype(int).tolist()
    return found


def main() -> None:
    runs: dict[str, list[list[tuple[int, int, float]]]] = {way: [] for way in WAYS}
    for seed in range(SEEDS):
        for way, found in runs.items():
            found.append(run(way, seed))
        record = {"seeds": seed + 1, "scenes": SERIES * FRAMES, "series": SERIES, "batch": BATCH, "runs": runs}
        (DOCS / "groups.json").write_text(json.dumps(record) + "\n", encoding="utf-8")
        (DOCS / "groups.md").write_text(page(record), encoding="utf-8")
        print(f"seed {seed} done", flush=True)


def page(record: dict) -> str:
    """The page, from the record."""
    values = {way: np.array(runs) for way, runs in record["runs"].items()}
    base = values["random images"][:, :, 2].mean(axis=1)
    rows, seeds = [], record["seeds"]
    for way, found in values.items():
        own = found[:, :, 2].mean(axis=1)
        gain, error = 100 * (own - base).mean(), 100 * (own - base).std(ddof=1) / np.sqrt(seeds)
        last, boxes = 100 * found[:, -1, 2].mean(), found[:, -1, 1].mean()
        wins = int((own > base).sum())
        rows.append(f"| {way} | {last:.1f} % | {gain:+.1f} ± {error:.1f} | {wins} of {seeds} | {boxes:.0f} |")
    images = int(values["random images"][0, -1, 0])
    return "\n".join(
        [
            "# Groups: images of digits",
            "",
            f"After {images} labeled images of {record['scenes']}, in rounds of {record['batch']}, over {seeds} seeds:",
            "",
            "| images by | accuracy | points over random | seeds above random | labeled boxes |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
            "Accuracy is that of single objects, averaged over classes, after the last round. Points over random (with",
            "the standard error) and seeds above random compare the mean over all rounds with that of random images.",
            "",
            *VERDICT,
            "",
            "Boxes are known in this experiment, as if a detector found every object; only their classes are learned.",
            "For a detector that is trained in rounds, see [mean average precision](detector.md).",
            "`python benchmarks/groups_on_scenes.py` makes the scenes, measures, and writes this page;",
            "`docs/results/groups.json` has every round of every seed.",
            "",
        ]
    )


VERDICT = (
    "**For the same number of images, groups pay**: picked by coverage of their crops, they beat random images,",
    "coverage of whole-image embeddings (the mean of an image's crops) and sums of doubt. `auto` is no better than",
    "coverage here. Groups label more boxes than random images do; sums of doubt label the most, with less accuracy.",
    "With a cost of 1 per box (`groups, auto, per box`), the same number of images has fewer boxes than random ones,",
    "and less accuracy: priorities per box do not pay if images are what you count. Accuracy at equal numbers of",
    "boxes was not measured.",
)


if __name__ == "__main__":
    main()
