"""The contract of engines that cover: it lets the reference pass, and catches each way of being wrong."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from dubito.core import coverage_reference as coverage
from dubito.core.coverage_reference import CoverageProblem
from dubito.core.problem import Configuration, Solution
from dubito.engines.base import Engine
from dubito.engines.reference_engine import CoverageReference
from dubito.testing import check_coverage_engine, make_coverage_problem
from levels import examples

Twist = Callable[[CoverageProblem, Configuration], Solution]


@dataclass(frozen=True)
class Twisted(Engine[CoverageProblem]):
    """The reference, with its answer twisted."""

    twist: Twist
    most_rows: int = 500
    name: ClassVar[str] = "twisted"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)

    def refusals(self, problem: CoverageProblem) -> list[str]:
        return ["it is too large"] if problem.pool.shape[0] > self.most_rows else []

    def solve(self, problem: CoverageProblem) -> Solution:
        return self.twist(problem, coverage.greedy(problem))


def changed(found: Configuration, **changes: object) -> Solution:
    change: Callable[..., Configuration] = replace
    return Solution((change(found, **changes),))


def swapped(problem: CoverageProblem, found: Configuration) -> Solution:
    return changed(found, indices=np.concatenate([found.indices[:2][::-1], found.indices[2:]]))


def rounded(problem: CoverageProblem, found: Configuration) -> Solution:
    return changed(found, priorities=found.priorities * (1.0 + 2**-52))


def covers_less(problem: CoverageProblem, found: Configuration) -> Solution:
    assert found.covered is not None
    return changed(found, covered=found.covered * 0.5)


def reaches_farther(problem: CoverageProblem, found: Configuration) -> Solution:
    return changed(found, reach=1.0 + (found.reach or 0.0))


def unsure_of_doubt(problem: CoverageProblem, found: Configuration) -> Solution:
    return changed(found, uncertainty=None)


def incomplete(problem: CoverageProblem, found: Configuration) -> Solution:
    return Solution((found,), complete=False)


def twice(problem: CoverageProblem, found: Configuration) -> Solution:
    return Solution((found, found))


def forgets_weights(problem: CoverageProblem, found: Configuration) -> Solution:
    problem.weights[:] = 1.0
    return Solution((found,))


def wrong_once_it_knows(problem: CoverageProblem, found: Configuration) -> Solution:
    return Solution((found,)) if problem.known is None else swapped(problem, found)


def keeps_strangers(problem: CoverageProblem, found: Configuration) -> Solution:
    if problem.progress is None:
        return Solution((found,))
    try:
        problem.progress(1, 400, None, 0.0)
    except KeyboardInterrupt:
        return Solution((replace(found, indices=found.indices[::-1]),), complete=False)
    raise AssertionError("progress was to interrupt")


def test_the_reference_meets_the_contract() -> None:
    check_coverage_engine(CoverageReference(), examples=examples(40))


@pytest.mark.parametrize(
    ("twist", "match"),
    [
        (swapped, "has indices"),
        (rounded, "has priorities"),
        (covers_less, "has covered"),
        (reaches_farther, "has reach"),
        (unsure_of_doubt, "has uncertainty"),
        (incomplete, "returned complete=False"),
        (twice, "2 configurations instead of 1"),
        (forgets_weights, "changed its input"),
        (keeps_strangers, "not a prefix"),
    ],
)
def test_each_way_of_being_wrong_is_caught(twist: Twist, match: str) -> None:
    with pytest.raises(AssertionError, match=match):
        check_coverage_engine(Twisted(twist), examples=4)


def test_an_engine_that_is_wrong_once_it_knows_distances_is_caught() -> None:
    """And one that takes no large problem is not interrupted."""
    with pytest.raises(AssertionError, match="in round 1 with known distances"):
        check_coverage_engine(Twisted(wrong_once_it_knows, most_rows=200), examples=4)


def test_an_engine_that_refuses_nearly_everything_is_no_engine() -> None:
    with pytest.raises(AssertionError, match="refused 5 of 5"):
        check_coverage_engine(Twisted(swapped, most_rows=0), examples=5)


def test_the_problems_hold_what_goes_wrong() -> None:
    # Wide rows, of which there are many, take the reference its time.
    made = [problem for problem in map(make_coverage_problem, range(150)) if problem.pool.shape[0] < 130]
    found = [(problem, coverage.greedy(problem)) for problem in made]
    assert sum(each.reach == 0.0 for _, each in found) > 5
    assert sum(problem.references.shape[0] == 0 for problem, _ in found) > 20
    assert sum(bool((each.priorities == 0.0).any()) for _, each in found) > 20
    assert (
        sum(
            bool(((each.priorities[1:] == each.priorities[:-1]) & (each.priorities[1:] > 0)).any()) for _, each in found
        )
        > 20
    )
    assert sum(problem.metric == "cosine" for problem, _ in found) > 3
