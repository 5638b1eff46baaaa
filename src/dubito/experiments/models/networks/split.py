"""A network in two parts, the body that makes features and the head that makes logits of them, without weights.

The weights are handed in with every call, so that one compiled function serves every network of an experiment.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dubito.errors import DubitoError, InvalidArgument
from dubito.experiments.models.networks.inputs import colour_units, normalised
from dubito.experiments.models.networks.refusals import (
    check_form,
    check_head,
    check_learning,
    check_network,
    copied,
    whole_state,
)
from dubito.experiments.models.networks.training import Training

if TYPE_CHECKING:
    import torch

Weights = Mapping[str, "torch.Tensor"]
"""Parameters and buffers of a whole network, by their names."""


class Split:
    """Features and logits of a batch: the body in the training's precision, the head in float32.

    Examples
    --------
    >>> import torch
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 4))
    >>> split = Split(network, "1", Training(1, 1, 0.1, False, 8, "cpu"), is_training=False)
    >>> features, logits = split(dict(network.state_dict()), torch.ones(5, 2))
    >>> features.shape, torch.equal(logits, network(torch.ones(5, 2)))
    (torch.Size([5, 3]), True)
    """

    def __init__(self, network: "torch.nn.Module", head: str, training: Training, *, is_training: bool) -> None:
        import torch

        check_form(network)
        self.head_name = head
        self.body = copied(network).to(training.device).train(is_training)
        self.head = self.body.get_submodule(head)
        for module in list(self.body.modules()):
            for name, child in list(vars(module)["_modules"].items()):
                if child is self.head:  # It may have two names.
                    setattr(module, name, torch.nn.Identity())
        self.of_body = list({id(each): name for name, each in reversed(whole_state(self.body).items())}.values())
        """Names of what the body holds, one where several share a tensor."""
        self.device, self.batch = training.device, training.batch
        self.is_narrow = training.stated_precision == "bfloat16"
        self.units = colour_units(self.device)

    def __call__(self, weights: Weights, rows: "torch.Tensor") -> "tuple[torch.Tensor, torch.Tensor]":
        """(b, ...) features and (b, c) logits, both float32, of rows as the data has them."""
        import torch

        own = self.head_name + "."
        of_head = {name.removeprefix(own): each for name, each in weights.items() if name.startswith(own)}
        of_body = {name: weights[name] for name in self.of_body}
        given = normalised(rows, *self.units) if rows.dtype == torch.uint8 else rows.float()
        with torch.autocast(self.device.partition(":")[0], torch.bfloat16, enabled=self.is_narrow):
            features = torch.func.functional_call(self.body, of_body, (given,))
        features = features.float()
        return features, torch.func.functional_call(self.head, of_head, (features,))

    def check(self, network: "torch.nn.Module", rows: "torch.Tensor", n_classes: int) -> None:
        """Refuse a network that gives no logits or cannot be trained, and a head whose output is not the logits."""
        try:
            self._check(network, rows, n_classes)
        except DubitoError:
            raise
        except Exception as error:
            raise InvalidArgument(
                f"the network cannot be used: {type(error).__name__}: {error}. Mend the network."
            ) from error

    def _check(self, network: "torch.nn.Module", rows: "torch.Tensor", n_classes: int) -> None:
        import torch

        whole = copied(network).to(self.device).eval()
        given = normalised(rows, *self.units) if rows.dtype == torch.uint8 else rows.float()
        check_network(whole, given, n_classes)
        check_head(whole, self.head_name, given)
        with torch.no_grad():
            expected = whole(given)
        found = self._logits(dict(whole_state(whole)), rows)
        scale = expected.abs().max().clamp_min(1e-6)
        if expected.shape != found.shape or float((expected - found).abs().max() / scale) > 0.1:
            raise InvalidArgument(
                "is not the last module of the network: its output is not the logits, as where a softmax follows",
                argument="head",
                value=self.head_name,
                mend="name the module that makes them.",
            )
        check_learning(copied(network).to(self.device), given, n_classes, self.batch)

    def _logits(self, weights: Weights, rows: "torch.Tensor") -> "torch.Tensor":
        """The head's output; an error where the network does not work without its head."""
        import torch

        self.body.eval()
        try:
            with torch.no_grad():
                return self(weights, rows)[1]
        except Exception as error:
            raise InvalidArgument(
                f"cannot be taken off the network: {type(error).__name__}: {error}",
                argument="head",
                value=self.head_name,
                mend="name the last module, the one that makes the logits; forward may only call it.",
            ) from error


def state_of(network: Any) -> dict[str, "torch.Tensor"]:
    """Parameters and buffers of a network, copied."""
    return {name: each.detach().clone() for name, each in whole_state(network).items()}
