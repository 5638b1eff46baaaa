import numpy as np
import pytest

from dubito.engines.base import Engine
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.cuda.engine import CudaEngine
from dubito.engines.dispatch import choose_engine, installed_engines
from dubito.engines.oracle import ReferenceEngine
from dubito.errors import InvalidArgument
from dubito.problem import Problem, Solution
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
    assert choose_engine(name, PROBLEM) is installed_engines()[name]


def test_an_unknown_engine_is_named_with_those_known() -> None:
    with pytest.raises(InvalidArgument, match=r"engine='referenze' is not known; did you mean 'reference'\? Choo"):
        choose_engine("referenze", PROBLEM)


class Unwilling:
    """Refuses everything."""

    name = "unwilling"

    def refusals(self, problem: Problem) -> list[str]:
        return ["it is tired", "it is late"]

    def solve(self, problem: Problem) -> Solution:
        return Solution(())


def test_a_named_engine_that_refuses_never_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(installed_engines(), "unwilling", Unwilling())
    with pytest.raises(InvalidArgument, match=r"engine='unwilling' cannot do this: it is tired; it is late; pass"):
        choose_engine("unwilling", PROBLEM)


@pytest.mark.parametrize("engine", [CpuEngine(), CudaEngine(), ReferenceEngine(), Unwilling()])
def test_engines_are_recognised_by_what_they_can_do(engine: object) -> None:
    assert isinstance(engine, Engine)
    assert not isinstance(engine, Strategy)


def test_strategies_are_recognised_by_what_they_can_do() -> None:
    assert isinstance(Coreset(), Strategy)
    assert not isinstance(Coreset(), Engine)
