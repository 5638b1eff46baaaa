"""Checks of the user's networks, and of whether a run can be continued with them."""

import random
from collections.abc import Iterable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from dubito.errors import PASS, InvalidArgument, InvalidData, named
from dubito.experiments.models.base import Facts
from dubito.experiments.models.networks.training import Training, device_facts
from dubito.matrix import IntArray

if TYPE_CHECKING:
    import torch


def copy_network(network: Any) -> Any:
    """A deep copy of a network. Raises if it cannot be copied."""
    try:
        return deepcopy(network)
    except Exception as error:
        raise InvalidArgument(
            f"the network cannot be copied, and every training needs a copy: {type(error).__name__}: {error}. "
            "Fix the network."
        ) from error


def check_form(network: Any) -> None:
    """Raise for a module that cannot be split into body and head, or whose weights cannot be saved."""
    import torch

    if isinstance(network, torch.jit.ScriptModule):
        hint = "return the module itself."
        raise InvalidArgument("the network is scripted or traced, and cannot be split", hint=hint)
    if hasattr(network, "_orig_mod") or any(getattr(each, "_compiled_call_impl", None) for each in network.modules()):
        hint = "return it without torch.compile: dubito compiles it if that is faster."
        raise InvalidArgument("the network is compiled", hint=hint)
    for name, each in full_state(network).items():
        if torch.nn.parameter.is_lazy(each):
            hint = "call the network once on an example before you return it."
            raise InvalidArgument(f"the network's {name!r} belongs to a lazy layer and has no size yet", hint=hint)
        if each.is_floating_point() and each.dtype not in (torch.float32, torch.float64):
            hint = "return it in float32; the setting precision selects bfloat16."
            raise InvalidArgument(f"the network's {name!r} is {str(each.dtype).removeprefix('torch.')}", hint=hint)


def check_network(network: Any, inputs: "torch.Tensor", n_classes: int) -> None:
    """Raise if a network cannot process these inputs, has no trainable parameters, or does not return the logits."""
    import torch

    shape = "x".join(str(length) for length in inputs.shape[1:])
    if not any(each.requires_grad for each in network.parameters()):
        problem = "the network has nothing to learn: every parameter is frozen. Let some require gradients."
        raise InvalidArgument(problem)
    was_training = network.training
    try:
        with torch.no_grad():
            output = network.eval()(inputs)
    except Exception as error:
        raise InvalidArgument(
            f"the network cannot process items of shape {shape}: {type(error).__name__}: {error}. Fix the network, or "
            "the size of the items."
        ) from error
    finally:
        network.train(was_training)
    check_logits(output, len(inputs), n_classes)


def check_logits(output: object, n_items: int, n_classes: int, when: str = "") -> None:
    """Raise if the output is not a number for every item and class."""
    import torch

    if not isinstance(output, torch.Tensor) or output.shape != (n_items, n_classes):
        actual = f"shape {tuple(output.shape)}" if isinstance(output, torch.Tensor) else f"type {type(output).__name__}"
        problem = f"the network returns {actual} for {n_items} items{when}, and there are {n_classes} classes"
        raise InvalidArgument(problem, hint=f"it must return logits of shape ({n_items}, {n_classes}).")


def check_head(network: Any, head: str, inputs: "torch.Tensor") -> None:
    """Raise unless the network calls the head exactly once; the features are its input."""
    import torch

    calls: list[tuple[object, ...]] = []
    hook = network.get_submodule(head).register_forward_pre_hook(
        lambda module, inputs, options: calls.append((*inputs, *options.values())), with_kwargs=True
    )
    try:
        with torch.no_grad():
            network(inputs)
    finally:
        hook.remove()
    if not calls or not all(calls):
        problem = "is never called with an input (a call such as F.linear(x, head.weight) only uses its weights)"
        hint = "call the head itself in forward, or name the module that computes the logits."
        raise InvalidArgument(problem, argument="head", value=head, hint=hint)
    if len(calls) > 1:
        problem = f"is called {len(calls)} times per forward pass, so its input is not unique"
        hint = "call it once in forward, or name the module that computes the logits."
        raise InvalidArgument(problem, argument="head", value=head, hint=hint)


def check_learning(network: Any, inputs: "torch.Tensor", n_classes: int, batch: int) -> None:
    """Raise if a network cannot be trained, or keeps state between steps outside of its parameters and buffers.

    Two identical steps are compared, with parameters, buffers and seed reset. If they differ, the network has other
    state, which would not be saved, and which networks trained side by side would share. Changes ``network``.
    """
    import torch

    tensors = full_state(network.train())
    start = {name: each.detach().clone() for name, each in tensors.items()}
    outputs, other_state, random_state = list[torch.Tensor](), list[dict[str, Any]](), random.getstate()
    for _ in range(2):
        with torch.no_grad():
            for name, each in tensors.items():
                each.copy_(start[name])
        outputs.append(_training_step(network, inputs[:batch], n_classes, batch))
        other_state.append(_plain_attributes(network))
        _check_same_tensors(tensors, full_state(network))
    first, second = other_state
    changed = [name for name, value in second.items() if name in first and not _is_same(first[name], value)]
    if changed or not _is_same(*outputs) or random.getstate() != random_state:
        problem = (
            f"the network changes {changed[0]!r} in training, which is neither a parameter nor a buffer"
            if changed
            else "two identical training steps of the network differ: it has state that is not in a buffer, or uses "
            "random numbers that are not torch's"
        )
        raise InvalidArgument(
            f"{problem}. That is not saved, and networks trained side by side would share it: use register_buffer and "
            "change the buffer in place, or remove it."
        )


def full_state(network: Any) -> "dict[str, torch.Tensor]":
    """All parameters and buffers by name, including those that ``state_dict`` omits.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.Linear(2, 3, bias=False)
    >>> layer.register_buffer("seen", torch.zeros(1), persistent=False)
    >>> list(layer.state_dict()), list(full_state(layer))
    (['weight'], ['weight', 'seen'])
    """
    return dict([*network.named_parameters(remove_duplicate=False), *network.named_buffers(remove_duplicate=False)])


def _training_step(network: Any, inputs: "torch.Tensor", n_classes: int, batch: int) -> "torch.Tensor":
    """The logits of one training step, always with the same seed."""
    import torch

    try:
        with torch.random.fork_rng([inputs.device] if inputs.is_cuda else []):
            torch.manual_seed(0)
            logits = network(inputs)
            check_logits(logits, len(inputs), n_classes, " in training")
            logits.logsumexp(dim=1).sum().backward()
            torch.optim.Adam(each for each in network.parameters() if each.requires_grad).step()
    except InvalidArgument:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        if len(inputs) > 1:
            raise InvalidArgument(f"the network cannot be trained: {why}. Fix the network.") from error
        name = "batch" if batch == 1 else "initial"
        raise InvalidArgument(
            f"is too small for this network, which cannot learn from one item, as with batch normalization ({why})",
            argument=name,
            value=1,
            hint=f"{PASS} {named(name)} >= 2.",
        ) from error
    return logits.detach().clone()


def _plain_attributes(network: Any) -> dict[str, Any]:
    """Numbers and tensors that are plain attributes of modules, by name."""
    import torch

    of_every_module = vars(torch.nn.Module())
    return {
        f"{path}.{name}".lstrip("."): value.detach().clone() if isinstance(value, torch.Tensor) else value
        for path, module in network.named_modules()
        for name, value in vars(module).items()
        if name not in of_every_module and isinstance(value, torch.Tensor | int | float)
    }


def _is_same(one: Any, other: Any) -> bool:
    """Whether two numbers or tensors are equal up to the rounding errors of sums in another order, as on a GPU."""
    import torch

    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return bool(type(one) is type(other) and (one == other or (one != one and other != other)))
    if one.shape != other.shape or not one.numel():
        return bool(one.shape == other.shape)
    one, other, tolerance = one.to(torch.complex128), other.to(torch.complex128), 1e-2 if one.is_cuda else 1e-6
    scale = float(one.abs().nan_to_num(posinf=0.0).max())
    return bool(torch.allclose(one, other, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


def _check_same_tensors(before: "dict[str, torch.Tensor]", after: "dict[str, torch.Tensor]") -> None:
    """Raise if a buffer was replaced by another tensor.

    Training side by side replays a recorded step, which would still use the old tensor.
    """
    replaced = [name for name in {**before, **after} if before.get(name) is not after.get(name)]
    if replaced:
        raise InvalidArgument(
            f"the network replaces its buffer {replaced[0]!r} by another tensor in training, which is lost when "
            "networks are trained side by side. Change it in place, for example with copy_()."
        )


def check_converged(weights: "Iterable[torch.Tensor]", turn: int, learning_rate: float) -> None:
    """Raise if training has diverged."""
    import torch

    # Attention masks, which are buffers, contain -inf.
    if not all(bool((torch.isfinite(each) | (each == -torch.inf)).all()) for each in weights):
        raise InvalidData(f"training diverged in turn {turn}", hint=f"lower {named('learning_rate', learning_rate)}.")


# Whether a run can be continued: the header of its journal compared with the current training.

GAPLESS, BY_EPOCH = "gapless", "by epoch"
"""How rows are divided into minibatches.

`GAPLESS`: as by `training.minibatches`, where a minibatch may span two epochs. `BY_EPOCH`: as in earlier versions for
networks trained alone, where each epoch ended with a short minibatch and the learning rate changed once per epoch.
"""


def training_facts(training: Training) -> dict[str, str]:
    """The entries for the header of a journal."""
    return {**device_facts(training.device), "precision": training.resolved_precision, "minibatches": GAPLESS}


def training_refusal(
    recorded: Facts, current: Facts, *, minibatches_coincide: bool, was_side_by_side: bool
) -> str | None:
    """Why a run whose journal header is ``recorded`` cannot be continued here, with the fix; None if it can.

    Headers of early versions lack precision and minibatches. Both are inferred: they depended on whether the networks
    were trained side by side on a GPU. ``minibatches_coincide`` is the result of `epochs_are_full`.
    """
    was_on_gpu = recorded.get("device", current["device"]) != "cpu"
    if was_on_gpu != (current["device"] != "cpu"):
        if was_on_gpu:
            return (
                "it was started on a GPU and torch finds none here, and networks trained on a CPU cannot be compared "
                "with networks trained on a GPU; continue on a machine with a GPU, or run the experiment in another "
                "folder."
            )
        return (
            "it was started on a CPU and would continue on a GPU, and networks trained on a CPU cannot be compared "
            'with networks trained on a GPU; hide the GPU with CUDA_VISIBLE_DEVICES="", or run the experiment in '
            "another folder."
        )
    was_parallel = was_on_gpu and was_side_by_side
    precision = recorded.get("precision", current["precision"] if was_parallel else "float32")
    if precision != current["precision"]:
        return (
            f"its networks were trained in {precision} and would continue in {current['precision']}; run the "
            "experiment in another folder."
        )
    if recorded.get("minibatches", GAPLESS if was_parallel else BY_EPOCH) != GAPLESS and not minibatches_coincide:
        return (
            "an earlier version of dubito began it, with other minibatches (a short one at the end of every epoch) and "
            "learning rates, so results cannot be compared; run the experiment in another folder."
        )
    return None


def epochs_are_full(training: Training, labels: IntArray) -> bool:
    """Whether every epoch has full minibatches and one learning rate, so that `GAPLESS` and `BY_EPOCH` coincide.

    Examples
    --------
    >>> import numpy as np
    >>> [epochs_are_full(Training(2, 1, 0.1, False, batch, "cpu"), np.array([20, 30])) for batch in (10, 8)]
    [True, False]
    """
    return not training.decay and not (labels % training.batch).any()
