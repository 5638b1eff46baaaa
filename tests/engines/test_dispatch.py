from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from dubito.core.problem import Problem, Solution
from dubito.engines import dispatch
from dubito.engines.base import Engine, Estimate
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.cuda.engine import CudaEngine
from dubito.engines.dispatch import as_engine, choose_engine, engines_for, installed_engines
from dubito.engines.reference_engine import ReferenceEngine
from dubito.errors import InvalidArgument
from dubito.strategies import Coreset, Strategy

PROBLEM = Problem(np.eye(3), np.zeros((1, 3)), np.arange(3), 2)


def test_the_fastest_engine_that_refuses_nothing_is_taken() -> None:
    assert choose_engine("auto", PROBLEM).name == "cpu"


@pytest.mark.parametrize(
    ("pays", "reasons", "taken"), [(True, [], "cuda"), (True, ["there is none"], "cpu"), (False, [], "cpu")]
)
def test_a_gpu_is_taken_where_it_pays_and_there_is_one(
    pays: bool, reasons: list[str], taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CudaEngine, "pays", lambda self, problem: pays)
    monkeypatch.setattr(CudaEngine, "refusals", lambda self, problem: reasons)
    assert choose_engine("auto", PROBLEM).name == taken


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_a_named_engine_is_taken(name: str) -> None:
    assert choose_engine(name, PROBLEM) is engines_for(PROBLEM)[name]


def test_an_unknown_engine_is_named_with_those_known() -> None:
    with pytest.raises(InvalidArgument, match=r"engine='referenze' is not known; did you mean 'reference'\? Choo"):
        choose_engine("referenze", PROBLEM)


class Unwilling(Engine[Problem]):
    """Refuses everything."""

    name: ClassVar[str] = "unwilling"

    def refusals(self, problem: Problem) -> list[str]:
        return ["it is tired", "it is late"]

    def solve(self, problem: Problem) -> Solution:
        return Solution(())


def test_a_named_engine_that_refuses_never_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(installed_engines(), "unwilling", (Unwilling(),))
    with pytest.raises(InvalidArgument, match=r"engine='unwilling' cannot do this: it is tired; it is late; pass"):
        choose_engine("unwilling", PROBLEM)


@dataclass(frozen=True)
class Elsewhere(Engine[Problem]):
    """The least that a new engine has to bring."""

    name: ClassVar[str] = "elsewhere"

    def refusals(self, problem: Problem) -> list[str]:
        return []

    def solve(self, problem: Problem) -> Solution:
        return ReferenceEngine().solve(problem)


class Eager(Elsewhere):
    """Says that it pays for small problems."""

    def pays(self, problem: Problem) -> bool:
        return problem.budget < 10


@dataclass(frozen=True)
class Cover:
    """A problem of another kind."""

    kind: ClassVar[str] = "cover"


@dataclass(frozen=True)
class CoverEngine:
    """The CPU for such problems, under the same name."""

    name: ClassVar[str] = "cpu"
    solves: ClassVar[tuple[type, ...]] = (Cover,)

    def refusals(self, problem: Cover) -> list[str]:
        return []

    def pays(self, problem: Cover) -> bool:
        return True

    def estimate(self, problem: Cover) -> Estimate | None:
        return None

    def catch_up(self, problem: Cover) -> None:
        return

    def solve(self, problem: Cover) -> Solution:
        return Solution(())


def install(monkeypatch: pytest.MonkeyPatch, *engines: Engine[Any]) -> None:
    """Offer engines as another package would."""
    offered = {engine.name: (engine,) for engine in engines}
    monkeypatch.setattr("dubito.engines.dispatch.installed_engines", lambda: offered | dispatch.BUILT_IN)


def test_an_engine_of_another_package_is_taken_where_it_says_that_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Eager())
    assert choose_engine("auto", PROBLEM).name == "elsewhere"
    assert choose_engine("auto", Problem(np.eye(30), np.zeros((1, 30)), np.arange(30), 20)).name == "cpu"


def test_an_engine_that_does_not_say_that_it_pays_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Elsewhere())
    assert choose_engine("auto", PROBLEM).name == "cpu"
    assert choose_engine("elsewhere", PROBLEM).name == "elsewhere"
    assert Elsewhere().estimate(PROBLEM) is None
    Elsewhere().catch_up(PROBLEM)


def test_one_name_stands_for_engines_of_several_kinds_of_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dispatch.BUILT_IN, "cpu", (CpuEngine(), CoverEngine()))
    install(monkeypatch)
    assert isinstance(choose_engine("cpu", PROBLEM), CpuEngine)
    assert isinstance(choose_engine("cpu", Cover()), CoverEngine)
    assert isinstance(choose_engine("auto", Cover()), CoverEngine)
    with pytest.raises(
        InvalidArgument, match=r"engine='reference' cannot do this: it solves no cover problems; pass e"
    ):
        choose_engine("reference", Cover())


def test_engines_stand_under_their_own_names() -> None:
    assert [each for name, engines in dispatch.BUILT_IN.items() for each in engines if each.name != name] == []


def test_the_reference_which_always_pays_stands_last() -> None:
    assert list(dispatch.BUILT_IN)[-1] == "reference"


def test_a_kind_of_problem_that_no_engine_solves_is_said_to_be_one() -> None:
    with pytest.raises(InvalidArgument, match="engine='auto' finds no engine that solves cover problems"):
        choose_engine("auto", Cover())


def test_an_object_that_is_not_an_engine_is_refused_with_what_it_lacks() -> None:
    engine = as_engine("mine", "an engine")
    assert engine.refusals(PROBLEM) == [
        "it is not a subclass of dubito.engines.base.Engine and has no name, solves, refusals, pays, estimate, "
        "catch_up, solve"
    ]
    assert isinstance(PROBLEM, engine.solves)
    assert not engine.pays(PROBLEM)
    assert engine.estimate(PROBLEM) is None
    engine.catch_up(PROBLEM)
    with pytest.raises(NotImplementedError, match="it is not a subclass"):
        engine.solve(PROBLEM)


@pytest.mark.parametrize("engine", [CpuEngine(), CudaEngine(), ReferenceEngine(), Unwilling()])
def test_engines_are_recognized_by_what_they_can_do(engine: object) -> None:
    assert isinstance(engine, Engine)
    assert not isinstance(engine, Strategy)


def test_strategies_are_recognized_by_what_they_can_do() -> None:
    assert isinstance(Coreset(), Strategy)
    assert not isinstance(Coreset(), Engine)
