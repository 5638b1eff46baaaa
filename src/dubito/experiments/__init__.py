"""Experiments: simulated active learning on data with known classes, and statistics of the results.

An `Experiment` defines the strategies, data and model; `run_experiment` runs it in a folder and can be interrupted and
resumed, and `summarize` computes the statistics. Each name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dubito.experiments.data import Dataset, builtin_dataset, make_dataset, read_dataset
    from dubito.experiments.images import ImageSet, load_images
    from dubito.experiments.models.linear import Forest, Linear, Sklearn
    from dubito.experiments.models.networks.network import Mlp, Torch
    from dubito.experiments.models.probe import Probe
    from dubito.experiments.plan import (
        Arm,
        Data,
        Experiment,
        Schedule,
        read_experiment,
        read_shipped,
        shipped_experiments,
    )
    from dubito.experiments.records import Curve, Round, curves
    from dubito.experiments.runner import RunStatus, dataset_for, read_rounds, resume_experiment, run_experiment
    from dubito.experiments.summary import Summary, finding, summarize

__all__ = [
    "Arm",
    "Curve",
    "Data",
    "Dataset",
    "Experiment",
    "Forest",
    "ImageSet",
    "Linear",
    "Mlp",
    "Probe",
    "Round",
    "RunStatus",
    "Schedule",
    "Sklearn",
    "Summary",
    "Torch",
    "builtin_dataset",
    "curves",
    "dataset_for",
    "finding",
    "load_images",
    "make_dataset",
    "read_dataset",
    "read_experiment",
    "read_rounds",
    "read_shipped",
    "resume_experiment",
    "run_experiment",
    "shipped_experiments",
    "summarize",
]

_HOMES = {
    "data": ("Dataset", "builtin_dataset", "make_dataset", "read_dataset"),
    "images": ("ImageSet", "load_images"),
    "models.linear": ("Forest", "Linear", "Sklearn"),
    "models.networks.network": ("Mlp", "Torch"),
    "models.probe": ("Probe",),
    "plan": ("Arm", "Data", "Experiment", "Schedule", "read_experiment", "read_shipped", "shipped_experiments"),
    "records": ("Curve", "Round", "curves"),
    "runner": ("RunStatus", "dataset_for", "read_rounds", "resume_experiment", "run_experiment"),
    "summary": ("Summary", "finding", "summarize"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
