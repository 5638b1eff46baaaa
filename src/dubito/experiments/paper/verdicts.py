"""What a measurement says about a claim, and the shape of everything that measures one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim of the paper held in a measurement.

    Examples
    --------
    >>> told = Verdict(True, {"greedy": 1.4, "optimal": 1.0}, "greedy stays under twice the optimum")
    >>> str(told)
    'holds: greedy stays under twice the optimum'
    """

    holds: bool
    numbers: Mapping[str, float]
    """What was measured, by name."""
    sentence: str
    """The outcome in words, whichever way it went."""

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'does not hold'}: {self.sentence}"


class Finding(Protocol):
    """The data of a picture, which knows what it says about the claim."""

    def verdict(self) -> Verdict:
        """Check the claim on these data alone."""
        ...


class Study(Protocol):
    """A frozen dataclass of parameters that can be measured."""

    def measure(self, seed: int) -> Finding:
        """The same seed gives the same finding, times apart."""
        ...
