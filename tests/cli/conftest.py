"""What the command line's tests share: the program, run here or as a process of its own, and a small pool."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dubito.cli import main
from dubito.cli.output import set_quiet


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line of an error, after notes on the files read; fails if there is other output."""
        *notes, error = self.err.splitlines()
        assert error.startswith("dubito: error: "), self.err
        assert not any("error:" in note for note in notes), self.err
        assert self.out == ""
        return error.removeprefix("dubito: error: ")


Program = Callable[..., Ran]
Wait = Callable[[Callable[[], bool]], None]
PATIENCE = 600.0
"""Seconds that a test waits for a process, on a machine that may be busy with other work."""


def read_terminal(descriptor: int, until: str = "\0") -> str:
    """What a terminal shows, up to some text or to its end: one look would show a part of it."""
    text = b""
    with suppress(OSError):  # Linux says so where nobody writes any more.
        while until.encode() not in text and (part := os.read(descriptor, 4096)):
            text += part
    return text.decode()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def program(*arguments: str) -> Ran:
        code = main(arguments)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return program


@pytest.fixture
def quiet() -> Iterator[None]:
    """Notes and progress bars are off, as with ``--quiet``."""
    set_quiet(True)
    yield
    set_quiet(False)


@pytest.fixture
def run_process(tmp_path: Path) -> Program:
    """``python -m dubito`` as a process of its own, in an empty folder."""

    def program(*arguments: str, **environment: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "dubito", *arguments],
            cwd=tmp_path,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return program


@pytest.fixture
def blank_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures with nothing on them, for tests of all that is beside them: a report is mostly drawing."""
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "draw", lambda figure, renderer: None)


@dataclass(frozen=True)
class Pool:
    """A pool of 30 points in three classes, with ids, the model's probabilities, and two labeled rows."""

    features: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    probabilities: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    ids: list[str]
    labeled: list[int]


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    """Written as pool.npz, features.npy and probabilities.npy."""
    rng = np.random.default_rng(7)
    made = Pool(
        features=rng.integers(-20, 20, (30, 3)).astype(np.float64),
        probabilities=rng.dirichlet(np.ones(3), 30),
        ids=[f"img{row:03d}" for row in range(30)],
        labeled=[4, 9],
    )
    np.save(tmp_path / "features.npy", made.features)
    np.save(tmp_path / "probabilities.npy", made.probabilities)
    np.savez(
        tmp_path / "pool.npz",
        features=made.features,
        probabilities=made.probabilities,
        ids=np.array(made.ids),
        labeled=np.array(made.labeled),
    )
    return made
