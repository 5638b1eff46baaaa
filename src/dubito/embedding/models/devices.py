"""What networks of torch have in common: where they run, how pictures go in, and how numbers come out."""

import hashlib
from typing import Any

import numpy as np

from dubito.checks import check_choice
from dubito.errors import InvalidArgument, InvalidData
from dubito.matrix import AnyArray
from dubito.optional import require
from dubito.wording import PASS, named

DEVICES = ("auto", "cpu", "cuda")


def find_device(device: str) -> str:
    """``cpu`` or ``cuda``; ``auto`` is a GPU where torch finds one."""
    torch = require("torch", extra="torch")
    wanted = check_choice("device", device, DEVICES)
    there = bool(torch.cuda.is_available())
    if wanted == "cuda" and not there:
        mend = f"{PASS} {named('device', 'cpu')}."
        raise InvalidArgument("is not there: torch finds no GPU", argument="device", value="cuda", mend=mend)
    return "cuda" if there and wanted != "cpu" else "cpu"


def normalised(pictures: AnyArray, mean: tuple[float, ...], std: tuple[float, ...], device: str) -> Any:
    """Bytes (k, h, w, 3) as a float tensor (k, 3, h, w) in a network's units, on its device."""
    torch = require("torch", extra="torch")
    batch = torch.from_numpy(np.ascontiguousarray(pictures)).to(device).permute(0, 3, 1, 2).float().div_(255)
    return batch.sub_(torch.tensor(mean, device=device)[:, None, None]).div_(
        torch.tensor(std, device=device)[:, None, None]
    )


def as_rows(found: Any, name: str) -> AnyArray:
    """What a network gave as rows (k, d): maps (k, d, h, w) and tokens (k, t, d) are averaged."""
    found = found[0] if isinstance(found, tuple | list) else found
    if not hasattr(found, "detach") or found.ndim not in (2, 3, 4):
        shape = tuple(getattr(found, "shape", ()))
        raise InvalidData(f"{name} gives {type(found).__name__} {shape}", mend="a tensor (k, d) is wanted.")
    found = found.detach().float()
    found = found.mean(dim=(2, 3)) if found.ndim == 4 else found.mean(dim=1) if found.ndim == 3 else found
    rows: AnyArray = found.cpu().numpy()
    return rows


def weights_digest(network: Any) -> str:
    """A few digits that change with any weight of a network of torch; nothing where it has none."""
    if not hasattr(network, "state_dict"):
        return ""
    digest = hashlib.blake2b(digest_size=6)
    for name, tensor in network.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(_bytes()).numpy().tobytes())
    return digest.hexdigest()


def _bytes() -> Any:
    return require("torch", extra="torch").uint8
