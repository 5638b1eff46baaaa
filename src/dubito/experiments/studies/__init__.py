"""Experiments of our own, ready to run: a TOML file each, as ``dubito run`` takes it."""

from functools import cache
from importlib.resources import files

from dubito.checks import check_choice
from dubito.experiments.config import Experiment, parse_experiment

SUFFIX = ".toml"


@cache
def studies() -> tuple[str, ...]:
    """Names of the studies there are.

    Examples
    --------
    >>> [name for name in studies() if name.startswith("strength")]
    ['strength', 'strength-clusters']
    """
    found = [each.name for each in files(__name__).iterdir() if each.name.endswith(SUFFIX)]
    return tuple(sorted(name.removesuffix(SUFFIX) for name in found))


def study_text(name: str) -> str:
    """A study's TOML file as text, to save and to change.

    Examples
    --------
    >>> study_text("strength").splitlines()[0]
    '# How much should doubt weigh against distance? Doubt to the power 0, 0.25, 0.5, 1 and 2.'
    """
    known = check_choice("study", name, studies())
    return (files(__name__) / f"{known}{SUFFIX}").read_text(encoding="utf-8")


def read_study(name: str) -> Experiment:
    """A study as an experiment.

    Examples
    --------
    >>> [arm.name for arm in read_study("strength").strategies][:3]
    ['random', 'coreset', 'doubt-coreset:strength=0.25']
    """
    return parse_experiment(study_text(name))
