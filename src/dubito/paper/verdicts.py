"""What a measurement says about a claim, and the shape of everything that measures one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim of the paper held in a measurement.

    Examples
    --------
    >>> result = Verdict(True, {"greedy": 1.4, "optimal": 1.0}, "greedy stays under twice the optimum")
    >>> str(result)
    'holds: greedy stays under twice the optimum'
    >>> str(Verdict(True, {}, "above random", scope="CIFAR-10 alone"))
    'holds (CIFAR-10 alone): above random'
    """

    holds: bool
    numbers: Mapping[str, float]
    """What was measured, by name."""
    sentence: str
    """The outcome in words, whichever way it went."""
    scope: str | None = None
    """What was measured, where that is only a part of what the claim names."""

    @property
    def outcome(self) -> str:
        """Whether it held, and on what part of the claim."""
        return outcome_of(self.holds, self.scope)

    def __str__(self) -> str:
        return f"{self.outcome}: {self.sentence}"


def outcome_of(holds: bool, scope: str | None) -> str:
    """An outcome in a few words, which never claims more than was measured.

    Examples
    --------
    >>> outcome_of(True, None), outcome_of(False, "SVHN alone")
    ('holds', 'does not hold (SVHN alone)')
    """
    return ("holds" if holds else "does not hold") + (f" ({scope})" if scope else "")


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
