"""The extension module: where it was built, it loads. A source that is not compiled in would be missed only then."""

from importlib import import_module
from pathlib import Path

import pytest

from dubito import native as compiled


def test_a_module_that_was_built_can_be_loaded() -> None:
    folder = Path(compiled.__file__).parent
    if not [*folder.glob("_steps*.so"), *folder.glob("_steps*.pyd")]:
        pytest.skip("there was no C compiler to build the steps with")
    assert import_module("dubito.native._steps")
