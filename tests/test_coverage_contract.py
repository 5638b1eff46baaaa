"""The contract of engines that cover: it lets the reference pass, and catches each way of being wrong."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from dubito import coverage
from dubito.coverage import CoverageProblem
from dubito.engines.base import Engine
from dubito.engines.oracle import CoverageReference
from dubito.problem import Configuration, Solution
from dubito.testing import check_coverage_engine, make_coverage_problem

Twist = Callable[[CoverageProblem, Configuration], Solution]


@dataclass(frozen=True)
class Twisted(Engine[CoverageProblem]):
    """The reference, with its answer twisted."""

    twist: Twist
    refuses: bool = False
    name: ClassVar[str] = "twisted"
    solves: ClassVar[tuple[type, ...]] = (CoverageProblem,)

    def refusals(self, problem: CoverageProblem) -> list[str]:
        return ["it never does"] if self.refuses else []

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
    check_coverage_engine(CoverageReference(), examples=40)


@pytest.mark.parametrize(
    ("twist", "match"),
    [
        (swapped, "indices are"),
        (rounded, "priorities are"),
        (covers_less, "covered are"),
        (reaches_farther, "reach is"),
        (unsure_of_doubt, "uncertainty is"),
        (incomplete, "incomplete"),
        (twice, "more than one configuration"),
        (forgets_weights, "changed what it was handed"),
        (wrong_once_it_knows, "in round 1 on what it knows"),
        (keeps_strangers, "no prefix"),
    ],
)
def test_each_way_of_being_wrong_is_caught(twist: Twist, match: str) -> None:
    with pytest.raises(AssertionError, match=match):
        check_coverage_engine(Twisted(twist), examples=25)


def test_an_engine_that_refuses_nearly_everything_is_no_engine() -> None:
    with pytest.raises(AssertionError, match="refused 5 of 5"):
        check_coverage_engine(Twisted(swapped, refuses=True), examples=5)


def test_the_problems_hold_what_goes_wrong() -> None:
    found = [(make_coverage_problem(seed), coverage.greedy(make_coverage_problem(seed))) for seed in range(150)]
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
