"""How doubt and distance go together on a pool: what scaling one by the other changes, whatever the theory says."""

import numpy as np

from dubito.diagnosis.record import Relation
from dubito.matrix import AnyArray, FloatArray

SHARE, MOST = 0.1, 100
"""The first picks are looked at: this share of the points, and at most so many."""
SURE = 0.05
"""A point that the model doubts by less is one it is sure of."""


def relate(radii: FloatArray, doubt: FloatArray) -> Relation:
    """What the points that scaling puts first have in common with the farthest and with the most doubted.

    Ties go to the lowest index. O(n log n) time.

    Examples
    --------
    >>> told = relate(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.1, 0.2, 0.3, 0.4]))
    >>> told.first, told.far, told.doubted, told.correlation, told.tail
    (1, 1, 1, 1.0, 1.6)
    """
    first = int(np.clip(SHARE * len(radii), 1, MOST))
    farthest, scaled, doubted = (_largest(values, first) for values in (radii, radii * doubt, doubt))
    middle = float(np.median(radii))
    return Relation(
        first=first,
        far=len(np.intersect1d(scaled, farthest)),
        doubted=len(np.intersect1d(scaled, doubted)),
        correlation=rank_correlation(radii, doubt),
        tail=float(radii.max()) / middle if middle > 0.0 else None,
        sure=float((doubt < SURE).mean()),
        far_doubt=float(np.median(doubt[farthest])),
        doubt=float(np.median(doubt)),
    )


def _largest(values: FloatArray, count: int) -> AnyArray:
    return np.argsort(-values, kind="stable")[:count]


def rank_correlation(ours: FloatArray, theirs: FloatArray) -> float | None:
    """Spearman's: 1 where one rises with the other; None where either is the same everywhere.

    Examples
    --------
    >>> rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([3.0, 2.0, 1.0]))
    -1.0
    """
    ranks = [mean_ranks(values) for values in (ours, theirs)]
    centred = [values - values.mean() for values in ranks]
    spread = float(np.sqrt((centred[0] ** 2).sum() * (centred[1] ** 2).sum()))
    return float(np.clip((centred[0] * centred[1]).sum() / spread, -1.0, 1.0)) if spread > 0.0 else None


def mean_ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1; equal values share their mean rank.

    Examples
    --------
    >>> mean_ranks(np.array([5.0, 7.0, 5.0])).tolist()
    [1.5, 3.0, 1.5]
    """
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[places.ravel()])
