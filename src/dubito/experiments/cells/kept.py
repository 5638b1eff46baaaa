"""Data that Python handed in, kept in the run's folder for other processes and for later."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dubito.errors import InvalidData
from dubito.experiments.datasets.dataset import Dataset
from dubito.files.disk import room_for
from dubito.files.limits import hold
from dubito.files.sealed import load_sealed, save_sealed
from dubito.matrix import AnyArray

DATA = "data.npz"
"""Its name in the folder."""


def save_dataset(data: Dataset, path: Path) -> None:
    """Keep data that was handed in, for other processes and for later."""
    arrays = {
        "name": np.array(data.name),
        "features": data.features,
        "labels": data.labels,
        "classes": np.array(data.classes),
        "test_features": data.test_features,
        "test_labels": data.test_labels,
    }
    with room_for(path):
        save_sealed(str(path), arrays)


def load_dataset(path: Path) -> Dataset:
    """What `save_dataset` kept; a file that was damaged is refused by its name."""
    saved = load_sealed(str(path), check_size=lambda n_bytes: hold(str(path), "", n_bytes))
    if not is_dataset(saved):
        raise InvalidData(
            f"{path} is damaged: it does not hold the data that the run was begun with",
            mend="bring the old file back, or run the experiment in another folder.",
        )
    return Dataset(
        name=str(saved["name"]),
        features=saved["features"],
        labels=saved["labels"],
        classes=tuple(saved["classes"].tolist()),
        test_features=saved["test_features"],
        test_labels=saved["test_labels"],
    )


def is_dataset(saved: Mapping[str, AnyArray]) -> bool:
    """Whether arrays have the names, types, shapes and codes that `save_dataset` writes."""
    if set(saved) != {"name", "features", "labels", "classes", "test_features", "test_labels"}:
        return False
    classes, features = saved["classes"], saved["features"]
    are_alike = (
        features.dtype == saved["test_features"].dtype and features.shape[1:] == saved["test_features"].shape[1:]
    )
    return (
        classes.ndim == 1
        and features.dtype.kind in "fu"
        and are_alike
        and are_codes(saved["labels"], features, len(classes))
        and are_codes(saved["test_labels"], saved["test_features"], len(classes))
    )


def are_codes(labels: AnyArray, features: AnyArray, n_classes: int) -> bool:
    """Whether labels are places in the classes, one for each row."""
    if features.ndim < 2 or labels.shape != features.shape[:1] or labels.dtype.kind not in "iu":
        return False
    return bool(((labels >= 0) & (labels < n_classes)).all())
