"""Solving a problem of coverage on a device."""

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch

from dubito.core.coverage_reference import CoverageProblem, add_rows, cold_reach, finished, warm_reach
from dubito.core.problem import Problem, Solution
from dubito.engines.cuda.bounds import DeviceBounds, first_in_order, first_of
from dubito.engines.cuda.coverage.memory import DeviceCoverPlan, plan_for
from dubito.engines.cuda.points import DevicePoints, DeviceReferences, DeviceSource, Slot, Tensor, to_device
from dubito.engines.cuda.programs.cover import Marks, add_terms, cover_rounds
from dubito.engines.cuda.programs.settling import settle
from dubito.engines.cuda.programs.within import most_covered, pairs_within
from dubito.engines.lazy.bounds import SMALLEST
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.frontier import Reporter
from dubito.matrix import FloatArray, IntArray, OnDevice, blocks, len_of

# What there is to cover, on a device: points, weights, the cover so far, and how near a pick must come.

LARGEST_LIMIT = 1e37


class Ground:
    """The pool as coverage sees it. Rows are those of the pool."""

    def __init__(self, problem: CoverageProblem, device: str, plan: DeviceCoverPlan) -> None:
        self.problem, self.room = problem, plan.n_pairs
        n_pool = len_of(problem.pool)
        points = DevicePoints(DeviceSource(problem.pool, device, is_resident=True), problem.metric)
        references = DeviceReferences(problem.references, points, 0, problem.largest, device)
        self.exact = references.widen(points.exact(slice(0, n_pool))).contiguous()
        self.shaped, self.shape = references.shape_of(self.exact), references.shape
        self.constants = references.shape.constants(device)
        self.weights = to_device(problem.weights, device)
        self.is_wanted = self.weights > 0.0
        self.nearest = self._nearest(points, references, plan)
        self.reach = self._reach()
        self.cover = torch.zeros(n_pool, dtype=torch.float64, device=device)
        if self.reach > 0.0:
            self.cover = torch.where(self.is_wanted, self.kernel(self.nearest), 0.0)

    def _nearest(self, points: DevicePoints, references: DeviceReferences, plan: DeviceCoverPlan) -> Tensor:
        """(n,) exact squared distances to what is labeled, of the rows that want covering and of the sample."""
        problem, n_pool = self.problem, len_of(self.problem.pool)
        nearest = torch.full((n_pool,), torch.inf, dtype=torch.float64, device=self.exact.device)
        rows = np.union1d(np.flatnonzero(problem.weights > 0.0), problem.sample)
        if len_of(problem.references) == 0 or len(rows) == 0:
            return nearest
        plain = Problem(problem.pool, problem.references, rows, 1, metric=problem.metric, largest=problem.largest)
        bounds = DeviceBounds(plain, points, references, plan.sizes)
        nearest[to_device(rows, nearest.device)] = settled(bounds)
        return nearest

    def _reach(self) -> float:
        """R², as `dubito.core.coverage_reference.squared_reach` has it."""
        problem = self.problem
        if problem.radius is not None:
            return problem.radius * problem.radius
        if len_of(problem.references) == 0:
            return cold_reach(problem)
        sample: FloatArray = self.nearest[to_device(problem.sample, self.nearest.device)].cpu().numpy()
        return warm_reach(sample, problem.factor)

    def kernel(self, squared: Tensor) -> Tensor:
        """How far a point covers another; the quotient is the reference's, so not by a number, which torch inverts."""
        near = (1.0 - squared / torch.full_like(squared[:1], self.reach)).clamp(min=0.0)
        return near * near

    def limits_now(self) -> Tensor:
        """(n,) float32: squared distances, as products see them, within which a pick adds something; -1 for none."""
        now = self.reach * ((1.0 - self.cover.sqrt()) * (1.0 + 1e-9) + 1e-12)
        scaled = (now.clamp(max=self.reach) * float(self.constants[Slot.TO_PRODUCTS])).clamp(max=LARGEST_LIMIT)
        limits = scaled.float() * (1.0 + 2.0**-20)
        return torch.where(self.is_live(), limits, -1.0)

    def is_live(self) -> Tensor:
        """(n,) rows where a pick may still add something."""
        return self.is_wanted & (self.cover < 1.0)

    def live_rows(self) -> Tensor:
        """Their numbers."""
        return torch.nonzero(self.is_live())[:, 0]


def settled(bounds: DeviceBounds) -> Tensor:
    """(n,) exact squared distances of all candidates to what is labeled."""
    bounds.start(np.empty(0, dtype=np.int64))
    bounds.tighten_all()
    for span in blocks(len(bounds.value), bounds.sizes.rows):
        bounds.refresh(torch.arange(span.start, span.stop, device=bounds.device))
    return bounds.value


# The pairs of candidates on a device, settled: rows, kernels, and what each would add.

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


# Greedy picks on a device: those of the candidates that are open, in rounds, down to a level at a time.

AHEAD = 3
"""Candidates looked at in a stage, for each pick that is still wanted: many of them will fall."""
FIRST_PAIRS = 1 << 20
ROOM = 2
"""How many times the pairs that there should be are made room for."""


class DeviceCover:
    """A run: what is open, upper bounds on the others, and the picks so far. Candidates are numbered from 0."""

    def __init__(self, ground: Ground) -> None:
        self.ground, problem = ground, ground.problem
        self.numbers = to_device(problem.candidates, ground.cover.device)
        self.bound = torch.full((len(self.numbers),), torch.inf, dtype=torch.float64, device=ground.cover.device)
        """(n,) upper bounds on what candidates add; -1 once picked."""
        self.together = len(self.numbers)
        """Candidates that are opened together."""
        n_pool, m = len_of(problem.pool), len_of(problem.references)
        self.guess = max(FIRST_PAIRS, ROOM * n_pool * n_pool // (m + 1)) if m else FIRST_PAIRS
        self.picks: list[Tensor] = []
        self.gains: list[Tensor] = []
        self.n_picks = 0

    def step(self) -> None:
        """One front: open it, and pick from it all that comes before what is outside."""
        n_left = self.ground.problem.budget - self.n_picks
        front = first_in_order(self.bound, self.together)
        if not len(front.rows):
            # Nothing adds anything any more: the lowest numbers meet the budget.
            zeros = torch.nonzero(self.bound == 0.0)[:n_left, 0]
            self._take(zeros, self.bound[zeros])
            return
        try:
            lists = open_lists(self.ground, self.numbers[front.rows], self.guess)
        except TooManyPairs as error:
            self._make_fronts(len(front.rows), error.n_pairs)
            return
        self.guess = max(FIRST_PAIRS, ROOM * len(lists.rows))
        self._pick(front.rows, lists, front.threshold, n_left)

    def _make_fronts(self, n_tried: int, n_pairs: int) -> None:
        """Open fewer at a time from now on, in the order of bounds, which there must be then."""
        fewer = int(n_tried * self.ground.room / (ROOM * n_pairs))
        self.together = max(1, min(fewer, n_tried // 2))
        if bool(torch.isinf(self.bound).any()):
            self.bound = upper_bounds(self.ground, self.numbers)

    def _pick(self, front: Tensor, lists: DeviceLists, outside: Threshold, n_left: int) -> None:
        """Stage after stage, each down to a lower level, until the front has nothing more before what is outside."""
        ground, gains = self.ground, lists.gains
        marks = Marks(len(front), len(ground.cover), ground.cover.device)
        # What is outside has a number among all candidates; those of the front ascend, too.
        edge = Threshold(outside.value, int((front < outside.row).sum()) if outside.row >= 0 else -1)
        while True:
            free = torch.where(marks.picked == 0, gains, -1.0)
            level = first_of(edge, first_in_order(free, AHEAD * n_left).threshold)
            cover_rounds(
                lists.starts, lists.owners, lists.rows, lists.kernels, lists.terms, ground.weights, ground.cover,
                gains, marks, level,
            )  # fmt: skip
            places = torch.nonzero(marks.picked)[:, 0]
            if len(places) >= n_left or level == edge:
                break
        added, order = torch.sort(gains[places], descending=True, stable=True)
        self.bound[front] = gains
        self._take(front[places[order[:n_left]]], added[:n_left])

    def _take(self, candidates: Tensor, added: Tensor) -> None:
        self.bound[candidates] = -1.0
        self.picks.append(candidates)
        self.gains.append(added)
        self.n_picks += len(candidates)

    def found(self) -> tuple[IntArray, FloatArray]:
        """Picks in order, and what each added."""
        nothing = np.empty(0, dtype=np.int64), np.empty(0)
        if not self.picks:
            return nothing
        picks: IntArray = torch.cat(self.picks).cpu().numpy()
        added: FloatArray = torch.cat(self.gains).cpu().numpy()
        return picks, added


def upper_bounds(ground: Ground, numbers: Tensor) -> Tensor:
    """(c,) from products alone, of candidates given by their rows in the pool."""
    live, bound = ground.live_rows(), torch.zeros(len(numbers), dtype=torch.float64, device=numbers.device)
    if len(live) == 0:
        return bound
    largest = ground.weights.max()
    # Weights over the largest, and no smaller than float32 has digits for.
    weights = (ground.weights[live] / largest).clamp(min=1e-30).float() * (1.0 + 2.0**-20)
    cover = (ground.cover[live] * (1.0 - 2.0**-20)).float()
    reach = ground.reach * ground.shape.scale**2
    most_covered(ground.shaped[live], ground.shaped[numbers], weights, cover, reach, ground.constants, bound)
    return torch.where(bound > 0.0, bound * (largest * (1.0 + 2.0**-20)) + SMALLEST, 0.0)


def solve(problem: CoverageProblem, device: str) -> Solution:
    """The reference's picks; after Ctrl-C a prefix of them.

    Features that are on a GPU are solved on that one, others on the current one; on the current stream.
    """
    if isinstance(problem.pool, OnDevice):
        device = str(problem.pool.tensor.device)
    plan = plan_for(problem, device)
    with torch.no_grad(), torch.cuda.device(device) if device.startswith("cuda") else nullcontext():
        ground = Ground(problem, device, plan)
        if ground.reach == 0.0:
            return by_weight(problem)
        cover: FloatArray = ground.cover.cpu().numpy()
        before = float(add_rows(problem.weights * cover))
        return _pick(ground, before)


def _pick(ground: Ground, before: float) -> Solution:
    problem, reporter = ground.problem, Reporter(ground.problem)
    run, complete = DeviceCover(ground), True
    try:
        while run.n_picks < problem.budget:
            run.step()
            reporter.report(run.n_picks, None)
    except KeyboardInterrupt:
        complete = False
    return Solution((finished(problem, ground.reach, before, *run.found()),), complete)


def by_weight(problem: CoverageProblem) -> Solution:
    """Without reach a candidate covers itself alone."""
    weights = problem.weights[problem.candidates]
    picks = np.argsort(-weights, kind="stable")[: problem.budget]
    return Solution((finished(problem, 0.0, 0.0, picks, weights[picks]),))
