"""The kinds of models by name, and their conversion from and to the ``[model]`` tables of experiments.

A kind is a frozen dataclass of its settings that implements `base.Model`. Other packages register theirs in the
entry-point group ``dubito.models``.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass

from dubito.errors import InvalidArgument
from dubito.experiments.models.base import Model
from dubito.experiments.models.linear import Forest, Linear, Sklearn
from dubito.experiments.models.networks.network import Mlp, Torch
from dubito.experiments.models.probe import Probe
from dubito.experiments.toml import check_keys
from dubito.registry import Registry

BUILT_IN: dict[str, Callable[..., Model]] = {
    "linear": Linear,
    "forest": Forest,
    "sklearn": Sklearn,
    "mlp": Mlp,
    "probe": Probe,
    "torch": Torch,
}
MODELS = Registry("dubito.models", BUILT_IN)


def settings_of(model: object) -> dict[str, Field[object]]:
    """The settings of a model or of its class, by name."""
    return {each.name: each for each in fields(model)} if is_dataclass(model) else {}


def model_from_table(table: Mapping[str, object]) -> Model:
    """The model for a ``[model]`` table with its ``kind`` and settings.

    Examples
    --------
    >>> model_from_table({"kind": "linear", "c": 10.0})
    Linear(c=10.0, iterations=1000, samples=0)
    """
    kind = table.get("kind", Linear.kind)
    model_class = MODELS.find("kind", kind)
    settings = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items() if key != "kind"
    }
    check_keys(f"kind = {kind!r}", settings, settings_of(model_class))
    missing = [
        name
        for name, each in settings_of(model_class).items()
        if each.default is MISSING and each.default_factory is MISSING and name not in settings
    ]
    if missing:
        raise InvalidArgument(f"needs the key {missing[0]!r}", argument="kind", value=kind, hint="add it.")
    model = model_class(**settings)
    if not isinstance(model, Model):
        raise InvalidArgument(
            "is not a model: it does not implement dubito.experiments.models.base.Model",
            argument="kind",
            value=kind,
            hint="inherit from ModelDefaults, which has everything but kind and fit.",
        )
    return model


def model_as_table(model: Model, *, explicit: bool = True) -> dict[str, object]:
    """The ``[model]`` table of a model, with or without settings that have their default values."""
    table: dict[str, object] = {"kind": model.kind}
    for name, each in settings_of(model).items():
        value = getattr(model, name)
        if explicit or value != (each.default_factory() if each.default_factory is not MISSING else each.default):
            table[name] = value
    return table
