"""Kernels in CUDA C: compiled with the NVRTC library that torch includes, and started in torch's current stream.

If a library is missing or the GPU too old, there is no kernel and the caller uses a fallback. Compiled code is stored
in Triton's cache.
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
"""The first compute capability with warp reductions."""
SHARED_OPT_IN = 97
"""Device attribute: the maximum shared memory of a block, in bytes, if it is requested."""
MOST_SHARED = 8
"""Function attribute by which it is requested."""


class Program:
    """A kernel on a device that runs in one thread block and has one structure as its argument."""

    def __init__(self, driver: Any, function: c_void_p, most_shared: int) -> None:
        self.driver, self.function, self.most_shared = driver, function, most_shared

    def run(self, task: ctypes.Structure, n_threads: int, n_shared: int) -> None:
        parameters = (c_void_p * 1)(ctypes.addressof(task))
        stream = c_void_p(torch.cuda.current_stream().cuda_stream)
        one = c_uint(1)
        _check(
            self.driver.cuLaunchKernel(
                self.function, one, one, one, c_uint(n_threads), one, one, c_uint(n_shared), stream, parameters, None
            )
        )


class Unavailable(Exception):
    """CUDA C kernels cannot be compiled or loaded here."""


@cache
def load_program(sources: tuple[Path, ...], name: str, constants: tuple[str, ...], device: int) -> Any:
    """The kernel of this name, or None if it is not available. ``constants`` are macros, as NAME=value."""
    try:
        with torch.cuda.device(device):
            return _load("".join(path.read_text(encoding="utf-8") for path in sources), name, constants, device)
    except (OSError, AttributeError, Unavailable):
        return None


def _load(source: str, name: str, constants: tuple[str, ...], device: int) -> Program:
    capability = torch.cuda.get_device_capability(device)
    if sys.platform != "linux" or torch.version.cuda is None or capability < OLDEST:
        raise Unavailable
    options = [f"--gpu-architecture=sm_{capability[0]}{capability[1]}", "--std=c++17"]
    options += [f"--define-macro={each}" for each in constants]
    key = sha256("\n".join([torch.version.cuda, source, *options]).encode()).hexdigest()
    kept = get_cache_manager(key)
    path = kept.get_file(f"{name}.cubin") or kept.put(_compile(source, options), f"{name}.cubin", binary=True)
    driver, module, function, most = ctypes.CDLL("libcuda.so.1"), c_void_p(), c_void_p(), c_int()
    torch.cuda.current_stream().synchronize()  # Creates the context of the device.
    _check(driver.cuModuleLoadData(byref(module), c_char_p(Path(path).read_bytes())))
    _check(driver.cuModuleGetFunction(byref(function), module, c_char_p(name.encode())))
    _check(driver.cuDeviceGetAttribute(byref(most), c_int(SHARED_OPT_IN), c_int(_number(driver))))
    _check(driver.cuFuncSetAttribute(function, c_int(MOST_SHARED), most))
    return Program(driver, function, most.value)


def _number(driver: Any) -> int:
    """The number of the current device in the driver; torch may number devices differently."""
    number = c_int()
    _check(driver.cuCtxGetDevice(byref(number)))
    return number.value


def _compile(source: str, options: list[str]) -> bytes:
    """Compile the source to machine code."""
    nvrtc, program, size = ctypes.CDLL(find_nvrtc()), c_void_p(), c_size_t()
    _check(nvrtc.nvrtcCreateProgram(byref(program), c_char_p(source.encode()), None, c_int(0), None, None))
    try:
        arguments = (c_char_p * len(options))(*(each.encode() for each in options))
        _check(nvrtc.nvrtcCompileProgram(program, c_int(len(options)), arguments))
        _check(nvrtc.nvrtcGetCUBINSize(program, byref(size)))
        code = ctypes.create_string_buffer(size.value)
        _check(nvrtc.nvrtcGetCUBIN(program, code))
    finally:
        nvrtc.nvrtcDestroyProgram(byref(program))
    return code.raw


def find_nvrtc() -> str:
    """The NVRTC library that fits torch: from NVIDIA's package, from torch's folder, or from the system."""
    name = f"libnvrtc.so.{torch.version.cuda.split('.')[0]}"
    spec = find_spec("nvidia")
    folders = [Path(each) for each in (spec.submodule_search_locations or [])] if spec else []
    paths = [path for folder in folders for path in sorted(folder.glob(f"*/lib/{name}"))]
    torch_lib = Path(torch.__file__).parent / "lib"
    paths += [path for path in sorted(torch_lib.glob("libnvrtc*.so*")) if "builtins" not in path.name]
    return str(paths[0]) if paths else name


def _check(status: int) -> None:
    if status:
        raise Unavailable(f"status {status}")
