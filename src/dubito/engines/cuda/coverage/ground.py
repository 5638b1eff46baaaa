"""What there is to cover, on a device: points, weights, the cover so far, and how near a pick must come."""

import numpy as np
import torch

from dubito.coverage import CoverageProblem, cold_reach, warm_reach
from dubito.engines.cuda.bounds import DeviceBounds
from dubito.engines.cuda.coverage.memory import DeviceCoverPlan
from dubito.engines.cuda.points import DevicePoints, DeviceSource, Tensor, to_device
from dubito.engines.cuda.shapes import DeviceReferences, Slot
from dubito.matrix import FloatArray, blocks, len_of
from dubito.problem import Problem

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
        """(n,) exact squared distances to what is labelled, of the rows that want covering and of the sample."""
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
        """R², as `dubito.coverage.squared_reach` has it."""
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
    """(n,) exact squared distances of all candidates to what is labelled."""
    bounds.start(np.empty(0, dtype=np.int64))
    bounds.tighten_all()
    for span in blocks(len(bounds.value), bounds.sizes.rows):
        bounds.refresh(torch.arange(span.start, span.stop, device=bounds.device))
    return bounds.value
