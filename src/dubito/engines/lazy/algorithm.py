"""The exact lazy block algorithm: core-sets without a pass over the pool for every pick.

A priority only falls as references are added, so a stale one is an upper bound. The engine keeps for each
candidate a bound and how many references it has seen (`dubito.engines.lazy.bounds`), and repeats:

1. take the front: the first K candidates by (bound, largest first; index, lowest first). The threshold is what
   stands first outside;
2. refresh those that have not seen every reference, until the whole front is fresh;
3. pick greedily inside the front, over one K×K product, while the best comes before the threshold; then write the
   lowered bounds back. A beam steps all its configurations there.

**Why the picks are the reference's.** A fresh priority is exact: the reference's own number, from
`dubito.distances.settle`. float32 products only rule references out, by bounds on their rounding that hold for any
order of additions. Inside a front every candidate has an interval that holds its exact priority; a pick is made
when no other interval reaches its own, and otherwise the contenders are settled first. A bound written back is
the upper end of its interval, and invariantly it is either exact for the references seen, or the nearest reference
is among those not seen: a later refresh of the unseen ones makes it exact again. Block sizes, thread counts and
the order of additions in a product can change which pairs are settled, never what is picked.
"""

from dataclasses import replace

from dubito.engines.lazy.beam import Beam
from dubito.engines.lazy.bounds import Bounds
from dubito.engines.lazy.frontier import Frontier
from dubito.engines.lazy.greedy import Greedy
from dubito.engines.lazy.kernels import Kernels
from dubito.problem import Problem, Solution


def solve(problem: Problem, kernels: Kernels) -> Solution:
    """The reference's configurations, best first."""
    n_sets = most_sets(len(problem.candidates), problem.budget, problem.beam_width)
    if n_sets < problem.beam_width:
        problem = replace(problem, beam_width=max(2, n_sets))
    return solve_over(problem, Bounds(problem, kernels))


def most_sets(n: int, budget: int, enough: int) -> int:
    """How many different sets of equally many picks there can be up to a budget, or ``enough``: no beam holds more.

    Examples
    --------
    >>> most_sets(5, 2, 1000), most_sets(5, 4, 1000), most_sets(5, 2, 7)
    (10, 10, 7)
    """
    n_sets = 1
    for n_picks in range(1, min(budget, n // 2) + 1):
        n_sets = n_sets * (n - n_picks + 1) // n_picks
        if n_sets >= enough:
            return enough
    return n_sets


def solve_over(problem: Problem, frontier: Frontier) -> Solution:
    """The same, wherever the candidates lie."""
    run = (Greedy if problem.beam_width == 1 else Beam)(problem, frontier)
    run.open()
    return run.solve()
