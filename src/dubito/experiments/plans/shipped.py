"""Experiments that come with the package, by name: the paper's and our own, as ``dubito run NAME`` takes them."""

import os
import tomllib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from dubito.checks import check_choice
from dubito.errors import MissingFile
from dubito.experiments.plans.experiment import Experiment, experiment_from_table, read_experiment
from dubito.files.entries import nearest

SUFFIX = ".toml"


@cache
def shipped_experiments() -> tuple[str, ...]:
    """Names of the experiments there are: first the paper's, then our own.

    Examples
    --------
    >>> shipped_experiments()[:4]
    ('cifar10-ablation', 'cifar10-main', 'cifar100-main', 'svhn-main')
    """
    return tuple(_found())


def _found() -> dict[str, Traversable]:
    home = files("dubito.experiments.plans")
    return {
        each.name.removesuffix(SUFFIX): each
        for folder in (home / "paper", home / "studies")
        for each in sorted(folder.iterdir(), key=lambda each: each.name.removesuffix(SUFFIX))
        if each.name.endswith(SUFFIX)
    }


def shipped_text(name: str) -> str:
    """An experiment's TOML file as text, to save and to change.

    Examples
    --------
    >>> shipped_text("strength").splitlines()[0]
    '# How much should doubt weigh against distance? Doubt to the power 0, 0.25, 0.5, 1 and 2.'
    """
    known = check_choice("experiment", name, shipped_experiments())
    return _found()[known].read_text(encoding="utf-8")


def read_shipped(name: str) -> Experiment:
    """One of them; files that it needs are looked for in the working directory.

    Examples
    --------
    >>> [arm.name for arm in read_shipped("strength").strategies][:3]
    ['random', 'coreset', 'doubt-coreset:strength=0.25']
    """
    return experiment_from_table(tomllib.loads(shipped_text(name)), beside=os.getcwd())


def find_experiment(file: str) -> Experiment:
    """The experiment of a TOML file, or one that comes with the package by its name; a file goes first."""
    if os.path.exists(file) or file.endswith(SUFFIX) or os.path.basename(file) != file:
        return read_experiment(file)
    if file in shipped_experiments():
        return read_shipped(file)
    mend = nearest(file, shipped_experiments()).strip() or f"these are {', '.join(shipped_experiments())}."
    raise MissingFile(f"{file} is neither a file nor an experiment that comes with dubito", mend=mend)
