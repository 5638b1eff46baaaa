"""Build the sdist and the wheel, install each in empty environments outside the repository, and try them there.

Run by ``make wheel``. Every Python from 3.11 on that is found on the PATH or named with ``--python`` gets the wheel,
with and without a C compiler on the PATH; the first one also gets the sdist, which compiles where there is a compiler.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
COMPILERS = re.compile(r"(.*-)?(cc|c99|gcc|g\+\+|c\+\+|clang|clang\+\+)(-[\d.]+)?")

TRIAL = """
import json, subprocess, sys
import numpy as np
import dubito
from dubito import native

rows = np.random.default_rng(0).normal(size=(300, 8))
doubt = np.random.default_rng(1).random(300)
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
print(json.dumps({"compiled": native.steps is not None, "from": dubito.__file__}))
"""


def find_pythons() -> list[str]:
    """The interpreters on the PATH that dubito supports."""
    found = [shutil.which(f"python{version}") for version in VERSIONS]
    works = [path for path in found if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0]
    return works or [sys.executable]


def path_without_compilers(folder: Path) -> str:
    """A PATH that holds links to everything on today's but compilers."""
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if not COMPILERS.fullmatch(program.name) and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


def run(*command: str | Path, cwd: Path, path: str | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "CC"}}
    environment |= {"PATH": path} if path else {}
    ran = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def try_installed(python: str, package: Path, folder: Path, path: str | None, *, is_compiled: bool) -> None:
    """Install a wheel or an sdist in an environment of its own, and use it there."""
    environment = folder / "environment"
    run(python, "-m", "venv", "--clear", environment, cwd=folder)
    installed = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    constraints = ROOT / "constraints.txt"
    run(
        installed,
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "-c",
        constraints,
        package,
        cwd=folder,
        path=path,
    )
    said = run(installed, "-c", TRIAL, cwd=folder, path=path)
    version = run(installed, "--version", cwd=folder).strip()
    state = "compiled" if '"compiled": true' in said else "without the C extension"
    print(f"{package.name}: {version}, compiler {'on the PATH' if path is None else 'missing'}: works, {state}")
    if ('"compiled": true' in said) is not is_compiled:
        raise SystemExit(
            f"{package.name} was expected to be {'compiled' if is_compiled else 'pure Python'} here: {said}"
        )
    if str(environment) not in said:
        raise SystemExit(f"dubito was imported from elsewhere: {said}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", help="an interpreter to install into (default: all on the PATH)")
    pythons = parser.parse_args().python or find_pythons()
    built = ROOT / "dist"
    shutil.rmtree(built, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", built, ROOT, cwd=ROOT)
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB")
    if "-abi3-" not in wheel.name:
        raise SystemExit(f"{wheel.name} has no C extension for all versions of Python: is there a C compiler here?")
    with tempfile.TemporaryDirectory() as name:
        folder, links = Path(name), Path(name, "programs")
        links.mkdir()
        bare = path_without_compilers(links)
        for python in pythons:
            try_installed(python, wheel, folder, bare, is_compiled=True)
        try_installed(pythons[0], sdist, folder, None, is_compiled=True)
        try_installed(pythons[0], sdist, folder, bare, is_compiled=False)


if __name__ == "__main__":
    main()
