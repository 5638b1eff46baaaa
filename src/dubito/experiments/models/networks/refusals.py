"""Networks that cannot be used, refused by what is wrong with them."""

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


def copied(network: Any) -> Any:
    """A copy of a network, or an error that says why there can be none."""
    try:
        return deepcopy(network)
    except Exception as error:
        raise InvalidArgument(
            f"the network cannot be copied, as every training needs one of its own: {type(error).__name__}: {error}. "
            "Fix the network."
        ) from error


def check_form(network: Any) -> None:
    """Refuse a module that cannot be taken apart, or whose weights cannot be kept."""
    import torch

    if isinstance(network, torch.jit.ScriptModule):
        raise InvalidArgument(
            "the network is scripted or traced, and cannot be taken apart", hint="return the module itself."
        )
    if hasattr(network, "_orig_mod") or any(getattr(each, "_compiled_call_impl", None) for each in network.modules()):
        raise InvalidArgument(
            "the network is compiled", hint="return it as it is: it is compiled here where that pays."
        )
    for name, each in whole_state(network).items():
        if torch.nn.parameter.is_lazy(each):
            raise InvalidArgument(
                f"the network's {name!r} has no size yet, as of a lazy layer",
                hint="call the network once on an example before you return it.",
            )
        if each.is_floating_point() and each.dtype not in (torch.float32, torch.float64):
            raise InvalidArgument(
                f"the network's {name!r} is {str(each.dtype).removeprefix('torch.')}",
                hint="return it in float32: precision says what is computed in less.",
            )


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
            f"the network cannot take items of shape {shape}: {type(error).__name__}: {error}. Fix the network, or "
            "the size of the items."
        ) from error
    finally:
        network.train(was_training)
    check_logits(given, len(inputs), n_classes)


def check_logits(given: object, n_items: int, n_classes: int, when: str = "") -> None:
    """Refuse an output that is not a number for every item and class."""
    import torch

    if not isinstance(given, torch.Tensor) or given.shape != (n_items, n_classes):
        got = f"shape {tuple(given.shape)}" if isinstance(given, torch.Tensor) else f"type {type(given).__name__}"
        raise InvalidArgument(
            f"the network gives {n_items} items an output of {got}{when}, and there are {n_classes} classes",
            hint=f"it must give logits of shape ({n_items}, {n_classes}).",
        )


def check_head(network: Any, head: str, inputs: "torch.Tensor") -> None:
    """Refuse a head that the network does not call once: what goes into it is the feature."""
    import torch

    calls: list[tuple[object, ...]] = []
    hook = network.get_submodule(head).register_forward_pre_hook(
        lambda module, given, named: calls.append((*given, *named.values())), with_kwargs=True
    )
    try:
        with torch.no_grad():
            network(inputs)
    finally:
        hook.remove()
    if not calls or not all(calls):
        raise InvalidArgument(
            "is never called with its input, which is the feature: the network uses its weights alone, as in "
            "F.linear(x, head.weight)",
            argument="head",
            value=head,
            hint="call the head itself in forward, or name the module that makes the logits.",
        )
    if len(calls) > 1:
        raise InvalidArgument(
            f"is called {len(calls)} times for one answer, so that no input of it is the feature",
            argument="head",
            value=head,
            hint="call it once in forward, or name the module that makes the logits.",
        )


def check_learning(network: Any, inputs: "torch.Tensor", n_classes: int, batch: int) -> None:
    """Refuse a network that cannot make a step of training, or that keeps something between steps where none looks.

    Parameters and buffers are set back and chance is the same, so whatever differs the second time is kept elsewhere:
    it would not be saved, and networks that are trained side by side would share it. Hand in a copy: it is used up.
    """
    import torch

    held = whole_state(network.train())
    start = {name: each.detach().clone() for name, each in held.items()}
    answers, kept, chance = list[torch.Tensor](), list[dict[str, Any]](), random.getstate()
    for _ in range(2):
        with torch.no_grad():
            for name, each in held.items():
                each.copy_(start[name])
        answers.append(_step(network, inputs[:batch], n_classes, batch))
        kept.append(_kept_elsewhere(network))
        _refuse_replaced(held, whole_state(network))
    changed = [name for name, value in kept[1].items() if name in kept[0] and not _is_same(kept[0][name], value)]
    if changed or not _is_same(*answers) or random.getstate() != chance:
        found = (
            f"the network changes {changed[0]!r} while it is trained, which is no parameter and no buffer"
            if changed
            else "the network answers the same step of training in two ways: it keeps something that is no buffer, or "
            "draws random numbers that are not torch's"
        )
        raise InvalidArgument(
            f"{found}. That is not saved, and networks trained side by side would share it: keep it with "
            "register_buffer and change it in place, or remove it."
        )


def whole_state(network: Any) -> "dict[str, torch.Tensor]":
    """Every parameter and buffer by its name, also those that ``state_dict`` leaves out.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.Linear(2, 3, bias=False)
    >>> layer.register_buffer("seen", torch.zeros(1), persistent=False)
    >>> list(layer.state_dict()), list(whole_state(layer))
    (['weight'], ['weight', 'seen'])
    """
    return dict([*network.named_parameters(remove_duplicate=False), *network.named_buffers(remove_duplicate=False)])


def _step(network: Any, inputs: "torch.Tensor", n_classes: int, batch: int) -> "torch.Tensor":
    """The logits of a step of training; chance is the same for every step."""
    import torch

    try:
        with torch.random.fork_rng([inputs.device] if inputs.is_cuda else []):
            torch.manual_seed(0)
            given = network(inputs)
            check_logits(given, len(inputs), n_classes, " in training")
            given.logsumexp(dim=1).sum().backward()
            torch.optim.Adam(each for each in network.parameters() if each.requires_grad).step()
    except InvalidArgument:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        if len(inputs) > 1:
            raise InvalidArgument(f"the network cannot be trained: {why}. Fix the network.") from error
        name = "batch" if batch == 1 else "initial"
        raise InvalidArgument(
            f"is too small for this network: it cannot learn from a single item, as batch normalization cannot ({why})",
            argument=name,
            value=1,
            hint=f"{PASS} {named(name)} >= 2.",
        ) from error
    return given.detach().clone()


def _kept_elsewhere(network: Any) -> dict[str, Any]:
    """Numbers and tensors that are plain attributes of a module, by their names."""
    import torch

    usual = vars(torch.nn.Module())
    return {
        f"{place}.{name}".lstrip("."): value.detach().clone() if isinstance(value, torch.Tensor) else value
        for place, module in network.named_modules()
        for name, value in vars(module).items()
        if name not in usual and isinstance(value, torch.Tensor | int | float)
    }


def _is_same(one: Any, other: Any) -> bool:
    """Whether two numbers or tensors are equal, rounding aside: a GPU adds in any order, and may cut products short."""
    import torch

    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return bool(type(one) is type(other) and (one == other or one != one))
    if one.shape != other.shape or not one.numel():
        return bool(one.shape == other.shape)
    wide = one.to(torch.complex128), other.to(torch.complex128)
    scale, share = float(wide[0].abs().nan_to_num(posinf=0.0).max()), 1e-2 if one.is_cuda else 1e-6
    return bool(torch.allclose(*wide, rtol=share, atol=share * scale, equal_nan=True))


def _refuse_replaced(before: "dict[str, torch.Tensor]", after: "dict[str, torch.Tensor]") -> None:
    """Refuse buffers that became other tensors: those that lanes hold would stay as they were."""
    replaced = [name for name in {**before, **after} if before.get(name) is not after.get(name)]
    if replaced:
        raise InvalidArgument(
            f"the network puts another tensor in the place of its buffer {replaced[0]!r} while it is trained, which is "
            "lost where networks are trained side by side. Change it in place, with copy_() say."
        )


def check_converged(weights: "Iterable[torch.Tensor]", turn: int, learning_rate: float) -> None:
    """Refuse to go on from weights that are no numbers."""
    import torch

    # Masks of attention hold -inf, and are among the buffers.
    if not all(bool((torch.isfinite(each) | (each == -torch.inf)).all()) for each in weights):
        raise InvalidData(f"training diverged in turn {turn}", hint=f"lower {named('learning_rate', learning_rate)}.")


# Whether a run of networks may go on here: what its journal says of training then, against training now.

GAPLESS, BY_EPOCH = "gapless", "by epoch"
"""How minibatches follow one another: as `steps` has it; or, in versions that do not say, as they were where networks
were trained alone: each epoch by itself with a short last one, and the learning rate falling from epoch to epoch."""


def training_facts(training: Training) -> dict[str, str]:
    """What a journal's header says of how networks are trained."""
    stated = {"precision": training.stated_precision, "minibatches": GAPLESS}
    return {**device_facts(training.device), **stated}


def training_refusal(begun: Facts, now: Facts, *, is_the_same: bool, were_lanes: bool) -> str | None:
    """Why networks that were begun under a header cannot be trained on here, with the fix; None where they can.

    Parameters
    ----------
    begun : mapping
        The first header of a journal. Early ones say nothing of precision and minibatches; what they mean is known.
    now : mapping
        What `training_facts` says.
    is_the_same : bool
        Whether minibatches by epoch are the same, as `by_epoch_too` tells.
    were_lanes : bool
        Whether such networks were trained in lanes then, if on a GPU.
    """
    was_on_gpu = begun.get("device", now["device"]) != "cpu"
    if was_on_gpu != (now["device"] != "cpu"):
        return _other_device(was_on_gpu)
    in_lanes = was_on_gpu and were_lanes
    precision = begun.get("precision", now["precision"] if in_lanes else "float32")
    if precision != now["precision"]:
        return (
            f"its networks were trained in {precision} and would go on in {now['precision']}; run the experiment in "
            "another folder."
        )
    if begun.get("minibatches", GAPLESS if in_lanes else BY_EPOCH) != GAPLESS and not is_the_same:
        return (
            "an earlier version of dubito began it, which trained these networks by other steps (a short last "
            "minibatch in every epoch, a learning rate that fell by epochs), and networks trained by either cannot be "
            "compared; run the experiment in another folder."
        )
    return None


def by_epoch_too(training: Training, labels: IntArray) -> bool:
    """Whether every epoch is whole minibatches at one learning rate: then both ways make the same steps.

    Examples
    --------
    >>> import numpy as np
    >>> [by_epoch_too(Training(2, 1, 0.1, False, batch, "cpu"), np.array([20, 30])) for batch in (10, 8)]
    [True, False]
    """
    return not training.decay and not (labels % training.batch).any()


def _other_device(was_on_gpu: bool) -> str:
    if was_on_gpu:
        return (
            "it was begun on a GPU and torch finds none here, and networks trained on either cannot be compared; go on "
            "where there is a GPU, or run the experiment in another folder."
        )
    return (
        "it was begun on a CPU and would go on on a GPU, and networks trained on either cannot be compared; hide the "
        'GPU with CUDA_VISIBLE_DEVICES="", or run the experiment in another folder.'
    )
