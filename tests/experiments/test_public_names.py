"""`dubito.experiments` has the few names that a person needs, loaded when they are asked for."""

import json
import subprocess
import sys

import pytest

import dubito.experiments as face


def test_every_name_is_there_and_is_what_its_home_calls_it() -> None:
    assert face.__all__ == sorted(face.__all__)
    assert dir(face) == face.__all__
    for name in face.__all__:
        assert getattr(face, name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'dubito\.experiments' has no attribute 'run_eksperiment'"):
        _ = face.run_eksperiment


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    program = (
        "import json, sys\n"
        "import dubito.experiments as face\n"
        "first = [name for name in sys.modules if name.startswith('dubito.experiments.')]\n"
        "face.run_experiment, face.Linear, face.Mlp, face.summarize\n"
        "print(json.dumps([first, sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    first, then = json.loads(done.stdout)
    assert first == []
    assert {"torch", "sklearn", "matplotlib", "typer"}.isdisjoint(then)
