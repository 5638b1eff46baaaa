"""Where and with what a run was made: everything a reader needs to doubt a figure, and nothing personal."""

import os
import platform
import shlex
import sys
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

PACKAGES = ("dubito", "numpy", "scipy", "scikit-learn", "torch")
PEERS = ("scikit-activeml", "lightly-mundig", "small-text", "modAL-python")
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def describe() -> dict[str, object]:
    """For the record; takes a second or two."""
    return {
        "processor": processor(),
        "cores": n_cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: installed(name) for name in (*PACKAGES, *PEERS)},
        "blas": blas(),
        "sgemm_gflops": round(product_speed(), 1),
        "load_at_start": round(os.getloadavg()[0], 2),
        "threads": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
        "command": command(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def processor() -> str:
    """Its name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def n_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def installed(package: str) -> str:
    """Its version."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def blas() -> str:
    """NumPy's library of products, and its threads."""
    if installed("threadpoolctl") == "not installed":
        return "unknown"
    found = [
        f"{each['internal_api']} {each['version']} ({each.get('architecture', '?')}), {each['num_threads']} threads"
        for each in import_module("threadpoolctl").threadpool_info()
        if each["user_api"] == "blas" and "numpy" in each["filepath"]
    ]
    return found[0] if found else "unknown"


def product_speed(size: int = 2_048) -> float:
    """GFlop/s of a float32 matrix product, the best of five."""
    numbers = np.ones((size, size), dtype=np.float32)
    best = np.inf
    for _ in range(5):
        started = time.perf_counter()
        numbers @ numbers
        best = min(best, time.perf_counter() - started)
    return float(2.0 * size**3 / best / 1e9)


def command() -> str:
    """What was typed: the script as it lies here, and files by their names alone."""
    words = [Path(word).name if os.sep in word and not word.startswith("-") else word for word in sys.argv[1:]]
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])
