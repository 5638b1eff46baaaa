import subprocess
import sys

import pytest

from dubito.errors import MissingExtra
from dubito.registry import require


def test_a_missing_package_is_missed_with_the_command_that_installs_it() -> None:
    with pytest.raises(MissingExtra, match=r"no_such_package is needed here .*pip install 'dubito\[files\]'") as caught:
        require("no_such_package.part", extra="files")
    assert isinstance(caught.value.__cause__, ImportError)


def test_an_installed_package_is_returned() -> None:
    assert require("json.decoder", extra="files").JSONDecoder is not None


def test_to_frame_without_pandas_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['pandas'] = None\n"
        "import dubito\n"
        "picked = dubito.select([[0.0], [1.0]], 1, strategy='coreset')\n"
        "try: picked.to_frame()\n"
        "except dubito.MissingExtra as error: print(error)\n"
    )
    described = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "pip install 'dubito[frames]'" in described
