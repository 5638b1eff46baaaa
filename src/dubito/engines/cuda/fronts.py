"""Which candidates come first, by upper bounds on a device, and what stands first among the others."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from dubito.engines.cuda.bounds import DeviceBounds
from dubito.engines.cuda.points import Tensor
from dubito.engines.lazy.front import Threshold

TOP_FRONTS = 8
"""Fronts that the candidates brought up to date by products would fill."""


class FirstRows(NamedTuple):
    """Candidates ascending by number, and what comes next."""

    rows: Tensor
    threshold: Threshold


class Fronts:
    """Finds fronts; ``first`` says who may be in one: `first_in_order`, or `first_unpicked`."""

    def __init__(self, bounds: DeviceBounds, first: Callable[[Tensor, int], FirstRows]) -> None:
        self.bounds, self.first = bounds, first
        self.is_small = len(bounds.value) <= 2 * TOP_FRONTS * bounds.sizes.front

    def find(self, size: int) -> FirstRows:
        """The first candidates in order, by bounds that products have lowered."""
        return self._first_of_all(size) if self.is_small else self._first_of_top(size)

    def _first_of_all(self, size: int) -> FirstRows:
        """In a small pool every bound is kept tight."""
        self.bounds.tighten_all()
        return self.first(self.bounds.value, size)

    def _first_of_top(self, size: int) -> FirstRows:
        """In a large pool only the bounds of those that come first: several times as many as are asked for."""
        value = self.bounds.value
        while True:
            top = self.first(value, TOP_FRONTS * size)
            was_stale = self.bounds.tighten(top.rows)
            within = self.first(value[top.rows], size)
            rows, threshold = top.rows[within.rows], within.threshold
            if threshold.row >= 0:
                threshold = Threshold(threshold.value, int(top.rows[threshold.row]))
            n_first = int((value[rows] > top.threshold.value).sum())
            if not was_stale or 4 * n_first >= len(rows):
                return FirstRows(rows, first_of(threshold, top.threshold))


def first_in_order(bound: Tensor, size: int) -> FirstRows:
    """The first by (bound, largest first; number, lowest first), all of them positive, at most ``size``."""
    n_asked = min(size + 1, len(bound))
    values, rows = torch.topk(bound, n_asked)
    if n_asked <= size:
        return FirstRows(rows[values > 0.0].sort().values, Threshold(0.0, -1))
    last = values[-1].clamp(min=0.0)
    answers = torch.stack([last, (values > last).sum(), (bound == last).int().argmax()])
    cut, n_above, level = answers.tolist()
    if n_above > 0 or cut == 0.0:
        return FirstRows(rows[: int(n_above)].sort().values, Threshold(cut, int(level) if cut > 0.0 else -1))
    tied = torch.nonzero(bound == cut)[:, 0]
    return FirstRows(tied[:size], Threshold(cut, int(tied[size])))


def first_unpicked(bound: Tensor, size: int) -> FirstRows:
    """The first in the same order, zeros too: ``size`` of them where there are as many that are not picked."""
    n_asked = min(size + 1, len(bound))
    values, rows = torch.topk(bound, n_asked)
    cut = float(values[-1])
    if n_asked <= size or cut < 0.0:
        return FirstRows(rows[values >= 0.0].sort().values, Threshold(-1.0, -1))
    above, tied = rows[values > cut], torch.nonzero(bound == cut)[:, 0]
    n_tied = size - len(above)
    return FirstRows(torch.cat([above, tied[:n_tied]]).sort().values, Threshold(cut, int(tied[n_tied])))


def first_of(one: Threshold, other: Threshold) -> Threshold:
    """Whichever comes first."""
    if one.row < 0 or (other.row >= 0 and one.admits(other.value, other.row)):
        return other
    return one
