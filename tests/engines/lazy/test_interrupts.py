"""Ctrl-C is deferred while picks and bounds change together, and no pick is lost."""

import signal
import threading
from typing import Any

import numpy as np
import pytest

from dubito import native as compiled
from dubito.core.problem import Problem, Solution
from dubito.engines.cpu import small
from dubito.engines.cpu.engine import CpuEngine
from dubito.engines.lazy import algorithm as greedy
from dubito.engines.lazy import beam
from dubito.engines.lazy.front import FrontPicking
from dubito.engines.lazy.interrupts import DeferInterrupt

IN_C = pytest.mark.skipif(compiled.steps is None, reason="there was no C compiler to build the steps with")


def press() -> None:
    """Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def press_in_a_block(times: int) -> DeferInterrupt:
    with DeferInterrupt() as held:
        for _ in range(times):
            press()
    return held


def test_an_interrupt_is_raised_at_the_end_of_the_block() -> None:
    held = press_in_a_block(1)
    assert held.is_pending
    with pytest.raises(KeyboardInterrupt):
        held.raise_if_pending()


def test_a_second_interrupt_is_raised_immediately() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        press_in_a_block(2)
    assert signal.getsignal(signal.SIGINT) is before


def test_nothing_is_raised_without_an_interrupt() -> None:
    with DeferInterrupt() as held:
        pass
    held.raise_if_pending()
    assert not held.is_pending


def test_a_custom_handler_is_called() -> None:
    described = []
    before = signal.signal(signal.SIGINT, lambda *given: described.append(given))
    try:
        with DeferInterrupt() as held:
            press()
            assert described == []
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(described) == 1
    assert not held.is_pending


def test_other_threads_do_not_change_signal_handlers() -> None:
    seen = []

    def look() -> None:
        with DeferInterrupt():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def problem_of(width: int = 1, budget: int = 300) -> Problem:
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((4_000, 8)).astype(np.float32)
    scores = None if width == 1 else rng.permutation(4_000)
    return Problem(pool, pool[:50], np.arange(50, 4_000), budget, scores=scores, beam_width=width, largest=10.0)


def pressed_in(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch, at: int = 1) -> None:
    """Ctrl-C during one call of a function."""
    real, calls = getattr(owner, name), []

    def called(*given: Any, **named: Any) -> Any:
        calls.append(name)
        if len(calls) == at:
            press()
        return real(*given, **named)

    monkeypatch.setattr(owner, name, called)


def check_prefix(problem: Problem, found: Solution, whole: Solution) -> None:
    part, all_of_it = found.configurations[0], whole.configurations[0]
    n = len(part.indices)
    assert not found.complete
    assert n > 0
    assert part.indices.tolist() == all_of_it.indices[:n].tolist()
    assert part.radius == (all_of_it.radius if n == problem.budget else all_of_it.priorities[n])


def test_an_interrupt_does_not_split_the_end_of_a_front(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of()
    whole = CpuEngine("lazy").solve(problem)
    pressed_in(FrontPicking, "priorities", monkeypatch)
    found = CpuEngine("lazy").solve(problem)
    check_prefix(problem, found, whole)
    assert len(found.configurations[0].indices) < problem.budget


@pytest.mark.parametrize("method", ["lazy", pytest.param("small", marks=IN_C)])
def test_no_pick_is_lost_while_the_radius_is_found(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of()
    whole = CpuEngine(method).solve(problem)
    owner, name = (greedy.Greedy, "_configuration") if method == "lazy" else (small, "make_configuration")
    pressed_in(owner, name, monkeypatch)
    found = CpuEngine(method).solve(problem)
    check_prefix(problem, found, whole)
    assert len(found.configurations[0].indices) == problem.budget


def test_no_pick_of_a_beam_is_lost_while_radii_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(width=4, budget=40)
    whole = CpuEngine().solve(problem)
    pressed_in(beam.Beam, "_configurations", monkeypatch)
    found = CpuEngine().solve(problem)
    assert not found.complete
    pairs = zip(found.configurations, whole.configurations, strict=True)
    assert all(own.indices.tolist() == other.indices.tolist() and own.radius == other.radius for own, other in pairs)
