"""Ctrl-C at any moment of a coverage run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dubito
from dubito.core.problem import Interrupted, Selection
from levels import examples


@pytest.mark.slow
def test_ctrl_c_at_any_moment_gives_the_first_picks_or_none() -> None:
    # In a process without coverage.py, whose lock would not be released if Ctrl-C interrupted it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    program = f"from test_interrupting_coverage import interrupt; interrupt({examples(200)})"
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    ran = subprocess.run([sys.executable, "-c", program], env=environment, check=False, timeout=600)
    assert ran.returncode == 0


def interrupt(times: int) -> None:
    """Interrupt runs at random moments, and check what they return."""
    rng = np.random.default_rng(0)
    features, doubt = rng.standard_normal((2500, 24)), rng.random(2500)

    def fresh_pool() -> dubito.Pool:
        pool = dubito.Pool(features)
        pool.label(rows=np.arange(100))
        return pool

    def pick(pool: dubito.Pool, budget: int) -> Selection:
        return pool.select(budget, doubt=doubt, strategy="doubt-coverage", engine="cpu")

    whole = pick(fresh_pool(), 400)
    started = time.perf_counter()
    pick(fresh_pool(), 400)
    longest = 1.2 * (time.perf_counter() - started)
    n_picks = list[int]()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for moment in rng.uniform(0.0, longest, times).tolist():
            pool, found = fresh_pool(), None
            try:
                signal.setitimer(signal.ITIMER_REAL, max(moment, 1e-6))
                found = pick(pool, 400)
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            except Interrupted as stopped:
                found = stopped.selection
            except KeyboardInterrupt:
                pass
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            if found is not None:
                n = len(found.indices)
                n_picks.append(n)
                assert found.indices.tolist() == whole.indices[:n].tolist()
                assert found.priorities.tobytes() == whole.priorities[:n].tobytes()
                assert n == 400 or not found.complete
            # The data that the pool keeps is still correct.
            assert pick(pool, 30).indices.tolist() == whole.indices[:30].tolist()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert any(n < 400 for n in n_picks)
