"""The pairs of candidates on a device, settled: rows, kernels, and what each would add."""

from dataclasses import dataclass

import torch

from dubito.engines.cuda.coverage.ground import Ground
from dubito.engines.cuda.points import Tensor
from dubito.engines.cuda.programs.cover import add_terms
from dubito.engines.cuda.programs.settling import settle
from dubito.engines.cuda.programs.within import pairs_within
from dubito.matrix import blocks

SETTLE_PAIRS = 1 << 24
"""Pairs that are settled at a time."""


class TooManyPairs(Exception):
    """There is no room for the pairs of so many candidates; the number says how many there are, at least."""

    def __init__(self, n_pairs: int) -> None:
        super().__init__(n_pairs)
        self.n_pairs = n_pairs


@dataclass(frozen=True, slots=True)
class DeviceLists:
    """Pairs sorted by owner, a place among the candidates that were opened, and then by row of the pool."""

    starts: Tensor
    owners: Tensor
    rows: Tensor
    kernels: Tensor
    terms: Tensor
    gains: Tensor
    """(c,) what each owner adds."""


def open_lists(ground: Ground, numbers: Tensor, guess: int) -> DeviceLists:
    """The pairs of candidates (c,), given by their rows in the pool; room is made for ``guess`` pairs at first."""
    place = torch.full((len(ground.cover),), -1, dtype=torch.int32, device=numbers.device)
    place[numbers] = torch.arange(len(numbers), dtype=torch.int32, device=numbers.device)
    live = ground.live_rows()
    everyone = torch.nonzero((place >= 0) | ground.is_live())[:, 0]
    if len(everyone) ** 2 <= 2 * len(live) * len(numbers):
        lefts, rights = _search(ground, everyone, everyone, guess)
        squared = _settled(ground, lefts, rights)
        parts = [_entries(ground, place, lefts, rights, squared), _entries(ground, place, rights, lefts, squared)]
    else:
        lefts, rights = _search(ground, live, numbers, guess)
        is_other = lefts != rights
        lefts, rights = lefts[is_other], rights[is_other]
        parts = [_entries(ground, place, lefts, rights, _settled(ground, lefts, rights))]
    own = live[place[live] >= 0]
    parts.append((place[own], own.int(), torch.ones(len(own), dtype=torch.float64, device=own.device)))
    return _sorted(ground, parts, len(numbers))


def _search(ground: Ground, rows: Tensor, others: Tensor, guess: int) -> tuple[Tensor, Tensor]:
    """Pairs of rows of the pool, the other of which may be within the row's limit; either way about with themselves."""
    limits = ground.limits_now()
    near = ground.shaped if len(rows) == len(limits) else ground.shaped[rows]
    far = near if others is rows else ground.shaped[others]
    capacity = max(1, min(guess, ground.room))
    while True:
        found = pairs_within(near, far, limits[rows], limits[others], ground.constants, capacity)
        if found.n_found <= capacity:
            return rows[found.lefts.long()].int(), others[found.rights.long()].int()
        if found.n_found > ground.room:
            raise TooManyPairs(found.n_found)
        capacity = found.n_found


def _settled(ground: Ground, lefts: Tensor, rights: Tensor) -> Tensor:
    spans = blocks(len(lefts), SETTLE_PAIRS)
    parts = [settle(ground.exact, ground.exact, (lefts[span], rights[span])) for span in spans]
    return torch.cat([torch.empty(0, dtype=torch.float64, device=lefts.device), *parts])


def _entries(
    ground: Ground, place: Tensor, rows: Tensor, candidates: Tensor, squared: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Owners, rows and kernels of the pairs at whose rows a candidate adds something."""
    kernels, owners = ground.kernel(squared), place[candidates.long()]
    is_kept = (kernels > ground.cover[rows.long()]) & (owners >= 0) & ground.is_wanted[rows.long()]
    return owners[is_kept], rows[is_kept], kernels[is_kept]


def _sorted(ground: Ground, parts: list[tuple[Tensor, Tensor, Tensor]], n_owners: int) -> DeviceLists:
    owners, rows, kernels = (torch.cat(part) for part in zip(*parts, strict=True))
    order = (owners.long() * len(ground.cover) + rows).sort().indices
    owners, rows, kernels = owners[order], rows[order], kernels[order]
    starts = torch.zeros(n_owners + 1, dtype=torch.int64, device=rows.device)
    starts[1:] = torch.bincount(owners, minlength=n_owners).cumsum(0)
    terms = (kernels - ground.cover[rows.long()]).clamp(min=0.0) * ground.weights[rows.long()]
    return DeviceLists(starts, owners, rows, kernels, terms, add_terms(starts, terms))
