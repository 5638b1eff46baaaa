"""Pools to cover: real ones from files, with doubts by their own logits or by a linear fit, and generated ones."""

from pathlib import Path

import numpy as np
from against_coverage import CoverTask
from workloads import Array, Floats, generate_workload

from dubito.doubt import margin_doubt, softmax

PENALTY = 1e-2
SHARPNESS = 6.0
"""What a linear fit to classes is multiplied by to be logits."""


def read_cover_task(path: Path) -> CoverTask:
    """An .npz with features and labeled (rows), and logits; or labels, which a ridge regression is then fitted to."""
    with np.load(path) as file:
        features = file["features"]
        rows = (
            file["labelled"]
            if "labelled" in file
            else np.sort(np.random.default_rng(0).permutation(len(features))[:5_000])
        )
        logits = file["logits"] if "logits" in file else fitted_logits(features, file["labels"], rows)
    is_labeled = np.zeros(len(features), dtype=np.bool_)
    is_labeled[rows] = True
    doubt = margin_doubt(softmax(logits[~is_labeled]))
    return CoverTask(path.name, features[~is_labeled], features[is_labeled], doubt, 0)


def fitted_logits(features: Array, labels: Array, rows: Array) -> Floats:
    """Ridge regression of the classes of the labeled rows, sharpened."""
    scale = float(features[rows].astype(np.float64).std())
    points = np.concatenate([features.astype(np.float64) / scale, np.ones((len(features), 1))], axis=1)
    known, classes = points[rows], np.eye(int(labels.max()) + 1)[labels[rows]]
    penalty = PENALTY * len(rows) * np.eye(known.shape[1])
    return np.asarray(SHARPNESS * (points @ np.linalg.solve(known.T @ known + penalty, known.T @ classes)))


def generate_cover_task(n_pool: int, n_labeled: int) -> CoverTask:
    """A generated pool of float16; doubts of two classes count twice, as a margin does."""
    drawn = generate_workload(n_pool, n_labeled)
    pool, labeled = drawn.pool.astype(np.float16), drawn.labeled.astype(np.float16)
    return CoverTask(f"generated, {n_pool:,} rows", pool, labeled, np.minimum(2.0 * drawn.doubt, 1.0), 0)
