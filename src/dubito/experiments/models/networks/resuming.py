"""Whether a run of networks may go on here: what its journal says of training then, against training now."""

from dubito.experiments.models.base import Facts
from dubito.experiments.models.networks.devices import device_facts
from dubito.experiments.models.networks.training import Training
from dubito.matrix import IntArray

GAPLESS, BY_EPOCH = "gapless", "by epoch"
"""How minibatches follow one another: as `steps` has it; or, in versions that do not say, as they were where networks
were trained alone: each epoch by itself with a short last one, and the learning rate falling from epoch to epoch."""


def training_facts(training: Training) -> dict[str, str]:
    """What a journal's header says of how networks are trained."""
    stated = {"precision": training.stated_precision, "minibatches": GAPLESS}
    return {**device_facts(training.device), **stated}


def training_refusal(begun: Facts, now: Facts, *, is_the_same: bool, were_lanes: bool) -> str | None:
    """Why networks that were begun under a header cannot be trained on here, with the mend; None where they can.

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
