"""The same loop in PyTorch on the CPU, with as many threads as PyTorch takes."""

from importlib import import_module

import numpy as np
from timing import Contestant, Outcome
from workloads import Ints, Task

NAME = "PyTorch loop"
FIRST_PASS_ROWS = 2_048


def contestant(task: Task) -> Contestant:
    """Raises ImportError where torch is not installed."""
    import_module("torch")
    return Contestant(NAME, lambda: Outcome(greedy_loop(task)), lambda: greedy_loop(task.small()), repeats=3, cap=45.0)


def greedy_loop(task: Task) -> Ints:
    """Tensors share the arrays' memory: nothing is copied but the weights."""
    torch = import_module("torch")
    pool, labeled = torch.from_numpy(task.workload.pool), torch.from_numpy(task.workload.labeled)
    sizes, labeled_sizes = (pool * pool).sum(1), (labeled * labeled).sum(1)
    products = [torch.addmm(labeled_sizes, part, labeled.T, alpha=-2).amin(1) for part in pool.split(FIRST_PASS_ROWS)]
    nearest = (torch.cat(products) + sizes).clamp_(min=0)
    weights = None if task.weights is None else torch.from_numpy(task.weights.astype(np.float32))
    squared, priorities, picks = torch.empty_like(nearest), torch.empty_like(nearest), []
    for _ in range(task.budget):
        ranked = nearest if weights is None else torch.mul(nearest, weights, out=priorities)
        best = int(ranked.argmax())
        picks.append(best)
        torch.mv(pool, pool[best], out=squared)
        squared.mul_(-2).add_(sizes).add_(sizes[best])
        torch.minimum(nearest, squared, out=nearest)
        nearest[best] = -1.0
    return np.array(picks, dtype=np.int64)
