"""Which images should get boxes next? A detector trained in rounds on scenes of digits: mean average precision.

``python benchmarks/detector_on_scenes.py [--seeds 10] [--jobs 1]`` writes ``docs/results/detector.json`` and the page
``docs/results/detector.md``. It needs torch (on the CPU) and scikit-learn. Scenes of 64 x 64 pixels have 1 to 8 digits
of different sizes on noise with strokes. Most digits of a scene are of two classes, two classes are rare, and scenes
come in series of 4 that differ by a shift and noise, as frames of a video do. The detector is fully convolutional, with
a peak for each object (as CenterNet); it is trained from the start in every round. The boxes that it predicts on the
pool are embedded by their pixels, as ``dubito embed --boxes`` does. Test scenes are of other digits, all classes alike.
Runs that the record already has are kept.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import dubito

SIDE, STRIDE, CLASSES = 64, 4, 10
SERIES, FRAMES, TEST = 100, 4, 150
FIRST, BATCH, ROUNDS, STEPS = 10, 10, 4, 200
RARE, LEAST_SCORE, MOST_BOXES = 0.1, 0.1, 20
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

# Scenes.

Boxes = list[tuple[int, float, float, float, float]]
"""Class, left, top, right and bottom of each object."""


def paint(scene: np.ndarray, digit: np.ndarray, side: int, left: int, top: int) -> None:
    """Add a digit of this size, whose pixels are from 0 to 1."""
    large = functional.interpolate(torch.tensor(digit)[None, None], size=(side, side), mode="bilinear")[0, 0].numpy()
    here = scene[top : top + side, left : left + side]
    np.maximum(here, large, out=here)


def background(rng: np.random.Generator) -> np.ndarray:
    """Strokes that are no digits."""
    scene = np.zeros((SIDE, SIDE))
    for _ in range(rng.integers(0, 5)):
        start, direction = rng.uniform(8, SIDE - 8, 2), rng.standard_normal(2)
        for step in np.linspace(0.0, rng.uniform(4, 14), 30):
            row, column = np.clip(start + step * direction / np.linalg.norm(direction), 0, SIDE - 1).astype(int)
            scene[row, column] = 0.7
    return scene


def place(rng: np.random.Generator, n_objects: int) -> list[tuple[int, int, int]]:
    """Size, left and top of objects that do not touch."""
    placed: list[tuple[int, int, int]] = []
    for _ in range(50 * n_objects):
        side = int(rng.integers(10, 19))
        left, top = rng.integers(2, SIDE - side - 1, 2).tolist()
        apart = (
            max(abs(left + side / 2 - x - s / 2), abs(top + side / 2 - y - s / 2)) > (side + s) / 2
            for s, x, y in placed
        )
        if all(apart):
            placed.append((side, left, top))
        if len(placed) == n_objects:
            break
    return placed


def scenes(
    rng: np.random.Generator, rows: np.ndarray, weights_of: list[np.ndarray], frames: int
) -> tuple[np.ndarray, list[Boxes]]:
    """A series of frames for each of the class weights."""
    digits, images, truth = load_digits(), [], []
    for weights in weights_of:
        chances = weights[digits.target[rows]] / np.bincount(digits.target[rows])[digits.target[rows]]
        placed = place(rng, int(rng.integers(1, 9)))
        chosen, behind = rng.choice(rows, len(placed), p=chances / chances.sum()), background(rng)
        for _ in range(frames):
            scene, boxes, (right, down) = behind.copy(), [], rng.integers(-2, 3, 2).tolist()
            for row, (side, left, top) in zip(chosen, placed, strict=True):
                x, y = np.clip([left + right, top + down], 0, SIDE - side).tolist()
                paint(scene, digits.images[row] / 16.0, side, x, y)
                boxes.append((int(digits.target[row]), float(x), float(y), float(x + side), float(y + side)))
            images.append(scene + rng.normal(0.0, 0.1, scene.shape))
            truth.append(boxes)
    return np.array(images, dtype=np.float32), truth


# The detector.


def detector() -> nn.Module:
    """(n, 1, 64, 64) to (n, 10 + 2 + 2, 16, 16): a peak for each class, the size, and the offset of the center."""
    parts: list[nn.Module] = []
    for before, after, step in ((1, 16, 2), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 32, 1)):
        parts += [nn.Conv2d(before, after, 3, step, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    last = nn.Conv2d(32, CLASSES + 4, 1)
    nn.init.constant_(last.bias[:CLASSES], -3.0)
    return nn.Sequential(*parts, last)


def targets(boxes: Boxes) -> np.ndarray:
    """(10 + 2 + 2 + 1, 16, 16): peaks, sizes, offsets, and where there are centers."""
    grid = SIDE // STRIDE
    found = np.zeros((CLASSES + 5, grid, grid), dtype=np.float32)
    rows, columns = np.mgrid[:grid, :grid]
    for kind, left, top, right, bottom in boxes:
        x, y = (left + right) / 2 / STRIDE, (top + bottom) / 2 / STRIDE
        column, row = min(int(x), grid - 1), min(int(y), grid - 1)
        bump = np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / (2 * 0.7**2))
        found[kind] = np.maximum(found[kind], bump)
        found[CLASSES:, row, column] = (right - left) / 16, (bottom - top) / 16, x - column, y - row, 1.0
    return found


def train(images: np.ndarray, truth: list[Boxes], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    rng, model = np.random.default_rng(seed), detector()
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=STEPS)
    for _ in range(STEPS):
        rows = rng.integers(len(images), size=16)
        batch, wanted = [], []
        for row in rows:
            right, down = rng.integers(-6, 7, 2).tolist()
            moved = [
                (kind, left + right, top + down, x + right, y + down)
                for kind, left, top, x, y in truth[row]
                if 0 <= (left + x) / 2 + right < SIDE and 0 <= (top + y) / 2 + down < SIDE
            ]
            batch.append(np.roll(np.pad(images[row], 6), (down, right), (0, 1))[6:-6, 6:-6])
            wanted.append(targets(moved))
        x, y = torch.tensor(np.array(batch))[:, None], torch.tensor(np.array(wanted))
        x = x * torch.empty(len(x), 1, 1, 1).uniform_(0.8, 1.2) + 0.05 * torch.randn_like(x)
        out = model(x)
        chance, peak, center = torch.sigmoid(out[:, :CLASSES]), y[:, :CLASSES], y[:, -1:]
        is_peak = (peak == 1.0).float()
        positive = is_peak * (1 - chance) ** 2 * functional.logsigmoid(out[:, :CLASSES])
        negative = (1 - is_peak) * (1 - peak) ** 4 * chance**2 * functional.logsigmoid(-out[:, :CLASSES])
        sizes = center * (out[:, CLASSES:] - y[:, CLASSES:-1]).abs()
        loss = (-(positive + negative).sum() + sizes.sum()) / center.sum().clamp(min=1.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def predict(model: nn.Module, images: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each image, boxes (k, 4) and the scores of all classes (k, 10), by the largest score."""
    found = []
    for start in range(0, len(images), 64):
        out = model(torch.tensor(images[start : start + 64])[:, None])
        scores = torch.sigmoid(out[:, :CLASSES])
        best = scores.amax(dim=1, keepdim=True)
        is_peak = (best == functional.max_pool2d(best, 3, 1, 1)) & (best >= LEAST_SCORE)
        for chances, sizes, peaks in zip(scores, out[:, CLASSES:], is_peak[:, 0], strict=True):
            rows, columns = torch.nonzero(peaks, as_tuple=True)
            order = chances[:, rows, columns].amax(dim=0).argsort(descending=True)[:MOST_BOXES]
            rows, columns = rows[order], columns[order]
            width, height, x, y = sizes[:, rows, columns]
            x, y, width, height = (x + columns) * STRIDE, (y + rows) * STRIDE, 16 * width, 16 * height
            boxes = torch.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], dim=1)
            found.append((boxes.numpy().astype(np.float64), chances[:, rows, columns].T.numpy().astype(np.float64)))
    return found


def overlap(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(k,) intersection over union."""
    corners = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    both = np.prod(np.maximum(corners[1] - corners[0], 0.0), axis=1)
    area = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1)
    return both / np.maximum(area - both, 1e-9)


def mean_average_precision(found: list[tuple[np.ndarray, np.ndarray]], truth: list[Boxes]) -> float:
    """At an overlap of 0.5, with all-point interpolation; each box counts for its class of largest score."""
    precisions = []
    for kind in range(CLASSES):
        real = [np.array([box[1:] for box in boxes if box[0] == kind]).reshape(-1, 4) for boxes in truth]
        hits = []
        for (boxes, scores), own in zip(found, real, strict=True):
            is_kind, taken = scores.argmax(axis=1) == kind, set()
            for box, score in zip(boxes[is_kind], scores[is_kind, kind], strict=True):
                near = overlap(box, own) if len(own) else np.zeros(1)
                best = int(near.argmax())
                is_hit = bool(near[best] >= 0.5) and best not in taken
                taken |= {best} if is_hit else set()
                hits.append((score, is_hit))
        hits.sort(key=lambda each: -each[0])
        true = np.cumsum([is_hit for _, is_hit in hits]) if hits else np.zeros(0)
        precision = true / np.arange(1, len(true) + 1)
        recall = np.concatenate([[0.0], true / max(1, sum(map(len, real)))])
        highest = np.maximum.accumulate(precision[::-1])[::-1]
        precisions.append(float((np.diff(recall) * highest).sum()))
    return float(np.mean(precisions))


# Rounds.


def embedded(
    images: np.ndarray, found: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A row for each predicted box, or for an image without any: 8 x 8 pixels of it, its image, and its doubt."""
    crops, owners, doubt = [], [], []
    for number, (boxes, scores) in enumerate(found):
        kept = [(box, 1.0 - own.max()) for box, own in zip(boxes, scores, strict=True)]
        for box, own in kept or [(np.array([0.0, 0.0, SIDE, SIDE]), 0.5)]:
            left, top = np.clip(np.floor(box[:2]), 0, SIDE - 2).astype(int)
            right, bottom = np.clip(np.ceil(box[2:]), [left + 2, top + 2], SIDE).astype(int)
            part = torch.tensor(images[number][top:bottom, left:right])[None, None]
            crops.append(functional.interpolate(part, size=(8, 8), mode="bilinear", antialias=True).numpy().ravel())
            owners.append(number)
            doubt.append(own)
    return np.array(crops), np.array(owners), np.clip(doubt, 0.0, 1.0)


@dataclass
class Start:
    """What all ways of picking share in a seed: scenes, test scenes, the first labeled images, and their detector."""

    images: np.ndarray
    truth: list[Boxes]
    test: np.ndarray
    test_truth: list[Boxes]
    chosen: list[int]
    model: nn.Module


@cache
def start(seed: int) -> Start:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(load_digits().target))
    frequency = np.ones(CLASSES)
    frequency[rng.choice(CLASSES, 2, replace=False)] = RARE
    weights = []
    for _ in range(SERIES):
        weights.append(np.full(CLASSES, 0.2) * frequency)
        weights[-1][rng.choice(CLASSES, 2, replace=False, p=frequency / frequency.sum())] += 1.0
    images, truth = scenes(rng, order[:1200], weights, FRAMES)
    test, test_truth = scenes(rng, order[1200:], [np.ones(CLASSES)] * TEST, 1)
    chosen = rng.choice(len(images), FIRST, replace=False).tolist()
    return Start(images, truth, test, test_truth, chosen, train(images[chosen], [truth[row] for row in chosen], seed))


def run(way: str, seed: int) -> list[tuple[int, int, float]]:
    """Labeled images, labeled boxes and mean average precision after each round."""
    torch.set_num_threads(1)
    shared = start(seed)
    images, truth, model = shared.images, shared.truth, shared.model
    whole = functional.avg_pool2d(torch.tensor(images)[:, None], 4).flatten(1).numpy()
    chosen, done = list(shared.chosen), []
    for number in range(ROUNDS + 1):
        if number:
            model = train(images[chosen], [truth[image] for image in chosen], 100 * seed + number)
        precision = mean_average_precision(predict(model, shared.test), shared.test_truth)
        done.append((len(chosen), sum(len(truth[image]) for image in chosen), precision))
        if number == ROUNDS:
            break
        given = {**WAYS[way], "seed": 100 * seed + number}
        if way == "coverage of image embeddings":
            chosen += dubito.select(whole, BATCH, labeled=np.array(chosen), **given).indices.tolist()
            continue
        crops, owners, doubt = embedded(images, predict(model, images))
        if given["strategy"] != "coverage":
            given["doubt"] = doubt
        if way.endswith("per box"):
            given["costs"] = np.ones(len(crops))
        labeled = np.flatnonzero(np.isin(owners, chosen))
        picked = dubito.select(crops, BATCH, labeled=labeled, groups=owners, **given)
        chosen += picked.groups.names.astype(int).tolist()
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    path = DOCS / "detector.json"
    record = json.loads(path.read_text()) if path.exists() else {"runs": {way: [] for way in WAYS}}
    record |= {"scenes": SERIES * FRAMES, "series": SERIES, "batch": BATCH}
    runs = record["runs"]
    with ProcessPoolExecutor(asked.jobs, mp_context=get_context("spawn")) as workers:
        missing = [(seed, way) for seed in range(asked.seeds) for way in WAYS if seed >= len(runs[way])]
        waiting = [(seed, way, workers.submit(run, way, seed)) for seed, way in missing]
        for seed, way, result in waiting:
            runs[way].append(result.result())
            record["seeds"] = min(map(len, runs.values()))
            path.write_text(json.dumps(record) + "\n", encoding="utf-8")
            print(f"seed {seed}, {way}: {runs[way][-1][-1]}", flush=True)
    (DOCS / "detector.md").write_text(page(record), encoding="utf-8")


def at_boxes(curve: np.ndarray, n_boxes: float) -> float:
    """The precision of a run at this number of labeled boxes, between its rounds."""
    return float(np.interp(n_boxes, curve[:, 1], curve[:, 2]))


def page(record: dict) -> str:
    """The page, from the record."""
    values = {way: np.array(runs[: record["seeds"]]) for way, runs in record["runs"].items()}
    base, seeds = values["random images"], record["seeds"]
    # The most boxes that every way reaches in a seed.
    least = np.min([found[:, -1, 1] for found in values.values()], axis=0)
    equal = {
        way: np.array([at_boxes(*each) for each in zip(found, least, strict=True)]) for way, found in values.items()
    }
    rows, ahead = [], {"for the same number of images": [], "at equal boxes": []}
    for way, found in values.items():
        gains = 100 * (found[:, 1:, 2] - base[:, 1:, 2]).mean(axis=1), 100 * (equal[way] - equal["random images"])
        for points, better in zip(gains, ahead.values(), strict=True):
            if points.mean() > 2 * points.std(ddof=1) / np.sqrt(seeds):
                better.append(f"`{way}`")
        columns = [f"{100 * found[:, -1, 2].mean():.1f} %", spread(gains[0]), f"{found[:, -1, 1].mean():.0f}"]
        rows.append("| " + " | ".join([way, *columns, spread(gains[1])]) + " |")
    images = int(base[0, -1, 0])
    return "\n".join(
        [
            "# Groups: a detector of digits",
            "",
            f"After {images} labeled images of {record['scenes']}, in rounds of {record['batch']}, over {seeds} seeds:",
            "",
            "| images by | mean average precision | points over random | labeled boxes | the same at equal boxes |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
            "Better than random images by more than two standard errors are "
            + "; and ".join(f"{', '.join(better) or 'none'} {where}" for where, better in ahead.items())
            + ".",
            "",
            "Mean average precision is that at an overlap of 0.5, after the last round, on scenes of other digits with",
            "all classes alike. Points over random (with the standard error) are the mean over the rounds that the",
            "strategies chose. At equal boxes, each run is interpolated at the number of boxes that all ways reached",
            f"in its seed ({least.mean():.0f} on average).",
            "",
            "The detector is fully convolutional and trained from the start in each round; the rows are the boxes that",
            "it predicts. `python benchmarks/detector_on_scenes.py` makes the scenes, measures, and writes this page;",
            "`docs/results/detector.json` has every round of every seed.",
            "",
        ]
    )


def spread(points: np.ndarray) -> str:
    error = points.std(ddof=1) / np.sqrt(len(points)) if len(points) > 1 else np.nan
    return f"{points.mean():+.1f} ± {error:.1f}"


if __name__ == "__main__":
    main()
