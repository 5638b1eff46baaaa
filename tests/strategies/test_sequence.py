"""Picks one by one: what is reported on the way, and what Ctrl-C leaves."""

import numpy as np
import pytest

import dubito

POOL = np.random.default_rng(0).standard_normal((60, 3))
POSTERIOR = np.random.default_rng(1).dirichlet(np.ones(3), (60, 4))


def select(strategy: str, progress: dubito.core.problem.Progress | None = None) -> dubito.Selection:
    return dubito.select(POOL, 30, probabilities=POSTERIOR, strategy=strategy, progress=progress)


@pytest.mark.parametrize("strategy", ["badge", "batchbald"])
def test_progress_is_reported_and_ends_with_the_budget(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dubito.strategies.base.REPORT_SECONDS", 0.0)
    described: list[tuple[int, int, float | None]] = []
    select(strategy, lambda done, total, radius, seconds: described.append((done, total, radius)))
    assert described == [(done, 30, None) for done in range(1, 31)]


@pytest.mark.parametrize("strategy", ["badge", "batchbald"])
@pytest.mark.parametrize("when", [1, 17])
def test_an_interruption_keeps_a_prefix_of_the_picks(strategy: str, when: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dubito.strategies.base.REPORT_SECONDS", 0.0)

    def interrupt(done: int, total: int, radius: float | None, seconds: float, /) -> None:
        if done == when:
            raise KeyboardInterrupt

    with pytest.raises(dubito.Interrupted) as caught:
        select(strategy, interrupt)
    kept = caught.value.selection
    assert not kept.complete
    assert kept.indices.tolist() == select(strategy).indices[:when].tolist()


def test_an_interruption_before_the_first_pick_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dubito.strategies.bald.information_gain", interrupt)
    with pytest.raises(dubito.Interrupted) as caught:
        select("batchbald")
    assert len(caught.value.selection) == 0
