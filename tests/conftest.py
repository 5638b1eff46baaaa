"""What every test has: Hypothesis without a clock and with few enough examples for two cores, and engines in pieces."""

import importlib
import importlib.util
import os
import pkgutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import dubito.engines

if not Path("/dev/nvidiactl").exists():
    # Before anything imports Triton: without a GPU its kernels are interpreted.
    os.environ["TRITON_INTERPRET"] = "1"

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell without job control starts what runs in the background deaf to Ctrl-C, and its children with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# `make test` tries few examples, the same each time; `make test-all` (--hypothesis-profile=full) tries many new ones.
quiet = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("quick", quiet, max_examples=8, derandomize=True)
settings.register_profile("full", quiet, max_examples=50)
settings.load_profile("quick")


@pytest.fixture(scope="session", autouse=True)
def share_the_cores() -> Iterator[None]:
    """One BLAS thread a process where several run the tests: more would wait for each other."""
    limit = 1 if "PYTEST_XDIST_WORKER" in os.environ else None
    if limit is not None:
        # Our own threads sleep while they wait, and are to be tested.
        os.environ.setdefault("DUBITO_THREADS", "2")
    with importlib.import_module("threadpoolctl").threadpool_limits(limits=limit):
        yield


PATIENCE = 600.0
"""Seconds that a test waits for what must happen, on a machine that may be busy with other work."""
LONGEST = 3600
"""Seconds that any test may take: the deadline of whatever waits without one of its own."""


@pytest.fixture(autouse=True)
def give_up_in_the_end() -> Iterator[None]:
    """A test that hangs, in a read or in a process say, fails and tells where."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"the test did not end within {LONGEST} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LONGEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], None]:
    """Looks again and again whether something has happened; a test that waits in vain fails, in the end."""

    def wait(happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < deadline, "it never happened"
            time.sleep(0.01)

    return wait


@pytest.fixture
def set_constant(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, float], None]:
    """Sets a constant of the engines, such as a block size, wherever it stands among them."""
    found = pkgutil.walk_packages(dubito.engines.__path__, "dubito.engines.")
    has_triton = importlib.util.find_spec("triton") is not None
    # Triton has no wheel for macOS, and the GPU engine no tests without it.
    on_device = (".cuda", ".cluster.device", ".coverage.device")
    names = [each.name for each in found if has_triton or not any(part in each.name for part in on_device)]
    modules = [importlib.import_module(name) for name in names]

    def change(name: str, value: float) -> None:
        owners = [module for module in modules if name in vars(module)]
        assert owners, f"no engine has a constant {name}"
        for module in owners:
            monkeypatch.setattr(module, name, value)

    return change


@pytest.fixture(scope="session")
def block_program(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """See ``engines/cuda/block_on_cpu.py``, whose folder is on the path of those who ask for it."""
    return importlib.import_module("block_on_cpu").find_block_program(tmp_path_factory.mktemp("block"))
