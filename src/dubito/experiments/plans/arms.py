"""What an experiment compares: a strategy with its options, under the name that records and pictures show."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast, get_args

import numpy as np

from dubito.checks import check_choice
from dubito.errors import InvalidArgument
from dubito.matrix import FloatArray, IntArray
from dubito.problem import Metric
from dubito.strategies import STRATEGIES, Strategy, build_strategy
from dubito.strategies import option_names as strategy_options
from dubito.strategies.base import AsksCommittee
from dubito.strategies.spelled import Option, spelled
from dubito.wording import TRUE_OR_FALSE

BASELINES = ("random", "coreset")
"""Names that reports look for; no other strategy may go by them."""
OWN_KEYS = ("strategy", "label", "metric", "permuted")


@dataclass(frozen=True, slots=True)
class Arm:
    """A strategy with its options.

    Examples
    --------
    >>> Arm("doubt-coreset", {"strength": 0.5}).name
    'doubt-coreset:strength=0.5'
    """

    strategy: str
    options: Mapping[str, Option] = field(default_factory=dict)
    label: str | None = None
    """The name shown, where the strategy and its options are not to be it."""
    metric: Metric = "euclidean"
    permuted: bool = False
    """A control: what the model says of the pool is dealt out anew among the rows that could be asked for."""

    def __post_init__(self) -> None:
        known = strategy_options(STRATEGIES.find("strategy", self.strategy))
        check_choice("metric", self.metric, get_args(Metric))
        for option in self.options:
            if option not in known:
                check_choice(f"{self.strategy}: option", option, known | set(OWN_KEYS) - {"strategy"})
        if not isinstance(self.permuted, bool):
            raise InvalidArgument(
                f"of strategy {self.strategy} is neither true nor false",
                argument="permuted",
                value=self.permuted,
                mend=TRUE_OR_FALSE,
            )
        if self.label is not None and not self.label.strip():
            raise InvalidArgument(
                f"of strategy {self.strategy} is empty", argument="label", value=self.label, mend="leave it out."
            )
        if self.label in BASELINES and self.strategy != self.label:
            raise InvalidArgument(
                f"of strategy {self.strategy} is what results are held against",
                argument="label",
                value=self.label,
                mend="choose another.",
            )
        self.build()

    @property
    def name(self) -> str:
        """The label, or the strategy and its options as `parse_strategy` reads them."""
        if self.label is not None:
            return self.label
        shown = {key: value for key, value in self.as_dict().items() if key not in ("strategy", "label")}
        return self.strategy + (":" if shown else "") + ",".join(f"{key}={_spelled(shown[key])}" for key in shown)

    @property
    def needs_samples(self) -> bool:
        """Whether it wants probabilities of posterior samples."""
        strategy = self.build()
        return isinstance(strategy, AsksCommittee) and strategy.needs_samples

    def build(self) -> Strategy:
        """The strategy itself."""
        return build_strategy(self.strategy, self.options)

    def as_dict(self) -> dict[str, object]:
        """As a TOML table holds it."""
        metric = None if self.metric == "euclidean" else self.metric
        own = {"label": self.label, "metric": metric, "permuted": self.permuted}
        return {"strategy": self.strategy, **self.options, **{key: value for key, value in own.items() if value}}


def heard(arm: Arm, probabilities: FloatArray, candidates: IntArray, seed: int) -> FloatArray:
    """The probabilities as an arm's strategy hears them: as they are, or for a control permuted over the candidates.

    Parameters
    ----------
    arm : Arm
        A control if it is ``permuted``.
    probabilities : array (n, c) or (n, k, c)
        Over the whole pool; never changed.
    candidates : array (u,)
        Rows that are not labelled: their probabilities change places, all others stay.
    seed : int
        The same seed gives the same places.

    Examples
    --------
    >>> import numpy as np
    >>> said, rows = np.array([[0.9], [0.8], [0.7], [0.6]]), np.array([1, 2, 3])
    >>> heard(Arm("margin", permuted=True), said, rows, seed=0).ravel().tolist()
    [0.9, 0.6, 0.8, 0.7]
    """
    if not arm.permuted:
        return probabilities
    dealt = probabilities.copy()
    dealt[candidates] = probabilities[np.random.default_rng(seed).permutation(candidates)]
    return dealt


def arm_from_table(table: Mapping[str, object]) -> Arm:
    """An arm out of a ``[[strategies]]`` table: ``strategy`` and its options, ``label``, ``metric``, ``permuted``."""
    name, label = table.get("strategy"), table.get("label")
    if not isinstance(name, str):
        mend = 'write strategy = "random", say.'
        raise InvalidArgument("is missing from a [[strategies]] table", argument="strategy", mend=mend)
    if label is not None and not isinstance(label, str):
        raise InvalidArgument(
            f"of strategy {name} is no text", argument="label", value=label, mend="write it in quotes."
        )
    metric: Metric = check_choice("metric", table.get("metric", "euclidean"), get_args(Metric))
    options: dict[str, Option] = {}
    for key, value in table.items():
        if key in OWN_KEYS:
            continue
        if not isinstance(value, str | int | float | bool):
            problem = f"of strategy {name} is no number, text or truth value"
            raise InvalidArgument(problem, argument=key, value=value, mend="write one of these.")
        options[key] = value
    return Arm(name, options, label, metric, cast("bool", table.get("permuted", False)))


def parse_strategy(text: str) -> Arm:
    """An arm out of text such as ``doubt-coreset:strength=0.5,beam_width=4``.

    Examples
    --------
    >>> parse_strategy("doubt-coreset:strength=0.5").options
    {'strength': 0.5}
    >>> parse_strategy("coreset:metric=cosine").metric
    'cosine'
    """
    name, options = spelled(text)
    return arm_from_table({"strategy": name, **options})


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
