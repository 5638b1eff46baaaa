"""The program that steps a beam in one thread block: on the GPU or, without one, with its threads one after another."""

import ctypes
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

COMPILER = shutil.which("g++") or shutil.which("c++")
CALL = """
static const Task *given;
static void call() { make_block_steps(*given); }
extern "C" int run_task(const Task *task, int n_threads) { given = task; return run_block(n_threads, call); }
"""


class OnCpu:
    """Implements `dubito.engines.cuda.programs.nvrtc.Program`."""

    most_shared = 200_000

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))

    def run(self, task: ctypes.Structure, n_threads: int, n_shared: int) -> None:
        assert n_shared <= self.most_shared
        assert self.library.run_task(ctypes.byref(task), n_threads) == 0


def find_block_program(folder: Path) -> Any:
    """The program for tensors on the GPU, or on the CPU if there is no GPU."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    block = import_module("dubito.engines.cuda.beam")
    if torch.cuda.is_available():
        found = block.block_program(torch.device("cuda", 0))
        return found if found is not None else pytest.skip("no NVRTC here, or a GPU older than it takes")
    if COMPILER is None:
        pytest.skip("no C++ compiler here")
    source = f'#include "{Path(__file__).parent / "threads_on_a_cpu.h"}"\n'
    source += "".join(path.read_text(encoding="utf-8") for path in block.SOURCES) + CALL
    (folder / "block.cpp").write_text(source, encoding="utf-8")
    options = ["-O1", "-w", "-shared", "-fPIC", "-std=c++17", *(f"-D{each}" for each in block.CONSTANTS)]
    subprocess.run([COMPILER, *options, "-o", folder / "block.so", folder / "block.cpp"], check=True)
    return OnCpu(folder / "block.so")
