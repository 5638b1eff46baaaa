"""Plug-ins of every kind from another package, which is really built, installed and used."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the plug-in."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PLUGIN, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    target = folder / "site"
    offline = ["--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check", "--no-input"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(target), str(folder / "source")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def run_with(path: Path, program: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(path), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_installed_strategy_is_known_by_its_name(installed: Path) -> None:
    program = (
        "import dubito\n"
        "picked = dubito.select([[0.0], [1.0], [2.0]], 2, strategy='newest')\n"
        "print(picked.indices.tolist(), picked.strategy, picked.engine)"
    )
    assert run_with(installed, program) == "[2, 1] newest None"


def test_an_installed_strategy_takes_its_own_options(installed: Path) -> None:
    program = (
        "import dubito\n"
        "from dubito_example import Newest\n"
        "print(dubito.select([[0.0], [1.0], [2.0]], 2, strategy=Newest(skip=1)).indices.tolist())"
    )
    assert run_with(installed, program) == "[1, 0]"


def test_an_installed_engine_is_known_by_its_name(installed: Path) -> None:
    program = (
        "import dubito\n"
        "picked = dubito.select([[0.0], [1.0], [5.0]], 2, strategy='coreset', labeled=[0], engine='patient')\n"
        "print(picked.indices.tolist(), picked.engine)"
    )
    assert run_with(installed, program) == "[2, 1] patient"


def test_an_engine_that_refuses_says_why_and_is_not_replaced(installed: Path) -> None:
    program = (
        "import dubito\n"
        "pool = [[float(i)] for i in range(1000)]\n"
        "try: dubito.select(pool, 2, strategy='coreset', engine='patient')\n"
        "except dubito.InvalidArgument as error: print(error)\n"
        "print(dubito.select(pool, 2, strategy='coreset').engine)"
    )
    refusal = "engine='patient' cannot do this: 1000 candidates are too many for it; pass engine='auto'."
    assert run_with(installed, program).splitlines() == [refusal, "cpu"]


def test_where_an_engine_is_named_that_does_not_cover_the_default_takes_a_core_set(installed: Path) -> None:
    program = (
        "import dubito\n"
        "for given in ({}, {'doubt': [0.5, 0.5, 1.0]}):\n"
        "    picked = dubito.select([[0.0], [1.0], [5.0]], 2, labeled=[0], engine='patient', **given)\n"
        "    print(picked.indices.tolist(), picked.strategy, picked.engine, picked.notes[-1])\n"
        "print(dubito.select([[0.0], [1.0], [5.0]], 2, labeled=[0]).engine)"
    )
    assert run_with(installed, program).splitlines() == [
        "[2, 1] coreset patient auto chose coreset: the engine patient does not support coverage.",
        "[2, 1] doubt-coreset patient auto chose doubt-coreset: the engine patient does not support coverage.",
        "cpu",
    ]


def test_an_engine_that_says_it_pays_is_taken_without_being_named(installed: Path) -> None:
    program = (
        "import dubito\n"
        "for n in (3, 30): print(dubito.select([[float(i)] for i in range(n)], 2, strategy='coreset').engine)\n"
        "print(dubito.estimate(3, 2, 0, 2, strategy='coreset').engine)"
    )
    assert run_with(installed, program).splitlines() == ["tiny", "cpu", "tiny"]


def test_an_engine_without_an_estimate_cannot_tell_its_cost(installed: Path) -> None:
    program = (
        "import dubito\n"
        "try: dubito.estimate(3, 2, 0, 2, engine='patient')\n"
        "except dubito.InvalidArgument as error: print(error)"
    )
    assert run_with(installed, program) == "engine='patient' has no estimate of its cost; pass engine='auto'."


def test_an_engine_that_cannot_be_loaded_says_so_and_takes_no_other_with_it(installed: Path) -> None:
    program = (
        "import dubito\n"
        "print(dubito.select([[0.0], [1.0]] * 20, 1, strategy='coreset').engine)\n"
        "for name in ('broken', 'nothing'):\n"
        "    try: dubito.select([[0.0], [1.0]], 1, strategy='coreset', engine=name)\n"
        "    except dubito.InvalidArgument as error: print(error)"
    )
    assert run_with(installed, program).splitlines() == [
        "cpu",
        "engine='broken' cannot do this: it cannot be loaded (ModuleNotFoundError: No module named "
        "'dubito_example.gone'); pass engine='auto'.",
        "engine='nothing' cannot do this: it is not a subclass of dubito.engines.base.Engine and has no name, solves, "
        "refusals, pays, estimate, catch_up, solve; pass engine='auto'.",
    ]


def test_a_strategy_that_cannot_be_loaded_says_so_and_takes_no_other_with_it(installed: Path) -> None:
    program = (
        "import dubito\n"
        "print(dubito.select([[0.0], [1.0]], 1, strategy='newest').indices.tolist())\n"
        "try: dubito.select([[0.0], [1.0]], 1, strategy='gone')\n"
        "except dubito.InvalidArgument as error: print(error)"
    )
    assert run_with(installed, program).splitlines() == [
        "[1]",
        "strategy='gone' cannot be loaded from dubito_example.gone:Strategy (ModuleNotFoundError: No module named "
        "'dubito_example.gone'); fix or remove the package that offers it.",
    ]


def test_an_installed_strategy_and_engine_meet_the_contract(installed: Path) -> None:
    program = (
        "from dubito.engines.dispatch import installed_engines\n"
        "from dubito.strategies import STRATEGIES\n"
        "from dubito.testing import check_engine, check_strategy\n"
        "check_engine(installed_engines()['patient'][0], examples=20)\n"
        "check_engine(installed_engines()['tiny'][0], examples=60)\n"
        "check_strategy(STRATEGIES.find('strategy', 'newest')())\n"
        "print('met')"
    )
    assert run_with(installed, program) == "met"


def test_an_installed_embedder_is_known_by_its_name_and_takes_its_options(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text\na\nbcd\n")
    program = (
        "import dubito\n"
        f"pool = dubito.embed({str(tmp_path / 't.csv')!r}, 'lengths', options={{'factor': 2}})\n"
        "print(pool.embedding.tolist(), pool.embedder, pool.version)\n"
        f"try: dubito.embed({str(tmp_path / 't.csv')!r}, 'lengths', options={{'faktor': 2}})\n"
        "except dubito.InvalidArgument as error: print(error)\n"
        "from dubito.embedding.registry import EMBEDDERS\n"
        "print(EMBEDDERS.find('embedder', 'pixels').__name__)"
    )
    assert run_with(installed, program).splitlines() == [
        "[[2.0], [6.0]] lengths 1",
        "lengths has no option 'faktor'; did you mean 'factor'? It takes factor.",
        "make_pixels",
    ]


def test_an_installed_package_cannot_take_the_names_of_dubitos_own(installed: Path) -> None:
    program = (
        "from dubito.engines.dispatch import installed_engines\n"
        "from dubito.experiments.models.kinds import MODELS\n"
        "from dubito.strategies import STRATEGIES\n"
        "print(type(installed_engines()['cpu'][0]).__name__, STRATEGIES.find('strategy', 'random').__name__)\n"
        "print(MODELS.find('kind', 'linear').__name__)"
    )
    assert run_with(installed, program).split() == ["CpuEngine", "Random", "Linear"]


EXPERIMENT = """
schema = 1
name = "rings"
seeds = 2
[data]
builtin = "rings"
[model]
kind = "{kind}"
temperature = 0.5
[schedule]
initial = 6
budget = 3
rounds = 2
[[strategies]]
strategy = "random"
[[strategies]]
strategy = "newest"
"""


def run_experiment(path: Path, folder: Path, kind: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "rings.toml").write_text(EXPERIMENT.format(kind=kind))
    command = [sys.executable, "-m", "dubito", "run", "rings.toml", "--quiet", *options]
    environment = {**os.environ, "PYTHONPATH": str(path), "NO_COLOR": "1"}
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.mark.slow
def test_an_experiment_takes_an_installed_model_data_set_and_strategy_in_every_process(
    installed: Path, tmp_path: Path
) -> None:
    done = run_experiment(installed, tmp_path, "centroids", "--workers", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    described = json.loads(done.stdout)
    assert [each["strategy"] for each in described["strategies"]] == ["random", "newest"]
    assert described["strategies"][0]["mean"][-1] > 0.8
    kept = (tmp_path / described["folder"] / "experiment.toml").read_text()
    assert 'kind = "centroids"\ntemperature = 0.5\n' in kept


def test_a_model_that_cannot_be_used_is_refused_by_name(installed: Path, tmp_path: Path) -> None:
    refused = {
        "gone": "kind = 'gone' cannot be loaded from dubito_example.gone:Model (ModuleNotFoundError",
        "half": "kind = 'half' is not a model: it does not implement dubito.experiments.models.base.Model",
        "centroid": "kind = 'centroid' is not known; did you mean 'centroids'?",
    }
    for kind in refused:
        (tmp_path / f"{kind}.toml").write_text(EXPERIMENT.format(kind=kind))
    program = (
        "import os, sys\n"
        "from dubito.cli import main\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "sys.stderr = sys.stdout\n"
        f"for kind in {list(refused)!r}: print(main(['run', kind + '.toml', '--quiet']))"
    )
    lines = run_with(installed, program).splitlines()
    assert lines[1::2] == ["3"] * 3
    for words, line in zip(refused.values(), lines[::2], strict=True):
        assert words in line


def test_an_installed_image_set_is_read_by_its_name_and_takes_no_name_of_dubitos_own(installed: Path) -> None:
    program = (
        "from dubito.experiments import load_images\n"
        "from dubito.experiments.images import COLLECTIONS\n"
        "print(load_images('dots').images.shape, 'dots' in COLLECTIONS.names())\n"
        "print(COLLECTIONS.find('images', 'svhn').func.__module__)"
    )
    assert run_with(installed, program).splitlines() == ["(20, 4, 4, 3) True", "dubito.paper.images"]


def test_an_installed_experiment_runs_by_its_name_with_the_runner_of_its_model(installed: Path, tmp_path: Path) -> None:
    program = (
        "import os\n"
        "from dubito.cli import main\n"
        f"os.chdir({str(tmp_path)!r})\n"
        "print(main(['run', 'rings-of-others', '--workers', '1', '--quiet']))"
    )
    assert run_with(installed, program).splitlines()[-1] == "0"
    journal = next(tmp_path.glob("dubito-runs/rings-of-others-*/journal.jsonl")).read_text()
    assert journal.index('"margin"', journal.index('"turn"') - 200) < journal.rindex('"random"')


def test_an_installed_command_is_listed_without_being_imported_and_runs(installed: Path) -> None:
    program = (
        "import sys\n"
        "from dubito.cli import main\n"
        "sys.stderr = sys.stdout\n"
        "main(['--help'])\n"
        "print({'dubito_example.greeting', 'dubito.paper.reproduce', 'dubito.cli.commands.run'} & set(sys.modules))\n"
        "for given in (['greet', 'you'], ['greet', 'you', '--times', '0'], ['broken'], ['gone'], ['greeet', 'you']):\n"
        "    print(main(given))"
    )
    lines = run_with(installed, program).splitlines()
    shown = " ".join(lines)
    for listed in ("greet Greet somebody.", "reproduce Measure the paper's figures again", "run Run an experiment"):
        assert listed in " ".join(shown.split())
    start = lines.index("set()")
    assert lines[start + 1 : start + 5] == [
        "hello you ",
        "0",
        "dubito: error: --times 0 is no number of times; pass 1.",
        "2",
    ]
    assert "broken' cannot be loaded from dubito_example.greeting:nobody (AttributeError" in lines[start + 5]
    assert "gone' cannot be loaded from dubito_example.gone:COMMAND (ModuleNotFoundError" in lines[start + 7]
    assert "Did you mean 'greet'" in lines[start + 9]


def test_a_strategy_that_is_not_installed_is_not_known() -> None:
    program = (
        "import dubito\n"
        "try: dubito.select([[0.0]], 1, strategy='newest')\n"
        "except dubito.InvalidArgument as error: print(error)"
    )
    assert run_with(PLUGIN.parent, program).startswith("strategy='newest' is not known; ")
