"""Solving a coverage problem on a device."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from dubito.core.coverage_reference import (
    CoverageProblem,
    cold_squared_reach,
    finished,
    shares,
    sums_in_order,
    warm_squared_reach,
)
from dubito.core.groups import Members, coverage_without_reach
from dubito.core.problem import Problem, Solution
from dubito.engines.cuda.bounds import DeviceBounds, first_in_order, first_threshold
from dubito.engines.cuda.coverage.planning import DeviceCoverPlan, plan_for
from dubito.engines.cuda.points import DevicePoints, DeviceReferences, DeviceSource, Slot, Tensor, to_device
from dubito.engines.cuda.programs.exact import exact_sq_distances
from dubito.engines.cuda.programs.pairs import TooManyPairs, most_covered, pairs_within
from dubito.engines.cuda.programs.rounds import add_terms, cover_rounds
from dubito.engines.cuda.sketch import Sketches
from dubito.engines.lazy.bounds import ROUND_UP, SMALLEST
from dubito.engines.lazy.front import Threshold
from dubito.engines.lazy.interfaces import Reporter
from dubito.engines.lazy.interrupts import retry_on_interrupt
from dubito.matrix import FloatArray, IntArray, OnDevice, blocks, len_of

# The state of a run: points, weights, the cover so far, and how near a pick must be to add cover.

LARGEST_LIMIT = 1e37
SKETCHED_PAIRS = 1 << 28
"""From this number of pairs of rows on, sketches choose the blocks that are searched."""


class CoverState:
    """The points and weights of the pool, and the current cover of each row."""

    def __init__(self, problem: CoverageProblem, device: str, plan: DeviceCoverPlan) -> None:
        self.problem, self.max_pairs = problem, plan.n_pairs
        n_pool = len_of(problem.pool)
        points = DevicePoints(DeviceSource(problem.pool, device, is_resident=True), problem.metric)
        references = DeviceReferences(problem.references, points, 0, problem.largest, device)
        self.exact = references.widen(points.exact(slice(0, n_pool))).contiguous()
        self.prepared, self.transform = references.prepare(self.exact), references.transform
        self.constants = references.transform.constants(device)
        self.weights = to_device(problem.weights, device)
        self.is_wanted = self.weights > 0.0
        self._sketches: Sketches | None = None
        self.nearest = self._nearest(points, references, plan)
        self.reach = self._reach()
        self.cover = torch.zeros(n_pool, dtype=torch.float64, device=device)
        if self.reach > 0.0:
            self.cover = torch.where(self.is_wanted, self.kernel(self.nearest), 0.0)

    def _nearest(self, points: DevicePoints, references: DeviceReferences, plan: DeviceCoverPlan) -> Tensor:
        """(n,) exact squared distances to the nearest labeled point, for rows with a weight and for the sample."""
        problem, n_pool = self.problem, len_of(self.problem.pool)
        nearest = torch.full((n_pool,), torch.inf, dtype=torch.float64, device=self.exact.device)
        is_needed = problem.weights > 0.0
        is_needed[problem.sample] = True
        rows = np.flatnonzero(is_needed)
        if len_of(problem.references) == 0 or len(rows) == 0:
            return nearest
        plain = Problem(problem.pool, problem.references, rows, 1, metric=problem.metric, largest=problem.largest)
        bounds = DeviceBounds(plain, points, references, plan.sizes)
        nearest[to_device(rows, nearest.device)] = exact_squared(bounds)
        return nearest

    def _reach(self) -> float:
        """The squared reach, as in `dubito.core.coverage_reference.squared_reach`."""
        problem = self.problem
        if problem.radius is not None:
            return problem.radius * problem.radius
        if len_of(problem.references) == 0:
            return cold_squared_reach(problem)
        sample: FloatArray = self.nearest[to_device(problem.sample, self.nearest.device)].cpu().numpy()
        return warm_squared_reach(sample, problem.factor)

    def kernel(self, squared: Tensor) -> Tensor:
        """The kernel of squared distances. Divides by a tensor, since torch multiplies by the inverse of a scalar."""
        near = (1.0 - squared / torch.full_like(squared[:1], self.reach)).clamp(min=0.0)
        return near * near

    def limits_now(self) -> Tensor:
        """(n,) float32: the squared distance of prepared points within which a pick adds cover to a row, or -1."""
        now = self.reach * ((1.0 - self.cover.sqrt()) * (1.0 + 1e-9) + 1e-12)
        scaled = (now.clamp(max=self.reach) * float(self.constants[Slot.TO_PRODUCTS])).clamp(max=LARGEST_LIMIT)
        limits = scaled.float() * (1.0 + 2.0**-20)
        return torch.where(self.is_coverable(), limits, -1.0)

    def sketches(self, limits: Tensor) -> Sketches:
        """The sketches of the pool, computed on first use."""
        if self._sketches is None:
            self._sketches = Sketches(self.prepared, limits)
        return self._sketches

    def is_coverable(self) -> Tensor:
        """(n,) whether a pick may still add cover to a row."""
        return self.is_wanted & (self.cover < 1.0)

    def coverable_rows(self) -> Tensor:
        return torch.nonzero(self.is_coverable())[:, 0]


def exact_squared(bounds: DeviceBounds) -> Tensor:
    """(n,) exact squared distances of all candidates to the nearest labeled point."""
    bounds.start(np.empty(0, dtype=np.int64))
    bounds.tighten_all()
    for span in blocks(len(bounds.value), bounds.sizes.rows):
        bounds.refresh(torch.arange(span.start, span.stop, device=bounds.device))
    return bounds.value


# The pairs of candidates with the rows that they cover, with exact kernels.

EXACT_PAIRS = 1 << 24
"""Number of pairs whose distances are computed at a time."""


@dataclass(frozen=True, slots=True)
class DeviceLists:
    """Pairs of candidates and the rows that they cover, sorted by owner and then by row of the pool.

    The owner of a pair is the position of its candidate, or group of candidates, in the front.
    """

    starts: Tensor
    owners: Tensor
    rows: Tensor
    kernels: Tensor
    terms: Tensor
    gains: Tensor
    """(c,) the gain of each owner."""

    def of(self, positions: Tensor) -> "DeviceLists":
        """The pairs of the owners at these ascending ``positions``, which are renumbered from 0."""
        counts, device = self.starts.diff()[positions], self.rows.device
        starts = torch.zeros(len(positions) + 1, dtype=torch.int64, device=device)
        starts[1:] = counts.cumsum(0)
        owners = torch.repeat_interleave(torch.arange(len(positions), device=device), counts)
        own = torch.arange(len(owners), device=device) + (self.starts[positions] - starts[:-1])[owners]
        return DeviceLists(
            starts, owners.int(), self.rows[own], self.kernels[own], self.terms[own], self.gains[positions]
        )


Entries = tuple[Tensor, Tensor, Tensor]
"""Owners, rows of the pool and kernels of pairs."""


def open_lists(
    state: CoverState, numbers: Tensor, guess: int, owners: Tensor | None = None, n_owners: int | None = None
) -> DeviceLists:
    """The pairs of candidates (c,), given by their rows in the pool; ``guess`` is the expected number of pairs.

    By default, each candidate is the owner of its pairs. Otherwise ``owners`` (c,) are the candidates' groups, numbered
    from 0 to ``n_owners`` - 1.
    """
    if owners is None or n_owners is None:
        owners, n_owners = torch.arange(len(numbers), device=numbers.device), len(numbers)
    is_grouped = n_owners < len(numbers)
    owners, rows, kernels = _find_entries(state, numbers, owners, guess, may_split=n_owners == 1)
    order = (owners.long() * len(state.cover) + rows).sort().indices
    owners, rows, kernels = owners[order], rows[order], kernels[order]
    if is_grouped:
        owners, rows, kernels = _largest(owners, rows, kernels)
    starts = torch.zeros(n_owners + 1, dtype=torch.int64, device=rows.device)
    starts[1:] = torch.bincount(owners, minlength=n_owners).cumsum(0)
    return _with_terms(state, starts, owners, rows, kernels)


def _largest(owners: Tensor, rows: Tensor, kernels: Tensor) -> Entries:
    """The largest kernel of each owner with each row, from sorted pairs."""
    is_first = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    is_first[1:] = (owners[1:] != owners[:-1]) | (rows[1:] != rows[:-1])
    largest = torch.zeros(int(is_first.sum()), dtype=kernels.dtype, device=rows.device)
    largest.scatter_reduce_(0, is_first.cumsum(0) - 1, kernels, "amax")
    return owners[is_first], rows[is_first], largest


def _find_entries(state: CoverState, numbers: Tensor, owners: Tensor, guess: int, *, may_split: bool) -> Entries:
    """The pairs of candidates. With ``may_split``, the pairs of a group are searched in parts if needed."""
    try:
        return _entries_of(state, numbers, owners, guess)
    except TooManyPairs:
        if not may_split or len(numbers) == 1:
            raise
    parts = []
    for half in (slice(None, len(numbers) // 2), slice(len(numbers) // 2, None)):
        entries = _find_entries(state, numbers[half], owners[half], guess, may_split=True)
        order = entries[1].sort().indices
        parts.append(_largest(*(each[order] for each in entries)))
    return _joined(parts)


def _joined(parts: Sequence[Entries]) -> Entries:
    owners, rows, kernels = (torch.cat(part) for part in zip(*parts, strict=True))
    return owners, rows, kernels


def _entries_of(state: CoverState, numbers: Tensor, owners: Tensor, guess: int) -> Entries:
    position = torch.full((len(state.cover),), -1, dtype=torch.int32, device=numbers.device)
    position[numbers] = owners.int()
    live = state.coverable_rows()
    all_rows = torch.nonzero((position >= 0) | state.is_coverable())[:, 0]
    if len(all_rows) ** 2 <= 2 * len(live) * len(numbers):
        lefts, rights = _search(state, all_rows, all_rows, guess)
        squared = _exact_pairs(state, lefts, rights)
        parts = [_entries(state, position, lefts, rights, squared), _entries(state, position, rights, lefts, squared)]
    else:
        lefts, rights = _search(state, live, numbers, guess)
        is_other = lefts != rights
        lefts, rights = lefts[is_other], rights[is_other]
        parts = [_entries(state, position, lefts, rights, _exact_pairs(state, lefts, rights))]
    own = live[position[live] >= 0]
    parts.append((position[own], own.int(), torch.ones(len(own), dtype=torch.float64, device=own.device)))
    return _joined(parts)


def _search(state: CoverState, rows: Tensor, others: Tensor, guess: int) -> tuple[Tensor, Tensor]:
    """Pairs of rows that may be within the limit of the first row, or of either row if ``others`` is ``rows``."""
    limits, capacity = state.limits_now(), max(1, min(guess, state.max_pairs))
    sketches = state.sketches(limits) if len(rows) * len(others) >= SKETCHED_PAIRS else None
    if sketches is not None:
        is_same, rows = others is rows, sketches.ordered(rows)
        others = rows if is_same else sketches.ordered(others)
    while True:
        pairs = pairs_within(state.prepared, rows, others, limits, state.constants, capacity, sketches)
        if pairs.n_found <= capacity:
            return pairs.lefts, pairs.rights
        if pairs.n_found > state.max_pairs:
            raise TooManyPairs(pairs.n_found)
        capacity = pairs.n_found


def _exact_pairs(state: CoverState, lefts: Tensor, rights: Tensor) -> Tensor:
    spans = blocks(len(lefts), EXACT_PAIRS)
    parts = [exact_sq_distances(state.exact, state.exact, (lefts[span], rights[span])) for span in spans]
    return torch.cat([torch.empty(0, dtype=torch.float64, device=lefts.device), *parts])


def _entries(state: CoverState, position: Tensor, rows: Tensor, candidates: Tensor, squared: Tensor) -> Entries:
    """Owners, rows and kernels of the pairs in which a candidate adds cover to a row."""
    kernels, owners = state.kernel(squared), position[candidates.long()]
    is_kept = (kernels > state.cover[rows.long()]) & (owners >= 0) & state.is_wanted[rows.long()]
    return owners[is_kept], rows[is_kept], kernels[is_kept]


def _with_terms(state: CoverState, starts: Tensor, owners: Tensor, rows: Tensor, kernels: Tensor) -> DeviceLists:
    """The lists with terms and gains for the current cover."""
    terms = (kernels - state.cover[rows.long()]).clamp(min=0.0) * state.weights[rows.long()]
    return DeviceLists(starts, owners, rows, kernels, terms, add_terms(starts, terms))


# Greedy picks among the candidates of a front, in rounds.

AHEAD = 3
"""Number of candidates considered in a stage, per remaining pick. More than one, since the gains of many decrease."""
FIRST_PAIRS = 1 << 20
SPARE = 2
"""Memory is reserved for this multiple of the expected number of pairs."""


class DeviceCover:
    """Upper bounds on the gains, and the picks so far. Candidates, or groups of candidates, are numbered from 0."""

    def __init__(self, state: CoverState, members: Members | None = None) -> None:
        self.state, problem, device = state, state.problem, state.cover.device
        self.numbers = to_device(problem.candidates, device)
        self.owners = (
            torch.arange(len(self.numbers), device=device) if members is None else to_device(members.of, device)
        )
        """(candidates,) the group of each candidate; without groups, the number of the candidate."""
        n_owners = len(self.numbers) if members is None else len(members)
        self.bound = torch.full((n_owners,), torch.inf, dtype=torch.float64, device=device)
        """(n,) upper bounds on the gains; -1 once picked."""
        self.front_rows = n_owners
        """Number of candidates, or groups, in a front."""
        n_pool, m = len_of(problem.pool), len_of(problem.references)
        self.guess = max(FIRST_PAIRS, SPARE * n_pool * n_pool // (m + 1)) if m else FIRST_PAIRS
        self.picks: list[Tensor] = []
        self.gains: list[Tensor] = []
        self.n_picks = 0

    def step(self) -> None:
        """Find the pairs of a front, and pick the candidates that come before all others."""
        n_left = self.state.problem.budget - self.n_picks
        front = first_in_order(self.bound, self.front_rows)
        if not len(front.rows):
            # No candidate adds anything: fill the budget with the lowest numbers.
            zeros = torch.nonzero(self.bound == 0.0)[:n_left, 0]
            self._take(zeros, self.bound[zeros])
            return
        try:
            lists = self._open(front.rows)
        except TooManyPairs as error:
            self._shrink_front(len(front.rows), error.n_pairs)
            return
        self.guess = max(FIRST_PAIRS, SPARE * len(lists.rows))
        self._pick(front.rows, lists, front.threshold, n_left)

    def _open(self, front: Tensor) -> DeviceLists:
        position = torch.full_like(self.bound, -1, dtype=torch.int64)
        position[front] = torch.arange(len(front), device=front.device)
        owners = position[self.owners]
        is_open = owners >= 0
        return open_lists(self.state, self.numbers[is_open], self.guess, owners[is_open], len(front))

    def _shrink_front(self, n_tried: int, n_pairs: int) -> None:
        """Make fronts smaller, and compute upper bounds on the gains, by which candidates are ordered."""
        fewer = int(n_tried * self.state.max_pairs / (SPARE * n_pairs))
        self.front_rows = max(1, min(fewer, n_tried // 2))
        if bool(torch.isinf(self.bound).any()):
            bounds = upper_bounds(self.state, self.numbers)
            # The gain of a group is at most the sum of the gains of its rows.
            self.bound = torch.zeros_like(self.bound).index_add_(0, self.owners, bounds) * ROUND_UP

    def _pick(self, front: Tensor, lists: DeviceLists, outside: Threshold, n_left: int) -> None:
        """Pick in stages, each down to a lower gain, until no candidate of the front comes before those outside."""
        state, gains = self.state, lists.gains
        picked = torch.zeros(len(front), dtype=torch.bool, device=front.device)
        # The threshold with a position in the front instead of a number among all candidates.
        threshold_in_front = _renumbered(outside, front)
        while True:
            free = torch.where(picked, -1.0, gains)
            level = first_threshold(threshold_in_front, first_in_order(free, AHEAD * n_left).threshold)
            leading = torch.nonzero((free > 0.0) & (free >= level.value))[:, 0]
            if len(leading):
                part = lists.of(leading)
                picked[leading] = cover_rounds(
                    part.starts, part.owners, part.rows, part.kernels, part.terms, state.weights, state.cover,
                    part.gains, _renumbered(level, leading),
                )  # fmt: skip
                gains[leading] = part.gains
            positions = torch.nonzero(picked)[:, 0]
            if len(positions) >= n_left or level == threshold_in_front:
                break
            lists = _with_terms(state, lists.starts, lists.owners, lists.rows, lists.kernels)
            gains = torch.where(picked, gains, lists.gains)
        added, order = torch.sort(gains[positions], descending=True, stable=True)
        self.bound[front] = gains
        self._take(front[positions[order[:n_left]]], added[:n_left])

    def _take(self, candidates: Tensor, added: Tensor) -> None:
        self.bound[candidates] = -1.0
        self.picks.append(candidates)
        self.gains.append(added)
        self.n_picks += len(candidates)

    def picks_and_gains(self) -> tuple[IntArray, FloatArray]:
        """The picks in order, and their gains."""
        if not self.picks:
            return np.empty(0, dtype=np.int64), np.empty(0)
        picks: IntArray = torch.cat(self.picks).cpu().numpy()
        added: FloatArray = torch.cat(self.gains).cpu().numpy()
        return picks, added


def _renumbered(threshold: Threshold, numbers: Tensor) -> Threshold:
    """A threshold whose row is a position among ascending ``numbers`` instead of a number."""
    if threshold.row < 0:
        return threshold
    return Threshold(threshold.value, int((numbers < threshold.row).sum()))


def upper_bounds(state: CoverState, numbers: Tensor) -> Tensor:
    """(c,) upper bounds on the gains of candidates, given by their rows in the pool, from products."""
    live, bound = state.coverable_rows(), torch.zeros(len(numbers), dtype=torch.float64, device=numbers.device)
    if len(live) == 0:
        return bound
    largest = state.weights.max()
    # Weights relative to the largest, and large enough for float32.
    weights = (state.weights[live] / largest).clamp(min=1e-30).float() * (1.0 + 2.0**-20)
    cover = (state.cover[live] * (1.0 - 2.0**-20)).float()
    reach = state.reach * state.transform.scale**2
    most_covered(state.prepared[live], state.prepared[numbers], weights, cover, reach, state.constants, bound)
    return torch.where(bound > 0.0, bound * (largest * (1.0 + 2.0**-20)) + SMALLEST, 0.0)


def solve(problem: CoverageProblem, device: str) -> Solution:
    """The picks of the reference; after Ctrl-C, a prefix of them.

    Runs on the GPU that holds the features, or else on the current one, in the current stream.
    """
    if isinstance(problem.pool, OnDevice):
        device = str(problem.pool.tensor.device)
    plan = plan_for(problem, device)
    with torch.no_grad(), torch.cuda.device(device) if device.startswith("cuda") else nullcontext():
        state = CoverState(problem, device, plan)
        if state.reach == 0.0:
            return by_weight(problem)
        return _pick(state)


def _pick(state: CoverState) -> Solution:
    problem, reporter, complete = state.problem, Reporter(state.problem), True
    cover: FloatArray = state.cover.cpu().numpy().copy()
    before = float(sums_in_order(problem.weights * cover))
    members = None if problem.groups is None else Members(problem)
    run = DeviceCover(state, members)
    try:
        while run.n_picks < problem.budget:
            run.step()
            reporter.report(run.n_picks, None)
    except KeyboardInterrupt:
        complete = False
    picks, gained = run.picks_and_gains()
    if members is None:
        return Solution((finished(problem, state.reach, before, picks, gained),), complete)
    covered, reach = shares(problem.weights, before, gained), float(np.sqrt(state.reach))
    earned, is_uninterrupted = retry_on_interrupt(lambda: earned_parts(state, members, picks, cover, run.guess))
    configuration = members.configuration(picks, gained, earned, covered=covered, reach=reach)
    return Solution((configuration,), complete and is_uninterrupted)


PICKS_TOGETHER = 4096
"""Maximum number of picked groups whose pairs are searched together; fewer if memory is too small."""


def earned_parts(
    state: CoverState, members: Members, picks: IntArray, cover: FloatArray, guess: int
) -> list[FloatArray]:
    """The parts of the gain that each row of each picked group earned, given the cover (n,) before the first pick."""
    device, parts, done, together = state.cover.device, list[FloatArray](), 0, PICKS_TOGETHER
    state.cover = to_device(cover, device)
    while done < len(picks):
        positions = [members.positions(pick) for pick in picks[done : done + together].tolist()]
        sizes = np.array([len(own) for own in positions])
        numbers = to_device(state.problem.candidates[np.concatenate(positions)], device)
        pick_of = to_device(np.repeat(np.arange(len(positions)), sizes), device)
        try:
            best = _best(state, numbers, pick_of, guess, may_split=len(positions) == 1)
        except TooManyPairs:
            together = max(1, len(positions) // 2)
            continue
        owners, terms = best.owners.cpu().numpy(), best.terms.cpu().numpy()
        # Terms of a row are added in the order of the pool, as in the reference.
        earned = np.bincount(owners, weights=terms, minlength=len(numbers)).astype(np.float64)
        parts += np.split(earned, sizes.cumsum()[:-1])
        state.cover.scatter_reduce_(0, best.rows.long(), best.kernels, "amax")
        done += len(positions)
    return parts


class BestPairs(NamedTuple):
    """For each picked group and each row that it covers, the pair with the largest term; sorted by row and pick."""

    owners: Tensor
    rows: Tensor
    kernels: Tensor
    terms: Tensor


def _best(state: CoverState, numbers: Tensor, pick_of: Tensor, guess: int, *, may_split: bool) -> BestPairs:
    """The best pairs of candidates (c,), which belong to the picks ``pick_of`` (c,), in the order of picks.

    With ``may_split``, the pairs of a single pick are searched in parts if they do not fit in memory.
    """
    order = torch.arange(len(numbers), device=numbers.device)
    try:
        entries = _entries_of(state, numbers, order, guess)
    except TooManyPairs:
        if not may_split or len(numbers) == 1:
            raise
        half = len(numbers) // 2
        lower = _best(state, numbers[:half], pick_of[:half], guess, may_split=True)
        upper = _best(state, numbers[half:], pick_of[half:], guess, may_split=True)
        entries = _joined([lower[:3], (upper.owners + half, *upper[1:3])])
    owners, rows, kernels = entries
    order = (rows.long() * len(numbers) + owners).sort().indices
    owners, rows, kernels = owners[order].long(), rows[order].long(), kernels[order]
    is_first = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    is_first[1:] = (rows[1:] != rows[:-1]) | (pick_of[owners[1:]] != pick_of[owners[:-1]])
    cell = is_first.cumsum(0) - 1
    """(p,) the pick and row of each pair, numbered."""
    terms = (kernels - _cover_before(state, rows, kernels, is_first)[cell]).clamp(min=0.0) * state.weights[rows]
    n_cells = int(is_first.sum())
    largest = torch.zeros(n_cells, dtype=terms.dtype, device=rows.device).scatter_reduce_(0, cell, terms, "amax")
    highest = torch.zeros_like(largest).scatter_reduce_(0, cell, kernels, "amax")
    # The first of the largest terms is that of the lowest owner.
    is_best = torch.nonzero(terms == largest[cell])[:, 0]
    is_best = is_best[torch.cat([is_first[:1], cell[is_best].diff() > 0])]
    return BestPairs(owners[is_best], rows[is_best], highest, terms[is_best])


def _cover_before(state: CoverState, rows: Tensor, kernels: Tensor, is_first: Tensor) -> Tensor:
    """(cells,) the cover of a row before each pick, from pairs sorted by row and pick."""
    values, ranks = torch.unique(kernels, return_inverse=True)
    is_new = torch.ones_like(is_first)
    is_new[1:] = rows[1:] != rows[:-1]
    # A running maximum that starts again at each row.
    base = is_new.cumsum(0) * len(values)
    running = torch.cummax(base + ranks, dim=0).values - base
    first = torch.nonzero(is_first)[:, 0]
    before = torch.where(is_new[first], 0.0, values[running[(first - 1).clamp(min=0)]])
    return torch.maximum(before, state.cover[rows[first]])


def by_weight(problem: CoverageProblem) -> Solution:
    """The picks if the reach is 0: a candidate covers only itself, so its gain is its weight."""
    if problem.groups is not None:
        return Solution((coverage_without_reach(problem),))
    weights = problem.weights[problem.candidates]
    picks = np.argsort(-weights, kind="stable")[: problem.budget]
    return Solution((finished(problem, 0.0, 0.0, picks, weights[picks]),))
