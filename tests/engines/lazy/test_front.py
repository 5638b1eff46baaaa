"""Picking greedily inside a front."""

import numpy as np
import pytest

import dubito


@pytest.mark.parametrize("apart", [1.0, 1e3, 1e6, 1e9])
def test_no_row_is_picked_twice_where_clusters_are_tight_and_far_apart(apart: float) -> None:
    rng = np.random.default_rng(0)
    pool = apart * rng.choice([-1.0, 1.0], (60, 1)) + rng.standard_normal((60, 8)) * 1e-4 * apart
    ours, plain = (
        dubito.select(pool.astype(np.float32), 40, labeled=[0], strategy="coreset", engine=engine)
        for engine in ("cpu", "reference")
    )
    assert len(np.unique(ours.indices)) == 40
    assert ours.indices.tolist() == plain.indices.tolist()
    assert ours.priorities.tobytes() == plain.priorities.tobytes()
