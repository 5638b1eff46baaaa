"""Measure branch coverage in every process of pytest-xdist: a plug-in of pytest for ``make test-all``.

Slipcover instruments dubito when it is imported, and removes its probes from code that has run. Each process writes
its own file into the folder that is named by the environment variable ``BRANCH_COVERAGE``; ``slipcover --merge`` adds
them up.
"""

import json
import os
import sys
import tomllib
from pathlib import Path

import slipcover

FOLDER = Path(os.environ["BRANCH_COVERAGE"]).absolute()
ROOT = Path(__file__).parents[1]
WORKER = os.environ.get("PYTEST_XDIST_WORKER")

if WORKER is not None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        settings = tomllib.load(file)["tool"]["slipcover"]
    assert "dubito" not in sys.modules, "dubito was imported before it could be measured"
    measured = slipcover.Slipcover(
        branch=settings["branch"],
        source=settings["source"],
        omit=settings["omit"],
        exclude_also=settings["exclude-also"],
    )
    matcher = slipcover.FileMatcher(sources=settings["source"], omit=settings["omit"])
    slipcover.ImportManager(measured, matcher).__enter__()
    # Only the processes that run tests are measured, not the programs that tests start.
    del os.environ["BRANCH_COVERAGE"]


def pytest_sessionfinish() -> None:
    if WORKER is not None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{WORKER}.json").write_text(json.dumps(measured.get_coverage()), encoding="utf-8")
