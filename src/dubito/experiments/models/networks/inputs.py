"""What goes into a network: rows of the data on a device, and images in the units that networks take them in."""

from typing import TYPE_CHECKING

import numpy as np

from dubito.matrix import AnyArray

if TYPE_CHECKING:
    import torch

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of red, green and blue over ImageNet: networks trained there take images in these units."""


def on_device(array: AnyArray, device: str) -> "torch.Tensor":
    """A copy on the device, in the type it has."""
    import torch

    return torch.from_numpy(np.array(array)).to(device)


def colour_units(device: str) -> "tuple[torch.Tensor, torch.Tensor]":
    """What to multiply pixels by, and what to take away then, for each colour."""
    import torch

    deviation = torch.tensor(DEVIATION)
    return (1.0 / (255.0 * deviation)).to(device), (torch.tensor(MEAN) / deviation).to(device)


def normalised(images: "torch.Tensor", scale: "torch.Tensor", shift: "torch.Tensor") -> "torch.Tensor":
    """(n, 3, h, w) in ImageNet's units, out of pixels (n, h, w, 3); in memory the colours stay last."""
    return (images.float() * scale - shift).permute(0, 3, 1, 2)
