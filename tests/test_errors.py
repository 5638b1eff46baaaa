import pytest

import dubito
from dubito import errors
from dubito.errors import DubitoError

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
