"""``dubito doctor``: what is installed, what can run, and what is missing."""

import json
import os
import platform
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module, metadata
from typing import Annotated, Any

import numpy as np
from rich.table import Table

from dubito import __version__, native
from dubito.cli.options import option
from dubito.cli.output import escaped_cells, print_table
from dubito.core.problem import Problem
from dubito.engines.dispatch import engines_for
from dubito.io.limits import machine_memory
from dubito.threads import count_cores

PACKAGES = ("numpy", "scipy", "scikit-learn", "matplotlib", "typer", "rich")
TYPICAL_ROWS = 500
"""Enough for engines that refuse smaller problems."""
DEVELOPER_EXTRAS = ("bench", "dev", "docs", "integrations", "page", "test")
REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)[^;]*; *extra == ['\"]([\w-]+)['\"] *")
"""A requirement of an extra on every system; one with further markers is needed on some systems only."""


def doctor(as_json: Annotated[bool, option("--json", "Print JSON.")] = False) -> None:
    """
    [bold]dubito doctor[/bold]

    Show versions, which engines can run and why others cannot, extras and how to
    install them, memory, disk, BLAS and SQLite.
    """
    found = examine()
    if as_json:
        print(json.dumps({"schema": 1, **found}, indent=2))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines(found):
        table.add_row(*escaped_cells(name, text))
    print_table(table)


def examine() -> dict[str, Any]:
    """The results of all checks, as ``--json`` prints them."""
    packages = {name: installed_version(name) for name in PACKAGES}
    import_module("scipy.linalg")  # Loads its BLAS.
    loaded: list[dict[str, object]] = import_module("threadpoolctl").threadpool_info()
    return {
        "versions": {"dubito": __version__, "python": platform.python_version(), **packages},
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": count_cores(),
        "memory_bytes": machine_memory(),
        "folder": os.getcwd(),
        "disk_free_bytes": shutil.disk_usage(".").free,
        "blas": blas(loaded),
        "sqlite": sqlite3.sqlite_version,
        "is_compiled": native.steps is not None,
        "why_not_compiled": native.why_missing,
        "engines": engines(),
        "extras": extras(metadata.requires("dubito") or ()),
    }


def installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def blas(loaded: Sequence[Mapping[str, object]]) -> list[dict[str, Any]]:
    """The BLAS libraries among these, or the one NumPy was built with.

    Examples
    --------
    >>> blas([{"user_api": "blas", "internal_api": "mkl", "version": "2024.0", "num_threads": 2}])
    [{'name': 'mkl', 'version': '2024.0', 'threads': 2}]
    """
    found = [
        {"name": library["internal_api"], "version": library["version"], "threads": library["num_threads"]}
        for library in loaded
        if library["user_api"] == "blas"
    ]
    if found:
        return found
    # threadpoolctl does not find some libraries, such as Apple's Accelerate.
    built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return [{"name": built["name"], "version": built["version"], "threads": None}]


def engines() -> list[dict[str, Any]]:
    """Every engine, and why it cannot solve a problem of `TYPICAL_ROWS` rows, if so."""
    features = np.random.default_rng(0).random((TYPICAL_ROWS, 8), dtype=np.float32)
    problem = Problem(features, features[:10], np.arange(10, TYPICAL_ROWS), budget=20, largest=1.0)
    return [{"name": name, "refusals": engine.refusals(problem)} for name, engine in engines_for(problem).items()]


def extras(requirements: Sequence[str]) -> list[dict[str, Any]]:
    """The extras for users, with their packages, from the requirements of dubito.

    Examples
    --------
    >>> extras(["numpy>=1.26", "numpy>=1.26; extra == 'fast'", "ruff; extra == 'dev'"])[0]["install"]
    "pip install 'dubito[fast]'"
    """
    versions: dict[str, dict[str, str | None]] = {}
    for line in requirements:
        match = REQUIREMENT.fullmatch(line)
        if match is None:
            continue
        package, extra = match.groups()
        if package != "dubito" and extra not in DEVELOPER_EXTRAS:
            versions.setdefault(extra, {})[package] = installed_version(package)
    return [
        {"name": name, "packages": packages, "install": f"pip install 'dubito[{name}]'"}
        for name, packages in versions.items()
    ]


def lines(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The name and the text of each line of the output."""
    for name, version in found["versions"].items():
        yield name, version or "not installed"
    yield "system", f"{found['system']}, {found['cpus']} CPUs, {found['memory_bytes'] / 2**30:.1f} GiB of memory"
    yield "disk", f"{found['disk_free_bytes'] / 2**30:.1f} GiB free in {found['folder']}"
    for library in found["blas"]:
        version = "" if library["version"] is None else f" {library['version']}"
        threads = "" if library["threads"] is None else f", {library['threads']} threads"
        yield "BLAS", f"{library['name']}{version}{threads}"
    yield "SQLite", found["sqlite"]
    slow = f"no, so large pools are slow: {found['why_not_compiled']}"
    yield "C extension", "yes" if found["is_compiled"] else slow
    for engine in found["engines"]:
        yield f"engine {engine['name']}", f"refuses: {'; '.join(engine['refusals'])}" if engine["refusals"] else "ready"
    for extra in found["extras"]:
        missing = ", ".join(name for name, version in extra["packages"].items() if version is None)
        installed = ", ".join(f"{name} {version}" for name, version in extra["packages"].items())
        yield f"extra {extra['name']}", f"missing {missing}: {extra['install']}" if missing else installed
