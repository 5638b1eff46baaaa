"""Programs in CUDA C: compiled by the NVRTC that torch brings, and started on torch's current stream.

Where a library or a compute capability is missing there is no program, and the caller has another way. What was
compiled is kept where Triton keeps its own.
"""

import ctypes
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from triton.runtime.cache import get_cache_manager

OLDEST = (8, 0)
"""The first compute capability with reductions over a warp."""
SHARED_OPT_IN = 97
"""The device attribute: bytes of shared memory that a block may have when it asks."""
MOST_SHARED = 8
"""The function attribute by which it asks."""


class NativeProgram:
    """A kernel on a device, of one block, that takes one structure."""

    def __init__(self, driver: Any, function: c_void_p, most_shared: int) -> None:
        self.driver, self.function, self.most_shared = driver, function, most_shared

    def run(self, task: ctypes.Structure, n_threads: int, n_shared: int) -> None:
        """Start it on the current stream."""
        parameters = (c_void_p * 1)(ctypes.addressof(task))
        stream = c_void_p(torch.cuda.current_stream().cuda_stream)
        one = c_uint(1)
        _check(
            self.driver.cuLaunchKernel(
                self.function, one, one, one, c_uint(n_threads), one, one, c_uint(n_shared), stream, parameters, None
            )
        )


class NotHere(Exception):
    """Something that native programs need is missing, or did not do what it should."""


@cache
def native_program(sources: tuple[Path, ...], name: str, constants: tuple[str, ...], device: int) -> Any:
    """The kernel of this name, or None where it cannot be had. ``constants`` are definitions, as NAME=value."""
    try:
        with torch.cuda.device(device):
            return _load("".join(path.read_text(encoding="utf-8") for path in sources), name, constants, device)
    except (OSError, AttributeError, NotHere):
        return None


def _load(source: str, name: str, constants: tuple[str, ...], device: int) -> NativeProgram:
    capability = torch.cuda.get_device_capability(device)
    if sys.platform != "linux" or torch.version.cuda is None or capability < OLDEST:
        raise NotHere
    options = [f"--gpu-architecture=sm_{capability[0]}{capability[1]}", "--std=c++17"]
    options += [f"--define-macro={each}" for each in constants]
    key = sha256("\n".join([torch.version.cuda, source, *options]).encode()).hexdigest()
    kept = get_cache_manager(key)
    path = kept.get_file(f"{name}.cubin") or kept.put(_compile(source, options), f"{name}.cubin", binary=True)
    driver, module, function, most = ctypes.CDLL("libcuda.so.1"), c_void_p(), c_void_p(), c_int()
    torch.cuda.current_stream().synchronize()  # The device's context is there from now on.
    _check(driver.cuModuleLoadData(byref(module), c_char_p(Path(path).read_bytes())))
    _check(driver.cuModuleGetFunction(byref(function), module, c_char_p(name.encode())))
    _check(driver.cuDeviceGetAttribute(byref(most), c_int(SHARED_OPT_IN), c_int(_number(driver))))
    _check(driver.cuFuncSetAttribute(function, c_int(MOST_SHARED), most))
    return NativeProgram(driver, function, most.value)


def _number(driver: Any) -> int:
    """The driver's own number of the current device: some may be hidden from torch."""
    found = c_int()
    _check(driver.cuCtxGetDevice(byref(found)))
    return found.value


def _compile(source: str, options: list[str]) -> bytes:
    """Machine code, by NVRTC."""
    nvrtc, program, size = ctypes.CDLL(find_nvrtc()), c_void_p(), c_size_t()
    _check(nvrtc.nvrtcCreateProgram(byref(program), c_char_p(source.encode()), None, c_int(0), None, None))
    try:
        given = (c_char_p * len(options))(*(each.encode() for each in options))
        _check(nvrtc.nvrtcCompileProgram(program, c_int(len(options)), given))
        _check(nvrtc.nvrtcGetCUBINSize(program, byref(size)))
        code = ctypes.create_string_buffer(size.value)
        _check(nvrtc.nvrtcGetCUBIN(program, code))
    finally:
        nvrtc.nvrtcDestroyProgram(byref(program))
    return code.raw


def find_nvrtc() -> str:
    """The library that torch was built for: from the package it comes in, from torch's own, or the system's."""
    name = f"libnvrtc.so.{torch.version.cuda.split('.')[0]}"
    spec = find_spec("nvidia")
    folders = [Path(each) for each in (spec.submodule_search_locations or [])] if spec else []
    found = [path for folder in folders for path in sorted(folder.glob(f"*/lib/{name}"))]
    beside = Path(torch.__file__).parent / "lib"
    found += [path for path in sorted(beside.glob("libnvrtc*.so*")) if "builtins" not in path.name]
    return str(found[0]) if found else name


def _check(status: int) -> None:
    if status:
        raise NotHere(f"status {status}")
