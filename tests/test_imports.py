"""What `import dubito` costs, and what it leaves alone."""

import json
import subprocess
import sys

import pytest

import dubito

HEAVY = (
    "scipy",
    "sklearn",
    "typer",
    "rich",
    "matplotlib",
    "pyarrow",
    "safetensors",
    "openpyxl",
    "h5py",
    "torch",
    "pandas",
    "polars",
)
MOST_MODULES = 200
"""Beyond NumPy's own; each is a file to find, to read and to run."""


def run_python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "program",
    [
        "import dubito",
        "import dubito; dubito.select([[0.0], [1.0]], 1, doubt=[0.5, 0.5], beam_width=2).covering_radius()",
        "import dubito; dubito.select([[0.0], [1.0]], 1, probabilities=[[1, 0], [0, 1]], strategy='margin')",
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(program: str) -> None:
    loaded = json.loads(run_python(f"{program}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"))
    assert {name.partition(".")[0] for name in loaded} & set(HEAVY) == set()


def test_the_import_costs_little_beyond_that_of_numpy() -> None:
    report = "print(json.dumps(sorted(set(sys.modules) - before)))"
    program = f"import json, sys, numpy; before = set(sys.modules); import dubito; {report}"
    loaded = json.loads(run_python(program))
    assert len(loaded) < MOST_MODULES
    own = ("dubito", "numpy", "_cython", "cython_runtime")
    assert {name.partition(".")[0] for name in loaded if not name.startswith(own)} <= set(sys.stdlib_module_names)


def test_every_public_name_is_there_and_listed() -> None:
    assert set(dubito.__all__) <= set(dir(dubito))
    for name in dubito.__all__:
        assert getattr(dubito, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'dubito' has no attribute 'selekt'"):
        getattr(dubito, "selekt".lower())
