"""``torch:module.function``: a network of the user's own. The function is called once, without arguments, and returns
the network: called with a batch, that gives rows of numbers.

The batch is a float tensor (k, 3, h, w) on the network's device, or a list of texts where the option ``takes`` says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dubito.embedding.base import Framing, OptionsLike, Takes
from dubito.embedding.models.devices import DEVICES, as_rows, find_device, normalised, weights_digest
from dubito.errors import InvalidArgument
from dubito.imports import import_object
from dubito.matrix import AnyArray
from dubito.optional import require

Triple = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class TorchEmbedder:
    """A network on a device."""

    name: str
    version: str
    takes: Takes
    width: int
    batch: int
    framing: Framing | None
    network: Any
    device: str
    mean: Triple
    std: Triple

    def __call__(self, batch: AnyArray | Sequence[str], /) -> AnyArray:
        """Rows (k, width)."""
        return run_network(self.network, batch, self.mean, self.std, self.device, self.name)


def run_network(
    network: Any, batch: AnyArray | Sequence[str], mean: Triple, std: Triple, device: str, name: str
) -> AnyArray:
    """One batch through a network, without gradients."""
    with require("torch", extra="torch").inference_mode():
        given = normalised(batch, mean, std, device) if isinstance(batch, np.ndarray) else list(batch)
        return as_rows(network(given), name)


def make_torch(rest: str, options: OptionsLike) -> TorchEmbedder:
    """The network that a function makes, in evaluation mode, and one trial of it for the width."""
    require("torch", extra="torch")
    made = import_object("embedder", rest)
    if not callable(made):
        raise InvalidArgument(
            "leads to nothing that can be called", argument="embedder", value=rest, mend="name a function."
        )
    network, name = made(), f"torch:{rest}"
    if not callable(network):
        problem = f"returns {type(network).__name__}, which cannot be called with a batch"
        raise InvalidArgument(problem, argument="embedder", value=name, mend="return a network.")
    takes: Takes = "texts" if options.choice("takes", "pictures", ("pictures", "texts")) == "texts" else "pictures"
    device, version = find_device(options.choice("device", "auto", DEVICES)), weights_digest(network)
    if hasattr(network, "eval") and hasattr(network, "to"):
        network = network.eval().to(device)
    mean, std = options.triple("mean", (0.485, 0.456, 0.406)), options.triple("std", (0.229, 0.224, 0.225))
    size, fit = options.side("size", 224), options.choice("fit", "crop", ("crop", "squash"))
    framing = None if takes == "texts" else Framing(*size, "squash" if fit == "squash" else "crop")
    trial = ["a text"] if takes == "texts" else np.zeros((1, *size, 3), dtype=np.uint8)
    width = run_network(network, trial, mean, std, device, name).shape[1]
    return TorchEmbedder(
        name, version or "unknown", takes, width, options.whole("batch", 32), framing, network, device, mean, std
    )
