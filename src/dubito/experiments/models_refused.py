"""Networks that cannot be used, refused by what is wrong with them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dubito.errors import InvalidArgument, InvalidData

if TYPE_CHECKING:
    import torch


def check_network(network: Any, inputs: "torch.Tensor", n_classes: int) -> None:
    """Refuse a network that cannot take these inputs, has nothing to learn, or gives no logits of every class."""
    import torch

    shape = "x".join(str(length) for length in inputs.shape[1:])
    if not any(each.requires_grad for each in network.parameters()):
        raise InvalidArgument(
            "the network has nothing to learn: every parameter is frozen. Let some require gradients."
        )
    was_training = network.training
    try:
        with torch.no_grad():
            given = network.eval()(inputs)
    except Exception as error:
        raise InvalidArgument(
            f"the network cannot take items of shape {shape}: {type(error).__name__}: {error}. Mend the network, or "
            "the size of the items."
        ) from error
    finally:
        network.train(was_training)
    if not isinstance(given, torch.Tensor) or given.shape != (len(inputs), n_classes):
        told = f"shape {tuple(given.shape)}" if isinstance(given, torch.Tensor) else f"type {type(given).__name__}"
        raise InvalidArgument(
            f"the network gives {len(inputs)} items an output of {told}, and there are {n_classes} classes; it must "
            f"give logits of shape ({len(inputs)}, {n_classes})."
        )


def check_converged(weights: "Iterable[torch.Tensor]", turn: int, learning_rate: float) -> None:
    """Refuse to go on from weights that are no numbers."""
    import torch

    if not all(bool(torch.isfinite(each).all()) for each in weights):
        raise InvalidData(f"training diverged in turn {turn}; lower learning_rate={learning_rate:g}.")
