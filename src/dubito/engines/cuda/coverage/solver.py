"""Solving a problem of coverage on a device."""

from contextlib import nullcontext

import numpy as np
import torch

from dubito.coverage import CoverageProblem, add_rows, finished
from dubito.engines.cuda.coverage.greedy import DeviceCover
from dubito.engines.cuda.coverage.ground import Ground
from dubito.engines.cuda.coverage.memory import plan_for
from dubito.engines.lazy.progress import Reporter
from dubito.matrix import FloatArray, OnDevice
from dubito.problem import Solution


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
