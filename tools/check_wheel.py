"""Build the sdist and the wheel, install them in empty environments outside the repository, and test them there.

Run by ``make wheel``. The wheel is tested without a C compiler, with every Python from 3.11 on that is on the PATH,
installed by pyenv or uv, or given with ``--python``. The sdist is tested with the first of them, with and without a
compiler. Finally, the wheel is tested with a read-only home directory, as another user if possible: ``dubito demo``
must finish, and ``dubito label --demo`` must answer over HTTP.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
COMPILERS = re.compile(r"(.*-)?(cc|c99|gcc|g\+\+|c\+\+|clang|clang\+\+|zig)(-[\d.]+)?")
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
NOBODY = 65534
"""User and group id of ``nobody`` on Linux."""

SELECT = """
import json, subprocess, sys, warnings
import numpy as np
import dubito
from dubito import native
from dubito.errors import SlowWarning

rows = np.random.default_rng(0).normal(size=(300, 8))
doubt = np.random.default_rng(1).random(300)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for strategy in ("coreset", "doubt-coverage", "doubt-coreset"):
        picked = dubito.select(rows, 10, labeled=[0, 1], doubt=doubt, strategy=strategy, engine="cpu")
        checked = dubito.select(rows, 10, labeled=[0, 1], doubt=doubt, strategy=strategy, engine="reference")
        assert picked.indices.tolist() == checked.indices.tolist(), strategy
np.savetxt("pool.csv", rows, delimiter=",", header=",".join("abcdefgh"), comments="")
program = [sys.executable, "-m", "dubito"]
subprocess.run([*program, "--version"], check=True, capture_output=True)
subprocess.run([*program, "select", "pool.csv", "--budget", "5", "-o", "picks.csv", "--force", "--quiet"], check=True)
with open("picks.csv") as file:
    assert len(file.readlines()) == 6
slow = [str(each.message) for each in caught if each.category is SlowWarning]
print(json.dumps({"compiled": native.steps is not None, "slow": slow, "from": dubito.__file__}))
"""

LABEL = """
import http.cookiejar, json, subprocess, sys, urllib.request

assert subprocess.run([sys.executable, "-m", "dubito", "demo"], stdout=subprocess.DEVNULL).returncode == 0
command = [sys.executable, "-m", "dubito", "label", "--demo", "--port", "0", "--no-browser"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
    try:
        address, _, token = server.stdout.readline().strip().partition("?token=")
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        with urllib.request.build_opener(cookies).open(f"{address}?token={token}", timeout=60) as page:
            assert page.status == 200 and b"<html" in page.read(), "the page"
        request = urllib.request.Request(f"{address}api/health", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=60) as health:
            print(json.dumps({"health": json.load(health)}))
    finally:
        server.terminate()
"""


@dataclass(frozen=True)
class Environment:
    """The working directory, PATH, home directory and user of a command."""

    folder: Path
    path: str | None = None
    home: Path | None = None
    user: int | None = None

    def run(self, *command: str | Path) -> str:
        """Run a command, and return its standard output; exit with a message if it fails."""
        variables = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "CC"}}
        variables |= {"PATH": self.path} if self.path else {}
        variables |= {"HOME": str(self.home), "USERPROFILE": str(self.home)} if self.home else {}
        # Another user may not have access to the default folder for temporary files.
        variables |= {"TMPDIR": str(self.folder)} if self.user is not None else {}
        groups: list[int] | None = None if self.user is None else []
        ran = subprocess.run(
            command,
            cwd=self.folder,
            env=variables,
            user=self.user,
            group=self.user,
            extra_groups=groups,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise SystemExit(f"{' '.join(map(str, command))} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
        return ran.stdout


def find_pythons() -> list[str]:
    """Interpreters that dubito supports: on the PATH, then those of pyenv and uv."""
    homes = (
        os.environ.get("PYENV_ROOT", "~/.pyenv"),
        os.environ.get("UV_PYTHON_INSTALL_DIR", "~/.local/share/uv/python"),
    )
    folders = [*os.environ["PATH"].split(os.pathsep), *glob.glob(os.path.expanduser(f"{homes[0]}/versions/*/bin"))]
    folders += glob.glob(os.path.expanduser(f"{homes[1]}/*/bin"))
    found = [shutil.which(f"python{version}", path=folder) for version in VERSIONS for folder in folders]
    # pyenv has a program for each version on the PATH; those of versions that are not selected only print an error.
    return [path for path in dict.fromkeys(found) if path and can_run(path)] or [sys.executable]


def can_run(python: str, user: int | None = None) -> bool:
    """Whether an interpreter starts, as another user if one is given, and has the module ``venv``."""
    groups: list[int] | None = None if user is None else []
    try:
        ran = subprocess.run(
            [python, "-c", "import venv"], capture_output=True, cwd="/", user=user, group=user, extra_groups=groups
        )
    except OSError:
        return False
    return ran.returncode == 0


def version_of(python: str) -> str:
    return subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


def path_without_compilers(folder: Path) -> str:
    """Create a folder with links to all programs on the PATH except compilers, and return its path."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if not COMPILERS.fullmatch(program.name) and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


def install(python: str, package: str, environment: Environment) -> Path:
    """Create a virtual environment with the package and its dependencies, and return its interpreter."""
    folder = environment.folder / "environment"
    environment.run(python, "-m", "venv", "--clear", "--without-pip", folder)
    installed = folder / SCRIPTS / "python"
    pip = (sys.executable, "-m", "pip", "--python", installed, "install", "-q", "--disable-pip-version-check")
    environment.run(*pip, "-c", ROOT / "constraints.txt", package)
    return installed


def try_selecting(python: str, package: Path, environment: Environment, *, is_compiled: bool) -> None:
    """Install a wheel or an sdist in a new virtual environment, and select with it."""
    installed = install(python, str(package), environment)
    output = environment.run(installed, "-c", SELECT)
    state = "compiled" if '"compiled": true' in output else "without the C extension"
    compiler = "on the PATH" if environment.path is None else "missing"
    print(f"{package.name}: Python {version_of(python)}, compiler {compiler}: works, {state}", flush=True)
    if ('"compiled": true' in output) is not is_compiled:
        raise SystemExit(f"expected it to be {'compiled' if is_compiled else 'pure Python'}: {output}")
    if ('"slow": []' in output) is not is_compiled:
        raise SystemExit(f"expected one warning without the C extension, and none with it: {output}")
    if str(environment.folder) not in output:
        raise SystemExit(f"dubito was imported from another folder: {output}")


def try_read_only_home(pythons: list[str], wheel: Path, environment: Environment) -> None:
    """Try the demo and the labeling page with a home that cannot be written to, by another user if possible."""
    home = environment.folder.with_name("home")
    home.mkdir(mode=0o555)
    can_switch = hasattr(os, "geteuid") and os.geteuid() == 0
    usable = [python for python in pythons if can_run(python, NOBODY)] if can_switch else []
    python = (usable or pythons)[0]
    installed = install(python, f"{wheel}[label]", environment)
    restricted = replace(environment, home=home, user=NOBODY if usable else None)
    if usable:
        os.chown(environment.folder, NOBODY, NOBODY)
    restricted.run(installed, "-c", LABEL)
    user = "another user" if usable else "the same user"
    print(f"{wheel.name}: Python {version_of(python)}, {user}, read-only home: demo and labeling page work", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", action="append", help="an interpreter to install into (default: all that are found)"
    )
    parser.add_argument(
        "--installed", action="store_true", help="only test the installed dubito, which must be compiled"
    )
    arguments = parser.parse_args()
    if arguments.installed:
        with tempfile.TemporaryDirectory() as name:
            output = Environment(Path(name)).run(sys.executable, "-c", SELECT)
        raise SystemExit(0 if '"compiled": true' in output else f"it is not compiled: {output}")
    pythons = arguments.python or find_pythons()
    first_of_each = list({version_of(python).rpartition(".")[0]: python for python in reversed(pythons)}.values())[::-1]
    built = ROOT / "dist"
    shutil.rmtree(built, ignore_errors=True)
    Environment(ROOT).run(sys.executable, "-m", "build", "--outdir", built, ROOT)
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB")
    if "-abi3-" not in wheel.name:
        raise SystemExit(f"{wheel.name} has no C extension for all versions of Python: is there a C compiler here?")
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = Path(name, "work")
        folder.mkdir()
        no_compilers = path_without_compilers(Path(name, "programs"))
        for python in first_of_each:
            try_selecting(python, wheel, Environment(folder, no_compilers), is_compiled=True)
        try_selecting(pythons[0], sdist, Environment(folder), is_compiled=True)
        try_selecting(pythons[0], sdist, Environment(folder, no_compilers), is_compiled=False)
        try_read_only_home(pythons, wheel, Environment(folder, no_compilers))


if __name__ == "__main__":
    main()
