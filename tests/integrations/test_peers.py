"""Published strategies pick what scikit-activeml's implementations of them pick."""

from importlib import import_module

import numpy as np
import pytest

import dubito
from dubito.matrix import AnyArray, FloatArray

pytest.importorskip("skactiveml", reason="scikit-activeml is not installed: make integrations")
peers = import_module("skactiveml.pool")

Case = tuple[FloatArray, AnyArray]


@pytest.fixture(params=range(3))
def case(request: pytest.FixtureRequest) -> Case:
    """Points of unit length, of which the first ten are labeled."""
    rng = np.random.default_rng(request.param)
    points = rng.normal(size=(400, 5))
    return points / np.linalg.norm(points, axis=1, keepdims=True), np.where(
        np.arange(400) < 10, np.arange(400) % 3, np.nan
    )


def test_max_herding(case: Case) -> None:
    points, labels = case
    theirs = peers.MaxHerding(metric_dict={"gamma": 1.0}, random_state=0).query(points, labels, batch_size=8)
    assert dubito.select(points, 8, labeled=np.arange(10), strategy="max-herding").indices.tolist() == theirs.tolist()


@pytest.mark.filterwarnings("ignore:The maximum purity was")  # It has computed none, as the distance is given.
def test_probcover(case: Case) -> None:
    points, labels = case
    query = peers.ProbCover(n_classes=3, deltas=[0.7], random_state=0)
    theirs, counts = query.query(points, labels, batch_size=5, return_utilities=True)
    ours = dubito.select(points, 5, labeled=np.arange(10), strategy="probcover:delta=0.7")
    # It breaks ties at random, so the picks agree up to the first tie.
    n_single = 0
    while n_single < 5 and (counts[n_single] == np.nanmax(counts[n_single])).sum() == 1:
        n_single += 1
    assert n_single > 0
    assert ours.indices[:n_single].tolist() == theirs[:n_single].tolist()
    assert ours.priorities[:n_single].tolist() == np.nanmax(counts, axis=1)[:n_single].tolist()
