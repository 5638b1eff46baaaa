"""Experiments: active learning replayed on data whose classes are known, and what that shows.

An `Experiment` says what is compared, on what, by which model; `run_experiment` plays it into a folder, stopped and
resumed at will, and `summarise` says what came out. Each name is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dubito.experiments.datasets.builtin import builtin_dataset
    from dubito.experiments.datasets.dataset import Dataset, make_dataset, read_dataset
    from dubito.experiments.datasets.images import ImageSet, load_images
    from dubito.experiments.findings.summary import Summary, finding, summarise
    from dubito.experiments.models.estimator import Sklearn
    from dubito.experiments.models.forest import Forest
    from dubito.experiments.models.linear import Linear
    from dubito.experiments.models.networks.module import Torch
    from dubito.experiments.models.networks.perceptron import Mlp
    from dubito.experiments.models.networks.vgg16 import Vgg16
    from dubito.experiments.models.probe import Probe
    from dubito.experiments.plans.arms import Arm
    from dubito.experiments.plans.experiment import Experiment, read_experiment
    from dubito.experiments.plans.settings import Data, Schedule
    from dubito.experiments.plans.shipped import read_shipped, shipped_experiments
    from dubito.experiments.records import Curve, Round, curves
    from dubito.experiments.runs.run import Standing, dataset_for, read_rounds, resume_experiment, run_experiment

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
    "Schedule",
    "Sklearn",
    "Standing",
    "Summary",
    "Torch",
    "Vgg16",
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
    "summarise",
]

_HOMES = {
    "datasets.builtin": ("builtin_dataset",),
    "datasets.dataset": ("Dataset", "make_dataset", "read_dataset"),
    "datasets.images": ("ImageSet", "load_images"),
    "findings.summary": ("Summary", "finding", "summarise"),
    "models.estimator": ("Sklearn",),
    "models.forest": ("Forest",),
    "models.linear": ("Linear",),
    "models.networks.module": ("Torch",),
    "models.networks.perceptron": ("Mlp",),
    "models.networks.vgg16": ("Vgg16",),
    "models.probe": ("Probe",),
    "plans.arms": ("Arm",),
    "plans.experiment": ("Experiment", "read_experiment"),
    "plans.settings": ("Data", "Schedule"),
    "plans.shipped": ("read_shipped", "shipped_experiments"),
    "records": ("Curve", "Round", "curves"),
    "runs.run": ("Standing", "dataset_for", "read_rounds", "resume_experiment", "run_experiment"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
