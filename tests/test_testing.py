"""The contract itself: it lets good parts pass, and catches each way of being wrong."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from dubito.core import reference
from dubito.core.problem import Configuration, Problem, Request, Solution
from dubito.engines.base import Engine, Estimate
from dubito.engines.reference_engine import ReferenceEngine
from dubito.matrix import FloatArray, IntArray, Rows, Stack, len_of
from dubito.strategies import Choice, Coreset
from dubito.testing import check_engine, check_strategy, make_problem
from levels import examples

Twist = Callable[[Problem, Solution], Solution]


@dataclass(frozen=True)
class Twisted(Engine[Problem]):
    """The reference, with its answer twisted."""

    twist: Twist
    name: ClassVar[str] = "twisted"

    def refusals(self, problem: Problem) -> list[str]:
        return []

    def solve(self, problem: Problem) -> Solution:
        return self.twist(problem, Solution(reference.solve(problem)))


def change_first(problem: Problem, solution: Solution, **changes: object) -> Solution:
    changed: Callable[..., Configuration] = replace
    return Solution((changed(solution.configurations[0], **changes), *solution.configurations[1:]))


def priorities_in_float32(problem: Problem, solution: Solution) -> Solution:
    rounded = solution.configurations[0].priorities.astype(np.float32).astype(np.float64)
    return change_first(problem, solution, priorities=rounded)


def first_two_swapped(problem: Problem, solution: Solution) -> Solution:
    indices = solution.configurations[0].indices.copy()
    indices[:2] = indices[:2][::-1]
    return change_first(problem, solution, indices=indices)


def greedy_alone(problem: Problem, solution: Solution) -> Solution:
    return Solution(solution.configurations[:1])


def radius_a_little_off(problem: Problem, solution: Solution) -> Solution:
    radius = solution.configurations[0].radius or 0.0
    return change_first(problem, solution, radius=float(np.nextafter(radius, 1e300)))


def no_uncertainty(problem: Problem, solution: Solution) -> Solution:
    return change_first(problem, solution, uncertainty=None)


def called_incomplete(problem: Problem, solution: Solution) -> Solution:
    return replace(solution, complete=False)


def doubt_changed(problem: Problem, solution: Solution) -> Solution:
    if problem.doubt is not None:
        problem.doubt[0] = 0.123
    return solution


@pytest.mark.parametrize(
    ("twist", "message"),
    [
        (
            priorities_in_float32,
            r"differs from the reference on make_problem\(\d+, beams=True, least_rows=1\): .*has priorities",
        ),
        (first_two_swapped, r"configuration 0 has indices"),
        (greedy_alone, r"1 configurations instead of \d"),
        (radius_a_little_off, r"configuration 0 has radius"),
        (no_uncertainty, r"configuration 0 has uncertainty None instead of"),
        (called_incomplete, r"returned complete=False for make_problem\(0, beams=True, least_rows=1\)"),
        (doubt_changed, r"changed its input: make_problem\(0, beams=True, least_rows=1\)"),
    ],
)
def test_an_engine_that_is_wrong_is_caught_with_the_problem_that_shows_it(twist: Twist, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_engine(Twisted(twist), examples=60)


def test_the_reference_meets_its_own_contract() -> None:
    check_engine(ReferenceEngine(), examples=examples(40))


@dataclass(frozen=True)
class Refusing(Engine[Problem]):
    """Takes only one problem in so many."""

    one_in: int
    name: ClassVar[str] = "refusing"

    def refusals(self, problem: Problem) -> list[str]:
        return ["not today"] if problem.budget % self.one_in else []

    def solve(self, problem: Problem) -> Solution:
        return Solution(reference.solve(problem))


def test_an_engine_may_refuse_some_problems_but_not_nearly_all() -> None:
    check_engine(Refusing(2), examples=4)
    with pytest.raises(AssertionError, match=r"engine 'refusing' refused 4 of 4 problems"):
        check_engine(Refusing(10**6), examples=4)


def test_an_engine_may_refuse_the_problem_that_is_interrupted() -> None:
    check_engine(Refusing(3), examples=6, beams=False)


@dataclass(frozen=True)
class ForLarge(Engine[Problem]):
    """The reference, for pools of some size and more; what it costs may be wrong."""

    least: int
    seconds: float = 1.0
    name: ClassVar[str] = "for-large"

    def refusals(self, problem: Problem) -> list[str]:
        return [f"it takes no pool of fewer than {self.least} rows"] if len_of(problem.pool) < self.least else []

    def estimate(self, problem: Problem) -> Estimate:
        return Estimate(bytes=1, seconds=self.seconds, engine=self.name)

    def solve(self, problem: Problem) -> Solution:
        return Solution(reference.solve(problem))


def test_an_engine_that_refuses_small_pools_is_held_to_the_same() -> None:
    check_engine(ForLarge(100), examples=2)
    with pytest.raises(AssertionError, match=r"estimates a cost of \(1, -1\.0, 'for-large'\)"):
        check_engine(ForLarge(100, seconds=-1.0), examples=1)
    with pytest.raises(AssertionError, match=r"refused 2 of 2 problems"):
        check_engine(ForLarge(10_000), examples=2)


@dataclass(frozen=True)
class Fussy(ForLarge):
    """Takes what is generated, and no plain problem."""

    def refusals(self, problem: Problem) -> list[str]:
        return ["it is plain"] if problem.doubt is None else []


def test_an_engine_that_could_not_be_asked_everything_is_reported_so() -> None:
    with pytest.raises(AssertionError, match="refused plain problems of 500, 60, 9, 4000 rows; it must accept one"):
        check_engine(Fussy(1), examples=4)


@dataclass(frozen=True)
class Interruptible(Engine[Problem]):
    """Tells its progress once, and keeps so many picks when interrupted."""

    kept: int = 100
    complete: bool = False
    shift: int = 0
    name: ClassVar[str] = "interruptible"

    def refusals(self, problem: Problem) -> list[str]:
        return []

    def solve(self, problem: Problem) -> Solution:
        found = reference.solve(problem)
        try:
            if problem.progress is not None:
                problem.progress(100, problem.budget, 1.0, 0.0)
        except KeyboardInterrupt:
            part = slice(self.shift, self.kept + self.shift)
            first = replace(found[0], indices=found[0].indices[part], priorities=found[0].priorities[part])
            return Solution((first,), self.complete)
        return Solution(found)


def test_an_interrupted_engine_must_keep_a_prefix_and_say_so() -> None:
    check_engine(Interruptible(), examples=3)
    with pytest.raises(AssertionError, match="returned complete=True"):
        check_engine(Interruptible(complete=True), examples=3)
    with pytest.raises(AssertionError, match="returned 99 picks"):
        check_engine(Interruptible(kept=99), examples=3)
    with pytest.raises(AssertionError, match="not a prefix of the reference's"):
        check_engine(Interruptible(shift=1), examples=3)


@dataclass(frozen=True)
class Fixed:
    """Whatever it is told to choose."""

    answer: Callable[[Request], tuple[IntArray, FloatArray]]
    name: str = "fixed"
    uses_engine: bool = False

    def choose(self, request: Request) -> Choice:
        indices, priorities = self.answer(request)
        return Choice((Configuration(indices, priorities, radius=None),))


def take(request: Request, budget: int) -> tuple[IntArray, FloatArray]:
    return request.candidates[:budget], np.zeros(budget)


class Restless:
    """Counts its calls, and answers otherwise each time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, request: Request) -> tuple[IntArray, FloatArray]:
        self.calls += 1
        return np.roll(request.candidates, self.calls)[: request.budget], np.zeros(request.budget)


def spoil(request: Request) -> tuple[IntArray, FloatArray]:
    pool = request.pool
    assert isinstance(pool, np.ndarray)
    pool[0] = 99.0
    return take(request, request.budget)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda request: take(request, request.budget + 1), r"10 picks with 10 priorities for budget=9"),
        (
            lambda request: (request.candidates[:1].repeat(request.budget), np.zeros(request.budget)),
            r"picked twice",
        ),
        (lambda request: (np.arange(-1, request.budget - 1), np.zeros(request.budget)), r"row -1 is not a candidate"),
        (lambda request: (take(request, request.budget)[0].astype(np.int32), np.zeros(request.budget)), r"are int32"),
        (
            lambda request: (request.candidates[: request.budget], np.zeros(request.budget, dtype=np.int64)),
            r"int64",
        ),
        (Restless(), r"picks other rows in a second call"),
        (spoil, r"strategy 'fixed' on the pool of seed \d+ changed its input"),
    ],
)
def test_a_strategy_that_is_wrong_is_caught(
    answer: Callable[[Request], tuple[IntArray, FloatArray]], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        check_strategy(Fixed(answer))


class Unsaid(Coreset):
    """Uses an engine and denies it."""

    uses_engine: ClassVar[bool] = False


def test_a_strategy_must_say_whether_it_uses_an_engine() -> None:
    with pytest.raises(AssertionError, match="returned engine='cpu'"):
        check_strategy(Unsaid())


def test_a_strategy_that_keeps_its_word_meets_the_contract() -> None:
    check_strategy(Fixed(lambda request: take(request, request.budget)))


def test_problems_depend_on_their_seed_alone() -> None:
    for seed in range(30):
        one, other = make_problem(seed), make_problem(seed)
        assert np.asarray(one.pool[:]).tobytes() == np.asarray(other.pool[:]).tobytes()
        assert one.candidates.tolist() == other.candidates.tolist()
        assert (one.budget, one.beam_width, one.scaling) == (other.budget, other.beam_width, other.scaling)


def test_problems_are_of_every_kind() -> None:
    problems = [make_problem(seed) for seed in range(300)]
    assert {problem.beam_width for problem in problems} == {1, 2, 3, 4, 5}
    assert {problem.scaling for problem in problems} == {"respective", "acquired"}
    assert {problem.metric for problem in problems} == {"euclidean", "cosine"}
    assert {problem.pool.dtype.name for problem in problems} == {"float16", "float32", "float64"}
    assert {type(problem.pool) for problem in problems} == {np.ndarray, np.memmap, Rows, Stack}
    arrays = [problem.pool for problem in problems if isinstance(problem.pool, np.ndarray)]
    assert {pool.flags.writeable for pool in arrays} == {True, False}
    assert any(pool.flags.f_contiguous and not pool.flags.c_contiguous for pool in arrays)
    assert any(problem.references.shape[0] == 0 for problem in problems)
    assert any(problem.budget == problem.pool.shape[0] for problem in problems)
    assert any(len(problem.candidates) < problem.pool.shape[0] for problem in problems)
    assert any(problem.weights is None for problem in problems)
    assert any(problem.doubt is not None and not problem.doubt.any() for problem in problems)
    assert all(problem.beam_width == 1 for problem in (make_problem(seed, beams=False) for seed in range(50)))
