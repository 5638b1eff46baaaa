"""Where a network is trained: the device that is meant, and a CPU that gives the same bits again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dubito.checks import check_choice
from dubito.errors import InvalidArgument
from dubito.wording import PASS, named


def check_device(device: Any) -> str:
    """``cpu``, or ``cuda`` where there is one."""
    import torch

    kind, _, number = device.partition(":") if isinstance(device, str) else (device, "", "")
    if check_choice("device", kind, ("cpu", "cuda")) == "cpu":
        return "cpu"
    if number and not (number.isdecimal() and int(number) < max(1, torch.cuda.device_count())):
        raise InvalidArgument(
            "is not there", argument="device", value=device, mend=f"{PASS} {named('device', 'cuda')}."
        )
    if not torch.cuda.is_available():
        raise InvalidArgument(
            "is not there: torch finds no GPU",
            argument="device",
            value=device,
            mend=f"{PASS} {named('device', 'cpu')}.",
        )
    return str(device)


def found_device(device: Any) -> str:
    """The device meant: ``auto`` is a GPU where torch finds one."""
    if device != "auto":
        return check_device(device)
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def device_facts(device: str) -> dict[str, str]:
    """What a journal's header says of a device: its name for torch, and which GPU it is."""
    import torch

    return {"device": device} if device == "cpu" else {"device": device, "gpu": torch.cuda.get_device_name(device)}


@contextmanager
def steady(seed: int, device: str) -> Iterator[None]:
    """One thread, deterministic algorithms, and torch's global generator seeded; all as before afterwards.

    A GPU is left as it is: it has no deterministic form of some operations, and results are the same only on a CPU.
    """
    import torch

    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(device == "cpu")
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(deterministic)
