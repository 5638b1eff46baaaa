"""What CONTRIBUTING.md shows works: every sample runs, and one line in `BUILT_IN` makes it known by its name."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dubito
import dubito.strategies
from dubito.engines import dispatch
from dubito.errors import InvalidArgument
from dubito.experiments import data as builtin
from dubito.experiments.models import kinds
from dubito.experiments.plan import read_experiment
from dubito.experiments.runner import run_experiment

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
HOMES: dict[str, dict[str, Any]] = {
    "src/dubito/strategies/__init__.py": dubito.strategies.BUILT_IN,
    "src/dubito/engines/dispatch.py": dispatch.BUILT_IN,
    "src/dubito/experiments/models/kinds.py": kinds.BUILT_IN,
    "src/dubito/experiments/data.py": builtin.BUILT_IN,
}
PLAN = """
schema = 1
name = "plan"
seeds = 1
strategies = ["random", "bald", "newest"]
[data]
builtin = "stripes"
[model]
kind = "neighbors"
neighbors = 3
samples = 2
[schedule]
initial = 9
budget = 3
rounds = 2
"""


@pytest.fixture(scope="module")
def samples() -> dict[str, Any]:
    """The names of all samples, run in order."""
    names: dict[str, Any] = {"__name__": "contributing"}
    for found in re.finditer(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(found[1], names)
    return names


@pytest.fixture
def known(samples: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines that the page adds, in the files it names."""
    lines = re.findall(r"`BUILT_IN` in\s+`([^`]+)`:\s+`\"([\w-]+)\": ([^`]+)`", PAGE.read_text(encoding="utf-8"))
    assert [home for home, _, _ in lines] == list(HOMES)
    for home, name, thing in lines:
        monkeypatch.setitem(HOMES[home], name, eval(thing, samples))
    monkeypatch.setattr(dispatch, "installed_engines", dispatch.installed_engines.__wrapped__)


@pytest.mark.slow
@pytest.mark.usefixtures("known")
def test_a_strategy_and_an_engine_are_known_by_their_line() -> None:
    pool = np.random.default_rng(0).random((120, 3))
    assert dubito.select(pool, 2, strategy="newest").indices.tolist() == [119, 118]
    picked = dubito.select(pool, 9, strategy="coreset", engine="patient")
    assert (picked.engine, picked.indices.tolist()) == (
        "patient",
        dubito.select(pool, 9, strategy="coreset", engine="cpu").indices.tolist(),
    )
    with pytest.raises(InvalidArgument, match="it takes pools of 100 rows or more, and this one has 20"):
        dubito.select(pool[:20], 2, strategy="coreset", engine="patient")


@pytest.mark.usefixtures("known")
def test_a_model_kind_and_a_data_set_are_known_by_their_line(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    rounds = run_experiment(read_experiment(str(tmp_path / "plan.toml")), tmp_path / "run")
    assert [(each.strategy, each.labels) for each in rounds[:3]] == [("random", 9), ("random", 12), ("random", 15)]
    assert {each.strategy for each in rounds} == {"random", "bald", "newest"}


def test_an_error_is_raised_as_the_page_has_it(samples: dict[str, Any]) -> None:
    samples["check_budget"](100, 100)
    with pytest.raises(InvalidArgument) as caught:
        samples["check_budget"](120, 100)
    assert f"`{caught.value}`" in PAGE.read_text(encoding="utf-8")
