"""Small real projects for tests."""

import atexit
import shutil
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from dubito.labeling.contents import Contents
from dubito.labeling.creation import open_project
from dubito.labeling.project import Project, Settings
from dubito.labeling.service import LabelingService

CLASSES = ("left", "right")


def write_rows(folder: Path, n_rows: int = 60) -> Path:
    """Two clusters on a line, whose ids are row-0, row-1, ...; even rows lie left."""
    rng = np.random.default_rng(0)
    side = np.where(np.arange(n_rows) % 2 == 0, -3.0, 3.0)
    features = rng.normal(size=(n_rows, 4)) + side[:, None]
    path = folder / "rows.npz"
    np.savez(path, features=features, ids=np.array([f"row-{row}" for row in range(n_rows)]))
    return path


def truth(row: int) -> str:
    """What a row of `write_rows` is."""
    return CLASSES[row % 2]


def make_project(
    folder: Path,
    n_rows: int = 60,
    store: str | None = None,
    batch: int = 10,
    overlap: int = 1,
    audit: float = 0.0,
) -> tuple[Project, Contents]:
    """A project of such rows."""
    source = write_rows(folder, n_rows)
    return open_project(str(source), classes=CLASSES, settings=Settings(batch, overlap, audit), store=store)


@cache
def _played() -> Path:
    """A folder with a project whose first round is played; once a process, as a worker takes long to begin."""
    folder = Path(mkdtemp(prefix="dubito-played-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    service = LabelingService(*make_project(folder))
    service.start()
    wait_until(lambda: service.state.round == 1 and service.state.layout is not None)
    service.close()
    return folder


def copy_played(folder: Path) -> tuple[Project, Contents]:
    """As `make_project`, with its first round played and its map laid out."""
    shutil.copytree(_played(), folder, dirs_exist_ok=True)
    return open_project(str(folder / "rows.dubito"))


def wait_until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    """Look again and again."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
