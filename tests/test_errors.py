import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

import dubito
from dubito import errors
from dubito.errors import PASS, DubitoError, InvalidArgument, InvalidData, in_library, in_toml, named

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DubitoError)]


@pytest.mark.parametrize(
    ("kind", "built_in", "exit_code"),
    [
        (errors.InvalidArgument, ValueError, 2),
        (errors.InvalidData, ValueError, 3),
        (errors.MissingFile, FileNotFoundError, 2),
        (errors.OutputExists, FileExistsError, 2),
        (errors.MemoryLimit, MemoryError, 2),
        (errors.MissingExtra, ImportError, 1),
        (errors.SolverFailed, RuntimeError, 1),
    ],
)
def test_an_error_is_also_the_built_in_kind_that_fits(
    kind: type[DubitoError], built_in: type[Exception], exit_code: int
) -> None:
    assert issubclass(kind, built_in)
    assert kind.exit_code == exit_code
    assert str(kind("budget=0 is too small; pass budget >= 1.")) == "budget=0 is too small; pass budget >= 1."


def test_every_error_is_caught_as_one() -> None:
    assert len(KINDS) >= 8
    assert all(issubclass(kind, DubitoError) and kind.__doc__ for kind in KINDS)


def test_every_error_can_be_had_from_the_package_itself() -> None:
    assert all(kind.__name__ in dubito.__all__ and getattr(dubito, kind.__name__) is kind for kind in KINDS)


def too_many(kind: type[DubitoError], value: object = 120) -> DubitoError:
    return kind("exceeds the 100", argument="budget", value=value, hint=f"{PASS} {named('budget')} <= 100.")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copied", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
def test_the_fields_of_an_error_survive_a_copy(
    kind: type[DubitoError], copied: Callable[[DubitoError], DubitoError]
) -> None:
    error = copied(too_many(kind))
    assert type(error) is kind
    assert (error.argument, error.value, error.hint) == ("budget", 120, "pass budget <= 100.")
    assert str(error) == "budget=120 exceeds the 100; pass budget <= 100."
    assert error.render(in_toml) == "budget = 120 exceeds the 100; set budget <= 100."


def test_a_value_that_cannot_be_pickled_goes_as_its_text() -> None:
    error = too_many(InvalidArgument, value=lambda: None)
    assert callable(error.value)
    assert str(pickle.loads(pickle.dumps(error)).value).startswith("<function")


def test_a_value_that_was_left_out_is_none_and_none_is_a_value() -> None:
    assert str(DubitoError("is empty", argument="pool")) == "pool is empty"
    assert str(DubitoError("is not a name", argument="strategy", value=None)) == "strategy=None is not a name"
    assert DubitoError("is empty", argument="pool").value is None


def test_an_error_reported_again_by_a_door_keeps_its_fields() -> None:
    error = too_many(InvalidArgument).reworded(in_toml, "plan.toml: ", InvalidData)
    assert type(error) is InvalidData
    assert (error.argument, error.value, error.hint) == ("budget", 120, "set budget <= 100.")
    assert str(error) == error.render(in_library) == "plan.toml: budget = 120 exceeds the 100; set budget <= 100."


def test_a_call_that_is_refused_says_so_in_fields() -> None:
    with pytest.raises(InvalidArgument) as caught:
        dubito.select(np.zeros((3, 2)), 9, strategy="coreset")
    assert (caught.value.argument, caught.value.value, caught.value.hint) == ("budget", 9, "pass budget <= 3.")
    with pytest.raises(InvalidData) as refused:
        dubito.select([[0.0], [np.nan]], 1)
    assert (refused.value.argument, refused.value.value) == ("pool", None)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (dubito.select, {"budget": 1, "labelled": [0]}),
        (dubito.select, {"budget": 1, "standardise": True}),
        (dubito.Pool, {"standardise": True}),
        (dubito.fit, {"labels": [0, 1], "labelled": [0]}),
        (dubito.diagnose, {"labelled": [0]}),
    ],
)
def test_a_british_keyword_is_answered_with_the_american_one(
    function: Callable[..., object], given: dict[str, object]
) -> None:
    with pytest.raises(TypeError, match=r"pass (labeled|standardize)= instead"):
        function([[0.0], [1.0]], **given)
