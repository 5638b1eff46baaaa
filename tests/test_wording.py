import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dubito.cli.output import command_wording
from dubito.errors import (
    MARKS,
    PASS,
    Interface,
    by_interface,
    in_library,
    in_python,
    in_toml,
    keyword,
    named,
    noun,
    render,
)

IN_COMMAND = command_wording({"--budget", "--beam-width", "--strategy", "--doubt"})


@pytest.mark.parametrize(
    ("marked", "library", "command", "toml"),
    [
        (named("budget", 120), "budget=120", "--budget 120", "budget = 120"),
        (named("beam_width"), "beam_width", "--beam-width", "beam_width"),
        (named("strategy", "core set"), "strategy='core set'", "--strategy core set", "strategy = 'core set'"),
        (named("budget", True), "budget=True", "--budget True", "budget = true"),
        (named("budget", np.float64(0.5)), "budget=0.5", "--budget 0.5", "budget = 0.5"),
        (named("shape", (2, 3)), "shape=(2, 3)", "shape=(2, 3)", "shape = (2, 3)"),
        (keyword("doubt"), "doubt=", "--doubt", "doubt"),
        (keyword("ids"), "ids=", "ids=", "ids"),
        (noun("budget"), "budget", "budget", "budget"),
        (PASS, "pass", "pass", "set"),
        (by_interface("force=True", command="--force"), "force=True", "--force", "force=True"),
        (in_python(" (Pool does it)"), " (Pool does it)", "", ""),
    ],
)
def test_each_interface_has_its_own_wording(marked: str, library: str, command: str, toml: str) -> None:
    assert render(marked, in_library) == library
    assert render(marked, IN_COMMAND) == command
    assert render(marked, in_toml) == toml


@given(st.text(alphabet=st.sampled_from("ab= -" + MARKS)), st.sampled_from([in_library, IN_COMMAND, in_toml]))
def test_text_that_holds_the_marks_harms_no_message(text: str, interface: Interface) -> None:
    assert render(f"{named('budget', text)} {text}", interface).startswith(render(named("budget", text), interface))
    assert not set(render(named("budget", text) + named("doubt"), interface)) & set(MARKS)


@pytest.mark.parametrize(("value", "shown"), [(list(range(99)), 60), ("x" * 99, 101), ("x" * 999, 300)])
def test_a_long_value_is_cut_and_a_path_is_not(value: object, shown: int) -> None:
    assert len(render(named("budget", value), in_library)) == len("budget=") + shown
